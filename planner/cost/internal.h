/* Inside the costs: cost.c calls coll.c, which calls schedule.c and links.c. */
#ifndef MT_PLANNER_COST_INTERNAL_H
#define MT_PLANNER_COST_INTERNAL_H

#include "planner/cost/cost.h"

/* Blocks of a problem. */
static inline int64_t cost_ncounts(const struct mt_coll *problem) {
    return problem->kind == MT_ALL_TO_ALL ? (int64_t)problem->n * problem->n : problem->n;
}

/* mt_cost_coll without a memo. */
struct mt_cost mt_cost_coll_uncached(const struct mt_costs *costs, const struct mt_coll *problem, const int *group,
                                     const struct mt_coll_algorithm *algorithm);

/* The largest latency and the least bandwidth among ranks, and the link of the least bandwidth. */
struct mt_path mt_cost_slowest(const struct mt_costs *costs, const int *group, int n);

#endif
