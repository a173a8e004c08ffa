/* What algorithm files share: steps, offsets of blocks, and phases that several algorithms are made of. */
#ifndef MT_KERNELS_COLL_INTERNAL_H
#define MT_KERNELS_COLL_INTERNAL_H

#include "kernels/coll/coll.h"

#define MT_COLL_ALGORITHM(kind, name, prefix, by_node)                                                                 \
    bool mt_##prefix##_applies(const struct mt_coll *problem);                                                         \
    void mt_##prefix##_schedule(const struct mt_coll *problem, struct mt_schedule *schedule);                          \
    double mt_##prefix##_cost_s(const struct mt_coll *problem, double latency_s, double bandwidth_Bps);
#include "kernels/coll/algorithms.def"
#undef MT_COLL_ALGORITHM

/* Steps on buffer 0. */
void mt_step_send(struct mt_schedule *schedule, int peer, int64_t offset, int64_t count);
void mt_step_recv(struct mt_schedule *schedule, int peer, int64_t offset, int64_t count);
void mt_step_reduce(struct mt_schedule *schedule, int peer, int64_t offset, int64_t count);

/* A separate round that rounds a range to the wire type; none when that is the buffer's type. */
void mt_round_to_wire(const struct mt_coll *problem, struct mt_schedule *schedule, int64_t offset, int64_t count);

/* Prefix sums of counts, [n + 1], in the schedule's arena: block r is [starts[r], starts[r + 1]). */
int64_t *mt_coll_starts(const struct mt_coll *problem, struct mt_schedule *schedule);

int64_t mt_coll_total(const struct mt_coll *problem);   /* elements of all blocks */
int64_t mt_coll_largest(const struct mt_coll *problem); /* elements of the largest block */
int mt_coll_nonzero(const struct mt_coll *problem);     /* number of blocks that are not empty */

/* (a mod n) in [0, n) for a >= -n. */
static inline int mt_wrap(int a, int n) {
    return (a + n) % n;
}

/* peers * latency_s + bytes of `count` elements on the wire / bandwidth_Bps */
double mt_coll_seconds(const struct mt_coll *problem, int peers, int64_t count, double latency_s, double bandwidth_Bps);

/* The phases of reduce_scatter and all_gather; block r is [starts[r], starts[r + 1]). Each in its algorithm's file. */
void mt_ring_reduce_scatter(const struct mt_coll *problem, const int64_t *starts, struct mt_schedule *schedule);
void mt_direct_reduce_scatter(const struct mt_coll *problem, const int64_t *starts, struct mt_schedule *schedule);
void mt_direct_all_gather(const struct mt_coll *problem, const int64_t *starts, struct mt_schedule *schedule);
/* The ring of all_gather; block b belongs to rank (first + b) mod n. */
void mt_ring_all_gather(const struct mt_coll *problem, int first, const int64_t *starts, struct mt_schedule *schedule);
/* The sum of [0, count) of all ranks, to rank 0, up a binomial tree. */
void mt_binomial_reduce(const struct mt_coll *problem, int64_t count, struct mt_schedule *schedule);
/* Broadcast of [0, count) from `root` down a binomial tree. */
void mt_binomial_broadcast(const struct mt_coll *problem, int root, int64_t count, struct mt_schedule *schedule);
int mt_log2_ceil(int n);

/* all_to_all: offsets of the blocks of this rank's row in buffer 0 and of its column in buffer 1, [n + 1] each; the
 * steps to and from one peer; and mt_matrix_keep, the copy of the block that this rank sends itself. */
struct mt_matrix_starts {
    int64_t *row, *column;
};
struct mt_matrix_starts mt_matrix_starts(const struct mt_coll *problem, struct mt_schedule *schedule);
void mt_matrix_send(const struct mt_coll *problem, const struct mt_matrix_starts *at, int peer,
                    struct mt_schedule *schedule);
void mt_matrix_recv(const struct mt_coll *problem, const struct mt_matrix_starts *at, int peer,
                    struct mt_schedule *schedule);
void mt_matrix_keep(const struct mt_coll *problem, const struct mt_matrix_starts *at, struct mt_schedule *schedule);

#endif
