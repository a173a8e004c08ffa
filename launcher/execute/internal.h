/* What the executor's parts share. Private to executor*.c.
 *
 * A run goes through a place: inputs are gathered there in the host's memory, copied to the device in stream order,
 * and results come back to it. There are as many places as runs may be under way. */
#ifndef MT_LAUNCHER_EXECUTE_INTERNAL_H
#define MT_LAUNCHER_EXECUTE_INTERNAL_H

#include "launcher/execute/executor.h"

/* One lowered program with all pointers in place. */
struct replay {
    const struct mt_lowered *low;
    struct mt_call *calls;         /* [ninstrs]: operators */
    struct mt_coll_call *messages; /* [ninstrs]: collectives and copies */
    const struct mt_backend **backends;
    int *many;                /* [ninstrs]: of operators, how many calls are done by this one; 0: another does it */
    struct mt_event **events; /* [ninstrs]: where somebody waits for it; else null */
    double (*seconds)[2];     /* [ninstrs]: start and end */
    struct mt_tensor *values; /* [low->nvalues] */

    /* inputs and results in a place */
    struct fed {
        int64_t at_bytes, size_bytes;
        int place;  /* where the newest is; -1: never fed */
        bool fresh; /* not yet copied */
    } * fed;        /* [low->ninputs] */
    struct reported {
        int gvalue;
        int64_t at_bytes;
        double number; /* of the last run that was finished */
    } * reported;      /* scalars for reports */
    int nreported;

    struct mt_capture *capture;
    bool ran;   /* queued as it stands at least once */
    bool stays; /* it cannot be captured */
};

struct place {
    char *memory; /* of the host, for copies in stream order */
    enum mt_run run;
    struct mt_event *done; /* a launch's, with its results */
    bool launched;
    uint64_t launch;
    double submitted_s;
    struct mt_run_times times; /* where it was not launched: known at once */
};

struct mt_executor {
    struct mt_arena host; /* everything but the device's memory */
    struct mt_device *device;
    struct mt_comm *comm;
    double deadline_s;
    char *arena;
    int64_t arena_bytes, state_bytes;
    struct mt_stream *streams[MT_NSTREAMS];
    struct mt_event *tails[MT_NSTREAMS]; /* where streams wait for each other as a whole */
    struct replay runs[MT_NRUNS];
    struct mt_clock clock;
    struct place places[MT_EXECUTOR_DEPTH];
    int nplaces;
    uint64_t submitted, finished; /* runs */
    enum mt_run loaded;           /* whose inputs the device has; MT_NRUNS: nobody's */
    struct mt_run_times times;
    mt_trace *trace;
    void *trace_context;
    void *row;   /* a whole row of an input */
    bool broken; /* a stall: the streams cannot be waited for any more */
};

/* feed.c */
enum mt_status mt_executor_take_places(struct mt_executor *ex, struct mt_err *err);
/* Queue the copies of a run's inputs; copy its results to its place, in stream order or, when it has ended, at once;
 * and make them what mt_executor_result tells. */
void mt_executor_queue_inputs(struct mt_executor *ex, enum mt_run run, bool all_streams);
void mt_executor_queue_results(struct mt_executor *ex, const struct place *place);
enum mt_status mt_executor_fetch_results(struct mt_executor *ex, const struct place *place, struct mt_err *err);
void mt_executor_read_results(struct mt_executor *ex, const struct place *place);

static inline struct place *mt_executor_place(struct mt_executor *ex, uint64_t run) {
    return &ex->places[run % (uint64_t)ex->nplaces];
}

#endif
