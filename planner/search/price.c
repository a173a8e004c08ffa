/* The prediction of a plan as it is, and the bound of its structure. */
#include <math.h>

#include "planner/search/internal.h"
#include "planner/plan/choice.h"

/* The bottlenecks of the plan's structure. */
static enum mt_status report_of(const struct mt_search *search, struct mt_plan *plan,
                                const struct mt_prediction *prediction, struct mt_search_report *report,
                                struct mt_err *err) {
    struct mt_search local = *search;
    struct mt_searching s;
    local.fixed = (struct mt_plan_fixed){0};
    if (!mt_search_rows_of(plan, &local.fixed.decisions)) return MT_OK;
    enum mt_status st = mt_search_begin(&s, &local, plan, err);
    struct search_work *w;
    bool body = false;
    const struct mt_plan_split *batch = mt_plan_split_named(plan, "batch");
    for (int r = 0; r < plan->nranks; r++) body |= plan->micro[r] < batch->sizes[r];
    if (!st) st = mt_search_open_work(&s, 0, body, &w);
    if (!st && mt_search_memory_matters(&s)) st = mt_search_open_memory(&s, w, plan->decisions.bucket_bytes);
    if (!st) {
        struct search_candidate *c = mt_search_new_candidate(&s, w, plan->decisions.bucket_bytes, "the plan");
        if (mt_search_take_shares(&s, plan, c)) {
            c->prediction = *prediction; /* lent: its owner releases it */
            mt_search_learn(&s, c);
            c->prediction = (struct mt_prediction){.step_s = 0};
        } else {
            st = mt_search_simple_shares(&s, c, true, true);
        }
        if (!st) st = mt_search_estimate(&s, c);
        if (!st) st = mt_search_fill_report(&s, c, report);
    }
    mt_search_end(&s);
    return st;
}

/* Of all plans with the plan's rules, however parameters are stored. */
static enum mt_status bound_of(const struct mt_search *search, const struct mt_plan *plan, double *bound_s,
                               struct mt_err *err) {
    struct mt_decisions rows;
    *bound_s = 0;
    if (!mt_search_rows_of(plan, &rows)) return MT_OK;
    rows.nstorage = 0;
    return mt_search_bound(search, plan, &rows, bound_s, err);
}

enum mt_status mt_search_price(const struct mt_search *search, struct mt_plan *plan, struct mt_search_report *report,
                               struct mt_err *err) {
    struct mt_program program;
    struct mt_prediction prediction = {.step_s = 0};
    double bound_s = 0;
    if (report) *report = (struct mt_search_report){.nbindings = 0};
    if (plan->nranks != search->costs->nranks)
        return mt_fail(err, MT_EINPUT, "the plan is for %d ranks, but the cluster's costs are for %d", plan->nranks,
                       search->costs->nranks);
    enum mt_status st = mt_program_from_plan(search->graph, plan, false, &program, err);
    if (st) return st;
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_costs costs = mt_search_costs_of(search->costs, plan, &arena);
    if (!(st = mt_predict(&program, &costs, search->options, &prediction, err))) {
        mt_search_fill_prediction(&prediction, 0, plan);
        st = bound_of(search, plan, &bound_s, err);
        if (!st && report) st = report_of(search, plan, &prediction, report, err);
        plan->prediction->bound_s = fmin(bound_s, plan->prediction->step_s);
    }
    mt_program_release(&program);
    mt_arena_release(&arena);
    mt_arena_release(&prediction.arena);
    return st;
}
