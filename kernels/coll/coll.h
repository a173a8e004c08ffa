/* Collectives: problems, the algorithms that solve them, and the schedules that algorithms make.
 *
 * An algorithm does not communicate. For one rank it makes a *schedule*: rounds of sends, receives, reductions and
 * copies on ranges of that rank's buffers. A communicator (kernels/comm/comm.h) runs the schedule. So an algorithm can
 * be priced from its schedule, and tested for any number of ranks in one process.
 *
 * A problem is stated for one group of ranks, numbered 0..n-1 by place in the group; `me` is this rank. Counts are
 * elements. The message is one packed buffer: block r has counts[r] elements and belongs to rank r, blocks in order.
 *
 *   kind            buffer before                         buffer after
 *   all_reduce      everybody: all blocks                 everybody: the sum of all blocks
 *   reduce_scatter  everybody: all blocks                 rank r: block r of the sum (elsewhere: undefined)
 *   all_gather      rank r: block r in its place          everybody: all blocks
 *   broadcast       root: all                             everybody: all
 *   all_to_all      send buffer: block for each peer      receive buffer: block from each peer
 *
 * In an all_reduce the blocks only divide the work; any division gives the same sum.
 * An all_to_all has a matrix: r sends counts[r * n + c] elements to c. This rank's send buffer holds row `me` packed,
 * its receive buffer column `me` packed. Send/Recv is an all_to_all with few non-zeros.
 *
 * Sums, and maxima, of wire type `wire` are accumulated in type `acc`: f64 for f64, else f32. The working buffer is of
 * type `acc`; what is sent is rounded to `wire`. NCCL adds in the wire type, so its `acc` is `wire`: then nothing is
 * converted, and sums are rounded as often as NCCL passes them on. Where all ranks must end with the same bits (all
 * kinds but reduce_scatter) the owner of a block rounds its own copy too. An all_to_all only moves data; a reduction of
 * what was received is done by unpacking (kernels/device/device.h).
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

/* Whether it reduces (sum, maximum): then its wire type may be narrower than the accumulation type. */
static inline bool mt_coll_reduces(enum mt_coll_kind kind) {
    return kind == MT_ALL_REDUCE || kind == MT_REDUCE_SCATTER;
}

/* The type of the working buffer. wire_sums: who reduces adds in the wire type. */
static inline enum mt_type mt_coll_acc(enum mt_coll_kind kind, enum mt_type wire, bool wire_sums) {
    return mt_coll_reduces(kind) && !wire_sums ? mt_type_acc(wire) : wire;
}

struct mt_coll {
    enum mt_coll_kind kind;
    enum mt_reduce reduce;
    enum mt_type wire; /* on the network */
    enum mt_type acc;  /* of the working buffer; equal to wire where nothing is reduced */
    int n, me, root;
    const int64_t *counts; /* [n], or [n * n] for all_to_all */
    /* All ranks divide the message into the same pieces, in the message's order, none of which crosses a block's end:
     * all_reduce and reduce_scatter as packed, all_gather as unpacked. On the other side each rank has its own block
     * (all_reduce: all blocks) in the same pieces. synth/check/lowered/arrays.c proves it. */
    bool same_pieces;
    /* [n]: the node (host) of each place, numbered from 0 by first place; null: all ranks are on one node. Only
     * algorithms with `by_node` read it. */
    const int *node;
};

/* Whether a communicator that takes arrays (comm.h) can send and receive the tensors themselves, without packing. */
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
    int buffer,
        to_buffer; /* 0: the message (all_to_all: the send buffer); 1: all_to_all's receive buffer; 2: scratch */
    int64_t offset, count, to;
};

/* Rounds: a round starts when the previous one is complete. Within a round a SEND sends what its range held when the
 * round began. Other steps on overlapping ranges take effect in the order given, so that results do not depend on the
 * order of arrival; steps on disjoint ranges may overlap in time. Neither side has steps of zero elements. Messages
 * between two ranks match in order. */
struct mt_schedule {
    struct mt_arena arena;
    struct mt_step *steps;
    int nsteps, steps_capacity;
    int *round_end; /* steps[round_end[i-1] .. round_end[i]) is round i */
    int nrounds, rounds_capacity;
    int64_t scratch_count; /* elements of buffer 2 */
    bool by_node;          /* its algorithm is: a communicator with schedules of its own takes one of this kind too */
    bool located; /* of an AllToAll: steps are places in memory (kernels/device/in_place.h), on which a communicator
                     with schedules of its own sends and receives too */
};
#define MT_SCHEDULE_INIT                                                                                               \
    { 0 }
void mt_schedule_release(struct mt_schedule *schedule);
void mt_schedule_add(struct mt_schedule *schedule, struct mt_step step); /* drops steps of zero elements */
void mt_schedule_end_round(struct mt_schedule *schedule);                /* drops empty rounds */

/* An algorithm: a file in kernels/coll/algorithms/ and a row of kernels/coll/algorithms.def. */
struct mt_coll_algorithm {
    const char *name; /* "ring", "bruck", ... unique within a kind */
    enum mt_coll_kind kind;
    /* Its schedules depend on problem.node: it applies where several nodes take part, one of them with several ranks.
     * It gains where paths within a node are faster than between nodes, so it is chosen by simulating its schedule over
     * the paths (planner/cost/cost.h), not by cost_s over one. */
    bool by_node;
    /* Whether it can solve this problem (one needs a power of two, for example). */
    bool (*applies)(const struct mt_coll *problem);
    void (*schedule)(const struct mt_coll *problem, struct mt_schedule *schedule);
    /* Seconds of the slowest rank, by the alpha-beta model. A rank's round costs
     *     max(peers sent to, peers received from) * latency_s + max(bytes sent, bytes received) / bandwidth_Bps;
     * all ranks go through the rounds in step. Additions are free. */
    double (*cost_s)(const struct mt_coll *problem, double latency_s, double bandwidth_Bps);
};
extern const struct mt_coll_algorithm *const mt_coll_algorithms[];
extern const int mt_coll_nalgorithms;

/* NCCL chooses among algorithms of its own. Its collectives are priced as this one, whose rounds and bytes are nearest:
 * ring, chain or direct. */
const struct mt_coll_algorithm *mt_coll_of_nccl(enum mt_coll_kind kind);

const struct mt_coll_algorithm *mt_coll_find(enum mt_coll_kind kind, const char *name);
/* The cheapest by cost_s among those that apply and are not by_node (there is always one); ties go to the first in the
 * table. */
const struct mt_coll_algorithm *mt_coll_choose(const struct mt_coll *problem, double latency_s, double bandwidth_Bps);

#endif
