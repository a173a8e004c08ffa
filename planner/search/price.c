/* The prediction of a plan as it is, and the bound of its structure. */
#include <math.h>

#include "planner/search/internal.h"
#include "planner/plan/choice.h"

/* The bottlenecks of the plan's structure. `part`: the ranks of the plan that take part. */
static enum mt_status report_of(struct search_part *part, const struct mt_prediction *prediction,
                                struct mt_search_report *report, struct mt_err *err) {
    const struct mt_plan *plan = part->plan;
    struct mt_searching s;
    part->search.fixed = (struct mt_plan_fixed){0};
    if (!mt_search_rows_of(plan, &part->search.fixed.decisions)) return MT_OK;
    enum mt_status st = mt_search_begin(&s, &part->search, part->plan, part->rank, NULL, err);
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
        if (!st) mt_search_part_report(part, report);
    }
    mt_search_end(&s);
    return st;
}

enum mt_status mt_search_price(const struct mt_search *search, struct mt_plan *plan, struct mt_search_report *report,
                               struct mt_err *err) {
    struct mt_program program;
    struct mt_prediction prediction = {.step_s = 0};
    struct search_part part;
    double bound_s = 0;
    if (report) *report = (struct mt_search_report){.nbindings = 0};
    if (plan->nranks != search->costs->nranks)
        return mt_fail(err, MT_EINPUT, "the plan is for %d ranks, but the cluster's costs are for %d", plan->nranks,
                       search->costs->nranks);
    enum mt_status st = mt_program_from_plan(search->graph, plan, false, &program, err);
    if (st) return st;
    mt_search_part_open(search, plan, plan->nplaces, plan->order, &part);
    if (!(st = mt_predict(&program, &part.costs, search->options, &prediction, err))) {
        mt_search_fill_prediction(&prediction, 0, plan);
        st = mt_search_bound_of(search, plan, &bound_s, err);
        mt_search_part_take(&part, plan, part.plan);
        mt_search_fill_prediction(&prediction, 0, part.plan);
        if (!st && report) st = report_of(&part, &prediction, report, err);
        plan->prediction->bound_s = fmin(bound_s, plan->prediction->step_s);
    }
    mt_program_release(&program);
    mt_search_part_close(&part);
    mt_arena_release(&prediction.arena);
    return st;
}
