/* The fastest plan that the search finds. The graph depends on recomputation, so each kind of it is a search of its
 * own; recomputation costs time and saves memory, as micro-batches do, of which the search knows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/wait.h"
#include "planner/balance/split.h"
#include "planner/make/make.h"
#include "planner/make/planning.h"
#include "planner/plan/choice.h"

/* Whether the plan that is to be replaced is one of the same job on the same cluster, of which nothing is fixed. */
static bool continues(const struct mt_plan_request *q, const struct mt_plan *plan) {
    const struct mt_plan *last = q->last;
    const struct mt_plan_fixed *fixed = &q->fixed;
    bool unset = !q->even && !fixed->shares && !fixed->micro && !fixed->nstorage_shares &&
                 mt_decisions_are_unset(&fixed->decisions);
    return unset && last->nranks == plan->nranks && !strcmp(last->model, plan->model) &&
           !strcmp(last->cluster_hash, plan->cluster_hash) && mt_job_equal(&last->job, &plan->job);
}

/* *last: what the search begins at, or null; *owned: to be freed after it, or null. */
static enum mt_status begin_at(const struct mt_plan_request *q, const struct mt_plan *plan, const struct mt_plan **last,
                               struct mt_plan **owned, struct mt_err *err) {
    *last = *owned = NULL;
    if (!q->last || (q->last_is_replaced && !continues(q, plan))) return MT_OK;
    *last = q->last;
    if (q->last_is_replaced) return MT_OK;
    enum mt_status st = mt_plan_carry(q->last, plan, owned, err);
    *last = *owned;
    return st;
}

/* The document must pass its own check, and rows that a person gave must have an effect. */
static enum mt_status check_found(const struct mt_graph *graph, const struct mt_plan *plan, struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_choice choice;
    enum mt_status st = mt_plan_check(plan, err);
    if (!st) st = mt_choice_from_plan(graph, plan, true, &arena, &choice, err);
    mt_arena_release(&arena);
    return st;
}

static enum mt_status fix_even(const struct mt_planning *planning, struct mt_plan *plan, struct mt_plan_fixed *fixed,
                               struct mt_err *err) {
    const struct mt_graph *g = planning->planned.graph;
    double *speeds = mt_new(&plan->arena, double, plan->nranks);
    int64_t *even = mt_new(&plan->arena, int64_t, plan->nranks);
    for (int r = 0; r < plan->nranks; r++) speeds[r] = fixed->use != MT_USE_SOME || fixed->used[r];
    fixed->shares = even;
    return mt_split_proportional(plan->job.batch, g->labels[g->batch].align, speeds, plan->nranks, even, err);
}

/* What all searches of a request have in common. */
struct searches {
    const struct mt_cluster *cluster;
    struct mt_cost_memo *memo; /* most messages do not depend on recomputation */
    double end_s;              /* of mt_now_s */
};

/* A strategy that is a choice of the search by samples, with storage rows of its own, is one; others are constraints on
 * the search of all programs. */
static void constrain(const struct mt_plan_request *q, struct mt_plan *plan, struct mt_search *search) {
    const struct mt_strategy *s = q->strategy;
    if (!s) return;
    bool by_samples =
        s->samples && !s->widths && !s->positions && s->gather == MT_GATHER_STEP && s->factors == MT_FACTORS_NEVER;
    search->by_samples = by_samples;
    if (!by_samples) {
        search->strategy = s;
        return;
    }
    struct mt_storage_row *row = mt_new(&plan->arena, struct mt_storage_row, 1);
    *row = (struct mt_storage_row){.pattern = "*",
                                   .state = s->state == MT_STORE_REPLICATED ? MT_STATE_REPLICATED : MT_STATE_SPLIT};
    search->fixed.decisions.storage = row;
    search->fixed.decisions.nstorage = 1;
}

/* One search. known: the best of those before, or null. */
static enum mt_status find(const struct searches *all, const struct mt_plan_request *q, const struct mt_job *job,
                           const struct mt_plan *known, struct mt_plan_found *found, struct mt_err *err) {
    struct mt_planning planning;
    enum mt_status st = mt_planning_open(all->cluster, q->model, job, &planning, err);
    if (st) return st;
    mt_planning_share(&planning, all->memo);
    struct mt_plan *plan = mt_planning_plan(&planning);
    struct mt_search *search = &planning.search;
    struct mt_plan *carried = NULL;
    *found = (struct mt_plan_found){.plan = plan};
    search->fixed = q->fixed;
    constrain(q, plan, search);
    st = begin_at(q, plan, &search->last, &carried, err);
    found->began_at_last = search->last != NULL;
    search->limit_s = fmax(0, all->end_s - mt_now_s());
    search->watch = q->watch;
    search->known_s = known ? known->prediction->step_s : 0;
    if (!st && q->even) st = fix_even(&planning, plan, &search->fixed, err);
    if (!st) st = mt_search(search, plan, &found->report, err);
    if (!st) st = check_found(planning.planned.graph, plan, err);
    if (st) mt_plan_found_release(found);
    mt_plan_free(carried);
    mt_planning_close(&planning);
    return st;
}

/* Whether some rank takes its share in several parts. */
static bool has_micro_batches(const struct mt_plan *plan) {
    const struct mt_plan_split *batch = mt_plan_split_named(plan, "batch");
    for (int r = 0; r < plan->nranks; r++)
        if (plan->micro[r] < batch->sizes[r]) return true;
    return false;
}

/* Whether some rank idles because another sample would not fit into its memory. */
static bool memory_binds(const struct mt_plan *plan) {
    static const double idle = 0.05; /* of the step */
    const struct mt_plan_split *batch = mt_plan_split_named(plan, "batch");
    for (int r = 0; r < plan->nranks; r++) {
        const struct mt_plan_memory *memory = &plan->memory[r];
        int64_t limit = plan->ranks[r].memory_bytes, share = batch->sizes[r];
        if (!limit || !share || plan->prediction->times[r].idle_s < idle * plan->prediction->step_s) continue;
        int64_t sample_bytes = (memory->arena_bytes - memory->state_bytes) / share;
        if (mt_plan_needs_bytes(plan, r) + sample_bytes > limit) return true;
    }
    return false;
}

/* Whether a plan that divides more than samples has little memory to spare: with recomputation fewer may be. */
static bool is_crowded(const struct mt_plan *plan) {
    static const double much = 0.6;
    bool samples = true;
    for (int i = 0; i < plan->decisions.nrules; i++)
        samples &= plan->decisions.rules[i].operators != MT_OPERATORS_SPLIT ||
                   !strcmp(plan->decisions.rules[i].split, "batch");
    for (int i = 0; i < plan->decisions.nstorage; i++)
        samples &= !mt_storage_row_names_split(&plan->decisions.storage[i]);
    for (int r = 0; r < plan->nranks && !samples; r++)
        if ((double)mt_plan_needs_bytes(plan, r) > much * (double)plan->ranks[r].memory_bytes) return true;
    return false;
}

/* The best of the searches that are due. Where ranks only lack memory for further samples, the next kind of
 * recomputation is due if the one before was faster. */
static enum mt_status find_best(const struct searches *all, const struct mt_plan_request *request,
                                struct mt_plan_found *found, struct mt_err *err) {
    struct mt_job job = request->job;
    *found = (struct mt_plan_found){.plan = NULL};
    if (job.recompute >= 0) return find(all, request, &job, NULL, found, err);
    job.recompute = MT_RECOMPUTE_NONE;
    enum mt_status st = find(all, request, &job, NULL, found, err);
    if (st && st != MT_EINPUT) return st;
    bool parts = st || has_micro_batches(found->plan) || is_crowded(found->plan);
    if (!st && (request->fixed.micro || !(parts || memory_binds(found->plan)))) return MT_OK;
    for (int what = MT_RECOMPUTE_NONE + 1; what < MT_NRECOMPUTE; what++) {
        struct mt_err ignored = MT_ERR_INIT;
        struct mt_plan_found other;
        job.recompute = (enum mt_recompute)what;
        if (found->plan && mt_now_s() > all->end_s) break;
        if (find(all, request, &job, found->plan, &other, &ignored)) continue;
        if (found->plan && other.plan->prediction->step_s >= found->plan->prediction->step_s) {
            mt_plan_found_release(&other);
            if (!parts) break;
            continue;
        }
        mt_plan_found_release(found);
        *found = other;
    }
    return found->plan ? MT_OK : st;
}

/* ---- strategies compared ---- */

static int by_step(const void *left, const void *right) {
    const struct mt_plan_rejected *x = left, *y = right;
    if (!x->step_s != !y->step_s) return x->step_s ? -1 : 1;
    return (x->step_s > y->step_s) - (x->step_s < y->step_s);
}

/* The plan's rejected rows: strategies as they were compared, instead of what its own search has seen of them. */
static void list_strategies(const struct mt_plan_rejected *rows, int n, struct mt_plan_found *found) {
    static const char prefix[] = "strategy ";
    struct mt_plan *plan = found->plan;
    struct mt_plan_prediction *p = plan->prediction;
    struct mt_plan_rejected *all = mt_new(&plan->arena, struct mt_plan_rejected, p->nrejected + n);
    found->strategies = mt_new(&plan->arena, struct mt_plan_rejected, n);
    found->nstrategies = n;
    int count = 0;
    for (int i = 0; i < p->nrejected; i++)
        if (strncmp(p->rejected[i].what, prefix, sizeof prefix - 1)) all[count++] = p->rejected[i];
    for (int i = 0; i < n; i++) {
        const char *why = mt_arena_strdup(&plan->arena, rows[i].why);
        found->strategies[i] = (struct mt_plan_rejected){rows[i].what, why, rows[i].step_s};
        if (rows[i].step_s > 0 && rows[i].step_s <= p->step_s * (1 + 1e-9)) continue; /* it has the plan */
        all[count++] =
            (struct mt_plan_rejected){mt_arena_printf(&plan->arena, "%s%s", prefix, rows[i].what), why, rows[i].step_s};
    }
    qsort(found->strategies, (size_t)n, sizeof *found->strategies, by_step);
    qsort(all, (size_t)count, sizeof *all, by_step);
    p->rejected = all;
    p->nrejected = count;
}

/* A search of each strategy alone; a plan of one that is faster than what was found is taken. */
static enum mt_status compare(const struct searches *all, const struct mt_plan_request *request,
                              struct mt_plan_found *found, struct mt_err *err) {
    struct mt_plan_request one = *request;
    struct mt_plan_rejected rows[MT_NSTRATEGIES];
    struct mt_arena arena = MT_ARENA_INIT;
    enum mt_status st = MT_OK;
    one.last = NULL; /* it may be of another strategy */
    for (int i = 0; i < MT_NSTRATEGIES && !st; i++) {
        struct mt_plan_found other;
        struct mt_err why = MT_ERR_INIT;
        one.strategy = &mt_strategies[i];
        rows[i] = (struct mt_plan_rejected){mt_strategies[i].name, "slower", 0};
        enum mt_status of = find_best(all, &one, &other, &why);
        if (of == MT_EINPUT) {
            rows[i].why = mt_arena_strdup(&arena, why.text);
        } else if (of) {
            *err = why, st = of;
        } else {
            rows[i].step_s = other.plan->prediction->step_s;
            if (!request->strategy && rows[i].step_s < found->plan->prediction->step_s) {
                struct mt_plan_found before = *found;
                *found = other, other = before;
                found->began_at_last = before.began_at_last;
            }
            mt_plan_found_release(&other);
        }
    }
    if (!st) list_strategies(rows, MT_NSTRATEGIES, found);
    mt_arena_release(&arena);
    return st;
}

/* Where the search finds nothing: begin again at the smallest program, if that fits; else say what it needs. */
static enum mt_status find_least(struct searches *all, const struct mt_plan_request *request,
                                 struct mt_plan_found *found, struct mt_err *err) {
    struct mt_err why = MT_ERR_INIT;
    struct mt_plan_found better;
    bool counted;
    enum mt_status st = mt_plan_least(all->cluster, request, found, &counted, &why);
    if (st) {
        if (counted) *err = why;
        return err->status;
    }
    struct mt_plan_request again = *request;
    again.last = found->plan;
    again.last_is_replaced = false;
    all->end_s = mt_now_s() + request->limit_s;
    if (find(all, &again, &found->plan->job, NULL, &better, &why)) return MT_OK;
    better.began_at_last = false;
    mt_plan_found_release(found);
    *found = better;
    return MT_OK;
}

/* The count takes a second where the search of a large job takes many: where it is likely to refuse, it is first. */
static enum mt_status count_first(const struct mt_cluster *cluster, const struct mt_plan_request *request,
                                  struct mt_err *err) {
    struct mt_err why = MT_ERR_INIT;
    struct mt_plan_found found;
    bool counted;
    if (!mt_plan_may_not_fit(cluster, request)) return MT_OK;
    enum mt_status st = mt_plan_least(cluster, request, &found, &counted, &why);
    if (st && counted) return *err = why, st;
    mt_plan_found_release(&found);
    return MT_OK;
}

enum mt_status mt_plan_fastest(const struct mt_cluster *cluster, const struct mt_plan_request *request,
                               struct mt_plan_found *found, struct mt_err *err) {
    const bool *takes_part = request->fixed.use == MT_USE_SOME ? request->fixed.used : NULL;
    struct mt_arena arena = MT_ARENA_INIT;
    const char *why = request->hypothetical ? "" : mt_job_cannot_run(cluster, &request->job, takes_part, &arena);
    enum mt_status st = *why ? mt_job_refuse(why, err) : MT_OK;
    mt_arena_release(&arena);
    if (!st) st = count_first(cluster, request, err);
    struct searches all = {cluster, mt_cost_memo_new(), mt_now_s() + request->limit_s};
    if (!st && (st = find_best(&all, request, found, err)) == MT_EINPUT && !request->strategy)
        st = find_least(&all, request, found, err);
    if (!st && request->compare && (st = compare(&all, request, found, err))) mt_plan_found_release(found);
    mt_cost_memo_free(all.memo);
    if (!st) found->limited = mt_now_s() >= all.end_s;
    if (!st) mt_plan_mark_hypothetical(cluster, found->plan);
    return st;
}

void mt_plan_found_release(struct mt_plan_found *found) {
    mt_plan_free(found->plan);
    mt_search_report_release(&found->report);
    *found = (struct mt_plan_found){.plan = NULL};
}
