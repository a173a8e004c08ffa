/* Shared by the executor's files: executor.c prepares programs, slots.c moves inputs and results, replay.c runs.
 *
 * Each run in flight has a slot in host memory: inputs are gathered there and copied to the device in stream order, and
 * results are copied back to it. There are as many slots as runs may be in flight. */
#ifndef MT_LAUNCHER_EXECUTE_INTERNAL_H
#define MT_LAUNCHER_EXECUTE_INTERNAL_H

#include "launcher/execute/executor.h"

/* One lowered program with all addresses resolved. */
struct replay {
    const struct mt_lowered *low;
    struct mt_call *calls;            /* [ninstrs]: operators */
    struct mt_tensor **tensors;       /* [ninstrs]: their operands, inputs first */
    struct mt_coll_call *messages;    /* [ninstrs]: collectives and copies */
    struct mt_overlap_call *overlaps; /* [ninstrs]: overlapped instructions */
    int64_t window_base, *epochs;     /* where the program's part of the window begins; [regions]: of their last runs */
    const struct mt_backend **backends;
    int *many;                /* [ninstrs]: how many operators this call performs; 0: an earlier call performs it */
    struct mt_event **events; /* [ninstrs]: null where no stream waits for the instruction */
    double (*seconds)[2];     /* [ninstrs]: start and end */
    struct mt_tensor *values; /* [low->nvalues] */

    /* inputs and results in a slot */
    struct fed {
        int64_t at_bytes, size_bytes;
        int slot;   /* that has the newest values; -1: never fed */
        bool fresh; /* not yet copied */
    } * fed;        /* [low->ninputs] */
    struct reported {
        int gvalue;
        int64_t at_bytes;
        double number; /* of the last run that was finished */
    } * reported;      /* scalars for reports */
    int nreported;

    /* Of a program with overlapped instructions there are two, for both parities of their epochs, used in turns. */
    struct mt_capture *captures[2];
    int ncaptures;
    int64_t count, captured_at; /* runs that were queued; those when it was captured */
    int64_t *epochs_of_run;     /* [regions]: by how many a run advances them */
    bool ran;                   /* eagerly, at least once */
    bool uncapturable;
};

struct slot {
    char *memory; /* host memory, for copies in stream order */
    enum mt_run run;
    struct mt_event *done;       /* a launched run and the copies of its results have ended */
    struct mt_capture *launched; /* or null */
    uint64_t launch;
    double submitted_s;
    struct mt_run_times times; /* of an eager run: known when it returns */
};

struct mt_executor {
    struct mt_arena host; /* everything but the device's memory */
    struct mt_device *device;
    struct mt_comm *comm;
    double deadline_s;
    char *arena;
    int64_t arena_bytes, state_bytes, window_bytes;
    int nstreams;
    struct mt_window *window;   /* or null: nothing is overlapped */
    struct mt_window *messages; /* the communicator's, or null: it has none */
    struct mt_stream *streams[MT_MOST_STREAMS];
    struct mt_event *tails[MT_MOST_STREAMS]; /* a stream's last work, for joins of all streams */
    struct replay runs[MT_NRUNS];
    struct mt_clock clock;
    struct slot slots[MT_EXECUTOR_DEPTH];
    int nslots;
    uint64_t submitted, finished; /* runs */
    bool kept;                    /* what the training program keeps is in its place (struct mt_linstr) */
    enum mt_run loaded;           /* the program whose inputs are on the device; MT_NRUNS: none */
    struct mt_run_times times;
    mt_trace *trace;
    void *trace_context;
    void *row;   /* a whole row of an input */
    bool broken; /* by a stall: the streams must not be waited for again */
};

/* ---- slots.c ---- */

/* Lay out and allocate the slots, after the programs have been prepared. */
enum mt_status mt_executor_alloc_slots(struct mt_executor *ex, struct mt_err *err);
/* Copy a run's inputs from its slot to the device. all_streams: all streams wait for the copies, not compute alone. */
void mt_executor_queue_inputs(struct mt_executor *ex, enum mt_run run, bool all_streams);
/* Copy a run's results to its slot: in stream order, or at once when the run has ended. */
void mt_executor_queue_results(struct mt_executor *ex, const struct slot *slot);
enum mt_status mt_executor_fetch_results(struct mt_executor *ex, const struct slot *slot, struct mt_err *err);
/* Make the slot's results those that mt_executor_result returns. */
void mt_executor_read_results(struct mt_executor *ex, const struct slot *slot);

static inline int executor_slot_of(const struct mt_executor *ex, uint64_t run) {
    return (int)(run % (uint64_t)ex->nslots);
}

#endif
