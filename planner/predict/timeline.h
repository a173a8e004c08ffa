/* A step as it is simulated: what each class of ranks does when, on each stream, and what memory is live.
 *
 *     struct mt_timeline timeline;
 *     if ((st = mt_predict_timeline(&program, &costs, &options, &prediction, &timeline, err))) return st;
 *     ... timeline.classes[0].spans[0].start_s, timeline.classes[0].memory[0].live_bytes ...
 *     mt_timeline_release(&timeline);
 *     mt_arena_release(&prediction.arena);
 *
 * It is the last of the steps that the prediction simulates; times are from the moment at which the slowest rank ended
 * the step before, so that a rank which did not wait for that one begins at a negative time, and the last span ends at
 * step_s. */
#ifndef MT_PLANNER_PREDICT_TIMELINE_H
#define MT_PLANNER_PREDICT_TIMELINE_H

#include "planner/predict/predict.h"

enum mt_span_kind {
    MT_SPAN_COMPUTE,    /* an operator */
    MT_SPAN_PACK,       /* a message is launched and packed; a copy */
    MT_SPAN_TRANSFER,   /* from the rendezvous on */
    MT_SPAN_UNPACK,     /* */
    MT_SPAN_WAIT,       /* for an instruction of another stream, `other` */
    MT_SPAN_RENDEZVOUS, /* packed, and waits for other ranks: that of class `other` comes last */
    MT_SPAN_YIELD,      /* a collective's kernels wait for multiprocessors */
    MT_NSPANS
};
extern const char *const mt_span_names[MT_NSPANS]; /* "computing", "waiting for another stream", ... */
static inline bool mt_span_waits(enum mt_span_kind kind) {
    return kind >= MT_SPAN_WAIT;
}

struct mt_span {
    enum mt_span_kind kind;
    int stream, instr; /* instr: an index into names */
    int other;         /* see above; -1: none, as of the last iteration of the body */
    double start_s, end_s;
};
struct mt_live { /* from at_s on */
    double at_s;
    int64_t bytes;
};
struct mt_timeline_class { /* ranks of equal device, speed and boxes */
    int nranks, *ranks;    /* of the program; spans are those of the first */
    int64_t state_bytes, arena_bytes;
    int ninstrs;
    const char **names; /* [ninstrs]: "h.0.mlp.c_fc", "AllReduce h.1.ln_1.weight/grad + 3" */
    int *roles;         /* [ninstrs]: of operators enum mt_op_role; else -1 */
    int nspans, spans_capacity;
    struct mt_span *spans; /* of a stream in order of time */
    /* The bytes of the arena that some live value has: from the start of its first use to the end of its last. States
     * are live all the time, what is fed from the beginning. */
    int nmemory, memory_capacity;
    struct mt_live *memory;
    int64_t most_live_bytes;
};
struct mt_timeline {
    struct mt_arena arena;
    double step_s, first_s; /* first_s: the earliest start, 0 or less */
    int nranks, nstreams, nclasses;
    struct mt_timeline_class *classes;
    int *class_of; /* [nranks] */
    struct mt_recording *recording;
};

/* mt_predict, which also records; its step is that of mt_predict but for rounding. Release both results. */
enum mt_status mt_predict_timeline(const struct mt_program *program, const struct mt_costs *costs,
                                   const struct mt_lower_options *options, struct mt_prediction *prediction,
                                   struct mt_timeline *timeline, struct mt_err *err);
void mt_timeline_release(struct mt_timeline *timeline);

#endif
