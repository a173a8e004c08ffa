/* Inside the costs.
 *
 *   cost.c        operators and copies; the cheapest algorithm
 *   least.c       what parts of operators take at least
 *   memo.c        answers and groups found before
 *   group.c       a group of ranks: its hosts, the slowest path
 *   concurrent.c  groups that communicate at the same time
 *   cut.c         lower bounds of any algorithm, by the rates across cuts of a group
 *   schedule.c    simulation of a schedule
 *   large.c       groups that are too large to be simulated
 *   coll.c        a collective, from fits, schedules and cuts
 *   edit.c        fits after an edit of rates */
#ifndef MT_PLANNER_COST_INTERNAL_H
#define MT_PLANNER_COST_INTERNAL_H

#include "planner/cost/cost.h"

/* Ranks of a group on one node. */
struct cost_host {
    int node, nplaces;
    double egress_Bps, ingress_Bps; /* infinite: no limit is known */
    double inside_Bps;              /* of all messages between its ranks together; likewise */
};

/* A group of devices, in the order of places. */
struct cost_group {
    const struct mt_cluster *cluster;
    int n, nhosts;
    int *device, *host; /* [n]; hosts are numbered by their first place, as struct mt_coll.node */
    struct cost_host *hosts;
    /* The largest latency, the least bandwidth, and the latter's link (or -1): of all paths; of those between hosts. */
    struct mt_path slowest, between;
    int concurrent;                        /* groups that share the hosts' rates, this one with them */
    bool nominal;                          /* some link between them was never measured */
    bool nccl;                             /* some are GPUs that were measured: NCCL runs their collectives */
    const struct mt_cluster_group *fitted; /* the cluster's group of these devices, or null */
    struct mt_path *paths;                 /* [n n], from place to place; null for more than COST_MOST_PATHS, and
                                              before mt_cost_group_list_paths */
    struct cost_cuts *cuts;                /* made by the first call of mt_cost_cut_bound_s */
};
enum { COST_MOST_PATHS = 320 };

/* The devices' group, one of `concurrent`; the memo keeps it. */
struct cost_group *mt_cost_group_find(struct mt_cost_memo *memo, const struct mt_cluster *cluster, const int *devices,
                                      int n, int concurrent);
struct cost_group *mt_cost_group_of(const struct mt_costs *costs, const int *group,
                                    int n); /* costs->memo is not null */
struct cost_group *mt_cost_group_new(const struct mt_cluster *cluster, const int *devices, int n, int concurrent);
void mt_cost_group_free(struct cost_group *g);
void mt_cost_group_list_paths(struct cost_group *g);
struct mt_path mt_cost_group_path(const struct cost_group *g, int from, int to); /* places */

/* Fits of one group tell of others over the same link: that between hosts, or, on one host, the slowest. */
static inline int mt_cost_group_link(const struct cost_group *g) {
    return g->nhosts > 1 ? g->between.link : g->slowest.link;
}
/* For struct mt_coll.node: null on one node. All problems below have it. */
static inline const int *mt_cost_group_nodes(const struct cost_group *g) {
    return g->nhosts > 1 ? g->host : NULL;
}
void mt_cost_cuts_free(struct cost_cuts *cuts);

/* ---- the memo ---- */

/* What is known by a key: a cost, or a group. */
struct cost_entry {
    uint64_t key; /* 0: free */
    struct mt_cost cost;
    struct cost_group *group;
};
/* The entry of a key, added if it is not there (*known: false). It is valid until the next call. */
struct cost_entry *mt_cost_memo_entry(struct mt_cost_memo *memo, uint64_t key, bool *known);
/* A copy of the costs that has a memo, for a call; mt_cost_memo_return frees the memo if the costs had none. */
struct mt_costs mt_cost_memo_borrow(const struct mt_costs *costs);
void mt_cost_memo_return(const struct mt_costs *costs, struct mt_costs *borrowed);

/* ---- collectives ---- */

/* Blocks of a problem. */
static inline int64_t cost_ncounts(const struct mt_coll *problem) {
    return problem->kind == MT_ALL_TO_ALL ? (int64_t)problem->n * problem->n : problem->n;
}
/* Bytes of all blocks on the wire. */
double mt_cost_bytes(const struct mt_coll *problem);

/* mt_cost_cut_s; and the most that a host of the group sends or receives, whichever is less (infinite on one host). */
double mt_cost_cut_bound_s(struct cost_group *g, const struct mt_coll *problem);
double mt_cost_cut_alone_Bps(struct cost_group *g, int host);

/* Seconds of a schedule: as it is; with bandwidths alone (all latencies zero); with latencies alone. */
struct cost_seconds {
    double all_s, transfer_s, latency_s;
};
/* By simulation. split: transfer_s and latency_s are wanted, too. */
struct cost_seconds mt_cost_simulate(struct cost_group *g, const struct mt_coll *problem,
                                     const struct mt_coll_algorithm *algorithm, bool split);
/* By simulation; of more than MT_COST_SIMULATED ranks, from samples of them. */
double mt_cost_sampled_s(struct mt_cost_memo *memo, struct cost_group *g, const struct mt_coll *problem,
                         const struct mt_coll_algorithm *algorithm);

/* The fit's ratio of even blocks (ratio) or of uneven ones (skewed_ratio; fit->npoints entries): linear in the
 * logarithm of bytes between points, constant beyond; *octaves: how far below (negative) or above. */
double mt_cost_fit_ratio(const struct mt_coll_fit *fit, const double *ratio, double bytes, double *octaves);
/* The fit's collective in even blocks of `bytes` in all. counts[n], of AllToAll [n * n]: written, and referred to. */
struct mt_coll mt_cost_even_problem(const struct mt_coll_fit *fit, const struct cost_group *g, double bytes,
                                    int64_t *counts);
/* mt_cost_coll without a look into the memo for the answer. */
struct mt_cost mt_cost_coll_uncached(struct mt_cost_memo *memo, struct cost_group *g, const struct mt_coll *problem,
                                     const struct mt_coll_algorithm *algorithm);

#endif
