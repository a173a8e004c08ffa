/* Prediction of a step's time: all ranks' lowered programs, simulated against the costs of a cluster.
 *
 *     struct mt_prediction prediction;
 *     if ((st = mt_predict(&program, &costs, &options, &prediction, err))) return st;
 *     ... prediction.step_s ...
 *     mt_arena_release(&prediction.arena);
 *
 * Each rank has two streams, compute and communication, in the order and with the waits of the executor (lower.h).
 * Ranks begin a step when they have ended the one before, not together: several steps are simulated, and the step's
 * time is that between the ends of the last two.
 *
 * Words:
 * - rendezvous: the beginning of a collective, when all ranks of its group have reached it and packed, and CPUs that
 *   slept while they waited have woken up (mt_comm_backoff_s). A collective ends for all its ranks together, which then
 *   unpack.
 * - slowdown: a rank that computes during a collective is slowed as the link's row says, and so is the collective;
 *   packing on a CPU takes one of its threads from computing. Collectives of different groups do not slow each other.
 * - exposed communication: the time of a rank's collectives in which it computes nothing; the rest is hidden.
 * - class of ranks: ranks of equal device class, speed and boxes; one of them is simulated, as one actor. */
#ifndef MT_PLANNER_PREDICT_PREDICT_H
#define MT_PLANNER_PREDICT_PREDICT_H

#include "planner/cost/cost.h"
#include "synth/lower/lower.h"

struct mt_rank_prediction {
    double compute_s; /* inside operators, slowed ones as slow as they are */
    double comm_s;    /* packing, collectives from their rendezvous on, unpacking */
    double exposed_s; /* of comm_s: the rank computes nothing */
    double idle_s;    /* neither: blocked on slower ranks */
    int64_t state_bytes, arena_bytes;
    int64_t communicator_bytes; /* of NCCL, beside the arena (communicators.h) */
    int64_t window_bytes;       /* of overlapped instructions, beside the arena */
};
static inline int64_t mt_rank_needs_bytes(const struct mt_rank_prediction *rank) {
    return rank->arena_bytes + rank->communicator_bytes + rank->window_bytes;
}
/* What one source of error adds to the half-width. Predictions that share a source err together: on faster links, the
 * same operators are as wrong as before. */
struct mt_error_part {
    const char *source; /* "computing of h100", "AllReduce over net", "overlap", "model" */
    double time_s;
};
struct mt_prediction {
    struct mt_arena arena;
    /* The band, relative to the step: it takes from (1 - error_below) to (1 + error) times step_s. By the rank that
     * idles least. A band does not reach below what the rates of the hardware allow (floor_s of costs). */
    double step_s, error, error_below;
    int nparts; /* of the error: sources that are independent of each other */
    struct mt_error_part *parts;
    int nranks;
    bool nominal; /* it rests on figures that were never measured */
    struct mt_rank_prediction *ranks;
};

/* `options`: scratch and algorithms as for training. Release prediction->arena. */
enum mt_status mt_predict(const struct mt_program *program, const struct mt_costs *costs,
                          const struct mt_lower_options *options, struct mt_prediction *prediction, struct mt_err *err);

#endif
