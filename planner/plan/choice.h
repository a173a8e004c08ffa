/* From the plan's names to the builder's rules. */
#ifndef MT_PLANNER_PLAN_CHOICE_H
#define MT_PLANNER_PLAN_CHOICE_H

#include "planner/plan/plan.h"
#include "synth/build/build.h"

/* Enumeration, first form: operators split by the plan's rules, parameters and optimizer state replicated or split by
 * the splits named "storage:LABEL" (one for each label that is some parameter's storage axis). */
enum mt_status mt_choice_from_plan(const struct mt_graph *graph, const struct mt_plan *plan, struct mt_arena *arena,
                                   struct mt_choice *choice, struct mt_err *err);
/* Refuse rows of rules and storage that decide nothing: a misspelt pattern would go unseen. "*" may catch nothing. */
enum mt_status mt_choice_check_rows(const struct mt_graph *graph, const struct mt_plan *plan,
                                    const struct mt_choice *choice, struct mt_err *err);

#endif
