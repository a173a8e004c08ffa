/* What things cost on a cluster: operators, collectives, copies. Everything that plans asks here; nothing else reads
 * curves and fits.
 *
 *     struct mt_costs costs = {.cluster = cluster, .nranks = n, .device = device, .memo = mt_cost_memo_new()};
 *     struct mt_cost cost = mt_cost_coll(&costs, &problem, group, algorithm);
 *     mt_cost_memo_free(costs.memo);
 *
 * Rank r of a plan is device device[r] of the cluster. */
#ifndef MT_PLANNER_COST_COST_H
#define MT_PLANNER_COST_COST_H

#include "profiler/cluster/cluster.h"
#include "profiler/cluster/shape.h"

struct mt_cost_memo; /* answers, for those who ask the same often */

struct mt_costs {
    const struct mt_cluster *cluster;
    int nranks;
    const int *device;         /* [nranks] */
    struct mt_cost_memo *memo; /* or null; of this cluster and these devices alone, and of one thread */
};

/* Where a figure comes from, worst first. */
enum mt_cost_basis {
    MT_COST_NOMINAL,  /* public figures: nobody measured */
    MT_COST_SCHEDULE, /* a schedule over measured links */
    MT_COST_SCALED,   /* that, times what fits of other groups say of schedules against measurements */
    MT_COST_MEASURED, /* a curve or fit of this very device or group */
};

/* A figure and the half-width of its error band, relative. */
struct mt_cost {
    double s, error;
    enum mt_cost_basis basis;
};

/* basis: NOMINAL or MEASURED, by the device's class. */
struct mt_cost mt_cost_op(const struct mt_costs *costs, int rank, const struct mt_op_shape *shape);
/* Copying pieces of so many bytes in all, as packing a message does: read and written once. */
double mt_cost_copy_s(const struct mt_costs *costs, int rank, int64_t bytes, int npieces);
/* Whether a problem's tensors go as they lie there, and only what is no array is copied. */
bool mt_cost_takes_arrays(const struct mt_costs *costs, int rank, const struct mt_coll *problem);
/* A GPU's kernels are not interrupted, so that one of another stream waits for the end of some before it gets
 * multiprocessors: in the mean half of an operator, long ones being met more often. From the sums of the operators'
 * times and of their squares; 0 on a CPU. */
double mt_cost_yield_s(const struct mt_costs *costs, int rank, double sum_s, double squares_s2);

/* A collective among group[0..n) (ranks), by one algorithm: from the fit of a group with these devices; else from the
 * algorithm's schedule over the paths between them, round by round, shared links divided, scaled by what fits of the
 * same algorithm on other groups say of schedules against measurements. Nobody computes meanwhile.
 *
 * Schedules of more than MT_COST_SIMULATED ranks are not played: the closed form with the slowest path's figures is
 * taken instead, times what the schedule among MT_COST_SIMULATED of the ranks is to the closed form among these. */
enum { MT_COST_SIMULATED = 64 };
struct mt_cost mt_cost_coll(const struct mt_costs *costs, const struct mt_coll *problem, const int *group,
                            const struct mt_coll_algorithm *algorithm);
/* Whether a plan may name an algorithm for a group: among GPUs that were measured only what NCCL does
 * (mt_coll_of_nccl). */
bool mt_cost_offers(const struct mt_costs *costs, const int *group, int n, const struct mt_coll_algorithm *algorithm);
/* The cheapest that applies and is offered. Between algorithms that are the same by their formulas (there are many for
 * two ranks), and whose measurements differ by no more than their error bands, the first in the table. */
const struct mt_coll_algorithm *mt_cost_choose(const struct mt_costs *costs, const struct mt_coll *problem,
                                               const int *group, struct mt_cost *cost);

/* Seconds of a schedule of all ranks of the group (those of `problem` in turn), over paths alone. A rank's round takes
 * the latency of every peer (those that it sends to, or those that it hears from, whichever are more) and its bytes
 * (sent, or received) over their bandwidths; a node's pairs share what `shared_Bps` of its link says. A round begins
 * when the rank's last one has ended, and ends when it and the rounds that it exchanges messages with have done their
 * work. On equal paths with even blocks this is the algorithm's cost_s; else at most that. */
double mt_cost_schedule_s(const struct mt_costs *costs, const struct mt_coll *problem, const int *group,
                          const struct mt_coll_algorithm *algorithm);

/* The slowest link among ranks, for its slowdowns; -1 for fewer than two ranks. */
int mt_cost_link(const struct mt_costs *costs, const int *group, int n);

struct mt_cost_memo *mt_cost_memo_new(void);
void mt_cost_memo_free(struct mt_cost_memo *memo);

#endif
