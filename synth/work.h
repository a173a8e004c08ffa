/* The work of a job on one rank as a function of its shares, without building the program of all ranks: what balance
 * and search are fed with.
 *
 * For a number of samples, the operators of a one-rank program of that batch, fused as training fuses them, as shapes
 * with counts (identical layers are counted, not listed); for a share of optimizer state, the updates. Memory
 * likewise. */
#ifndef MT_SYNTH_WORK_H
#define MT_SYNTH_WORK_H

#include "profiler/shape.h"
#include "synth/graph.h"
#include "synth/lower.h"

struct mt_work_item {
    struct mt_op_shape shape;
    int64_t count;
    enum mt_op_role role;
};
struct mt_work {
    int nitems;
    struct mt_work_item *items; /* in the arena that was given */
    int64_t arena_bytes, state_bytes;
};

struct mt_job;
struct mt_model;
/* The work of `batch` samples a step in micro-batches of `micro`. */
enum mt_status mt_work_of(const struct mt_model *model, const struct mt_job *job, int64_t batch, int64_t micro,
                          const struct mt_lower_options *options, struct mt_arena *arena, struct mt_work *work,
                          struct mt_err *err);

#endif
