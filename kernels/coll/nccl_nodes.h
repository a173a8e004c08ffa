/* Hierarchical AllReduce, ReduceScatter and AllGather as groups of NCCL's calls: one rank's list.
 *
 * In phases, each a group call, as in algorithms/all_reduce_hierarchical.c:
 *
 *   all_reduce      ReduceScatter within each node; AllReduce across nodes; AllGather within
 *   reduce_scatter  ReduceScatter within each node; Reduce across nodes, to the ranks whose blocks they are
 *   all_gather      Broadcast across nodes, from the ranks whose blocks they are; AllGather within each node
 *
 * Each node cuts the message, or a node's blocks, into a slice for each of its ranks. The slices of all nodes together
 * cut it into intervals, each of which has one rank on every node: a communicator across nodes. With k ranks on every
 * node these are the k slices, and there are k communicators across nodes, each with one rank of every node. Within a
 * node slices of equal lengths that follow each other in the message take NCCL's ReduceScatter and AllGather, others a
 * Reduce to, or a Broadcast from, each slice's rank.
 *
 *     struct mt_nccl_list list;
 *     mt_nccl_list(&problem, &list);
 *     for each phase: ncclGroupStart(), its calls, ncclGroupEnd()
 *     mt_nccl_list_release(&list); */
#ifndef MT_KERNELS_COLL_NCCL_NODES_H
#define MT_KERNELS_COLL_NCCL_NODES_H

#include "kernels/coll/coll.h"

enum mt_nccl_op { MT_NCCL_ALL_REDUCE, MT_NCCL_REDUCE_SCATTER, MT_NCCL_ALL_GATHER, MT_NCCL_REDUCE, MT_NCCL_BROADCAST };

/* All in place, on the message: elements [at, + count); of ReduceScatter and AllGather, a block of `count` elements for
 * each member of the group, from `at` on in their order. */
struct mt_nccl_call {
    enum mt_nccl_op op;
    int group; /* of the list's */
    int root;  /* of Reduce and Broadcast: its number in the group */
    int64_t at, count;
};

/* Ranks that need a communicator. me: this rank's number among them. */
struct mt_nccl_ranks {
    int n, me, *places; /* places: of the problem, node by node */
};

enum { MT_NCCL_PHASES = 3 };
struct mt_nccl_list {
    struct mt_arena arena;
    struct mt_nccl_ranks *groups; /* in the order in which all ranks meet them */
    int ngroups, groups_capacity;
    struct mt_nccl_call *calls;
    int ncalls, calls_capacity;
    int phase_end[MT_NCCL_PHASES]; /* calls[phase_end[i - 1] .. phase_end[i]) are phase i, which may be empty */
};

/* Whether NCCL's communicators can be told to run this algorithm: NCCL's own (mt_coll_of_nccl), and "hierarchical" of
 * these kinds, whose rounds and bytes are those of the list. Any other by_node algorithm of these kinds runs as it. */
bool mt_nccl_runs(const struct mt_coll_algorithm *algorithm);

/* Whether there is a list for the problem: it is of these kinds, and its nodes allow a hierarchical algorithm. */
bool mt_nccl_by_node(const struct mt_coll *problem);

/* The calls of rank problem->me. All ranks put the calls of a group in the same order, and groups too, so that no two
 * ranks wait for each other's calls. */
void mt_nccl_list(const struct mt_coll *problem, struct mt_nccl_list *list);
void mt_nccl_list_release(struct mt_nccl_list *list);

#endif
