/* Poisoning an executor's temporaries between runs. */
#ifndef MT_TESTS_LAUNCHER_EXECUTE_POISON_H
#define MT_TESTS_LAUNCHER_EXECUTE_POISON_H

#include <string.h>

#include "launcher/execute/internal.h"

/* Fill everything but the states with bytes that are NaN in every type: a run must not depend on what an earlier one
 * left. Inputs are copied again. */
static inline enum mt_status poison(struct mt_executor *ex, struct mt_err *err) {
    char bytes[4096];
    memset(bytes, 0xff, sizeof bytes);
    ex->loaded = MT_NRUNS;
    return mt_device_repeat(ex->device, ex->arena + ex->state_bytes, ex->arena_bytes - ex->state_bytes, bytes,
                            sizeof bytes, err);
}

#endif
