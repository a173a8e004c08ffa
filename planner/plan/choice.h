/* From the plan's names to the builder's rules. */
#ifndef MT_PLANNER_PLAN_CHOICE_H
#define MT_PLANNER_PLAN_CHOICE_H

#include "planner/plan/plan.h"
#include "synth/builder/build.h"

/* The program's ranks are the plan's places (plan->order): shares and micro-batches are those of the ranks there.
 *
 * Operators with samples follow the plan's rule rows; parameters and optimizer state are replicated, or split by the
 * splits named "storage:LABEL" (one for each label that is some parameter's storage axis). `strict`: refuse rows that
 * decide nothing, but for "*", since a misspelt pattern would go unseen. The choice borrows from plan and arena. */
enum mt_status mt_choice_from_plan(const struct mt_graph *graph, const struct mt_plan *plan, bool strict,
                                   struct mt_arena *arena, struct mt_choice *choice, struct mt_err *err);

/* The program of that choice; it borrows names of algorithms from the plan. Release `program`. */
enum mt_status mt_program_from_plan(const struct mt_graph *graph, const struct mt_plan *plan, bool strict,
                                    struct mt_program *program, struct mt_err *err);

#endif
