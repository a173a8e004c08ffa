/* A rehearsal: the training program of one rank on made-up data, run as training runs it, for measuring.
 *
 *     struct mt_synthetic r;
 *     if ((st = mt_synthetic_open(device, "gpt2:124m", &job, 8, 4, &r, err))) return st;  // two micro-batches of 4
 *     if (r.lowered->arena_bytes <= room) st = mt_synthetic_start(&r, err);               // takes memory
 *     st = mt_synthetic_step(&r, trace, context, &times, err); ...
 *     mt_synthetic_close(&r); */
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
    struct mt_comm *wire; /* not owned; null: one rank, and a communicator of its own */
    struct mt_comm *comm;
    struct mt_executor *executor; /* null until started */
    int64_t step;                 /* done */
};

struct mt_synthetic_times {
    double feed_s; /* writing the inputs */
    struct mt_run_times run;
};

/* Build and lower the program of `batch` samples a step, at most `micro` at a time. After a failure there is nothing to
 * close. */
enum mt_status mt_synthetic_open(struct mt_device *device, const char *model, const struct mt_job *job, int64_t batch,
                                 int64_t micro, struct mt_synthetic *rehearsal, struct mt_err *err);
/* The same of the job's batch, as one rank of those of `wire`, with even shares; all of them must take their steps
 * together. */
enum mt_status mt_synthetic_open_among(struct mt_device *device, const char *model, const struct mt_job *job,
                                       int64_t micro, struct mt_comm *wire, struct mt_synthetic *rehearsal,
                                       struct mt_err *err);
void mt_synthetic_close(struct mt_synthetic *rehearsal);

/* Take the memory, initialise the states. */
enum mt_status mt_synthetic_start(struct mt_synthetic *rehearsal, struct mt_err *err);

/* One step on random tokens; `trace` (may be null) as in executor.h. Where tracing changes how long a step takes (a
 * device that captures), the step that is traced is another, whose times do not count; of a rehearsal's steps the first
 * two are then the slow ones. */
enum mt_status mt_synthetic_step(struct mt_synthetic *rehearsal, mt_trace *trace, void *context,
                                 struct mt_synthetic_times *times, struct mt_err *err);

/* The shape of an operator of the lowered program. */
struct mt_op_shape mt_synthetic_shape(const struct mt_linstr *instr);

#endif
