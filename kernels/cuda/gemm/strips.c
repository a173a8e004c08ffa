/* GEMMs with rows in memory whose extent E is not a multiple of 16 bytes, such as a vocabulary of 50257: cuBLASLt has
 * only algorithms for them that are 5 times as slow. Copying into padded rows would take a quarter more time.
 *
 * The rows are divided into G strips, G the elements in 16 bytes. Strip r has rows r, r + G, r + 2 G, ...: their
 * distance is G E elements, a multiple of 16 bytes for every E. It begins at column r d, d = -E mod G, so that its
 * first element is at offset r (E + d), which is aligned as well. All strips have the same width W, a multiple of G. So
 * they are one batched GEMM where each has its own rows of y, and G GEMMs in turn where they add to the same y. The
 * columns left over, at most (G - 1) G at the left and as many at the right, are gathered into (or scattered from) a
 * matrix of 64 + 64 columns, with a GEMM of its own: a percent of the work.
 *
 *   the odd extent is    strips are rows of   left over
 *   n: y[m, n]           y and a              columns of y: computed on their own, then scattered
 *   k: a[m, k]           y and a              terms of y: gathered from a, and computed first
 *   m: a stored [k, m]   a and b              rows of y: gathered from a, and computed last */
#include "kernels/cuda/gemm/gemm.h"

#include <stdio.h>

#include "kernels/cuda/jit/shape.h"

enum { SIDE = 64, EDGE = 2 * SIDE };

enum which { NOT_ODD, ODD_N, ODD_K, ODD_M };

struct strips {
    enum which which;
    int g;
    int64_t shift, width;        /* d, W */
    int64_t extent, rows, other; /* E, the number of rows, and the third extent */
};

static bool odd(int64_t extent, enum mt_type type) {
    return extent * mt_type_size(type) % 16 != 0;
}

static enum which which_of(const struct gemm_shape *s) {
    bool n = odd(s->n, s->in) || odd(s->n, s->out), k = odd(s->k, s->in), m = odd(s->m, s->in);
    if (n && !k && !s->trans_a && s->trans_b && s->in == s->out && !s->accumulate) return ODD_N;
    if (k && !n && !s->trans_a && !s->trans_b) return ODD_K;
    if (m && !n && s->trans_a && !s->trans_b && s->out == MT_F32) return ODD_M;
    return NOT_ODD;
}

static struct strips strips_of(const struct gemm_shape *s) {
    struct strips t = {.which = which_of(s), .g = (int)(16 / mt_type_size(s->in))};
    t.extent = t.which == ODD_N ? s->n : t.which == ODD_K ? s->k : s->m;
    t.rows = t.which == ODD_M ? s->k : s->m;
    t.other = t.which == ODD_N ? s->k : s->n;
    t.shift = (t.g - t.extent % t.g) % t.g;
    t.width = (t.extent - (t.g - 1) * t.shift) / t.g * t.g;
    return t;
}

/* Where it pays. GEMMs in full f32 are as fast with unaligned rows. */
bool gemm_strips_possible(const struct gemm_shape *s) {
    enum { LEAST = 512 };
    const struct strips t = strips_of(s);
    bool slow = s->in != MT_F32 || s->tf32;
    return t.which && slow && s->align >= 16 && t.rows % t.g == 0 && t.extent >= LEAST && t.rows >= LEAST;
}

struct gemm_view gemm_strips_view(const struct gemm_shape *s) {
    const struct strips t = strips_of(s);
    int64_t first = t.extent + t.shift;
    struct gemm_view v = {.m = s->m / t.g, .n = s->n, .k = s->k, .batches = t.g, .beta = 1};
    switch (t.which) {
    case ODD_N:
        v.n = t.width, v.beta = 0;
        v.lda = t.g * s->k, v.ldb = s->k, v.ldy = t.g * s->n;
        v.step_a = s->k, v.step_b = t.shift * s->k, v.step_y = first;
        break;
    case ODD_K:
        v.k = t.width;
        v.lda = t.g * s->k, v.ldb = s->n, v.ldy = t.g * s->n;
        v.step_a = first, v.step_b = t.shift * s->n, v.step_y = s->n;
        break;
    default: /* ODD_M: steps from one GEMM to the next */
        v.m = t.width, v.k = s->k / t.g, v.batches = 1;
        v.lda = t.g * s->m, v.ldb = t.g * s->n, v.ldy = s->n;
        v.step_a = first, v.step_b = s->n, v.step_y = t.shift * s->n;
    }
    return v;
}

/* ---- what is left over ---- */

static int64_t edge_bytes(const struct gemm_shape *s, const struct strips *t) {
    return divide_up(t->rows * EDGE * mt_type_size(s->in), GEMM_ALIGN) * GEMM_ALIGN;
}

int64_t gemm_strips_bytes(const struct gemm_shape *s) {
    const struct strips t = strips_of(s);
    return edge_bytes(s, &t) + EDGE * t.other * mt_type_size(s->in);
}

/* The matrix of columns left over, and the rows of b for it. */
struct edges {
    void *edge, *b;
};

static struct edges edges_of(const struct gemm_shape *s, const struct strips *t, const struct gemm_data *data) {
    char *at = (char *)data->scratch + GEMM_WORKSPACE_BYTES;
    return (struct edges){at, at + edge_bytes(s, t)};
}

static enum mt_status move_edges(const struct cuda_queue *queue, const struct gemm_shape *s, const struct strips *t,
                                 const char *name, const void *from, void *to, struct mt_err *err) {
    enum { BLOCKS = 8192 };
    char definitions[64];
    CUfunction kernel;
    int64_t rows = t->rows, width = t->extent, shift = t->shift, window = t->width;
    snprintf(definitions, sizeof definitions, "-DTYPE=%s -DSTRIPS=%d", cuda_type(s->in), t->g);
    enum mt_status st = cuda_kernel(queue->cuda, "matmul_epilogue", definitions, name, 0, &kernel, err);
    return st ? st
              : cuda_launch(queue, kernel, least(rows, BLOCKS), EDGE, 0,
                            (void *[]){&from, &to, &rows, &width, &shift, &window}, err);
}

static enum mt_status copy_sides(const struct cuda_queue *queue, const struct gemm_shape *s, const struct strips *t,
                                 const void *b, void *to, struct mt_err *err) {
    size_t side = (size_t)(SIDE * t->other * mt_type_size(s->in));
    size_t last = (size_t)((t->extent - SIDE) * t->other * mt_type_size(s->in));
    CUDA_TRY(cuMemcpyDtoDAsync((CUdeviceptr)to, (CUdeviceptr)b, side, queue->stream), err, "copying rows");
    CUDA_TRY(cuMemcpyDtoDAsync((CUdeviceptr)to + side, (CUdeviceptr)b + last, side, queue->stream), err,
             "copying rows");
    return MT_OK;
}

static const void *after(const void *at, int64_t elements, enum mt_type type) {
    return (const char *)at + elements * mt_type_size(type);
}

/* ---- n, k or m is odd ---- */

static enum mt_status run_odd_n(const struct cuda_queue *queue, const struct gemm_shape *s, const struct strips *t,
                                const struct gemm_choice *choice, const struct gemm_data *data, struct mt_err *err) {
    const struct edges e = edges_of(s, t, data);
    const struct gemm_view main = gemm_strips_view(s);
    const struct gemm_view edge_view = {
        .m = s->m, .n = EDGE, .k = s->k, .lda = s->k, .ldb = s->k, .ldy = EDGE, .batches = 1};
    struct gemm_data d = *data;
    enum mt_status st = copy_sides(queue, s, t, data->b, e.b, err);
    d.b = e.b, d.y = e.edge;
    if (!st) st = gemm_multiply(queue, s, GEMM_STRIPS, &edge_view, NULL, &d, err);
    if (!st) st = gemm_multiply(queue, s, GEMM_STRIPS, &main, &choice->algo, data, err);
    return st ? st : move_edges(queue, s, t, "scatter_edges", e.edge, data->y, err);
}

static enum mt_status run_odd_k(const struct cuda_queue *queue, const struct gemm_shape *s, const struct strips *t,
                                const struct gemm_choice *choice, const struct gemm_data *data, struct mt_err *err) {
    const struct edges e = edges_of(s, t, data);
    const struct gemm_view main = gemm_strips_view(s);
    const struct gemm_view edge_view = {
        .m = s->m, .n = s->n, .k = EDGE, .lda = EDGE, .ldb = s->n, .ldy = s->n, .batches = 1, .beta = s->accumulate};
    struct gemm_data d = *data;
    d.a = e.edge, d.b = e.b;
    enum mt_status st = copy_sides(queue, s, t, data->b, e.b, err);
    if (!st) st = move_edges(queue, s, t, "gather_edges", data->a, e.edge, err);
    if (!st) st = gemm_multiply(queue, s, GEMM_STRIPS, &edge_view, NULL, &d, err);
    return st ? st : gemm_multiply(queue, s, GEMM_STRIPS, &main, &choice->algo, data, err);
}

static enum mt_status run_odd_m(const struct cuda_queue *queue, const struct gemm_shape *s, const struct strips *t,
                                const struct gemm_choice *choice, const struct gemm_data *data, struct mt_err *err) {
    const struct edges e = edges_of(s, t, data);
    const struct gemm_view main = gemm_strips_view(s);
    const struct gemm_view side = {
        .m = SIDE, .n = s->n, .k = s->k, .lda = EDGE, .ldb = s->n, .ldy = s->n, .batches = 1, .beta = 1};
    enum mt_status st = move_edges(queue, s, t, "gather_edges", data->a, e.edge, err);
    size_t y_bytes = (size_t)(s->m * s->n * mt_type_size(s->out));
    if (!st && !s->accumulate)
        CUDA_TRY(cuMemsetD8Async((CUdeviceptr)data->y, 0, y_bytes, queue->stream), err, "zeroing y");
    struct gemm_data d = *data;
    for (int r = 0; !st && r < t->g; r++) {
        d.a = after(data->a, r * main.step_a, s->in);
        d.b = after(data->b, r * main.step_b, s->in);
        d.y = (char *)data->y + r * main.step_y * mt_type_size(s->out);
        st = gemm_multiply(queue, s, GEMM_STRIPS, &main, &choice->algo, &d, err);
    }
    d.b = data->b;
    for (int i = 0; !st && i < 2; i++) {
        d.a = after(e.edge, i * SIDE, s->in);
        d.y = (char *)data->y + i * (t->extent - SIDE) * s->n * mt_type_size(s->out);
        st = gemm_multiply(queue, s, GEMM_STRIPS, &side, NULL, &d, err);
    }
    return st;
}

enum mt_status gemm_strips_run(const struct cuda_queue *queue, const struct gemm_shape *shape,
                               const struct gemm_choice *choice, const struct gemm_data *data, struct mt_err *err) {
    const struct strips t = strips_of(shape);
    switch (t.which) {
    case ODD_N: return run_odd_n(queue, shape, &t, choice, data, err);
    case ODD_K: return run_odd_k(queue, shape, &t, choice, data, err);
    default: return run_odd_m(queue, shape, &t, choice, data, err);
    }
}
