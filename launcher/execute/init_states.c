/* Initial states. */
#include <stdlib.h>

#include "launcher/execute/executor.h"
#include "synth/interp/init.h"

enum mt_status mt_executor_init_states(struct mt_executor *ex, const struct mt_graph *g, uint64_t seed,
                                       struct mt_err *err) {
    enum mt_status st = MT_OK;
    for (int v = 0; v < g->nvalues && !st; v++) {
        const struct mt_tensor *held = mt_executor_state(ex, v);
        if (!held || !mt_tensor_count(held)) continue;
        struct mt_box box = {{0}, {0}};
        for (int a = 0; a < held->naxes; a++)
            box.lo[a] = held->offset[a], box.hi[a] = held->offset[a] + held->extent[a];
        void *numbers = mt_malloc((size_t)mt_tensor_bytes(held));
        mt_init_fill(g, v, &box, seed, numbers);
        st = mt_executor_set_state(ex, v, numbers, err);
        free(numbers);
    }
    return st;
}
