/* Cross entropy: in steps that can be split over the last axis, and fused; and its gradient. */
#include <stdio.h>

#include "kernels/cuda/driver/driver.h"
#include "kernels/cuda/jit/shape.h"
#include "kernels/cuda/tune/variant.h"

enum {
    THREADS = 256,
    MOST_THREADS = 512,
    LEAST_THREADS = 64,
    PACKS_A_THREAD = 4,
    PACK_BYTES = 16,
    RESIDENT_THREADS = 1024
};

struct shape {
    int64_t V, offset, rows;
};

static struct shape shape_of(const struct mt_tensor *x) {
    int last = x->naxes - 1;
    struct shape shape = {.V = x->extent[last], .offset = x->offset[last], .rows = 1};
    for (int a = 0; a < last; a++) shape.rows *= x->extent[a];
    return shape;
}

/* Of a block that does a row: a thread for a few packs of 16 bytes. */
static int threads_for(const struct mt_tensor *x) {
    int64_t packs = shape_of(x).V * mt_type_size(x->type) / 16, warps = (packs / PACKS_A_THREAD + 31) / 32;
    int64_t threads = 32 * warps;
    return (int)(threads < LEAST_THREADS ? LEAST_THREADS : threads > MOST_THREADS ? MOST_THREADS : threads);
}

/* What is tuned of kernels that read rows: threads of a block. */
static int row_variants(const struct cuda *cuda, const struct mt_call *call, struct cuda_variant *list) {
    static const int threads[] = {64, 128, 256, 384, 512, 1024, 0};
    int count = 0;
    (void)cuda;
    list[count++] = (struct cuda_variant){{threads_for(&call->in[0])}};
    for (const int *t = threads; *t; t++)
        if (*t != list[0].p[0]) list[count++] = (struct cuda_variant){{*t}};
    return count;
}
static const struct cuda_family row_family = {"rows", "cross_entropy", {"threads"}, row_variants, NULL};

/* Run a kernel on `blocks` blocks; `type` is that of x. */
static enum mt_status run(const struct cuda_queue *queue, enum mt_type type, const char *name, int64_t blocks,
                          int threads, void **arguments, struct mt_err *err) {
    char definitions[96];
    CUfunction kernel;
    snprintf(definitions, sizeof definitions, "-DTYPE=%s -DVECTORS=1 -DTHREADS=%d -DBLOCKS=%d", cuda_type(type),
             MOST_THREADS, RESIDENT_THREADS / MOST_THREADS);
    enum mt_status st = cuda_kernel(queue->cuda, "cross_entropy", definitions, name, 0, &kernel, err);
    return st ? st : cuda_launch(queue, kernel, blocks, threads, 0, arguments, err);
}

/* row_max, exp_sum and cross_entropy: a block a row. The first two have no parameter for the offset. */
static enum mt_status queue_rows(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    struct cuda_variant variant;
    const struct mt_tensor *x = &call->in[0];
    struct shape s = shape_of(x);
    void *arguments[MT_MAX_IN + MT_MAX_OUT + 2];
    enum mt_status st = cuda_choose_variant(queue, &row_family, call, &variant, err);
    int count = cuda_operand_arguments(call, call->nout, arguments, 0);
    arguments[count++] = &s.V, arguments[count++] = &s.offset;
    return st ? st : run(queue, x->type, mt_op_info[call->kind].name, s.rows, variant.p[0], arguments, err);
}

/* pick and nll: a thread a row. nll has no parameters for V and the offset. */
static enum mt_status queue_elements(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    int64_t rows = mt_tensor_count(&call->out[0]);
    struct shape s = call->kind == MT_OP_pick ? shape_of(&call->in[0]) : (struct shape){0};
    void *arguments[MT_MAX_IN + MT_MAX_OUT + 3];
    int count = cuda_operand_arguments(call, call->nout, arguments, 0);
    arguments[count++] = &rows, arguments[count++] = &s.V, arguments[count++] = &s.offset;
    return run(queue, call->in[0].type, mt_op_info[call->kind].name, (rows + THREADS - 1) / THREADS, THREADS, arguments,
               err);
}

struct grad_launch {
    int threads;      /* of a block, which does a row */
    int blocks;       /* resident on a multiprocessor: while one waits for its row, others compute */
    int packs;        /* of the row, in shared memory */
    int shared_bytes; /* for them */
    bool vectors;
};

enum { HOLD = 2 /* blocks of a multiprocessor whose rows fit into its shared memory */ };

static int grad_threads(const struct mt_call *call) {
    int threads = LEAST_THREADS;
    while (threads < threads_for(&call->in[0])) threads *= 2;
    return threads;
}

static struct grad_launch grad_launch(const struct cuda *cuda, const struct mt_call *call, int threads, int hold) {
    enum { BESIDES = 1536 /* a block's other shared memory, and what the driver takes */ };
    const struct mt_tensor *x = &call->in[0], *dlogits = &call->out[0];
    struct grad_launch l = {.threads = threads};
    l.vectors = (uintptr_t)x->data % PACK_BYTES == (uintptr_t)dlogits->data % PACK_BYTES;
    l.blocks = RESIDENT_THREADS / l.threads;
    int pack = l.vectors ? PACK_BYTES : (int)mt_type_size(x->type);
    int64_t packs = shape_of(x).V * mt_type_size(x->type) / pack + 2,
            most = (cuda->shared_bytes / hold - BESIDES) / pack;
    l.packs = (int)(packs < most ? packs : most);
    l.shared_bytes = l.packs * pack;
    return l;
}

static int grad_variants(const struct cuda *cuda, const struct mt_call *call, struct cuda_variant *list) {
    static const int threads[] = {128, 256, 512, 1024, 0}, holds[] = {1, 2, 3, 4, 0};
    (void)cuda;
    return cuda_variant_pairs((struct cuda_variant){{grad_threads(call), HOLD}}, threads, holds, list);
}
static const struct cuda_family grad_family = {
    "gradient rows", "cross_entropy", {"threads", "hold"}, grad_variants, NULL};

/* nll_grad and cross_entropy_grad; only the latter has the parameter dl. */
static enum mt_status queue_grad(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    const struct mt_tensor *x = &call->in[0];
    bool fused = call->kind == MT_OP_cross_entropy_grad;
    struct shape s = shape_of(x);
    struct cuda_variant variant;
    float dl = (float)call->attr->value;
    void *arguments[MT_MAX_IN + MT_MAX_OUT + 4];
    if (!fused && !s.V) return MT_OK;
    enum mt_status st = cuda_choose_variant(queue, &grad_family, call, &variant, err);
    if (st) return st;
    struct grad_launch l = grad_launch(queue->cuda, call, variant.p[0], variant.p[1]);
    int count = cuda_operand_arguments(call, call->nout, arguments, 0);
    arguments[count++] = &s.V, arguments[count++] = &s.offset;
    if (fused) arguments[count++] = &dl;
    arguments[count++] = &l.packs;
    char definitions[96];
    CUfunction kernel;
    snprintf(definitions, sizeof definitions, "-DTYPE=%s -DVECTORS=%d -DTHREADS=%d -DBLOCKS=%d", cuda_type(x->type),
             l.vectors, l.threads, l.blocks);
    st = cuda_kernel(queue->cuda, "cross_entropy", definitions, mt_op_info[call->kind].name, l.shared_bytes, &kernel,
                     err);
    return st ? st : cuda_launch(queue, kernel, s.rows, l.threads, l.shared_bytes, arguments, err);
}

const struct cuda_op cuda_row_max = {NULL, NULL, queue_rows};
const struct cuda_op cuda_exp_sum = {NULL, NULL, queue_rows};
const struct cuda_op cuda_pick = {NULL, NULL, queue_elements};
const struct cuda_op cuda_nll = {NULL, NULL, queue_elements};
const struct cuda_op cuda_nll_grad = {NULL, NULL, queue_grad};
const struct cuda_op cuda_cross_entropy = {NULL, NULL, queue_rows};
const struct cuda_op cuda_cross_entropy_grad = {NULL, NULL, queue_grad};
