/* Layer norm: a warp a row where that is enough, else a block; the row stays in registers. Gradients of gamma and beta,
 * and the sum of dx, are made by a fixed number of blocks, each of which walks rows with its sums in registers; their
 * partial sums are added up in order. */
#include <stdio.h>

#include "kernels/cuda/driver/driver.h"
#include "kernels/cuda/jit/shape.h"
#include "kernels/cuda/ops/sum.h"
#include "kernels/cuda/tune/variant.h"

enum { WARP_ROWS = 4 /* of a block */, MOST_THREADS = 1024, MOST_WALKERS = 6 /* blocks of a multiprocessor */ };

/* How rows are laid over threads: the definitions of norm.cu. */
struct layout {
    int64_t rows;
    int e, v, w, k, rows_each, blocks_each, sums; /* sums: that a thread keeps of each of its columns */
    float n, eps;
};

/* What follows from w and rows_each. */
static void finish_layout(struct layout *l) {
    l->k = (int)divide_up(largest(divide_up(l->e, l->v), 1), l->w);
    /* As many threads of a multiprocessor as have the registers for their sums. */
    int kept = l->k * l->v * l->sums, threads = kept > 80 ? 256 : kept > 48 ? 384 : kept > 32 ? 512 : 640;
    l->blocks_each = (int)least(largest(threads / (l->w * l->rows_each), 1), MOST_WALKERS);
}

static bool walks_rows(const struct mt_call *call) {
    return call->kind == MT_OP_norm_param_grad || call->kind == MT_OP_layer_norm_grad;
}

/* The outputs that are sums over the rows; the first is dgamma. */
static int first_sum(const struct mt_call *call) {
    return call->kind == MT_OP_layer_norm_grad;
}

/* `most`: accesses of a thread, if a block has threads enough. Rows longer than that would take still fit, but not in
 * registers. */
static struct layout layout_of(const struct mt_call *call, const struct mt_tensor *x, int64_t alignment, int most) {
    struct layout l = {.rows = 1, .rows_each = 1, .sums = 2, .eps = (float)call->attr->eps};
    if (walks_rows(call)) l.sums = call->nout - first_sum(call);
    for (int a = 0; a < x->naxes - 1; a++) l.rows *= x->extent[a];
    l.e = (int)x->extent[x->naxes - 1];
    l.n = (float)x->global[x->naxes - 1];
    l.v = cuda_vector(x->type, l.e, alignment);
    int64_t accesses = largest(divide_up(l.e, l.v), 1);
    if (accesses <= 4 * 32) {
        l.w = 32, l.rows_each = WARP_ROWS;
    } else {
        l.w = (int)least(divide_up(accesses, most * 32) * 32, MOST_THREADS);
    }
    finish_layout(&l);
    return l;
}

/* ---- tuning: threads of a row, and rows of a block where those are a warp ---- */

static const struct mt_tensor *rows_of(const struct mt_call *call) {
    bool gradient = call->kind == MT_OP_norm_dots || call->kind == MT_OP_norm_grad ||
                    call->kind == MT_OP_norm_param_grad || call->kind == MT_OP_layer_norm_grad;
    return &call->in[gradient];
}

static struct layout default_layout(const struct mt_call *call, int64_t alignment) {
    return layout_of(call, rows_of(call), alignment, walks_rows(call) ? 2 : 4);
}

static void lay_rows(struct layout *l, const struct cuda_variant *v) {
    l->w = v->p[0], l->rows_each = v->p[1];
    finish_layout(l);
}

static int variants(const struct cuda *cuda, const struct mt_call *call, struct cuda_variant *list) {
    static const int threads[] = {32, 64, 96, 128, 192, 256, 384, 512}, rows[] = {1, 2, 4, 8};
    enum { NTHREADS = sizeof threads / sizeof *threads, NROWS = sizeof rows / sizeof *rows, MOST_COLUMNS = 40 };
    struct layout l = default_layout(call, cuda_alignment(call));
    int64_t accesses = largest(divide_up(l.e, l.v), 1);
    int count = 0;
    (void)cuda;
    list[count++] = (struct cuda_variant){{l.w, l.rows_each}};
    for (int t = 0; t < NTHREADS; t++)
        for (int r = 0; r < (threads[t] == 32 ? NROWS : 1); r++) {
            bool same = threads[t] == l.w && rows[r] == l.rows_each;
            bool idle = threads[t] > 32 && accesses <= threads[t] - 32; /* whole warps have nothing to do */
            if (same || idle || divide_up(accesses, threads[t]) * l.v > MOST_COLUMNS) continue;
            list[count++] = (struct cuda_variant){{threads[t], rows[r]}};
        }
    return count;
}
static const struct cuda_family family = {"norm", "norm", {"row_threads", "rows"}, variants, NULL};

static enum mt_status chosen_layout(const struct cuda_queue *queue, const struct mt_call *call, struct layout *l,
                                    struct mt_err *err) {
    struct cuda_variant variant;
    *l = default_layout(call, cuda_alignment(call));
    enum mt_status st = cuda_choose_variant(queue, &family, call, &variant, err);
    if (!st) lay_rows(l, &variant);
    return st;
}

static enum mt_status launch(const struct cuda_queue *queue, const struct mt_call *call, const struct layout *l,
                             int64_t blocks, void **arguments, struct mt_err *err) {
    char definitions[160];
    snprintf(definitions, sizeof definitions,
             "-DTYPE=%s -DVECTOR=%d -DROW_THREADS=%d -DACCESSES=%d -DROWS=%d -DBLOCKS=%d -ftz=true%s",
             cuda_type(call->in[0].type), l->v, l->w, l->k, l->rows_each, l->blocks_each,
             l->sums == 3 ? " -DDX_SUM" : "");
    CUfunction kernel;
    enum mt_status st = cuda_kernel(queue->cuda, "norm", definitions, mt_op_info[call->kind].name, 0, &kernel, err);
    return st ? st : cuda_launch(queue, kernel, blocks, l->w * l->rows_each, 0, arguments, err);
}

/* The row kernels' arguments: the shape, then pointers to the inputs and outputs; `optional` (or nothing: 0) is the
 * input that may be absent, and is null then. */
static enum mt_status run_rows(const struct cuda_queue *queue, const struct mt_call *call, int optional,
                               struct mt_err *err) {
    struct layout l;
    enum mt_status st = chosen_layout(queue, call, &l, err);
    if (st) return st;
    void *none = NULL, *arguments[4 + MT_MAX_IN + MT_MAX_OUT] = {&l.rows, &l.e, &l.n, &l.eps};
    int count = call->kind == MT_OP_norm_sqdev ? 3 : 4;
    for (int i = 0; i < call->nin; i++) arguments[count++] = (void *)&call->in[i].data;
    if (optional && call->nin <= optional) arguments[count++] = &none;
    for (int o = 0; o < call->nout; o++) arguments[count++] = (void *)&call->out[o].data;
    return launch(queue, call, &l, divide_up(l.rows, l.rows_each), arguments, err);
}

static enum mt_status run_sqdev(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    return run_rows(queue, call, 0, err);
}
static enum mt_status run_layer_norm(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    return run_rows(queue, call, 2, err);
}
static enum mt_status run_residual_norm(const struct cuda_queue *queue, const struct mt_call *call,
                                        struct mt_err *err) {
    return run_rows(queue, call, 3, err);
}
static enum mt_status run_apply(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    return run_rows(queue, call, 4, err);
}
static enum mt_status run_gradient(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    return run_rows(queue, call, 0, err);
}

/* The most blocks that walk rows, however they are laid out: by the shape alone, as the scratch is. */
static int64_t most_walkers(const struct cuda *cuda, const struct mt_call *call) {
    const struct mt_tensor *x = &call->in[1];
    int64_t rows = 1;
    for (int a = 0; a < x->naxes - 1; a++) rows *= x->extent[a];
    return least(rows, (int64_t)cuda->nsm * MOST_WALKERS);
}

static int64_t param_scratch(const struct cuda *cuda, const struct mt_call *call) {
    const struct mt_tensor *x = &call->in[1];
    int sums = call->nout - first_sum(call);
    return most_walkers(cuda, call) * sums * x->extent[x->naxes - 1] * (int64_t)sizeof(float);
}

/* layer_norm_grad and norm_param_grad: the latter has neither gamma, add nor dx. */
static enum mt_status run_param_grad(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    struct layout l;
    enum mt_status st = chosen_layout(queue, call, &l, err);
    if (st) return st;
    int64_t blocks = least(divide_up(l.rows, l.rows_each), (int64_t)queue->cuda->nsm * l.blocks_each);
    int first = first_sum(call); /* after dx */
    void *none = NULL, *partial = call->scratch, *sums[CUDA_MOST_SUMS];
    void *arguments[4 + MT_MAX_IN + 2] = {&l.rows, &l.e, &l.n, &l.eps};
    int count = 4;
    for (int i = 0; i < call->nin; i++) arguments[count++] = (void *)&call->in[i].data;
    if (first && call->nin < 6) arguments[count++] = &none;
    if (first) arguments[count++] = (void *)&call->out[0].data;
    arguments[count] = &partial;
    if (!l.e) return MT_OK;
    if ((st = launch(queue, call, &l, blocks, arguments, err))) return st;
    for (int i = 0; i < l.sums; i++) sums[i] = call->out[first + i].data;
    return cuda_add_partials(queue, l.sums, blocks, l.e, partial, call->attr->accumulate, sums, err);
}

const struct cuda_op cuda_norm_sqdev = {NULL, NULL, run_sqdev};
const struct cuda_op cuda_norm_apply = {NULL, NULL, run_apply};
const struct cuda_op cuda_norm_dots = {NULL, NULL, run_gradient};
const struct cuda_op cuda_norm_grad = {NULL, NULL, run_gradient};
const struct cuda_op cuda_norm_param_grad = {NULL, param_scratch, run_param_grad};
const struct cuda_op cuda_layer_norm = {NULL, NULL, run_layer_norm};
const struct cuda_op cuda_residual_norm = {NULL, NULL, run_residual_norm};
const struct cuda_op cuda_layer_norm_grad = {NULL, param_scratch, run_param_grad};
