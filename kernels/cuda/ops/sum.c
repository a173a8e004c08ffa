/* sum: in one stage where the output has many elements, else in two, with partial sums in scratch. The division into
 * partial sums depends on the shape alone, and so do the bits. */
#include "kernels/cuda/ops/sum.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/jit/shape.h"

enum {
    THREADS = 256,
    ENOUGH_BLOCKS = 512, /* to keep a device busy */
    WARP_LENGTH = 2048,  /* longest sum of a single warp */
    PIECE = 8192,        /* elements of a block, at least */
    CHUNK = 64,          /* rows of a block, at least */
    COLUMN_WARPS = 8,
    PARTIAL_WARPS = 32
};

struct cut {
    struct cuda_axes kept, summed; /* by_rows: all; else `kept` lacks the last, of `columns` */
    bool by_rows;
    int64_t sums, length, columns;
    int64_t piece, parts; /* of the summed axes: elements of a part, and how many parts */
};

static void cut_rows(struct cut *c) {
    c->columns = 1;
    c->parts = 1;
    if (c->sums < ENOUGH_BLOCKS && c->length > PIECE)
        c->parts = least(divide_up(c->length, PIECE), divide_up(2 * ENOUGH_BLOCKS, largest(c->sums, 1)));
    c->piece = largest(divide_up(divide_up(c->length, c->parts), PIECE / 4) * (PIECE / 4), 1);
    c->parts = largest(divide_up(c->length, c->piece), 1);
}

static void cut_columns(struct cut *c, int v) {
    c->columns = c->kept.extent[--c->kept.n];
    c->sums = cuda_axes_count(&c->kept);
    int64_t blocks = largest(c->sums * divide_up(c->columns, 32 * v), 1);
    c->parts = largest(least(ENOUGH_BLOCKS / blocks, c->length / CHUNK), 1);
    c->piece = largest(divide_up(divide_up(c->length, c->parts), COLUMN_WARPS) * COLUMN_WARPS, 1);
    c->parts = largest(divide_up(c->length, c->piece), 1);
}

/* Elements of one access as far as the shape allows: all strides are multiples of it. */
static int vector_of(enum mt_type type, const struct cut *c) {
    int v = cuda_vector(type, 0, CUDA_ACCESS_BYTES);
    for (const struct cuda_axes *axes = &c->kept; axes; axes = axes == &c->kept ? &c->summed : NULL)
        for (int64_t a = 0; a < axes->n; a++)
            while (v > 1 && (axes->stride[a] == 1 ? axes->extent[a] : axes->stride[a]) % v) v /= 2;
    return v;
}

/* Does not depend on addresses. Returns the elements of one access. */
static int cut_sum(const struct mt_call *call, struct cut *c) {
    const struct mt_tensor *x = &call->in[0];
    int64_t stride = 1, strides[MT_MAX_AXES];
    *c = (struct cut){0};
    for (int a = x->naxes - 1; a >= 0; stride *= x->extent[a--]) strides[a] = stride;
    for (int a = 0; a < x->naxes; a++)
        cuda_axes_add(call->attr->axes >> a & 1u ? &c->summed : &c->kept, x->extent[a], strides[a]);
    c->sums = cuda_axes_count(&c->kept), c->length = cuda_axes_count(&c->summed);
    c->by_rows = !c->kept.n || c->kept.stride[c->kept.n - 1] != 1;
    int v = vector_of(x->type, c);
    if (c->by_rows && c->summed.n == 0) v = 1;
    if (c->by_rows)
        cut_rows(c);
    else
        cut_columns(c, v);
    return v;
}

static int64_t sum_scratch(const struct cuda *cuda, const struct mt_call *call) {
    (void)cuda;
    struct cut c;
    cut_sum(call, &c);
    return c.parts > 1 ? c.sums * c.parts * c.columns * (int64_t)sizeof(float) : 0;
}

static enum mt_status find(const struct cuda_queue *queue, const char *name, const char *type, int v, bool flat, int w,
                           int warps, CUfunction *kernel, struct mt_err *err) {
    char definitions[128];
    snprintf(definitions, sizeof definitions, "-DTYPE=%s -DVECTOR=%d -DFLAT=%d -DSUM_THREADS=%d -DWARPS=%d", type, v,
             flat, w, warps);
    return cuda_kernel(queue->cuda, "sum", definitions, name, 0, kernel, err);
}

static enum mt_status sum_rows(const struct cuda_queue *queue, const void *x, const char *type, int v,
                               const struct cut *c, bool accumulate, void *to, struct mt_err *err) {
    int w = c->length <= WARP_LENGTH ? 32 : THREADS, accumulates = accumulate;
    CUfunction kernel;
    enum mt_status st = find(queue, "sum_rows", type, v, c->summed.n <= 1, w, COLUMN_WARPS, &kernel, err);
    if (st) return st;
    return cuda_launch(queue, kernel, divide_up(c->sums * c->parts, THREADS / w), THREADS, 0,
                       (void *[]){&x, (void *)&c->kept, (void *)&c->summed, (void *)&c->sums, (void *)&c->length,
                                  (void *)&c->piece, (void *)&c->parts, &accumulates, &to},
                       err);
}

static enum mt_status sum_columns(const struct cuda_queue *queue, const void *x, const char *type, int v, int warps,
                                  const struct cut *c, bool accumulate, void *to, int64_t step, struct mt_err *err) {
    int accumulates = accumulate;
    int64_t blocks = c->sums * c->parts * divide_up(c->columns, 32 * v);
    CUfunction kernel;
    enum mt_status st = find(queue, "sum_columns", type, v, c->summed.n <= 1, THREADS, warps, &kernel, err);
    if (st) return st;
    return cuda_launch(queue, kernel, blocks, warps * 32, 0,
                       (void *[]){&x, (void *)&c->kept, (void *)&c->summed, (void *)&c->columns, (void *)&c->length,
                                  (void *)&c->piece, (void *)&c->parts, &accumulates, &to, &step},
                       err);
}

/* sum.cu */
struct outputs {
    void *to[CUDA_MOST_SUMS];
};

enum mt_status cuda_add_partials(const struct cuda_queue *queue, int outputs, int64_t parts, int64_t n,
                                 const void *partial, bool accumulate, void *const *to, struct mt_err *err) {
    struct outputs places = {{NULL}};
    int accumulates = accumulate;
    CUfunction kernel;
    assert(outputs <= CUDA_MOST_SUMS);
    memcpy(places.to, to, (size_t)outputs * sizeof *to);
    enum mt_status st = find(queue, "add_partials", cuda_type(MT_F32), 1, true, THREADS, PARTIAL_WARPS, &kernel, err);
    if (st) return st;
    return cuda_launch(queue, kernel, outputs * divide_up(n, 32), PARTIAL_WARPS * 32, 0,
                       (void *[]){&partial, &n, &parts, &accumulates, &places}, err);
}

static enum mt_status run_rows(const struct cuda_queue *queue, const struct mt_call *call, int v, const struct cut *c,
                               struct mt_err *err) {
    const char *type = cuda_type(call->in[0].type);
    const void *x = call->in[0].data;
    bool accumulate = call->attr->accumulate;
    if (c->parts == 1) return sum_rows(queue, x, type, v, c, accumulate, call->out[0].data, err);
    enum mt_status st = sum_rows(queue, x, type, v, c, false, call->scratch, err);
    if (st) return st;
    const struct cut rest = {.kept = {1, {c->sums}, {c->parts}},
                             .summed = {1, {c->parts}, {1}},
                             .sums = c->sums,
                             .length = c->parts,
                             .piece = c->parts,
                             .parts = 1};
    return sum_rows(queue, call->scratch, cuda_type(MT_F32), 1, &rest, accumulate, call->out[0].data, err);
}

static enum mt_status run(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    struct cut c;
    int v = (int)least(cut_sum(call, &c), cuda_vector(call->in[0].type, 0, cuda_alignment(call)));
    const char *type = cuda_type(call->in[0].type);
    bool accumulate = call->attr->accumulate;
    if (c.by_rows) return run_rows(queue, call, v, &c, err);
    bool whole = c.parts == 1;
    enum mt_status st = sum_columns(queue, call->in[0].data, type, v, COLUMN_WARPS, &c, whole && accumulate,
                                    whole ? call->out[0].data : call->scratch, c.parts * c.columns, err);
    if (st || whole) return st;
    const struct cut rest = {.kept = {1, {c.sums}, {c.parts * c.columns}},
                             .summed = {1, {c.parts}, {c.columns}},
                             .sums = c.sums,
                             .length = c.parts,
                             .columns = c.columns,
                             .piece = c.parts,
                             .parts = 1};
    return sum_columns(queue, call->scratch, cuda_type(MT_F32), 1, PARTIAL_WARPS, &rest, accumulate, call->out[0].data,
                       c.columns, err);
}

const struct cuda_op cuda_sum = {NULL, sum_scratch, run};
