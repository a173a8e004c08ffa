/* Poisoning an executor's temporaries between runs. */
#ifndef MT_TESTS_LAUNCHER_EXECUTE_POISON_H
#define MT_TESTS_LAUNCHER_EXECUTE_POISON_H

#include <stdlib.h>
#include <string.h>

#include "launcher/execute/internal.h"

/* Read what the training program keeps from step to step into `kept` ([instructions]), or write it back and free it. */
static inline enum mt_status move_kept(struct mt_executor *ex, void **kept, bool back, struct mt_err *err) {
    const struct replay *run = &ex->runs[MT_RUN_TRAIN];
    enum mt_status st = MT_OK;
    for (int i = 0; i < run->low->ninstrs && !st; i++) {
        const struct mt_linstr *c = &run->low->instrs[i];
        if (!c->kept) continue;
        const struct mt_tensor *t = &run->values[c->out[0]];
        if (!back) kept[i] = malloc((size_t)mt_tensor_bytes(t) + 1);
        if (mt_tensor_bytes(t))
            st = back ? mt_device_copy_in(ex->device, t->data, kept[i], mt_tensor_bytes(t), err)
                      : mt_device_copy_out(ex->device, kept[i], t->data, mt_tensor_bytes(t), err);
        if (back) free(kept[i]);
    }
    return st;
}

/* Fill everything but the states, and what the next step may expect to be kept, with bytes that are NaN in every type:
 * a run must not depend on what an earlier one left. Inputs are copied again. */
static inline enum mt_status poison(struct mt_executor *ex, struct mt_err *err) {
    char bytes[4096];
    const bool keeps = ex->kept;
    void **kept = keeps ? calloc((size_t)ex->runs[MT_RUN_TRAIN].low->ninstrs + 1, sizeof *kept) : NULL;
    memset(bytes, 0xff, sizeof bytes);
    ex->loaded = MT_NRUNS;
    enum mt_status st = keeps ? move_kept(ex, kept, false, err) : MT_OK;
    if (!st)
        st = mt_device_repeat(ex->device, ex->arena + ex->state_bytes, ex->arena_bytes - ex->state_bytes, bytes,
                              sizeof bytes, err);
    if (!st && keeps) st = move_kept(ex, kept, true, err);
    free(kept);
    return st;
}

#endif
