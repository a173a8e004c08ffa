/* Overlapped instructions of a plan: which forms it takes, and how the GEMMs of each shape run.
 *
 *     struct mt_forms forms = {.graph = graph, .costs = &costs, .options = &options, .worth = MT_FORMS_WORTH};
 *     struct mt_prediction found;
 *     if ((st = mt_forms_choose(&forms, plan, step_s, &found, err))) return st;
 *     if (found.nranks) ... plan->decisions has them, found.step_s is its step ...
 *     mt_arena_release(&found.arena);
 *
 * CPUs leave open how a GEMM runs. For GPUs each shape gets what is predicted to be fastest by itself: chunks of equal
 * rows, groups of waves, or one kernel (planner/predict/overlapped.h); and where that is worse for the step than the
 * GEMM and its collective one after the other, as where other work hides the collective, they stay apart. */
#ifndef MT_PLANNER_DIVIDE_FORMS_H
#define MT_PLANNER_DIVIDE_FORMS_H

#include "planner/plan/plan.h"
#include "planner/predict/predict.h"

#define MT_FORMS_WORTH 0.98 /* of its time without it, what a form must make of the step at most */
/* Where puts are no faster than collectives, both take at least half the time together that they take one after the
 * other: a candidate that takes longer than that by its price is not looked at. */
#define MT_FORMS_MOST 2.0

struct mt_forms {
    const struct mt_graph *graph;
    const struct mt_costs *costs; /* of the plan's places */
    const struct mt_lower_options *options;
    double worth;     /* as MT_FORMS_WORTH */
    unsigned settled; /* forms that are not tried, a bit each: how they run has been chosen */
};

/* Whether what overlap gains is known: among CPUs, and where puts were measured between some GPUs of the cluster. */
bool mt_forms_are_known(const struct mt_costs *costs);

/* What forms make of a step at best whose slowest rank computes for compute_s, slowed down as it is by messages that it
 * overlaps: what computing takes alone. */
double mt_forms_least_s(const struct mt_costs *costs, double compute_s);

/* Take the forms that make the plan's step shorter, which is step_s without them. Changes plan->decisions and
 * program_hash; *found is the new prediction, to be released. Where nothing changes found->nranks is 0. */
enum mt_status mt_forms_choose(const struct mt_forms *forms, struct mt_plan *plan, double step_s,
                               struct mt_prediction *found, struct mt_err *err);
/* The same for GPUs of forms that a person wants: only how they run is chosen. */
enum mt_status mt_forms_choose_given(const struct mt_forms *forms, struct mt_plan *plan, double step_s,
                                     struct mt_prediction *found, struct mt_err *err);

#endif
