/* Inside the space: which operators form a group, and a group's alternatives. */
#ifndef MT_PLANNER_FRONTIER_GROUP_H
#define MT_PLANNER_FRONTIER_GROUP_H

#include "planner/frontier/space.h"

/* The groups, in the order in which they are decided: along the forward pass, each forward operator with its bundle;
 * then the backward operators that were added with it (sums of gradients, casts); storage before the first operator
 * that reads the weight. Fills in groups and problem.ngroups. */
void mt_space_list_groups(struct mt_space *space);

/* The group's alternatives: nalternatives and rules. */
void mt_space_list_rules(struct mt_space *space, struct mt_space_group *group);

/* Whether a bundle's operator, if no split of samples divides it, gathers samples that its forward operator's rule
 * divides among all ranks. */
bool mt_space_gathers(const struct mt_space *space, const struct mt_rule *first, const struct mt_op *op);

/* The parameter that an operator stores or updates, or -1. */
int mt_space_param_of(const struct mt_graph *graph, int op);

#endif
