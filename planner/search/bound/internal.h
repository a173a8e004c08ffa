/* Inside the lower bound of plans that divide samples alone:
 *
 *   bound.c    what the space is, and the bound
 *   chains.c   which parts of a step follow each other
 *   curves.c   what a class of devices takes for samples, at least
 *   hosts.c    ranks and their hosts, and how fast each sends and receives */
#ifndef MT_PLANNER_SEARCH_BOUND_INTERNAL_H
#define MT_PLANNER_SEARCH_BOUND_INTERNAL_H

#include "planner/balance/subset.h"
#include "planner/search/internal.h"

enum { BOUND_MOST_CUTS = 7, BOUND_MOST_CHAINS = BOUND_MOST_CUTS * BOUND_MOST_CUTS };

/* Operators of LAST before a step, or after one. */
struct cut {
    int step;
    int64_t *counts; /* [nops] */
};

struct chain {
    int before, after; /* cuts */
    struct mt_subset_chain bytes;
};

struct bounding {
    struct mt_arena arena;
    const struct mt_search *search;
    const struct mt_plan *plan; /* ranks' memory */
    struct mt_work work, body;
    bool has_body, batched; /* batched: all operators with samples are split by the batch */
    bool mixed;             /* mixed: some parameters are sharded, by rows that a person gave */
    bool replicated; /* no parameter is sharded: the program's sums are AllReduce, its updates those of all state */
    int nuses, nreadies;
    struct cut uses[BOUND_MOST_CUTS + 1], readies[BOUND_MOST_CUTS + 1];
    int nchains;
    struct chain *chains;
    int npoints;
    int64_t *at;
    int64_t held_bytes; /* the least that a rank with samples holds */
    /* What two micro-batches need besides state; 0: no rank has a limit. */
    int64_t micro[2];
    double micro_bytes[2];
    struct mt_subset subset;
    struct mt_subset_curves *curves;
    struct key {
        int class;
        int64_t most;
    } * keys; /* [subset.ncurves]: what the curves are of: a class of devices, and samples of a micro-batch at most */
    int keys_capacity, curves_capacity;
};

/* Fill in b->uses, b->readies and b->chains, and b->held_bytes. Chain 0 is computing alone. */
void mt_search_bound_chains(struct bounding *b);

/* Fill in b->at: shares for which curves have times. */
void mt_search_bound_points(struct bounding *b);
/* The number in b->curves of what devices like the rank's take for samples at least, in each chain. */
int mt_search_bound_curves(struct bounding *b, int rank, int64_t limit_bytes);

/* Fill in b->subset.hosts. */
void mt_search_bound_hosts(struct bounding *b);

static inline const struct mt_cluster_device *bound_device_of(const struct bounding *b, int rank) {
    return &b->search->costs->cluster->devices[b->search->costs->device[rank]];
}

#endif
