/* What hierarchical algorithms are made of: the nodes of a problem's ranks, cells of the message, and the steps on one
 * cell within a node and between two nodes.
 *
 *   member  a rank of a node, numbered from 0 within it
 *   cell    a part of the message with which a whole node works in one round. Each node divides it among its members,
 *           whatever their number: member q of k has the slice [length q / k, length (q + 1) / k). Two nodes exchange a
 *           cell by the intersections of their slices, so that all members send and receive.
 *   owned   a cell of blocks that belong to the members of one node: there each member's slice is its own block's part.
 *           On other nodes slices are equal parts of blocks, or of their sums, if the blocks are nearly of one length:
 *           a member then exchanges its slice with few others.
 *
 * A slice of a cell of blocks is not contiguous in the message; it becomes a step for each block that it crosses. */
#ifndef MT_KERNELS_COLL_NODES_H
#define MT_KERNELS_COLL_NODES_H

#include "kernels/coll/internal.h"

struct mt_cell;
struct mt_cell_bounds;
struct mt_nodes {
    const struct mt_coll *problem;
    struct mt_arena *arena;
    int n;        /* nodes */
    int *first;   /* [n + 1]: node j's members are at places[first[j] .. first[j + 1]) */
    int *places;  /* [problem->n], rising within a node */
    int largest;  /* members of the largest node */
    int mine, at; /* this rank's node, and its number there */
    int64_t *starts, total;
    /* Schedules ask for the same cells and bounds again and again. */
    struct mt_cell *owned;         /* [n of]: made once each; null before the first */
    int of;                        /* of all owned cells */
    struct mt_cell_bounds *bounds; /* [capacity]: open addressing */
    int nbounds, capacity;
};

/* Whether the problem has several nodes, one of them with several ranks. */
bool mt_nodes_apply(const struct mt_coll *problem);

/* Vectors are in `arena`, which must not move. */
struct mt_nodes mt_nodes_of(const struct mt_coll *problem, struct mt_arena *arena);

static inline int mt_nodes_members(const struct mt_nodes *nodes, int node) {
    return nodes->first[node + 1] - nodes->first[node];
}

/* total b / n, rounded down. */
static inline int64_t mt_cut(int64_t total, int64_t n, int64_t b) {
    return total / n * b + total % n * b / n;
}

struct mt_cell {
    int64_t at;       /* its place in the message, unless it is owned */
    int64_t length;   /* elements */
    int owner;        /* a node; or -1 */
    int part, of;     /* of each block of the owner's members, part `part` of `of` equal ones */
    bool nearly_even; /* the owner's members have slices of nearly equal lengths */
    /* Of an owned cell, its part of each block: where it begins in the cell, and in the message. */
    const int64_t *begins, *places; /* [members + 1], [members] */
};
/* Part b of n equal parts of the message. */
struct mt_cell mt_cell_even(const struct mt_nodes *nodes, int64_t n, int64_t b);
/* Part `part` of `of` of each block of the node's members; `of` is the same in all calls. */
struct mt_cell mt_cell_owned(struct mt_nodes *nodes, int node, int part, int of);

/* Begins of the slices of the node's members, and the end: [members + 1], in the nodes' arena. */
const int64_t *mt_cell_bounds(struct mt_nodes *nodes, const struct mt_cell *cell, int node);

/* Elements [lo, hi) of the cell begin with a run that is contiguous in the message: its length, and where it begins. */
int64_t mt_cell_run(const struct mt_nodes *nodes, const struct mt_cell *cell, int64_t lo, int64_t hi, int64_t *offset);

/* ---- steps of this rank, within the round that is being made ---- */

/* Within this rank's node: members send each other their parts of each other's slices, which are added up. */
void mt_cell_reduce(struct mt_nodes *nodes, const struct mt_cell *cell, struct mt_schedule *schedule);
/* Within this rank's node: each member sends its slice to all others, but to member `has_all` (-1: none). */
void mt_cell_gather(struct mt_nodes *nodes, const struct mt_cell *cell, int has_all, struct mt_schedule *schedule);
/* One round of the same by recursive halving (of gathers: doubling), with the member whose number differs by
 * `distance`, a power of two: each sends the slices of the other's `distance` members (its own), and adds (receives)
 * the rest. */
void mt_cell_exchange(struct mt_nodes *nodes, const struct mt_cell *cell, int distance, bool gathers,
                      struct mt_schedule *schedule);
/* Member `from` of this rank's node sends all others their slices. */
void mt_cell_scatter(struct mt_nodes *nodes, const struct mt_cell *cell, int from, struct mt_schedule *schedule);
/* This rank's slice to the members of another node. */
void mt_cell_send(struct mt_nodes *nodes, const struct mt_cell *cell, int to, struct mt_schedule *schedule);
/* This rank's slice from the members of another node: received, or (MT_STEP_REDUCE) added. With `round` each part is
 * then rounded to the wire type. */
void mt_cell_receive(struct mt_nodes *nodes, const struct mt_cell *cell, int from, enum mt_step_kind kind, bool round,
                     struct mt_schedule *schedule);

/* ---- phases of other algorithms, within a node or among one rank of each ---- */

/* The problem among this rank's node, without counts. */
struct mt_coll mt_nodes_within(const struct mt_nodes *nodes);
/* The peers of steps from `from` on become places[peer]. */
void mt_rename_peers(struct mt_schedule *schedule, int from, const int *places);

/* ---- cost ---- */

/* What a rank does at most in a round: `inside` for each cell reduced or gathered, `across` with one other node. */
struct mt_cell_load {
    int inside_peers, across_peers;
    int64_t inside, across; /* elements */
};
/* Raise the load to that of a rank of `node` with a cell that goes to or comes from `other`. */
void mt_cell_load(struct mt_nodes *nodes, const struct mt_cell *cell, int node, int other, struct mt_cell_load *load);

/* ---- the ring of nodes (node_ring.c) ---- */

/* all_reduce (reduces and gathers), reduce_scatter and all_gather. */
struct mt_node_ring {
    bool reduces, gathers;
    bool owned;    /* the cells are the ranks' blocks */
    bool pipeline; /* else: in phases */
};
void mt_node_ring_schedule(const struct mt_coll *problem, struct mt_node_ring ring, struct mt_schedule *schedule);
double mt_node_ring_cost_s(const struct mt_coll *problem, struct mt_node_ring ring, double latency_s,
                           double bandwidth_Bps);

#endif
