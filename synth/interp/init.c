/* Initial values: element by element from the counter-based generator. */
#include "synth/interp/init.h"

#include <string.h>

#include "kernels/base/number/hash.h"
#include "kernels/base/number/rng.h"

static double initial(const struct mt_value *value, uint64_t seed, uint64_t stream, int64_t index) {
    switch (value->init) {
    case MT_INIT_ONE: return 1;
    case MT_INIT_NORMAL: return value->init_std * mt_random_normal(seed, stream, (uint64_t)index);
    case MT_INIT_CONSTANT: return value->init_std;
    case MT_INIT_ZERO: break;
    }
    return 0;
}

void mt_init_fill(const struct mt_graph *graph, int value, const struct mt_box *box, uint64_t seed, void *buffer) {
    const struct mt_value *v = &graph->values[value];
    uint64_t stream = mt_hash64(v->name, strlen(v->name), 0);
    int64_t count = mt_box_count(box, v->naxes), last = v->naxes - 1;
    if (!count) return;
    int64_t length = v->naxes ? box->hi[last] - box->lo[last] : 1;
#pragma omp parallel for schedule(static) if (count > 4096)
    for (int64_t row = 0; row < count / length; row++) {
        int64_t rest = row, index = v->naxes ? box->lo[last] : 0,
                stride = v->naxes ? mt_value_extent(graph, value, (int)last) : 1;
        for (int a = (int)last - 1; a >= 0; a--) {
            int64_t extent = box->hi[a] - box->lo[a];
            index += (box->lo[a] + rest % extent) * stride;
            rest /= extent;
            stride *= mt_value_extent(graph, value, a);
        }
        for (int64_t i = 0; i < length; i++)
            mt_type_store(v->type, buffer, row * length + i, initial(v, seed, stream, index + i));
    }
}
