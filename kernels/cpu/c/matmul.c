/* matmul, and fused_matmul with its epilogues: bias and activation, an activation's derivative, column sums.
 *
 * Threads take tiles of y. A tile is accumulated over blocks of k, in order, in a buffer of type A that stays in the
 * thread's cache, and stored through the epilogue: bias, activation, derivative, old content, rounding. */
#ifndef T
#include <omp.h>

#include "kernels/cpu/c/internal.h"

enum { TILE_M = 192, TILE_N = 256, BLOCK_K = 256, STRIP = 64 };

struct shape {
    int64_t m, n, k;
    int64_t a[2], b[2]; /* strides of a[m,k] and b[k,n] */
};

static void shape_of(const struct mt_call *call, struct shape *s) {
    const struct mt_attr *t = call->attr;
    const struct mt_tensor *a = &call->in[0], *y = &call->out[0];
    s->m = s->n = s->k = 1;
    for (int i = 0; i < t->nm; i++) s->m *= y->extent[i];
    for (int i = 0; i < t->nn; i++) s->n *= y->extent[t->nm + i];
    for (int i = 0; i < t->nk; i++) s->k *= a->extent[(t->trans_a ? 0 : t->nm) + i];
    s->a[0] = t->trans_a ? 1 : s->k, s->a[1] = t->trans_a ? s->m : 1;
    s->b[0] = t->trans_b ? 1 : s->n, s->b[1] = t->trans_b ? s->k : 1;
}

#define TYPED_SOURCE "kernels/cpu/c/matmul.c"
#include "kernels/cpu/c/each_type.h"

static int64_t thread_bytes(const struct mt_call *call) {
    return mt_c_type(call) == MT_F64 ? workspace_f64(call, NULL, NULL) : workspace_f32(call, NULL, NULL);
}
C_OP_WITH(matmul, NULL, thread_bytes);
C_OP_WITH(fused_matmul, NULL, thread_bytes);

#else
#include "kernels/cpu/c/gemm.h"

/* A thread's memory: a block of a, a packed block of b, a tile of y. */
struct TYPED(workspace) {
    A *a, *b, *y;
    int64_t width; /* of the tile's rows */
};

/* Lay the workspace out from `memory` on; returns its bytes. */
static int64_t TYPED(workspace)(const struct mt_call *call, char *memory, struct TYPED(workspace) * w) {
    struct shape s;
    shape_of(call, &s);
    int64_t m = round_up(least(s.m, TILE_M), MR), n = round_up(least(s.n, TILE_N), NR), k = least(s.k, BLOCK_K);
    int64_t a_bytes = lines(m * k, sizeof(A)), b_bytes = lines(k * n, sizeof(A)), y_bytes = lines(m * n, sizeof(A));
    if (w)
        *w = (struct TYPED(workspace)){(A *)(void *)memory, (A *)(void *)(memory + a_bytes),
                                       (A *)(void *)(memory + a_bytes + b_bytes), n};
    return a_bytes + b_bytes + y_bytes;
}

MT_CLONES static void TYPED(store_row)(int64_t n, const A *sum, const T *old, T *y) {
    if (old) {
#pragma omp simd
        for (int64_t j = 0; j < n; j++) y[j] = STORE(sum[j] + LOAD(old[j]));
    } else {
#pragma omp simd
        for (int64_t j = 0; j < n; j++) y[j] = STORE(sum[j]);
    }
}

MT_CLONES static void TYPED(store_row_acc)(int64_t n, const A *sum, bool add, A *y) {
    for (int64_t j = 0; j < n; j++) y[j] = (add ? y[j] : 0) + sum[j];
}

MT_CLONES static void TYPED(add_bias)(int64_t n, const T *restrict bias, A *restrict sum) {
    for (int64_t j = 0; j < n; j++) sum[j] += LOAD(bias[j]);
}

MT_CLONES static void TYPED(epilogue_row)(int64_t n, enum mt_op_kind kind, A *pre) {
    if (kind == MT_OP_relu) {
#pragma omp simd
        for (int64_t j = 0; j < n; j++) pre[j] = pre[j] < 0 ? 0 : pre[j];
    } else if (kind == MT_OP_gelu) {
#pragma omp simd
        for (int64_t j = 0; j < n; j++) pre[j] = pre[j] / (1 + EXP(-GELU_TWICE_U(A, pre[j])));
    }
}

MT_CLONES static void TYPED(slope_row)(int64_t n, enum mt_op_kind kind, const T *restrict x, A *restrict sum) {
    if (kind == MT_OP_relu_grad) {
#pragma omp simd
        for (int64_t j = 0; j < n; j++) sum[j] = LOAD(x[j]) > 0 ? sum[j] : 0;
    } else {
#pragma omp simd
        for (int64_t j = 0; j < n; j++) {
            A v = LOAD(x[j]), s = 1 / (1 + EXP(-GELU_TWICE_U(A, v)));
            sum[j] *= s + v * s * (1 - s) * GELU_TWICE_U_SLOPE(A, v);
        }
    }
}

/* Apply the epilogue to `n` sums of a row, from column `column` on; their first element is y[to]. */
static void TYPED(epilogue)(const struct mt_call *call, int64_t column, int64_t to, int64_t n, A *sum) {
    enum mt_op_kind kind = call->attr->epilogue;
    if (kind == MT_OP_sum) return;
    if (kind == MT_OP_gelu_grad || kind == MT_OP_relu_grad) {
        TYPED(slope_row)(n, kind, (const T *)call->in[2].data + to, sum);
        return;
    }
    TYPED(add_bias)(n, (const T *)call->in[2].data + column, sum);
    if (call->nout > 1) TYPED(store_row)(n, sum, NULL, (T *)call->out[1].data + to);
    TYPED(epilogue_row)(n, kind, sum);
}

/* Store a finished tile of size[0] by size[1] at (at[0], at[1]) of y. */
static void TYPED(store_tile)(const struct mt_call *call, const struct shape *s, const struct TYPED(workspace) * w,
                              const int64_t at[2], const int64_t size[2]) {
    const struct mt_attr *t = call->attr;
    for (int64_t i = 0; i < size[0]; i++) {
        A *sum = w->y + i * w->width;
        int64_t to = (at[0] + i) * s->n + at[1];
        if (call->kind == MT_OP_fused_matmul) TYPED(epilogue)(call, at[1], to, size[1], sum);
        if (t->out_acc) {
            TYPED(store_row_acc)(size[1], sum, t->accumulate, (A *)call->out[0].data + to);
        } else {
            T *y = (T *)call->out[0].data + to;
            TYPED(store_row)(size[1], sum, t->accumulate ? y : NULL, y);
        }
    }
}

/* Round f32 operands to tf32, to nearest, ties to even; other types are unchanged. */
static void TYPED(to_tf32)(int64_t n, A *x) {
    if (sizeof(T) != sizeof(float)) return;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        if ((bits & 0x7f800000u) != 0x7f800000u) bits = (bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu;
        memcpy(&x[i], &bits, sizeof bits);
    }
}

static void TYPED(tile)(const struct mt_call *call, const struct shape *s, const struct TYPED(workspace) * w,
                        const int64_t at[2]) {
    const T *a = (const T *)call->in[0].data + at[0] * s->a[0], *b = (const T *)call->in[1].data + at[1] * s->b[1];
    const int64_t size[2] = {least(TILE_M, s->m - at[0]), least(TILE_N, s->n - at[1])};
    memset(w->y, 0, (size_t)(round_up(size[0], MR) * w->width) * sizeof(A));
    bool across = s->a[0] == 1; /* a is stored [k, m], and so is its block */
    int64_t width = across ? round_up(size[0], MR) : least(BLOCK_K, s->k);
    for (int64_t k = 0; k < s->k; k += BLOCK_K) {
        int64_t depth = least(BLOCK_K, s->k - k);
        if (across)
            TYPED(load_block)(a + k * s->a[1], s->a[1], depth, size[0], w->a, width);
        else
            TYPED(load_block)(a + k, s->a[0], size[0], depth, w->a, width);
        TYPED(pack)(b + k * s->b[0], s->b, depth, size[1], w->b);
        if (call->attr->tf32) {
            TYPED(to_tf32)((across ? depth : size[0]) * width, w->a);
            TYPED(to_tf32)(depth * round_up(size[1], NR), w->b);
        }
        TYPED(multiply)
        (&(struct TYPED(gemm)){.m = size[0],
                               .n = size[1],
                               .k = depth,
                               .a = w->a,
                               .a_row = across ? 1 : width,
                               .a_column = across ? width : 1,
                               .b = w->b,
                               .b_depth = depth,
                               .c = w->y,
                               .c_row = w->width});
    }
    TYPED(store_tile)(call, s, w, at, size);
}

static void TYPED(matmul)(const struct mt_call *call) {
    struct shape s;
    shape_of(call, &s);
    int64_t rows = (s.m + TILE_M - 1) / TILE_M, columns = (s.n + TILE_N - 1) / TILE_N;
    int64_t size_bytes = TYPED(workspace)(call, NULL, NULL);
#pragma omp parallel if (s.m * s.n * s.k >= WORTH_A_TEAM && rows * columns > 1)
    {
        struct TYPED(workspace) w;
        TYPED(workspace)(call, (char *)call->scratch + omp_get_thread_num() * size_bytes, &w);
#pragma omp for collapse(2) schedule(dynamic)
        for (int64_t j = 0; j < columns; j++)
            for (int64_t i = 0; i < rows; i++) TYPED(tile)(call, &s, &w, (int64_t[2]){i * TILE_M, j * TILE_N});
    }
}

/* to[n] = (add ? to[n] : 0) + sum over k of b[k, n], by blocks of k in order; n <= STRIP. */
MT_CLONES static void TYPED(sum_columns)(const T *b, const int64_t stride[2], int64_t k, int64_t n, bool add, A *to) {
    for (int64_t j = 0; j < n; j++) to[j] = add ? to[j] : 0;
    for (int64_t from = 0; from < k; from += BLOCK_K) {
        A part[STRIP] = {0};
        for (int64_t i = from; i < least(from + BLOCK_K, k); i++)
            for (int64_t j = 0; j < n; j++) part[j] += LOAD(b[i * stride[0] + j * stride[1]]);
        for (int64_t j = 0; j < n; j++) to[j] += part[j];
    }
}

static void TYPED(fused_matmul)(const struct mt_call *call) {
    struct shape s;
    TYPED(matmul)(call);
    if (call->attr->epilogue != MT_OP_sum) return;
    shape_of(call, &s);
#pragma omp parallel for if (s.n * s.k >= WORTH_A_TEAM && s.n > STRIP)
    for (int64_t j = 0; j < s.n; j += STRIP) TYPED(sum_columns)
    ((const T *)call->in[1].data + j * s.b[1], s.b, s.k, least(STRIP, s.n - j), call->attr->accumulate,
     (A *)call->out[1].data + j);
}
#endif
