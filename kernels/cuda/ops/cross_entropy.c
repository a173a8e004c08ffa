/* Cross entropy: in steps that can be split over the last axis, and fused; and its gradient. */
#include <stdio.h>

#include "kernels/cuda/driver/driver.h"
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
    int64_t v, offset, rows;
};

static struct shape shape_of(const struct mt_tensor *x) {
    int last = x->naxes - 1;
    struct shape shape = {.v = x->extent[last], .offset = x->offset[last], .rows = 1};
    for (int a = 0; a < last; a++) shape.rows *= x->extent[a];
    return shape;
}

/* Of a block that does a row: a thread for a few packs of 16 bytes. */
static int threads_for(const struct mt_tensor *x) {
    int64_t packs = shape_of(x).v * mt_type_size(x->type) / 16, warps = (packs / PACKS_A_THREAD + 31) / 32;
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
static enum mt_status run(const struct cuda_queue *queue, enum mt_type type, bool vectors, const char *name,
                          int64_t blocks, int threads, void **arguments, struct mt_err *err) {
    char definitions[96];
    CUfunction kernel;
    snprintf(definitions, sizeof definitions, "-DTYPE=%s -DVECTORS=%d -DTHREADS=%d -DBLOCKS=%d", cuda_type(type),
             vectors, MOST_THREADS, RESIDENT_THREADS / MOST_THREADS);
    enum mt_status st = cuda_kernel(queue->cuda, "cross_entropy", definitions, name, 0, &kernel, err);
    return st ? st : cuda_launch(queue, kernel, blocks, threads, 0, arguments, err);
}

/* Such a kernel, a block a row. */
static enum mt_status run_rows(const struct cuda_queue *queue, const struct mt_call *call, void **arguments,
                               struct mt_err *err) {
    struct cuda_variant variant;
    const struct mt_tensor *x = &call->in[0];
    enum mt_status st = cuda_choose_variant(queue, &row_family, call, &variant, err);
    return st ? st
              : run(queue, x->type, true, mt_op_info[call->kind].name, shape_of(x).rows, variant.p[0], arguments, err);
}

static enum mt_status queue_row_max(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    const struct mt_tensor *x = &call->in[0];
    struct shape s = shape_of(x);
    void *arguments[] = {(void *)&x->data, (void *)&call->out[0].data, &s.v};
    return run_rows(queue, call, arguments, err);
}

static enum mt_status queue_exp_sum(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    const struct mt_tensor *x = &call->in[0];
    struct shape s = shape_of(x);
    void *arguments[] = {(void *)&x->data, (void *)&call->in[1].data, (void *)&call->out[0].data, &s.v};
    return run_rows(queue, call, arguments, err);
}

static enum mt_status queue_pick(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    const struct mt_tensor *x = &call->in[0];
    struct shape s = shape_of(x);
    void *arguments[] = {(void *)&x->data, (void *)&call->in[1].data, (void *)&call->out[0].data, &s.rows, &s.v,
                         &s.offset};
    return run(queue, x->type, true, "pick", (s.rows + THREADS - 1) / THREADS, THREADS, arguments, err);
}

static enum mt_status queue_nll(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    int64_t rows = mt_tensor_count(&call->out[0]);
    void *arguments[] = {(void *)&call->in[0].data, (void *)&call->in[1].data,  (void *)&call->in[2].data,
                         (void *)&call->in[3].data, (void *)&call->out[0].data, &rows};
    return run(queue, MT_F32, true, "nll", (rows + THREADS - 1) / THREADS, THREADS, arguments, err);
}

/* How a gradient's rows are laid over the device. */
struct grad_launch {
    int threads;      /* of a block, which does a row */
    int blocks;       /* that a multiprocessor shall hold: while one waits for its row, others compute */
    int packs;        /* of the row, that are kept in shared memory */
    int shared_bytes; /* for them */
    bool vectors;
};

enum { HOLD = 2 /* blocks whose rows a multiprocessor has */ };

static int grad_threads(const struct mt_call *call) {
    int threads = LEAST_THREADS;
    while (threads < threads_for(&call->in[0])) threads *= 2;
    return threads;
}

static struct grad_launch grad_launch(const struct cuda *cuda, const struct mt_call *call, int threads, int hold) {
    enum { BESIDES = 1536 /* a block's other shared memory, and what the driver takes */ };
    const struct mt_tensor *x = &call->in[0], *dx = &call->out[0];
    struct grad_launch l = {.threads = threads};
    l.vectors = (uintptr_t)x->data % PACK_BYTES == (uintptr_t)dx->data % PACK_BYTES;
    l.blocks = RESIDENT_THREADS / l.threads;
    int pack = l.vectors ? PACK_BYTES : (int)mt_type_size(x->type);
    int64_t packs = shape_of(x).v * mt_type_size(x->type) / pack + 2,
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

/* `packs` is among the arguments. */
static enum mt_status run_grad(const struct cuda_queue *queue, const struct mt_call *call, int *packs, void **arguments,
                               struct mt_err *err) {
    const struct mt_tensor *x = &call->in[0];
    struct shape s = shape_of(x);
    struct cuda_variant variant;
    enum mt_status st = cuda_choose_variant(queue, &grad_family, call, &variant, err);
    if (st) return st;
    const struct grad_launch launch = grad_launch(queue->cuda, call, variant.p[0], variant.p[1]), *l = &launch;
    *packs = l->packs;
    char definitions[96];
    CUfunction kernel;
    snprintf(definitions, sizeof definitions, "-DTYPE=%s -DVECTORS=%d -DTHREADS=%d -DBLOCKS=%d", cuda_type(x->type),
             l->vectors, l->threads, l->blocks);
    st = cuda_kernel(queue->cuda, "cross_entropy", definitions, mt_op_info[call->kind].name, l->shared_bytes, &kernel,
                     err);
    return st ? st : cuda_launch(queue, kernel, s.rows, l->threads, l->shared_bytes, arguments, err);
}

static enum mt_status queue_nll_grad(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    const struct mt_tensor *x = &call->in[0], *dx = &call->out[0];
    struct shape s = shape_of(x);
    int packs;
    void *arguments[] = {(void *)&x->data,
                         (void *)&call->in[1].data,
                         (void *)&call->in[2].data,
                         (void *)&call->in[3].data,
                         (void *)&call->in[4].data,
                         (void *)&dx->data,
                         &s.v,
                         &s.offset,
                         &packs};
    return s.v ? run_grad(queue, call, &packs, arguments, err) : MT_OK;
}

static enum mt_status queue_cross_entropy_grad(const struct cuda_queue *queue, const struct mt_call *call,
                                               struct mt_err *err) {
    const struct mt_tensor *x = &call->in[0], *dx = &call->out[0];
    struct shape s = shape_of(x);
    int packs;
    float dl = (float)call->attr->value;
    void *none = NULL;
    void *arguments[] = {(void *)&x->data,
                         (void *)&call->in[1].data,
                         call->nin > 2 ? (void *)&call->in[2].data : (void *)&none,
                         (void *)&dx->data,
                         (void *)&call->out[1].data,
                         &s.v,
                         &s.offset,
                         &dl,
                         &packs};
    return run_grad(queue, call, &packs, arguments, err);
}

static enum mt_status queue_cross_entropy(const struct cuda_queue *queue, const struct mt_call *call,
                                          struct mt_err *err) {
    const struct mt_tensor *x = &call->in[0];
    struct shape s = shape_of(x);
    void *arguments[] = {(void *)&x->data,
                         (void *)&call->in[1].data,
                         (void *)&call->out[0].data,
                         (void *)&call->out[1].data,
                         (void *)&call->out[2].data,
                         &s.v,
                         &s.offset};
    return run_rows(queue, call, arguments, err);
}

const struct cuda_op cuda_row_max = {NULL, NULL, queue_row_max};
const struct cuda_op cuda_exp_sum = {NULL, NULL, queue_exp_sum};
const struct cuda_op cuda_pick = {NULL, NULL, queue_pick};
const struct cuda_op cuda_nll = {NULL, NULL, queue_nll};
const struct cuda_op cuda_nll_grad = {NULL, NULL, queue_nll_grad};
const struct cuda_op cuda_cross_entropy = {NULL, NULL, queue_cross_entropy};
const struct cuda_op cuda_cross_entropy_grad = {NULL, NULL, queue_cross_entropy_grad};
