/* The prediction of a plan as it is, and the bound of all plans with its rules. */
#include <math.h>

#include "planner/search/internal.h"
#include "planner/plan/choice.h"

enum mt_status mt_search_predict(const struct mt_search *search, const struct mt_plan *plan, struct mt_program *program,
                                 struct mt_prediction *prediction, struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    enum mt_status st = mt_program_from_plan(search->graph, plan, false, program, err);
    if (st) return st;
    struct mt_costs costs = mt_search_costs_of(search->costs, plan, &arena);
    st = mt_predict(program, &costs, search->options, prediction, err);
    mt_arena_release(&arena);
    if (st) mt_program_release(program);
    return st;
}

enum mt_status mt_search_price(const struct mt_search *search, struct mt_plan *plan, struct mt_err *err) {
    struct mt_program program;
    struct mt_prediction prediction = {.step_s = 0};
    double bound_s = 0;
    if (plan->nranks != search->costs->nranks)
        return mt_fail(err, MT_EINPUT, "the plan is for %d ranks, but the cluster's costs are for %d", plan->nranks,
                       search->costs->nranks);
    enum mt_status st = mt_search_predict(search, plan, &program, &prediction, err);
    if (st) return st;
    mt_search_fill_prediction(&prediction, 0, plan);
    st = mt_search_bound_of(search, plan, &bound_s, err);
    plan->prediction->bound_s = fmin(bound_s, plan->prediction->step_s);
    mt_program_release(&program);
    mt_arena_release(&prediction.arena);
    return st;
}
