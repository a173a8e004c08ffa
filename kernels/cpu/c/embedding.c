/* embedding and its gradient; table [V, C]. The table may be a box of the whole one: rows of other ranks count as zero.
 *
 * The gradient adds rows in the order of the ids, since threads divide the columns, not the ids. */
#ifndef T
#include "kernels/cpu/c/internal.h"

enum { COLUMNS = 64 };

#define TYPED_SOURCE "kernels/cpu/c/embedding.c"
#define KINDS(row) row(embedding) row(embedding_grad)
#include "kernels/cpu/c/each_type.h"

#else

static void TYPED(embedding)(const struct mt_call *call) {
    const struct mt_tensor *table = &call->in[0];
    const T *rows = table->data;
    const int32_t *ids = call->in[1].data;
    T *y = call->out[0].data;
    int64_t n = mt_tensor_count(&call->in[1]), C = table->extent[1];
    if (!C) return;
#pragma omp parallel for schedule(static) if (n * C >= WORTH_A_TEAM)
    for (int64_t i = 0; i < n; i++) {
        int64_t row = ids[i] - table->offset[0];
        if (row >= 0 && row < table->extent[0])
            memcpy(y + i * C, rows + row * C, (size_t)C * sizeof(T));
        else
            memset(y + i * C, 0, (size_t)C * sizeof(T));
    }
}

MT_CLONES static void TYPED(add_row)(int64_t n, const T *restrict dout, A *restrict to) {
    for (int64_t i = 0; i < n; i++) to[i] += LOAD(dout[i]);
}

static void TYPED(embedding_grad)(const struct mt_call *call) {
    const struct mt_tensor *out = &call->out[0];
    const T *dout = call->in[0].data;
    const int32_t *ids = call->in[1].data;
    A *table = out->data;
    int64_t n = mt_tensor_count(&call->in[1]), V = out->extent[0], C = out->extent[1], size = V * C;
    if (!call->attr->accumulate) {
#pragma omp parallel for schedule(static) if (size >= WORTH_A_TEAM)
        for (int64_t at = 0; at < size; at += BLOCK) memset(table + at, 0, (size_t)least(BLOCK, size - at) * sizeof(A));
    }
#pragma omp parallel for schedule(static) if (n * C >= WORTH_A_TEAM)
    for (int64_t at = 0; at < C; at += COLUMNS)
        for (int64_t i = 0; i < n; i++) {
            int64_t row = ids[i] - out->offset[0];
            if (row >= 0 && row < V) TYPED(add_row)(least(COLUMNS, C - at), dout + i * C + at, table + row * C + at);
        }
}
#endif
