/* Which algorithm each message should take: the rows of a plan for a program on a cluster.
 *
 *     if ((st = mt_algorithm_rows(&program, &costs, &plan->arena, &plan->decisions.algorithms,
 *                               &plan->decisions.nalgorithms, err))) ...
 *
 * The program may be built with any algorithms; they are not read. */
#ifndef MT_PLANNER_COST_ALGORITHMS_H
#define MT_PLANNER_COST_ALGORITHMS_H

#include "planner/cost/cost.h"
#include "planner/plan/plan.h"
#include "synth/program/program.h"

/* For each kind of collective that the program has: the sizes at which the algorithm changes, so that a step's messages
 * of that kind take the least time together, while no rank computes: transfers, and the copies that only some
 * algorithms need. The groups of one collective run concurrently: the
 * slowest counts. A further row must save 0.5% of the kind's time. Rows of a kind rise by size, the last is for any.
 * `wire` is the program's for gradients. */
enum mt_status mt_algorithm_rows(const struct mt_program *program, const struct mt_costs *costs, struct mt_arena *arena,
                                 struct mt_algorithm_row **rows, int *nrows, struct mt_err *err);

#endif
