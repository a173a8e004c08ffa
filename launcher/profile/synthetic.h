/* A synthetic run: the training program of one rank on synthetic data, run as in training, for measuring.
 *
 *     struct mt_synthetic run;
 *     if ((st = mt_synthetic_open(device, "gpt2:124m", &job, 8, 4, &run, err))) return st;  // two micro-batches of 4
 *     if (run.lowered->arena_bytes <= room) st = mt_synthetic_start(&run, err);               // allocates
 *     st = mt_synthetic_step(&run, trace, context, &times, err); ...
 *     mt_synthetic_close(&run); */
#ifndef MT_LAUNCHER_PROFILE_SYNTHETIC_H
#define MT_LAUNCHER_PROFILE_SYNTHETIC_H

#include "launcher/execute/executor.h"
#include "planner/plan/planned.h"
#include "profiler/cluster/shape.h"

struct mt_synthetic {
    struct mt_device *device; /* not owned */
    struct mt_planned planned;
    struct mt_job job; /* with that batch */
    struct mt_lowered *lowered;
    struct mt_comm *wire; /* not owned; null: one rank, with a communicator of its own */
    struct mt_comm *comm;
    struct mt_executor *executor; /* null until started */
    int64_t step;                 /* done */
};

struct mt_synthetic_times {
    double feed_s; /* writing the inputs */
    struct mt_run_times run;
};

/* Build and lower the program for `batch` samples per step, in micro-batches of at most `micro`. After a failure there
 * is nothing to close. */
enum mt_status mt_synthetic_open(struct mt_device *device, const char *model, const struct mt_job *job, int64_t batch,
                                 int64_t micro, struct mt_synthetic *run, struct mt_err *err);
/* The same for the job's batch, as one rank of `wire`, with even shares; all its ranks must take steps together. */
enum mt_status mt_synthetic_open_among(struct mt_device *device, const char *model, const struct mt_job *job,
                                       int64_t micro, struct mt_comm *wire, struct mt_synthetic *run,
                                       struct mt_err *err);
void mt_synthetic_close(struct mt_synthetic *run);

/* Allocate the memory and initialise the states. */
enum mt_status mt_synthetic_start(struct mt_synthetic *run, struct mt_err *err);

/* One step on random tokens; `trace` (may be null) as in executor.h. On a device that captures, where tracing makes
 * steps slower, a second step is run and traced, whose times do not count; the first two steps of a run are slow there.
 */
enum mt_status mt_synthetic_step(struct mt_synthetic *run, mt_trace *trace, void *context,
                                 struct mt_synthetic_times *times, struct mt_err *err);

/* Random tokens for the next step: the same each time. */
enum mt_status mt_synthetic_feed(struct mt_executor *executor, const struct mt_graph *graph, int64_t vocab,
                                 const struct mt_job *job, struct mt_err *err);

/* The shape of an operator of the lowered program. */
struct mt_op_shape mt_synthetic_shape(const struct mt_linstr *instr);

#endif
