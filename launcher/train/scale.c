/* Reading the loss scale, which the program changes, equally on all ranks. */
#include "launcher/train/internal.h"

static enum mt_status read_state(struct trainer *t, int gvalue, double *number, struct mt_err *err) {
    double held = 0; /* room for the value's type */
    enum mt_status st = mt_executor_get_state(t->executor, gvalue, &held, err);
    if (!st) *number = mt_type_load(t->planned.graph->values[gvalue].type, &held, 0);
    return st;
}

static void copy_to_run(struct trainer *t) {
    t->run.loss_scale = t->loss_scale;
    t->run.skipped_steps = (int64_t)t->skipped_steps;
}

enum mt_status mt_trainer_begin_scale(struct trainer *t, struct mt_err *err) {
    const struct mt_graph *g = t->planned.graph;
    if (g->loss_scale < 0) return MT_OK;
    enum mt_status st = read_state(t, g->loss_scale, &t->loss_scale, err);
    if (!st) st = read_state(t, g->skipped_steps, &t->skipped_steps, err);
    copy_to_run(t);
    return st;
}

enum mt_status mt_trainer_follow_scale(struct trainer *t, struct mt_err *err) {
    const struct mt_graph *g = t->planned.graph;
    if (g->loss_scale < 0) return MT_OK;
    double before = t->skipped_steps;
    int scale = g->values[g->loss_scale].next, skipped = g->values[g->skipped_steps].next;
    enum mt_status st = mt_executor_result(t->executor, MT_RUN_TRAIN, scale, &t->loss_scale, err);
    if (!st) st = mt_executor_result(t->executor, MT_RUN_TRAIN, skipped, &t->skipped_steps, err);
    copy_to_run(t);
    if (!st && t->skipped_steps > before)
        mt_progress_say(&t->progress, "step %lld skipped: a gradient overflowed; the loss is now scaled by %.9g",
                        (long long)t->step, t->loss_scale);
    return st;
}

bool mt_trainer_scale_exhausted(const struct trainer *t) {
    return t->loss_scale <= MT_LOSS_SCALE_LEAST;
}
