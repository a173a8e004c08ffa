/* Layer norm and root-mean-square norm: a warp for each row where that is enough, else a block; the row stays in
 * registers. Gradients of gamma and beta, and the sum of dinp, are computed by a fixed number of blocks, which loop
 * over rows with sums in registers; their partial sums are then added in order. */
#include <stdio.h>

#include "kernels/cuda/driver/driver.h"
#include "kernels/cuda/jit/shape.h"
#include "kernels/cuda/ops/sum.h"
#include "kernels/cuda/tune/variant.h"

enum {
    WARP_ROWS = 4 /* of a block */,
    MOST_THREADS = 1024,
    MOST_LOOPING = 6 /* blocks of a multiprocessor that loop over rows */
};

/* How rows are distributed over threads: the definitions of norm_rows.cuh. */
struct layout {
    int64_t rows;
    int C, v, w, k, rows_each, blocks_each, sums; /* sums: that a thread has for each of its columns */
    float n, eps;
};

/* Sets k and blocks_each from w and rows_each. */
static void derive(struct layout *l) {
    l->k = (int)divide_up(largest(divide_up(l->C, l->v), 1), l->w);
    /* As many threads of a multiprocessor as there are registers for their sums. */
    int kept = l->k * l->v * l->sums, threads = kept > 80 ? 256 : kept > 48 ? 384 : kept > 32 ? 512 : 640;
    l->blocks_each = (int)least(largest(threads / (l->w * l->rows_each), 1), MOST_LOOPING);
}

/* What the kinds differ in. */
struct form {
    bool rms, gradient, loops; /* root-mean-square; x is input 1; loops over rows */
    int first_sum;             /* if it loops: the first of the outputs that are sums over the rows, dgamma */
    int numbers;               /* of the kernel's rows, C, n and eps */
};
static struct form form_of(const struct mt_call *call) {
    static const struct form forms[MT_NOPS] = {[MT_OP_layer_norm] = {.numbers = 4},
                                               [MT_OP_residual_norm] = {.numbers = 4},
                                               [MT_OP_norm_sqdev] = {.numbers = 3},
                                               [MT_OP_norm_apply] = {.numbers = 4},
                                               [MT_OP_norm_dots] = {.gradient = true, .numbers = 4},
                                               [MT_OP_norm_grad] = {.gradient = true, .numbers = 4},
                                               [MT_OP_norm_param_grad] = {false, true, true, 0, 4},
                                               [MT_OP_layer_norm_grad] = {false, true, true, 1, 4},
                                               [MT_OP_rms_norm] = {.rms = true, .numbers = 4},
                                               [MT_OP_residual_rms] = {.rms = true, .numbers = 4},
                                               [MT_OP_rms_sq] = {.rms = true, .numbers = 2},
                                               [MT_OP_rms_apply] = {.rms = true, .numbers = 4},
                                               [MT_OP_rms_dot] = {true, true, false, 0, 4},
                                               [MT_OP_rms_grad] = {true, true, false, 0, 4},
                                               [MT_OP_rms_param_grad] = {true, true, true, 0, 4},
                                               [MT_OP_rms_norm_grad] = {true, true, true, 1, 4}};
    return forms[call->kind];
}

/* `most`: accesses of a thread, if a block can have enough threads. Longer rows work as well, but not in registers. */
static struct layout layout_of(const struct mt_call *call, const struct mt_tensor *x, int64_t alignment, int most) {
    const struct form form = form_of(call);
    struct layout l = {.rows = 1, .rows_each = 1, .sums = 2, .eps = (float)call->attr->eps};
    if (form.loops) l.sums = call->nout - form.first_sum;
    for (int a = 0; a < x->naxes - 1; a++) l.rows *= x->extent[a];
    l.C = (int)x->extent[x->naxes - 1];
    l.n = (float)x->global[x->naxes - 1];
    l.v = cuda_vector(x->type, l.C, alignment);
    int64_t accesses = largest(divide_up(l.C, l.v), 1);
    if (accesses <= 4 * 32) {
        l.w = 32, l.rows_each = WARP_ROWS;
    } else {
        l.w = (int)least(divide_up(accesses, most * 32) * 32, MOST_THREADS);
    }
    derive(&l);
    return l;
}

/* ---- tuning: threads of a row, and rows of a block where those are a warp ---- */

static struct layout default_layout(const struct mt_call *call, int64_t alignment) {
    const struct form form = form_of(call);
    return layout_of(call, &call->in[form.gradient], alignment, form.loops ? 2 : 4);
}

static void lay_rows(struct layout *l, const struct cuda_variant *v) {
    l->w = v->p[0], l->rows_each = v->p[1];
    derive(l);
}

static int variants(const struct cuda *cuda, const struct mt_call *call, struct cuda_variant *list) {
    static const int threads[] = {32, 64, 96, 128, 192, 256, 384, 512}, rows[] = {1, 2, 4, 8};
    enum { NTHREADS = sizeof threads / sizeof *threads, NROWS = sizeof rows / sizeof *rows, MOST_COLUMNS = 40 };
    struct layout l = default_layout(call, cuda_alignment(call));
    int64_t accesses = largest(divide_up(l.C, l.v), 1);
    int count = 0;
    (void)cuda;
    list[count++] = (struct cuda_variant){{l.w, l.rows_each}};
    for (int t = 0; t < NTHREADS; t++)
        for (int r = 0; r < (threads[t] == 32 ? NROWS : 1); r++) {
            bool same = threads[t] == l.w && rows[r] == l.rows_each;
            bool idle = threads[t] > 32 && accesses <= threads[t] - 32; /* whole warps would be idle */
            if (same || idle || divide_up(accesses, threads[t]) * l.v > MOST_COLUMNS) continue;
            list[count++] = (struct cuda_variant){{threads[t], rows[r]}};
        }
    return count;
}
static const struct cuda_family family = {"norm", "norm", {"row_threads", "rows"}, variants, NULL};
static const struct cuda_family rms_family = {"rms", "rms", {"row_threads", "rows"}, variants, NULL};

static enum mt_status chosen_layout(const struct cuda_queue *queue, const struct mt_call *call, struct layout *l,
                                    struct mt_err *err) {
    struct cuda_variant variant;
    *l = default_layout(call, cuda_alignment(call));
    enum mt_status st = cuda_choose_variant(queue, form_of(call).rms ? &rms_family : &family, call, &variant, err);
    if (!st) lay_rows(l, &variant);
    return st;
}

static enum mt_status launch(const struct cuda_queue *queue, const struct mt_call *call, const struct layout *l,
                             int64_t blocks, void **arguments, struct mt_err *err) {
    char definitions[160];
    snprintf(definitions, sizeof definitions,
             "-DTYPE=%s -DVECTOR=%d -DROW_THREADS=%d -DACCESSES=%d -DROWS=%d -DBLOCKS=%d -ftz=true%s",
             cuda_type(call->in[0].type), l->v, l->w, l->k, l->rows_each, l->blocks_each,
             l->sums == 3 ? " -DDINP_SUM" : "");
    CUfunction kernel;
    const char *source = form_of(call).rms ? "rms" : "norm";
    enum mt_status st = cuda_kernel(queue->cuda, source, definitions, mt_op_info[call->kind].name, 0, &kernel, err);
    return st ? st : cuda_launch(queue, kernel, blocks, l->w * l->rows_each, 0, arguments, err);
}

/* The kernels without loops over rows. Their parameters: the shape, inputs, outputs. */
static enum mt_status run_rows(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    struct layout l;
    enum mt_status st = chosen_layout(queue, call, &l, err);
    if (st) return st;
    void *arguments[4 + MT_MAX_IN + MT_MAX_OUT] = {&l.rows, &l.C, &l.n, &l.eps};
    cuda_operand_arguments(call, call->nout, arguments, form_of(call).numbers);
    return launch(queue, call, &l, divide_up(l.rows, l.rows_each), arguments, err);
}

/* An upper bound of the blocks that loop over rows, for every variant: by the shape alone, as the scratch is. */
static int64_t most_blocks(const struct cuda *cuda, const struct mt_call *call) {
    const struct mt_tensor *x = &call->in[1];
    int64_t rows = 1;
    for (int a = 0; a < x->naxes - 1; a++) rows *= x->extent[a];
    return least(rows, (int64_t)cuda->nsm * MOST_LOOPING);
}

static int64_t param_scratch(const struct cuda *cuda, const struct mt_call *call) {
    const struct mt_tensor *x = &call->in[1];
    int sums = call->nout - form_of(call).first_sum;
    return most_blocks(cuda, call) * sums * x->extent[x->naxes - 1] * (int64_t)sizeof(float);
}

/* Gradients of parameters; where that is all, there are neither gamma, add nor dinp. */
static enum mt_status run_param_grad(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    struct layout l;
    enum mt_status st = chosen_layout(queue, call, &l, err);
    if (st) return st;
    int64_t blocks = least(divide_up(l.rows, l.rows_each), (int64_t)queue->cuda->nsm * l.blocks_each);
    int first = form_of(call).first_sum; /* after dinp */
    void *partial = call->scratch, *sums[CUDA_MOST_SUMS];
    void *arguments[4 + MT_MAX_IN + 2] = {&l.rows, &l.C, &l.n, &l.eps};
    int count = cuda_operand_arguments(call, first, arguments, 4);
    arguments[count] = &partial;
    if (!l.C) return MT_OK;
    if ((st = launch(queue, call, &l, blocks, arguments, err))) return st;
    for (int i = 0; i < l.sums; i++) sums[i] = call->out[first + i].data;
    return cuda_add_partials(queue, l.sums, blocks, l.C, partial, call->attr->accumulate, sums, err);
}

const struct cuda_op cuda_norm_sqdev = {NULL, NULL, run_rows};
const struct cuda_op cuda_norm_apply = {NULL, NULL, run_rows};
const struct cuda_op cuda_norm_dots = {NULL, NULL, run_rows};
const struct cuda_op cuda_norm_grad = {NULL, NULL, run_rows};
const struct cuda_op cuda_norm_param_grad = {NULL, param_scratch, run_param_grad};
const struct cuda_op cuda_layer_norm = {NULL, NULL, run_rows};
const struct cuda_op cuda_residual_norm = {NULL, NULL, run_rows};
const struct cuda_op cuda_layer_norm_grad = {NULL, param_scratch, run_param_grad};
const struct cuda_op cuda_rms_sq = {NULL, NULL, run_rows};
const struct cuda_op cuda_rms_apply = {NULL, NULL, run_rows};
const struct cuda_op cuda_rms_dot = {NULL, NULL, run_rows};
const struct cuda_op cuda_rms_grad = {NULL, NULL, run_rows};
const struct cuda_op cuda_rms_param_grad = {NULL, param_scratch, run_param_grad};
const struct cuda_op cuda_rms_norm = {NULL, NULL, run_rows};
const struct cuda_op cuda_residual_rms = {NULL, NULL, run_rows};
const struct cuda_op cuda_rms_norm_grad = {NULL, param_scratch, run_param_grad};
