/* A choice as rows of a plan: few patterns of names that stand for the rules of all operators. */
#ifndef MT_PLANNER_DIVIDE_ROWS_H
#define MT_PLANNER_DIVIDE_ROWS_H

#include "planner/plan/plan.h"
#include "synth/builder/build.h"

/* Fill in splits, micro, and the rule and storage rows of plan->decisions; plan->order has been decided. Names in which
 * only numbers differ share a row where their rules are equal; the most frequent rule comes last, as "*". Layouts of
 * the ranks of different nodes are equal. MT_EBUG if the rows do not give the rules back. */
enum mt_status mt_choice_rows(const struct mt_graph *graph, const struct mt_choice *choice, const struct mt_mesh *mesh,
                              struct mt_plan *plan, struct mt_err *err);

/* Whether two rules divide alike, by splits of the same names over the same axis. */
bool mt_divide_same_rule(const struct mt_rule *a, const struct mt_rule *b);

#endif
