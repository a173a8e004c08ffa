/* What things cost on a cluster: operators, collectives, copies. Everything that plans asks here; nothing else reads
 * curves and fits.
 *
 * Rank r of a plan is device device[r] of the cluster. */
#ifndef MT_PLANNER_COST_H
#define MT_PLANNER_COST_H

#include "profiler/cluster.h"
#include "profiler/shape.h"

struct mt_costs {
    const struct mt_cluster *cluster;
    int nranks;
    const int *device; /* [nranks] */
};

/* A figure and the half-width of its error band, relative. */
struct mt_cost {
    double s, error;
};

struct mt_cost mt_cost_op(const struct mt_costs *costs, int rank, const struct mt_op_shape *shape);
/* Copying pieces of so many bytes in all, as packing a message does: read and written once. */
double mt_cost_copy_s(const struct mt_costs *costs, int rank, int64_t bytes, int npieces);

/* A collective among group[0..n) (ranks), by one algorithm: from the fit of a group with these devices; else from the
 * algorithm's schedule over the paths between them, round by round, shared links divided, scaled by what fits of the
 * same algorithm on other groups say of schedules against measurements. Nobody computes meanwhile. */
struct mt_cost mt_cost_coll(const struct mt_costs *costs, const struct mt_coll *problem, const int *group,
                            const struct mt_coll_algorithm *algorithm);
/* The cheapest that applies. */
const struct mt_coll_algorithm *mt_cost_choose(const struct mt_costs *costs, const struct mt_coll *problem,
                                               const int *group, struct mt_cost *cost);

/* The slowest link among ranks, for its slowdowns; -1 for fewer than two ranks. */
int mt_cost_link(const struct mt_costs *costs, const int *group, int n);

#endif
