/* The report of a plan. With its cluster in the request, also what a simulation of it shows. */
#include <string.h>

#include "kernels/base/text/ranks.h"
#include "launcher/report/plan/internal.h"
#include "planner/make/planning.h"

static void say_job(struct mt_page *page, const struct mt_plan *p) {
    const struct mt_job *j = &p->job;
    mt_page_say(page, "Model %s: %s parameters.", p->model,
                mt_page_quantity(page, MT_UNIT_QUANTITY, (double)p->parameters));
    mt_page_say(page, "%lld samples of %lld a step, %lld steps, %s; plan %s, by %s.", (long long)j->batch,
                (long long)j->seq, (long long)j->steps, mt_job_precision(j), p->hash, p->made_by);
    if (p->hypothetical[0]) mt_page_warn(page, "It cannot run here: %s.", p->hypothetical);
}

static void say_prediction(struct mt_page *page, const struct mt_plan *p) {
    const struct mt_plan_prediction *f = p->prediction;
    mt_page_fact(page, "predicted step", "%s", mt_page_quantity(page, MT_UNIT_SECONDS, f->step_s));
    mt_page_fact(page, "band, nine of ten steps", "%s to %s",
                 mt_page_quantity(page, MT_UNIT_SECONDS, f->step_s * (1 - f->error_below)),
                 mt_page_quantity(page, MT_UNIT_SECONDS, f->step_s * (1 + f->error)));
    mt_page_fact(page, "tokens a second", "%s",
                 mt_page_quantity(page, MT_UNIT_QUANTITY, (double)(p->job.batch * p->job.seq) / f->step_s));
    if (f->bound_s > 0) {
        mt_page_fact(page, "lower bound", "%s", mt_page_quantity(page, MT_UNIT_SECONDS, f->bound_s));
        mt_page_fact(page, "gap to it", "%.1f%%", 100 * (f->step_s / f->bound_s - 1));
    }
    mt_page_fact(page, "ranks", p->nplaces < p->nranks ? "%d, %d idle" : "%d", p->nranks, p->nranks - p->nplaces);
    if (f->nominal) mt_page_say(page, "Some figures are public ones that were not measured.");
    if (f->bound_s > 0)
        mt_page_say(page, "The lower bound: %s is faster than %s.", mt_plan_bound_space(p),
                    mt_page_quantity(page, MT_UNIT_SECONDS, f->bound_s));
}

/* Idle ranks, by reason. */
static void say_idle(struct mt_page *page, const struct mt_plan *p) {
    const struct mt_plan_prediction *f = p->prediction;
    int *ranks = mt_new(&page->arena, int, p->nranks);
    for (int i = 0; i < f->nidle; i++) {
        int n = 0;
        bool first = true;
        for (int k = 0; k < i; k++) first &= strcmp(f->idle[k].why, f->idle[i].why) != 0;
        if (!first) continue;
        for (int k = i; k < f->nidle; k++)
            if (!strcmp(f->idle[k].why, f->idle[i].why)) ranks[n++] = f->idle[k].rank;
        mt_page_say(page, "Idle: rank%s %s: %s.", n == 1 ? "" : "s",
                    mt_ranks_text(ranks, n, MT_RANKS_RANGES, &page->arena), f->idle[i].why);
    }
}

static enum mt_status report(struct mt_reporting *reporting, const struct mt_plan *plan,
                             const struct mt_planned *planned, struct mt_err *err) {
    struct mt_page *page = &reporting->page;
    struct mt_report_kinds kinds;
    struct mt_timeline timeline;
    const struct mt_cluster *cluster = mt_report_cluster_of(reporting, plan->cluster_hash);
    enum mt_status st = MT_OK;
    say_job(page, plan);
    if (plan->prediction) say_prediction(page, plan), say_idle(page, plan);
    if (plan->prediction && !cluster)
        mt_page_warn(page,
                     "The simulated step, its memory and what binds need the cluster that the plan was made for (%s): "
                     "name it, too, or with --cluster.",
                     plan->cluster_hash);
    mt_report_kinds_find(plan, planned, &page->arena, &kinds);
    mt_report_holders(page, &kinds);
    mt_report_memory(page, &kinds);
    if (cluster && !(st = mt_planning_timeline(plan, &planned->program, cluster, &timeline, err))) {
        mt_report_timeline(page, &kinds, &timeline);
        mt_timeline_release(&timeline);
    }
    if (!st && plan->prediction) st = mt_report_alternatives(page, plan, cluster, err);
    return st;
}

enum mt_status mt_report_plan(struct mt_reporting *reporting, const char *path, struct mt_err *err) {
    struct mt_plan *plan;
    struct mt_planned planned;
    enum mt_status st = mt_plan_read(path, &plan, err);
    if (st) return st;
    mt_page_section(&reporting->page, "Plan %s", path);
    if (!(st = mt_planned_open(plan, &planned, err))) {
        st = report(reporting, plan, &planned, err);
        mt_planned_release(&planned);
    }
    if (st) mt_err_context(err, "%s", path);
    mt_plan_free(plan);
    return st;
}
