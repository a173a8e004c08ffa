/* The executor runs lowered programs on a device. It knows device, stream, event and arena, and neither allocates nor
 * plans inside a step.
 *
 *     mt_executor_new(device, comm, lowered_train, lowered_forward, 300, &ex, &err);
 *     mt_executor_set_state(ex, gvalue, box, &err);            // every state
 *     mt_executor_feed(ex, MT_RUN_TRAIN, tokens, fill, data, &err);
 *     mt_executor_run(ex, MT_RUN_TRAIN, &clock, &err);         // one step; the states are now the next ones
 *     mt_executor_result(ex, MT_RUN_TRAIN, graph->loss_sum, &loss, &err);
 *     mt_executor_free(ex);
 *
 * A device that captures (device.h) gets a program's instructions twice: eagerly in its first run, when kernels are
 * compiled and connections made, and in the second run to be captured; from then on a run is one launch. A program that
 * cannot be captured goes on eagerly, and a warning says why. Traced runs are eager too. Several launched runs may be
 * in flight:
 *
 *     while (there are steps) {
 *         mt_executor_feed(...); mt_executor_submit(ex, MT_RUN_TRAIN, &clock, &err);
 *         if (mt_executor_in_flight(ex) < mt_executor_depth(ex)) continue;
 *         mt_executor_finish(ex, &err); mt_executor_result(...);  // of the oldest
 *     }
 *
 * One arena serves both programs: the states, then the temporaries of whichever runs. The forward program must have
 * been lowered with the training program as options.states. Device, communicator and lowered programs must outlive the
 * executor. */
#ifndef MT_LAUNCHER_EXECUTE_EXECUTOR_H
#define MT_LAUNCHER_EXECUTE_EXECUTOR_H

#include "synth/lower/lower.h"

enum mt_run { MT_RUN_TRAIN, MT_RUN_FORWARD, MT_NRUNS };

struct mt_executor;

/* `train` or `forward` may be null. A wait that sees no progress for `deadline_s` ends the run with MT_ESTALL. */
enum mt_status mt_executor_new(struct mt_device *device, struct mt_comm *comm, const struct mt_lowered *train,
                               const struct mt_lowered *forward, double deadline_s, struct mt_executor **executor,
                               struct mt_err *err);
void mt_executor_free(struct mt_executor *executor);

/* This rank's box of a state, with its address; null if the programs have no such state. Who writes there says so:
 * what the training program keeps of states from step to step is then made anew. */
const struct mt_tensor *mt_executor_state(const struct mt_executor *executor, int gvalue);
void mt_executor_states_changed(struct mt_executor *executor);
/* Write or read this rank's box of a state: dense, of the value's type. */
enum mt_status mt_executor_set_state(struct mt_executor *executor, int gvalue, const void *box, struct mt_err *err);
enum mt_status mt_executor_get_state(struct mt_executor *executor, int gvalue, void *box, struct mt_err *err);

/* Give every state its initial value by global element index, as training begins: each rank its own boxes. */
enum mt_status mt_executor_init_states(struct mt_executor *executor, const struct mt_graph *graph, uint64_t seed,
                                       struct mt_err *err);

/* Feed an input for the next run of the program; an input that is not fed again keeps its values. `fill` writes one
 * sample's row: the whole value without the batch axis, dense, of the value's type. `sample` is its global number, or
 * -1 for an input without the batch label, which `fill` writes whole. `fill` is called only for the rows that this rank
 * needs. They are gathered in host memory and copied to the device when the run is submitted. */
typedef void mt_fill(void *context, int64_t sample, void *row);
enum mt_status mt_executor_feed(struct mt_executor *executor, enum mt_run run, int gvalue, mt_fill *fill, void *context,
                                struct mt_err *err);

/* Run a program once. An error or a stall names the instruction. After a stall (MT_ESTALL) the process must end:
 * threads of the streams may still use the arena. */
enum mt_status mt_executor_run(struct mt_executor *executor, enum mt_run run, const struct mt_clock *clock,
                               struct mt_err *err);

/* The same in two parts: submit a run; wait for the oldest run that is not finished. mt_executor_depth: how many runs
 * may be in flight (mt_device_depth, at most MT_EXECUTOR_DEPTH). States may be read and written when none is in flight.
 */
enum mt_status mt_executor_submit(struct mt_executor *executor, enum mt_run run, const struct mt_clock *clock,
                                  struct mt_err *err);
enum mt_status mt_executor_finish(struct mt_executor *executor, struct mt_err *err);
enum { MT_EXECUTOR_DEPTH = 2 };
int mt_executor_in_flight(const struct mt_executor *executor);
int mt_executor_depth(const struct mt_executor *executor);

/* This rank's box of a reported value (mt_lowered.output_at), as doubles, with the shape and type that
 * mt_executor_output gives; MT_EBUG, or null, if the program does not report it. Scalars: of the last run that was
 * finished. Other values may be read only while no run is in flight. */
const struct mt_tensor *mt_executor_output(const struct mt_executor *executor, enum mt_run run, int gvalue);
enum mt_status mt_executor_result(struct mt_executor *executor, enum mt_run run, int gvalue, double *data,
                                  struct mt_err *err);

/* Times of the last run that was finished, on this rank. An eager run is timed by instruction. A launched run is timed
 * by sections: a stream's work between two waits for the other stream, including the gaps between its kernels; a
 * collective counts from the end of its wait for operators. */
struct mt_run_times {
    double end_s;  /* when the host saw its end (mt_now_s) */
    double wall_s; /* until end_s, from its submission or from the end of the run before it */
    /* By stream: in operators; in collectives, waiting for peers included; in copies. */
    double stream_s[MT_MOST_STREAMS];
    double wait_s; /* wall_s less the compute stream's time */
};
struct mt_run_times mt_executor_times(const struct mt_executor *executor);

/* Call `trace` for every instruction of later runs, after each iteration and at the end of a run (null: stop tracing).
 * Times are those of mt_now_s. Traced runs are eager, so they take longer by the gaps between kernels. */
typedef void mt_trace(void *context, const struct mt_lowered *lowered, int instr, int64_t iteration, double start_s,
                      double end_s);
void mt_executor_trace(struct mt_executor *executor, mt_trace *trace, void *context);

/* What the executor is doing now; any thread may call. `completed` counts work done on all streams. */
struct mt_executor_progress {
    char text[128]; /* "AllReduce grad.h.3"; "" between runs */
    uint64_t completed;
    bool waits; /* for other ranks: it is in a collective and computes nothing */
};
void mt_executor_query(struct mt_executor *executor, struct mt_executor_progress *progress);
double mt_executor_patience_s(const struct mt_executor *executor); /* how long its own waits last without progress */

#endif
