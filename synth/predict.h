/* How long a step takes: all ranks' lowered programs, played against the costs of a cluster.
 *
 * Two streams a rank, in the order and with the waits that the executor has (lower.h). A collective begins when all
 * of its group have come to it and ends for all together. While a rank's streams work both, each is slowed as the
 * link's row says. Ranks that are alike (same class, speed and boxes) are played once. */
#ifndef MT_SYNTH_PREDICT_H
#define MT_SYNTH_PREDICT_H

#include "planner/cost.h"
#include "synth/lower.h"

struct mt_rank_prediction {
    double compute_s; /* inside operators, slowed ones as slow as they are */
    double comm_s;    /* inside collectives, from when all have come */
    double exposed_s; /* nothing computed while a collective of this rank ran */
    double idle_s;    /* neither: waiting for slower ranks */
    int64_t state_bytes, arena_bytes;
};
struct mt_prediction {
    struct mt_arena arena;
    double step_s, error; /* error: half-width of the band, relative */
    int nranks;
    struct mt_rank_prediction *ranks;
    /* Per kind and algorithm of collectives, in order of time: what travels, and how long. */
    double comm_alone_s; /* the longest rank's collectives, nobody computing */
    double hidden_s;     /* of it, under computation, on the slowest rank */
};

/* `options` gives scratch and algorithms as for training. Release prediction->arena. */
enum mt_status mt_predict(const struct mt_program *program, const struct mt_costs *costs,
                          const struct mt_lower_options *options, struct mt_prediction *prediction, struct mt_err *err);

/* Called for each instruction of a rank that is played (ranks alike: of the first), for traces and explanations. */
typedef void mt_predicted(void *context, int rank, const struct mt_lowered *lowered, int instr, int64_t iteration,
                          double start_s, double end_s);
enum mt_status mt_predict_traced(const struct mt_program *program, const struct mt_costs *costs,
                                 const struct mt_lower_options *options, mt_predicted *each, void *context,
                                 struct mt_prediction *prediction, struct mt_err *err);

#endif
