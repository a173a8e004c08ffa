/* Costs on a cluster: seconds of operators, collectives and copies. All planning asks here; nothing else reads curves
 * and fits.
 *
 *     struct mt_costs costs = {.cluster = cluster, .nranks = n, .device = device, .memo = mt_cost_memo_new()};
 *     struct mt_cost cost = mt_cost_coll(&costs, &problem, group, algorithm);
 *     mt_cost_memo_free(costs.memo);
 *
 * Rank r of a plan is device device[r] of the cluster.
 *
 * Words:
 * - alpha-beta model: a message of n bytes takes latency_s + n / bandwidth_Bps.
 * - path: latency and bandwidth between two devices; link: paths of one kind (inside a node, the network).
 * - fit: latency and bandwidth of one algorithm in one measured group, for the algorithm's own formula (cost_s).
 * - schedule: the rounds of sends, receives and reductions of one algorithm, of all ranks.
 * - basis: what a figure rests on (enum mt_cost_basis). nominal: public figures, never measured.
 * - error band: half-width, relative to the figure. */
#ifndef MT_PLANNER_COST_COST_H
#define MT_PLANNER_COST_COST_H

#include "profiler/cluster/cluster.h"
#include "profiler/cluster/shape.h"

struct mt_cost_memo; /* costs and groups of ranks found before, by their arguments */

struct mt_costs {
    const struct mt_cluster *cluster;
    int nranks;
    const int *device;         /* [nranks] */
    struct mt_cost_memo *memo; /* or null; for one cluster, one list of devices, one thread */
    /* Of collectives: how many groups communicate at the same time and share what their hosts send and receive
     * (mt_cost_concurrent); 0 is 1: the group alone. */
    int concurrent;
};

/* What a figure rests on, worst first. */
enum mt_cost_basis {
    MT_COST_NOMINAL,  /* public figures */
    MT_COST_SCHEDULE, /* a schedule simulated over measured links */
    MT_COST_SCALED,   /* that, times the ratio of fits to simulated schedules in other groups */
    MT_COST_MEASURED, /* a curve or fit of the same device or group */
};

struct mt_cost {
    double s, error; /* error: band, relative */
    enum mt_cost_basis basis;
    double floor_s; /* what it takes at least, by the rates of the hardware; 0: no bound is known */
};

/* basis: NOMINAL or MEASURED, by the device's class. floor_s: flops at the class's best rate, and of nominal classes
 * bytes at the memory's rate. */
struct mt_cost mt_cost_op(const struct mt_costs *costs, int rank, const struct mt_op_shape *shape);
/* What a rank takes at least for a box with the part p of an operator's work, whatever the box's sizes: any_s + p
 * all_s, from p = 0 (an empty box) to 1. `shape` is that of the whole. Zeros: nothing is known. See least.c. */
struct mt_op_least {
    double any_s, all_s;
};
struct mt_op_least mt_cost_least(const struct mt_costs *costs, int rank, const struct mt_op_shape *shape);
/* Copying `npieces` pieces of `bytes` in all, as packing a message does: each byte is read and written once. */
double mt_cost_copy_s(const struct mt_costs *costs, int rank, int64_t bytes, int npieces);
/* Whether sums are made by NCCL, in the wire type, of which messages are then (synth/program/message.h). */
bool mt_cost_wire_sums(const struct mt_costs *costs, int rank);
/* Whether NCCL takes a problem's contiguous tensors in place, so that only the others are packed. */
bool mt_cost_takes_arrays(const struct mt_costs *costs, int rank, const struct mt_coll *problem);
/* How long a kernel of another stream waits for multiprocessors on a GPU, whose kernels are not interrupted:
 *     squares_s2 / (2 sum_s),
 * with the sums of the operators' times and of their squares: at a random time half of the running operator is left on
 * average, and long operators run more of the time. 0 on a CPU. */
double mt_cost_yield_s(const struct mt_costs *costs, int rank, double sum_s, double squares_s2);

/* A collective among the ranks group[0..problem->n) by one algorithm, while no rank computes:
 * - from the fit of the group with these devices, for sizes within the fit's points;
 * - beyond the largest, from the fit's formula or the schedule over the directed rates, whichever is slower (the
 *   schedule counts in full from four times that size on);
 * - without a fit, from mt_cost_schedule_s, scaled by the ratio of fits to simulated schedules in other groups, of the
 *   same algorithm where there are such fits;
 * - never less than mt_cost_cut_s, which is its floor_s.
 *
 * The problem's `node` is not read here: nodes are those of the ranks' devices.
 *
 * Schedules of more than MT_COST_SIMULATED ranks and of many messages are simulated for samples of whole hosts
 * (large.c). Costs do not rise when a path becomes faster; for groups that are scaled by fits of others, if
 * mt_cost_carry_fits has carried those over. */
enum { MT_COST_SIMULATED = 64 };
struct mt_cost mt_cost_coll(const struct mt_costs *costs, const struct mt_coll *problem, const int *group,
                            const struct mt_coll_algorithm *algorithm);
/* How many groups of one instruction share a host with the rank's own: of groups over several hosts, those that cross
 * the busiest of its hosts' network; of groups within a host, those of that host. Each has an even part of the host's
 * egress and ingress, or of what pairs share inside. group_of[nranks]: numbers from 0; concurrent[nranks]: out. */
void mt_cost_concurrent(const struct mt_costs *costs, const int *group_of, int nranks, int *concurrent);
/* A lower bound on every algorithm for the problem: bytes that sets of hosts (or of devices of one host) exchange with
 * the others at least, over the rates of that cut: the hosts' egress and ingress, and the rates of pairs, in their
 * directions. See cut.c. */
double mt_cost_cut_s(const struct mt_costs *costs, const struct mt_coll *problem, const int *group);
/* Whether a plan may name an algorithm for a group: among measured GPUs only those that NCCL runs
 * (mt_nccl_runs). */
bool mt_cost_offers(const struct mt_costs *costs, const int *group, int n, const struct mt_coll_algorithm *algorithm);
/* The cheapest algorithm that applies and is offered; of those with equal formulas (many among two ranks) and
 * measurements within their error bands, the first in the table. */
const struct mt_coll_algorithm *mt_cost_choose(const struct mt_costs *costs, const struct mt_coll *problem,
                                               const int *group, struct mt_cost *cost);

/* Seconds of a simulated schedule; rank i of the problem is group[i]. A rank's round takes
 *     max(latencies of its sends, of its receives) + max(bytes / bandwidth of its sends, of its receives),
 * or longer where the messages of one level exceed the egress or ingress of a host, or what the pairs of a node share.
 * It begins when the rank's round before has ended, and ends when the rounds that it exchanges messages with have done
 * their work too. The whole takes at least the time of all bytes of a host at these rates. On equal paths with even
 * blocks this is the algorithm's cost_s; else at most that. */
double mt_cost_schedule_s(const struct mt_costs *costs, const struct mt_coll *problem, const int *group,
                          const struct mt_coll_algorithm *algorithm);

/* The link of least bandwidth among ranks, whose slowdowns apply; -1 for fewer than two ranks. */
int mt_cost_link(const struct mt_costs *costs, const int *group, int n);

/* After an edit that changed rates (mt_cluster_set) of a copy of `before`: give every fit of `after` the time that it
 * had before, times what the edit did to its schedule (edit.c). Groups whose devices changed, and those of more
 * than 32, keep theirs. Fills in the
 * hash.
 */
void mt_cost_carry_fits(const struct mt_cluster *before, struct mt_cluster *after);

/* What a caller has priced itself, by a hash of all that it depends on but the cluster. Recalled is what was noted with
 * the same memo; false: nothing, or the costs have no memo. */
bool mt_cost_recall(const struct mt_costs *costs, uint64_t key, double *s);
void mt_cost_note(const struct mt_costs *costs, uint64_t key, double s);

struct mt_cost_memo *mt_cost_memo_new(void);
void mt_cost_memo_free(struct mt_cost_memo *memo);

#endif
