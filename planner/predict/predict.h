/* How long a step takes: all ranks' lowered programs, played against the costs of a cluster.
 *
 * Two streams a rank, in the order and with the waits that the executor has (lower.h). A collective begins when all
 * of its group have come to it and packed (and CPUs that wait have woken up), and ends for all together, to be
 * unpacked. While a rank computes and a
 * collective of it travels, both are slowed as the link's row says; packing on a CPU takes a thread's part of it.
 * Collectives of different groups do not disturb each other. Ranks that are alike (same class, speed and boxes) are
 * played once.
 *
 * Ranks begin a step when they have ended the last one, not together: several steps are played, and the time of one is
 * that between the ends of the last two. */
#ifndef MT_PLANNER_PREDICT_PREDICT_H
#define MT_PLANNER_PREDICT_PREDICT_H

#include "planner/cost/cost.h"
#include "synth/lower/lower.h"

struct mt_rank_prediction {
    double compute_s; /* inside operators, slowed ones as slow as they are */
    double comm_s;    /* inside collectives, from when all have come */
    double exposed_s; /* nothing computed while a collective of this rank ran */
    double idle_s;    /* neither: waiting for slower ranks */
    int64_t state_bytes, arena_bytes;
};
struct mt_predicted_coll {
    enum mt_coll_kind kind;
    const char *algorithm;
    int64_t count, bytes; /* messages of a step; on the wire, all blocks together */
    double alone_s;       /* nobody computing */
};
struct mt_prediction {
    struct mt_arena arena;
    double step_s, error; /* error: half-width of the band, relative */
    int nranks;
    bool nominal; /* some figures it rests on were never measured */
    struct mt_rank_prediction *ranks;
    int slowest;         /* the rank that idles least */
    double comm_alone_s; /* the longest rank's collectives, nobody computing */
    double hidden_s;     /* under computation, of the slowest rank's collectives */
    int ncolls;          /* of the slowest rank: per kind and algorithm, longest first */
    struct mt_predicted_coll *colls;
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
