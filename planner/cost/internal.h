/* Inside the costs of collectives: what cost.c, coll.c and schedule.c hand to each other. */
#ifndef MT_PLANNER_COST_INTERNAL_H
#define MT_PLANNER_COST_INTERNAL_H

#include "planner/cost/cost.h"

/* mt_cost_coll without a memo. */
struct mt_cost mt_cost_coll_uncached(const struct mt_costs *costs, const struct mt_coll *problem, const int *group,
                                     const struct mt_coll_algorithm *algorithm);

/* The largest latency and the least bandwidth among ranks, and the link of the least bandwidth. */
struct mt_path mt_cost_slowest(const struct mt_costs *costs, const int *group, int n);

#endif
