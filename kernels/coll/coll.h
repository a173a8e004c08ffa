/* Collectives: what is moved, the algorithms that move it, and the schedules that they make.
 *
 * An algorithm does not communicate. It writes down, for one rank, *rounds* of sends, receives, reductions
 * and copies on byte ranges of that rank's buffers; a communicator (comm.h) runs the rounds. So every
 * algorithm can be priced from its schedule, proven on any number of ranks in one process, and run by MPI
 * today and by something else tomorrow.
 *
 * A problem is stated for one group of ranks numbered 0..n-1 by place in the group, `me` among them. Counts
 * are elements. The message is one packed buffer; block r (counts[r] long, blocks in order of r) belongs to r.
 *
 *   kind            buffer before                         buffer after
 *   all_reduce      everybody: all blocks                 everybody: the sum of all blocks
 *   reduce_scatter  everybody: all blocks                 rank r: block r of the sum (elsewhere: undefined)
 *   all_gather      rank r: block r in its place          everybody: all blocks
 *   broadcast       root: all                             everybody: all
 *   all_to_all      send buffer: block for each peer      receive buffer: block from each peer
 *
 * For all_reduce the blocks are a way to divide the work; any division gives the same sum.
 * all_to_all has a matrix: counts[r * n + c] goes from r to c; this rank's send buffer holds row `me` packed,
 * its receive buffer column `me` packed. Send/Recv is an all_to_all with few non-zeros.
 *
 * Sums of wire type `wire` are accumulated in `acc` (f32 or f64; or bf16's own f32): the working buffer is of
 * type `acc`, what is sent is rounded to `wire`, and where every rank must end with the same bits (all but
 * reduce_scatter) the owner of a block rounds its own copy too. Maxima likewise. An all_to_all only moves: what
 * it brings is reduced, if at all, as it is unpacked (device.h).
 *
 *     const struct mt_coll_algorithm *algorithm = mt_coll_choose(&problem, 20e-6, 1e9);
 *     struct mt_schedule schedule = MT_SCHEDULE_INIT;
 *     algorithm->schedule(&problem, &schedule);
 *     mt_comm_run(comm, &problem, &schedule, group, buffer, tag, 60, &err);
 *     mt_schedule_release(&schedule); */
#ifndef MT_KERNELS_COLL_COLL_H
#define MT_KERNELS_COLL_COLL_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/arena.h"
#include "kernels/base/err.h"
#include "kernels/base/number/type.h"

enum mt_coll_kind { MT_ALL_REDUCE, MT_REDUCE_SCATTER, MT_ALL_GATHER, MT_BROADCAST, MT_ALL_TO_ALL, MT_NCOLLS };
enum mt_reduce { MT_REDUCE_NONE, MT_SUM, MT_MAX };

const char *mt_coll_name(enum mt_coll_kind kind); /* "AllReduce", ... */

/* Whether it adds up what it is given: then its wire type may be narrower than what sums are kept in. */
static inline bool mt_coll_reduces(enum mt_coll_kind kind) {
    return kind == MT_ALL_REDUCE || kind == MT_REDUCE_SCATTER;
}

struct mt_coll {
    enum mt_coll_kind kind;
    enum mt_reduce reduce;
    enum mt_type wire; /* on the network */
    enum mt_type acc;  /* of the buffer in which sums are kept; equal to wire where nothing is reduced */
    int n, me, root;
    const int64_t *counts; /* [n], or [n * n] for all_to_all */
    /* All ranks know the message in the same pieces, in its order, none beyond a block: all_reduce and reduce_scatter
     * as they pack them, all_gather as they unpack them; and each has its own block (all_reduce: all) in these on the
     * other side too. synth/check/lowered/arrays.c proves it. */
    bool same_pieces;
};

/* Whether tensors that lie apart need no message on a wire that takes arrays (comm.h): no type is converted. */
static inline bool mt_coll_takes_arrays(const struct mt_coll *problem) {
    return problem->same_pieces && problem->n > 1 && problem->wire == problem->acc;
}

/* One action of a rank. Offsets and lengths in elements of the working buffer (type acc). */
enum mt_step_kind {
    MT_STEP_SEND,   /* buffer[offset, +count], rounded to wire, to `peer` */
    MT_STEP_RECV,   /* from `peer` into buffer[offset, +count] */
    MT_STEP_REDUCE, /* from `peer`, added to buffer[offset, +count] (or its maximum) */
    MT_STEP_COPY,   /* to_buffer[to, +count] = buffer[offset, +count] */
    MT_STEP_ADD,    /* buffer[offset, +count] added to to_buffer[to, +count] (or its maximum) */
    MT_STEP_ROUND,  /* round buffer[offset, +count] to wire and back */
};
struct mt_step {
    enum mt_step_kind kind;
    int peer;
    int buffer, to_buffer; /* 0: the message (all_to_all: what is sent); 1: all_to_all's receive buffer; 2: scratch */
    int64_t offset, count, to;
};

/* Rounds: a round starts when the last is complete. Within one, a SEND sends what its range held when the round
 * began; the other steps, where they touch the same range, take effect in the order given (so that results do not
 * depend on arrival); all else may run together. Steps of zero elements are not written down, by either side.
 * Between two ranks, messages match in order. */
struct mt_schedule {
    struct mt_arena arena;
    struct mt_step *steps;
    int nsteps, steps_capacity;
    int *round_end; /* steps[round_end[i-1] .. round_end[i]) is round i */
    int nrounds, rounds_capacity;
    int64_t scratch_count; /* elements of buffer 2 */
};
#define MT_SCHEDULE_INIT                                                                                               \
    { 0 }
void mt_schedule_release(struct mt_schedule *schedule);
void mt_schedule_add(struct mt_schedule *schedule, struct mt_step step); /* drops steps of zero elements */
void mt_schedule_end_round(struct mt_schedule *schedule);                /* drops empty rounds */

/* An algorithm: a file in coll/ and a row in coll/algorithms.def. */
struct mt_coll_algorithm {
    const char *name; /* "ring", "bruck", ... unique within a kind */
    enum mt_coll_kind kind;
    /* Whether it can serve this problem (some need a power of two, say). */
    bool (*applies)(const struct mt_coll *problem);
    void (*schedule)(const struct mt_coll *problem, struct mt_schedule *schedule);
    /* Seconds for the slowest rank. A rank's round costs `latency_s` for each peer (those that it sends to, or those
     * that it hears from, whichever are more) and its bytes (sent, or received) over `bandwidth_Bps`; rounds follow
     * each other on all ranks in step. Additions are not counted. */
    double (*cost_s)(const struct mt_coll *problem, double latency_s, double bandwidth_Bps);
};
extern const struct mt_coll_algorithm *const mt_coll_algorithms[];
extern const int mt_coll_nalgorithms;

/* NCCL has algorithms of its own, and takes no other. What it does is priced as this one, whose rounds and bytes are
 * nearest: a ring, a chain, or all at once. */
const struct mt_coll_algorithm *mt_coll_of_nccl(enum mt_coll_kind kind);

const struct mt_coll_algorithm *mt_coll_find(enum mt_coll_kind kind, const char *name);
/* The cheapest that applies by its cost_s (there is always one); ties go to the first in the table. */
const struct mt_coll_algorithm *mt_coll_choose(const struct mt_coll *problem, double latency_s, double bandwidth_Bps);

#endif
