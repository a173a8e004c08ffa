/* The executor: replays lowered programs on a device. It speaks of device, stream, event and arena, and allocates and
 * plans nothing inside a step.
 *
 *     mt_executor_new(device, comm, lowered_train, lowered_forward, 300, &ex, &err);
 *     mt_executor_set_state(ex, gvalue, box, &err);            // every state
 *     mt_executor_feed(ex, MT_RUN_TRAIN, tokens, fill, data, &err);
 *     mt_executor_run(ex, MT_RUN_TRAIN, &clock, &err);         // one step; the states are now the next ones
 *     mt_executor_result(ex, MT_RUN_TRAIN, graph->loss_sum, &loss, &err);
 *     mt_executor_free(ex);
 *
 * A device that captures (device.h) is given a program's instructions twice: as they come in its first run, when
 * kernels are compiled and connections made, and in the second to be captured; from then on a run is one launch. What
 * cannot be captured goes on as in the first run, and a warning says why. Runs that are traced are queued as they come
 * as well. Launched runs need not be waited for at once:
 *
 *     while (there are steps) {
 *         mt_executor_feed(...); mt_executor_submit(ex, MT_RUN_TRAIN, &clock, &err);
 *         if (mt_executor_in_flight(ex) < mt_executor_depth(ex)) continue;
 *         mt_executor_finish(ex, &err); mt_executor_result(...);  // of the oldest
 *     }
 *
 * One arena serves both programs: the states, and above them what either needs. The forward program must have been
 * lowered with the training program as options.states. Device, communicator and lowered programs must outlive the
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

/* What this rank holds of a state: its box, and where; null if the programs have no such state. */
const struct mt_tensor *mt_executor_state(const struct mt_executor *executor, int gvalue);
/* Write or read this rank's box of a state: dense, of the value's type. */
enum mt_status mt_executor_set_state(struct mt_executor *executor, int gvalue, const void *box, struct mt_err *err);
enum mt_status mt_executor_get_state(struct mt_executor *executor, int gvalue, void *box, struct mt_err *err);

/* Feed an input for the next run of the program; what is not fed again stays as it was. `fill` writes one sample's row:
 * the whole value but for the batch axis, dense, of the value's type; sample is its global number, or -1 for an input
 * without the batch label, whose whole is asked for. Rows that this rank does not need are not asked for. It is
 * gathered in the host's memory and copied when the run is submitted. */
typedef void mt_fill(void *context, int64_t sample, void *row);
enum mt_status mt_executor_feed(struct mt_executor *executor, enum mt_run run, int gvalue, mt_fill *fill, void *context,
                                struct mt_err *err);

/* Run a program once. An error or a stall names the instruction; after a stall the process cannot go on: threads of
 * the streams may still be in the arena. */
enum mt_status mt_executor_run(struct mt_executor *executor, enum mt_run run, const struct mt_clock *clock,
                               struct mt_err *err);

/* The same in two parts: queue a run; wait for the oldest that is not finished. mt_executor_depth: how many may be
 * under way (mt_device_depth); with one there is nothing to gain by it. States may be read and written when nothing is.
 */
enum mt_status mt_executor_submit(struct mt_executor *executor, enum mt_run run, const struct mt_clock *clock,
                                  struct mt_err *err);
enum mt_status mt_executor_finish(struct mt_executor *executor, struct mt_err *err);
enum { MT_EXECUTOR_DEPTH = 2 }; /* at most */
int mt_executor_in_flight(const struct mt_executor *executor);
int mt_executor_depth(const struct mt_executor *executor);

/* After a run (of the last that was finished: scalars; of others, while none is under way): this rank's box of a value
 * for reports (mt_lowered.output_at), as doubles; MT_EBUG if there is none. Its box is told by mt_executor_output (null
 * if there is none). */
const struct mt_tensor *mt_executor_output(const struct mt_executor *executor, enum mt_run run, int gvalue);
enum mt_status mt_executor_result(struct mt_executor *executor, enum mt_run run, int gvalue, double *data,
                                  struct mt_err *err);

/* Of the last run that was finished, on this rank. A launched run is timed by stretches: what a stream does between two
 * waits for the other, with the gaps between its kernels; a collective counts from the end of its wait for operators.
 * Others are timed by instruction. */
struct mt_run_times {
    double end_s;                 /* when the host saw its end (mt_now_s) */
    double wall_s;                /* to then, from when it was submitted or the run before it ended */
    double stream_s[MT_NSTREAMS]; /* inside operators; inside collectives, waiting for peers included */
    double wait_s;                /* wall_s less what the compute stream worked */
};
struct mt_run_times mt_executor_times(const struct mt_executor *executor);

/* Call `trace` for every instruction that is run, after each iteration and at the end of a run (null: no more). Times
 * are those of mt_now_s. Traced runs are not launched as a whole: they take longer by the gaps between kernels. */
typedef void mt_trace(void *context, const struct mt_lowered *lowered, int instr, int64_t iteration, double start_s,
                      double end_s);
void mt_executor_trace(struct mt_executor *executor, mt_trace *trace, void *context);

/* What the executor is doing right now; any thread may ask. `completed` counts work done on all streams. */
struct mt_executor_progress {
    char text[128]; /* "AllReduce grad.h.3"; "" between runs */
    uint64_t completed;
    bool waits; /* computes nothing, and takes part in a collective */
};
void mt_executor_query(struct mt_executor *executor, struct mt_executor_progress *sight);
double mt_executor_patience_s(const struct mt_executor *executor); /* how long it waits itself for progress */

/* Fill everything but the states with bytes that are NaN in every type. For tests and `motley verify`: a run must not
 * depend on what an earlier one left. Inputs are sent again. */
enum mt_status mt_executor_poison(struct mt_executor *executor, struct mt_err *err);

#endif
