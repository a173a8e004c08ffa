/* add, fill, cast and dropout.
 *
 * add, fill and cast are exact: one operation for each element, rounded once. */
#ifndef T
#include "kernels/cpu/c/internal.h"

/* Copies of a line of equal values. */
static void fill(const struct mt_call *call) {
    const struct mt_tensor *y = &call->out[0];
    enum { LINE = 512 };
    int64_t n = mt_tensor_count(y), size_bytes = mt_type_size(y->type), total_bytes = n * size_bytes;
    char line[LINE];
    for (int64_t i = 0; i < LINE / size_bytes; i++) mt_type_store(y->type, line, i, call->attr->value);
#pragma omp parallel for schedule(static) if (n >= WORTH_A_TEAM)
    for (int64_t at = 0; at < total_bytes; at += LINE)
        memcpy((char *)y->data + at, line, (size_t)least(LINE, total_bytes - at));
}

static void cast(const struct mt_call *call) {
    const struct mt_tensor *x = &call->in[0], *y = &call->out[0];
    int64_t n = mt_tensor_count(y), x_bytes = mt_type_size(x->type), y_bytes = mt_type_size(y->type);
#pragma omp parallel for schedule(static) if (n >= WORTH_A_TEAM)
    for (int64_t at = 0; at < n; at += BLOCK) {
        const void *from = (const char *)x->data + at * x_bytes;
        void *to = (char *)y->data + at * y_bytes;
        mt_type_convert(y->type, to, x->type, from, least(BLOCK, n - at));
    }
}

const struct mt_c_op mt_c_fill = {{fill, fill, fill, fill}, NULL, NULL};
const struct mt_c_op mt_c_cast = {{cast, cast, cast, cast}, NULL, NULL};

#define TYPED_SOURCE "kernels/cpu/c/elementwise.c"
#define KINDS(row) row(add) row(dropout)
#include "kernels/cpu/c/each_type.h"

#else

MT_CLONES static void TYPED(add_rows)(int64_t n, const T *a, const T *b, T *y) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = STORE(LOAD(a[i]) + LOAD(b[i]));
}
MT_CLONES static void TYPED(add_one)(int64_t n, const T *a, A b, T *y) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = STORE(LOAD(a[i]) + b);
}

/* A row is the last group of axes, which b either has too, or lacks. */
static void TYPED(add)(const struct mt_call *call) {
    const T *a = call->in[0].data, *b = call->in[1].data;
    T *y = call->out[0].data;
    int64_t n = mt_tensor_count(&call->out[0]);
    struct groups g;
    mt_c_groups(&call->in[0], call->attr->axes, &g);
    bool together = !g.n || g.in[g.n - 1];
    int64_t row = g.n ? g.extent[g.n - 1] : 1;
    int64_t block = least(row, BLOCK), per_row = row ? (row + block - 1) / block : 0, rows = row ? n / row : 0;
#pragma omp parallel for collapse(2) schedule(static) if (n >= WORTH_A_TEAM)
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < per_row; k++) {
            int64_t at = k * block, count = least(block, row - at), i = r * row + at;
            const T *from = b + mt_c_outer_step(&g, r);
            if (together)
                TYPED(add_rows)(count, a + i, from + at, y + i);
            else
                TYPED(add_one)(count, a + i, LOAD(*from), y + i);
        }
}

MT_CLONES static void TYPED(drop)(int64_t n, const uint32_t *random, uint32_t threshold, A factor, const T *x, T *y) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        A kept = LOAD(x[i]) * factor;
        y[i] = STORE(random[i] < threshold ? 0 : kept);
    }
}

/* A run is contiguous both in the box and in the whole value, so its global indices are consecutive. */
static void TYPED(dropout)(const struct mt_call *call) {
    const struct mt_tensor *x = &call->in[0];
    const T *from = x->data;
    T *to = call->out[0].data;
    int64_t n = mt_tensor_count(x), run = 1;
    if (!n) return;
    for (int a = x->naxes - 1; a >= 0; a--) {
        run *= x->extent[a];
        if (x->extent[a] != x->global[a]) break;
    }
    uint32_t threshold = mt_drop_threshold(call->attr->p);
    uint64_t seed = call->attr->p > 0 ? call->clock->seed : 0;
    uint64_t stream = call->attr->p > 0 ? mt_drop_stream(call->attr, call->clock) : 0;
    A factor = (A)(1 / (1 - call->attr->p));
    enum { WORDS = 2048 };
    int64_t block = least(run, WORDS), per_run = (run + block - 1) / block, runs = n / run;
#pragma omp parallel for collapse(2) schedule(static) if (n >= WORTH_A_TEAM / 4)
    for (int64_t r = 0; r < runs; r++)
        for (int64_t k = 0; k < per_run; k++) {
            uint32_t buffer[WORDS + 8];
            int64_t at = k * block, count = least(block, run - at), i = r * run + at;
            uint64_t first = mt_c_global_index(x, i);
            TYPED(drop)(count, mt_c_random(seed, stream, first, count, buffer), threshold, factor, from + i, to + i);
        }
}
#endif
