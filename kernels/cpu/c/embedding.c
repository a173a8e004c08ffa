/* embedding and its gradient. The table may be a box of the whole one: rows that other ranks have count as zero.
 *
 * The gradient adds rows in the order of the ids: threads share the columns, not the ids. */
#ifndef T
#include "kernels/cpu/c/internal.h"

enum { COLUMNS = 64 };

#define TYPED_SOURCE "kernels/cpu/c/embedding.c"
#include "kernels/cpu/c/each_type.h"
C_OP(embedding, NULL, NULL);
C_OP(embedding_grad, NULL, NULL);

#else

static void TYPED(embedding)(const struct mt_call *call) {
    const struct mt_tensor *table = &call->in[0];
    const T *rows = table->data;
    const int32_t *ids = call->in[1].data;
    T *y = call->out[0].data;
    int64_t n = mt_tensor_count(&call->in[1]), e = table->extent[1];
    if (!e) return;
#pragma omp parallel for schedule(static) if (n * e >= WORTH_A_TEAM)
    for (int64_t i = 0; i < n; i++) {
        int64_t row = ids[i] - table->offset[0];
        if (row >= 0 && row < table->extent[0])
            memcpy(y + i * e, rows + row * e, (size_t)e * sizeof(T));
        else
            memset(y + i * e, 0, (size_t)e * sizeof(T));
    }
}

MT_CLONES static void TYPED(add_row)(int64_t n, const T *restrict dy, A *restrict to) {
    for (int64_t i = 0; i < n; i++) to[i] += LOAD(dy[i]);
}

static void TYPED(embedding_grad)(const struct mt_call *call) {
    const struct mt_tensor *out = &call->out[0];
    const T *dy = call->in[0].data;
    const int32_t *ids = call->in[1].data;
    A *table = out->data;
    int64_t n = mt_tensor_count(&call->in[1]), v = out->extent[0], e = out->extent[1], size = v * e;
    if (!call->attr->accumulate) {
#pragma omp parallel for schedule(static) if (size >= WORTH_A_TEAM)
        for (int64_t at = 0; at < size; at += BLOCK) memset(table + at, 0, (size_t)least(BLOCK, size - at) * sizeof(A));
    }
#pragma omp parallel for schedule(static) if (n * e >= WORTH_A_TEAM)
    for (int64_t at = 0; at < e; at += COLUMNS)
        for (int64_t i = 0; i < n; i++) {
            int64_t row = ids[i] - out->offset[0];
            if (row >= 0 && row < v) TYPED(add_row)(least(COLUMNS, e - at), dy + i * e + at, table + row * e + at);
        }
}
#endif
