/* Judging a configuration: its cluster, and a plan for each job. */
#include "planner/buy/buy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/make/make.h"
#include "planner/make/planning.h"
#include "profiler/describe/join.h"

/* Searches end by themselves: what they find does not depend on the clock. */
static const double no_limit_s = 1e7;
enum { FEW = 10000 }; /* evaluations: plans are compared, not run */

enum mt_status mt_buy_cluster(const struct mt_buy *buy, const int64_t *counts, struct mt_cluster **cluster,
                              struct mt_err *err) {
    struct mt_joining joining[MT_PURCHASE_MOST_ITEMS];
    const struct mt_hardware_link *net = mt_hardware_link_find("net");
    for (int i = 0; i < buy->nitems; i++) {
        const struct mt_purchase_item *item = &buy->items[i].shown;
        double usual = buy->net_bps > 0 ? buy->net_bps : net->rate;
        joining[i] = (struct mt_joining){.row = buy->items[i].row,
                                         .nodes = (int)counts[i],
                                         .devices = item->devices,
                                         .link_Bps = buy->items[i].row.link_GBps * 1e9,
                                         .net_bps = item->net_bps > 0 ? item->net_bps : usual};
    }
    return mt_cluster_join(buy->owned, joining, buy->nitems, cluster, err);
}

/* Programs that divide samples, and state. */
static enum mt_status plan_samples(const struct mt_buy *buy, int job, const struct mt_cluster *cluster,
                                   struct mt_plan **plan, struct mt_err *err) {
    struct mt_planning planning;
    struct mt_job of = buy->jobs[job].job;
    enum mt_status st = mt_planning_open(cluster, buy->jobs[job].model, &of, &planning, err);
    if (st) return st;
    *plan = mt_planning_plan(&planning);
    planning.search.by_samples = planning.search.no_bound = true;
    planning.search.limit_s = no_limit_s;
    planning.search.most_work = FEW;
    planning.search.works = buy->works ? buy->works[job] : NULL;
    planning.search.fixed.use = buy->owned ? MT_USE_AUTO : MT_USE_ALL;
    st = mt_search(&planning.search, *plan, NULL, err);
    if (st) mt_plan_free(*plan), *plan = NULL;
    mt_planning_close(&planning);
    return st;
}

/* Programs of a strategy, or of all (null), by the search of `motley plan`. */
static enum mt_status plan_job(const struct mt_buy *buy, int job, const struct mt_strategy *strategy,
                               const struct mt_cluster *cluster, struct mt_plan **plan, struct mt_err *err) {
    enum mt_use use = buy->owned || !strategy ? MT_USE_AUTO : MT_USE_ALL;
    struct mt_plan_request request = {.model = buy->jobs[job].model,
                                      .job = buy->jobs[job].job,
                                      .limit_s = no_limit_s,
                                      .hypothetical = true,
                                      .strategy = strategy,
                                      .fixed = {.decisions = mt_decisions_unset, .use = use}};
    struct mt_plan_found found;
    if (!buy->recompute || !buy->recompute[job]) request.job.recompute = MT_RECOMPUTE_UNSET;
    enum mt_status st = mt_plan_fastest(cluster, &request, &found, err);
    if (st) return st;
    *plan = found.plan;
    found.plan = NULL;
    mt_plan_found_release(&found);
    return MT_OK;
}

static const char *const layers = "samples, weights gathered for each layer";

static enum mt_status plan_layers(const struct mt_buy *buy, int job, const struct mt_cluster *cluster,
                                  struct mt_plan **plan, struct mt_err *err) {
    const struct mt_strategy *strategy = NULL;
    for (int i = 0; i < MT_NSTRATEGIES; i++)
        if (!strcmp(mt_strategies[i].name, "zero3")) strategy = &mt_strategies[i];
    return plan_job(buy, job, strategy, cluster, plan, err);
}

static void find_headroom(const struct mt_plan *plan, struct mt_purchase_job_row *row) {
    row->headroom_of = "";
    for (int i = 0; i < plan->nplaces; i++) {
        int r = plan->order[i];
        if (!plan->ranks[r].memory_bytes) continue;
        int64_t left = plan->ranks[r].memory_bytes - mt_plan_needs_bytes(plan, r);
        if (row->headroom_of[0] && left >= row->headroom_bytes) continue;
        row->headroom_bytes = left;
        row->headroom_of = plan->ranks[r].class;
    }
}

/* A job's row, from its plan. The jobs before it have theirs. */
static void fill_row(const struct mt_buy *buy, int j, struct mt_buy_config *c) {
    const struct mt_purchase_job *job = &buy->jobs[j];
    const struct mt_plan *plan = c->plans[j];
    struct mt_purchase_job_row *row = &c->jobs[j];
    if (plan->job.recompute != job->job.recompute)
        row->program = mt_arena_printf(&c->arena, "%s, recomputation of %s", row->program,
                                       mt_recompute_names[plan->job.recompute]);
    row->step_s = plan->prediction->step_s;
    row->error = plan->prediction->error, row->error_below = plan->prediction->error_below;
    row->time_s = row->step_s * job->steps;
    row->idle = plan->nranks - plan->nplaces;
    find_headroom(plan, row);
    c->time_s = row->end_s = c->time_s + row->time_s;
    row->late = job->deadline_s > 0 && row->end_s > job->deadline_s;
    c->nominal |= plan->prediction->nominal;
}

static void add_errors(const struct mt_buy *buy, struct mt_buy_config *c) {
    for (int j = 0; j < buy->njobs; j++) {
        double weight = c->jobs[j].time_s / c->time_s;
        mt_errors_add(&c->errors, c->plans[j]->prediction, weight, &c->arena);
        c->error += weight * c->jobs[j].error;
        c->error_below += weight * c->jobs[j].error_below;
    }
}

static enum mt_status judge_job(const struct mt_buy *buy, int j, struct mt_buy_config *c, struct mt_err *err) {
    struct mt_purchase_job_row *row = &c->jobs[j];
    struct mt_err why = MT_ERR_INIT;
    *row = (struct mt_purchase_job_row){.program = "samples", .binds = ""};
    enum mt_status st = plan_samples(buy, j, c->cluster, &c->plans[j], &why);
    if (st == MT_EINPUT) {
        row->program = layers;
        st = plan_layers(buy, j, c->cluster, &c->plans[j], err);
        if (st == MT_EINPUT) {
            c->refused = mt_arena_strdup(&c->arena, why.text);
            return MT_OK;
        }
    } else if (st) {
        *err = why;
    }
    if (st) return st;
    fill_row(buy, j, c);
    return MT_OK;
}

enum mt_status mt_buy_judge(const struct mt_buy *buy, const int64_t *counts, struct mt_buy_config *c,
                            struct mt_err *err) {
    *c = (struct mt_buy_config){.counts = NULL};
    c->counts = mt_arena_memdup(&c->arena, counts, (size_t)buy->nitems * sizeof *counts);
    c->jobs = mt_new(&c->arena, struct mt_purchase_job_row, buy->njobs);
    c->plans = mt_new(&c->arena, struct mt_plan *, buy->njobs);
    enum mt_status st = mt_buy_cluster(buy, counts, &c->cluster, err);
    for (int j = 0; j < buy->njobs && !st && !c->refused; j++) st = judge_job(buy, j, c, err);
    if (!st && !c->refused) add_errors(buy, c);
    if (st) mt_buy_config_release(c, buy->njobs);
    return st;
}

/* How a plan divides a job. */
static const char *program_of(const struct mt_plan *plan) {
    bool samples = true;
    for (int i = 0; i < plan->decisions.nrules; i++)
        samples &= plan->decisions.rules[i].operators != MT_OPERATORS_SPLIT ||
                   !strcmp(plan->decisions.rules[i].split, "batch");
    if (plan->decisions.gather == MT_GATHER_LAYER) return layers;
    return samples ? "samples" : "samples and tensors";
}

enum mt_status mt_buy_plan_again(const struct mt_buy *buy, struct mt_buy_config *c, struct mt_err *err) {
    enum mt_status st = MT_OK;
    c->time_s = c->error = c->error_below = 0;
    c->errors = (struct mt_errors){0};
    c->planned = true;
    for (int j = 0; j < buy->njobs && !st; j++) {
        struct mt_err why = MT_ERR_INIT;
        struct mt_plan *plan = NULL;
        st = plan_job(buy, j, NULL, c->cluster, &plan, &why);
        if (!st) {
            mt_plan_free(c->plans[j]);
            c->plans[j] = plan;
            c->jobs[j] = (struct mt_purchase_job_row){.program = program_of(plan), .binds = ""};
        } else if (st != MT_EINPUT) {
            return *err = why, st;
        }
        st = MT_OK;
        fill_row(buy, j, c);
    }
    add_errors(buy, c);
    return MT_OK;
}

void mt_buy_config_release(struct mt_buy_config *c, int njobs) {
    for (int j = 0; j < njobs && c->plans; j++) mt_plan_free(c->plans[j]);
    mt_cluster_free(c->cluster);
    mt_arena_release(&c->arena);
    *c = (struct mt_buy_config){.counts = NULL};
}
