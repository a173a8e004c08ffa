/* Chunks on the stream that computes: GEMMs by cuBLASLt; sums, copies and rounding by a kernel of ours.
 *
 * GEMMs have the type of the operands or f32 as result; other types are rounded from f32 by a pass of ours. */
#include "kernels/cuda/overlap/compute.h"

#include <assert.h>
#include <stdio.h>

#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/jit/shape.h"

enum { SUM_THREADS = 256, SUM_BLOCKS = 2048 };

static bool known(enum mt_type type) {
    return gemm_types(type, type);
}

bool cuda_overlap_computes(const struct mt_overlap *p) {
    return known(p->type) && known(p->out) && known(p->wire) && p->n <= CUDA_OVERLAP_RANKS;
}

char *cuda_overlap_place(const struct cuda_overlap_run *run, enum mt_overlap_buffer buffer, int64_t row, int64_t col) {
    int64_t size = mt_type_size(mt_overlap_type(run->problem, buffer));
    return run->buffer[buffer] + (row * run->extent[buffer][1] + col) * size;
}

/* ---- sums, copies, rounding: one kernel ---- */

struct sources { /* chunks.cu */
    int64_t count, at[CUDA_OVERLAP_RANKS];
};

struct sum {
    char *to;
    const char *from;
    enum mt_type to_type, from_type;
    bool transposed;
    int64_t to_stride, stride, rows, cols;
    struct sources sources;
    const char *bias; /* of bias_type, or null */
    enum mt_type bias_type;
};

static enum mt_status sum_kernel(const struct cuda *cuda_of, const struct sum *s, int vector, CUfunction *kernel,
                                 struct mt_err *err) {
    char text[160], bias[32] = "";
    if (s->bias && s->bias_type != s->to_type) snprintf(bias, sizeof bias, " -DBIAS=%s", cuda_type(s->bias_type));
    snprintf(text, sizeof text, "-DWAITS=%d -DFROM=%s -DTO=%s -DVECTOR=%d%s", CUDA_OVERLAP_WAITS,
             cuda_type(s->from_type), cuda_type(s->to_type), vector, bias);
    return cuda_kernel((struct cuda *)(uintptr_t)cuda_of, "chunks", text,
                       s->transposed ? "overlap_sum_transposed" : "overlap_sum", 0, kernel, err);
}

/* Elements of one access: of at most 16 bytes of either type, where rows and addresses allow it. */
static int sum_vector(const struct sum *s) {
    int from = (int)mt_type_size(s->from_type), to = (int)mt_type_size(s->to_type), v = 16 / (from > to ? from : to);
    int64_t step = s->stride | s->to_stride | s->cols;
    if (s->transposed) return 1;
    for (int64_t k = 0; k < s->sources.count; k++) step |= s->sources.at[k];
    while (v > 1 && (step % v || (uintptr_t)s->to % (uintptr_t)(v * to) || (uintptr_t)s->from % (uintptr_t)(v * from)))
        v /= 2;
    return v;
}

/* Load the kernels that a sum may take, whatever its alignment. */
static enum mt_status load_sums(const struct cuda_overlap_run *run, const struct sum *s, struct mt_err *err) {
    CUfunction kernel;
    enum mt_status st = MT_OK;
    for (int v = 1; v <= 8 && !st; v *= 2)
        if (v == 1 || (!s->transposed && v * mt_type_size(s->to_type) <= 16 && v * mt_type_size(s->from_type) <= 16))
            st = sum_kernel(run->queue->cuda, s, v, &kernel, err);
    return st;
}

static enum mt_status queue_sum(const struct cuda_overlap_run *run, const struct sum *s, struct mt_err *err) {
    int vector = sum_vector(s);
    CUfunction kernel;
    enum mt_status st = sum_kernel(run->queue->cuda, s, vector, &kernel, err);
    int64_t blocks = s->transposed ? divide_up(s->rows, 32) * divide_up(s->cols, 32)
                                   : divide_up(s->rows * divide_up(s->cols, vector), SUM_THREADS);
    void *arguments[] = {(void *)&s->to,      (void *)&s->to_stride, (void *)&s->from, (void *)&s->stride,
                         (void *)&s->sources, (void *)&s->rows,      (void *)&s->cols, (void *)&s->bias};
    return st ? st : cuda_launch(run->queue, kernel, least(blocks, SUM_BLOCKS), SUM_THREADS, 0, arguments, err);
}

/* Where a chunk's result goes, and how it lies there. */
static void aim(const struct cuda_overlap_run *run, const struct mt_overlap_tile *box, struct sum *s) {
    s->transposed = box->to == MT_OVERLAP_OUT && run->o->operands->trans_out;
    s->to_type = mt_overlap_type(run->problem, box->to);
    s->to_stride = run->extent[box->to][!s->transposed];
    s->to = s->transposed ? run->buffer[box->to] + (box->col * s->to_stride + box->row) * mt_type_size(s->to_type)
                          : cuda_overlap_place(run, box->to, box->row, box->col);
    s->rows = box->rows, s->cols = box->cols;
}

/* The bias of complete sums (mt_overlap_takes_epilogue: of sums there is no other epilogue). */
static void aim_bias(const struct cuda_overlap_run *run, const struct mt_overlap_tile *box, struct sum *s) {
    const struct mt_overlap_operands *operands = run->o->operands;
    s->bias_type = run->problem->type;
    if (operands->epilogue) s->bias = (const char *)operands->extra + box->col * mt_type_size(s->bias_type);
}

static enum mt_status add(const struct cuda_overlap_run *run, const struct mt_overlap_tile *box, struct mt_err *err) {
    const struct mt_overlap *p = run->problem;
    int64_t first, owned = mt_overlap_owned(p, run->o->me, &first);
    struct sum s = {.from = cuda_overlap_place(run, box->from, box->from_row, box->col),
                    .from_type = p->wire,
                    .stride = run->extent[box->from][1]};
    aim(run, box, &s);
    aim_bias(run, box, &s);
    for (int r = 0; r < p->n; r++)
        if (mt_overlap_contributes(p, r)) s.sources.at[s.sources.count++] = r * owned * s.stride;
    return queue_sum(run, &s, err);
}

static enum mt_status copy(const struct cuda_overlap_run *run, const struct mt_overlap_tile *box, struct mt_err *err) {
    struct sum s = {.from = cuda_overlap_place(run, box->from, box->from_row, box->col),
                    .from_type = mt_overlap_type(run->problem, box->from),
                    .stride = run->extent[box->from][1],
                    .sources = {.count = 1}};
    aim(run, box, &s);
    bool whole = s.cols == s.stride && s.cols == s.to_stride && s.to_type == s.from_type && !s.transposed;
    if (!whole) return queue_sum(run, &s, err);
    CUDA_TRY(cuMemcpyDtoDAsync((CUdeviceptr)s.to, (CUdeviceptr)s.from,
                               (size_t)(s.rows * s.cols * mt_type_size(s.to_type)), run->queue->stream),
             err, "copying rows");
    return MT_OK;
}

/* ---- GEMMs ---- */

/* One GEMM as the library takes it: operands, and the distances of their rows. */
struct product {
    struct gemm_shape shape;
    struct gemm_view view;
    struct gemm_data data;
};

static int32_t alignment(const struct product *g) {
    int64_t in = mt_type_size(g->shape.in), out = mt_type_size(g->shape.out);
    uintptr_t bits = 16 | (uintptr_t)g->data.a | (uintptr_t)g->data.b | (uintptr_t)g->data.y;
    bits |= (uintptr_t)g->data.bias | (uintptr_t)g->data.x | (uintptr_t)g->data.pre;
    bits |= (uintptr_t)g->data.added | (uintptr_t)(g->view.lda * in) | (uintptr_t)(g->view.ldb * in) |
            (uintptr_t)(g->view.ldy * out);
    return (int32_t)(bits & -bits);
}

/* The transposed product, b' a', of the transposed result. */
static void transpose(struct product *g) {
    struct product was = *g;
    g->shape.m = was.shape.n, g->shape.n = was.shape.m;
    g->shape.trans_a = !was.shape.trans_b, g->shape.trans_b = !was.shape.trans_a;
    g->view.lda = was.view.ldb, g->view.ldb = was.view.lda;
    g->data.a = was.data.b, g->data.b = was.data.a;
}

/* The chunk's part of the epilogue's operands: it has all columns, as a gather's chunks do. */
static void add_epilogue(const struct cuda_overlap_run *run, const struct mt_overlap_tile *box, struct product *g) {
    const struct mt_overlap_operands *operands = run->o->operands;
    const struct mt_op_epilogue *info = mt_op_epilogue(operands->epilogue);
    int64_t at = box->row * run->extent[box->to][1] * mt_type_size(run->problem->out);
    if (!info) return;
    assert(!box->col && box->cols == run->extent[box->to][1]);
    g->shape.epilogue = (uint8_t)gemm_epilogue_of(operands->epilogue);
    g->data.bias = info->bias ? operands->extra : NULL;
    g->data.x = info->bias ? NULL : (const char *)operands->extra + at;
    g->data.pre = info->nout > 1 ? (char *)operands->pre + at : NULL;
}

/* `target`: where the sum kernel would write it; a type that the library does not have goes through scratch, and has
 * no epilogue. */
static struct product product_of(const struct cuda_overlap_run *run, const struct mt_overlap_chunk *chunk,
                                 const struct sum *target) {
    const struct mt_overlap_tile *box = &chunk->box;
    const struct mt_overlap *p = run->problem;
    const struct mt_overlap_operands *operands = run->o->operands;
    const struct cuda *cuda = run->queue->cuda;
    bool gather = p->form == MT_OVERLAP_GATHER, trans_a = box->from == MT_OVERLAP_A && operands->trans_a;
    bool direct = gemm_types(p->type, target->to_type);
    int64_t k = gather ? p->k : p->shares[run->o->me];
    struct product g = {.shape = {.m = box->rows,
                                  .n = box->cols,
                                  .k = k,
                                  .nsm = gemm_multiprocessors(cuda),
                                  .in = (uint8_t)p->type,
                                  .out = (uint8_t)(direct ? target->to_type : MT_F32),
                                  .trans_a = trans_a,
                                  .trans_b = operands->trans_b,
                                  .accumulate = chunk->adds,
                                  .tf32 = p->tf32},
                        .data = {.b = operands->b, .scratch = run->scratch.gemm}};
    g.view.lda = trans_a ? run->extent[MT_OVERLAP_A][0] : run->extent[box->from][1];
    g.view.ldb = operands->trans_b ? k : box->cols;
    g.data.a = trans_a ? run->buffer[box->from] + box->from_row * mt_type_size(p->type)
                       : cuda_overlap_place(run, box->from, box->from_row, 0);
    if (direct && target->transposed) transpose(&g);
    g.view.ldy = direct ? target->to_stride : box->cols;
    g.data.y = direct ? target->to : run->scratch.wide;
    g.view.m = g.shape.m, g.view.n = g.shape.n, g.view.k = k, g.view.batches = 1;
    if (chunk->adds) {
        g.view.beta = 1;
        g.data.added = cuda_overlap_place(run, MT_OVERLAP_SLOTS, chunk->added_row, box->col);
    }
    if (operands->epilogue && gather) add_epilogue(run, box, &g);
    g.shape.align = alignment(&g);
    return g;
}

static bool contiguous(const struct product *g) {
    struct gemm_view whole = gemm_whole_view(&g->shape, GEMM_WHOLE);
    return whole.lda == g->view.lda && whole.ldb == g->view.ldb && whole.ldy == g->view.ldy;
}

/* Of those that add another matrix, which only the library can, its best, if another one's is better. */
static enum mt_status choose(const struct cuda_overlap_run *run, const struct product *g, struct gemm_choice *choice,
                             struct mt_err *err) {
    struct gemm_shape shape = g->shape;
    enum mt_status st = gemm_choose(run->queue, &shape, choice, err);
    if (st || !g->data.added || choice->impl == GEMM_WHOLE) return st;
    shape.among = GEMM_AMONG_LIBRARY;
    return gemm_choose(run->queue, &shape, choice, err);
}

/* Rows that are further apart, and sums with another matrix, are for the library: by the algorithm that it has for
 * contiguous ones, if these are not aligned better; else by its own choice. They have no epilogue, whose GEMMs are
 * gathers' and contiguous. */
static enum mt_status run_product(const struct cuda_overlap_run *run, const struct product *g, struct mt_err *err) {
    struct gemm_choice choice;
    enum mt_status st = choose(run, g, &choice, err);
    if (st) return st;
    if (contiguous(g) && !g->data.added) return gemm_run(run->queue, &g->shape, &choice, &g->data, err);
    assert(!g->shape.epilogue);
    struct product whole = *g;
    whole.view = gemm_whole_view(&g->shape, GEMM_WHOLE);
    bool fits = choice.impl == GEMM_WHOLE && alignment(&whole) <= g->shape.align;
    return gemm_multiply(run->queue, &g->shape, GEMM_WHOLE, &g->view, fits ? &choice.algo : NULL, &g->data, err);
}

/* Of nothing the sum is zero. */
static enum mt_status zero(const struct cuda_overlap_run *run, const struct sum *s, struct mt_err *err) {
    size_t size = (size_t)mt_type_size(s->to_type), rows = (size_t)(s->transposed ? s->cols : s->rows);
    size_t cols = (size_t)(s->transposed ? s->rows : s->cols);
    CUDA_TRY(
        cuMemsetD2D8Async((CUdeviceptr)s->to, (size_t)s->to_stride * size, 0, cols * size, rows, run->queue->stream),
        err, "zeroing a result");
    return MT_OK;
}

/* What a GEMM leaves to a pass: to round what it has made in scratch; the bias of sums that it has completed, in their
 * place. False: nothing. */
static bool passes_after(const struct cuda_overlap_run *run, const struct mt_overlap_chunk *chunk, struct sum *s) {
    bool rounds = !gemm_types(run->problem->type, s->to_type);
    s->from = rounds ? run->scratch.wide : s->to;
    s->from_type = rounds ? MT_F32 : s->to_type;
    s->stride = rounds ? chunk->box.cols : s->to_stride;
    if (chunk->adds) aim_bias(run, &chunk->box, s);
    return rounds || s->bias;
}

static enum mt_status multiply(const struct cuda_overlap_run *run, const struct mt_overlap_chunk *chunk,
                               struct mt_err *err) {
    struct sum target = {0};
    aim(run, &chunk->box, &target);
    struct product g = product_of(run, chunk, &target);
    if (!g.shape.k) return zero(run, &target, err);
    enum mt_status st = run_product(run, &g, err);
    target.sources.count = 1;
    if (st || !passes_after(run, chunk, &target)) return st;
    return queue_sum(run, &target, err);
}

enum mt_status cuda_overlap_compute(const struct cuda_overlap_run *run, const struct mt_overlap_chunk *chunk,
                                    struct mt_err *err) {
    const struct mt_overlap_tile *box = &chunk->box;
    switch (box->kind) {
    case MT_TILE_MATMUL: return multiply(run, chunk, err);
    case MT_TILE_ADD: return add(run, box, err);
    case MT_TILE_COPY: return copy(run, box, err);
    }
    return MT_OK;
}

/* ---- a run ---- */

static void locate(struct cuda_overlap_run *run) {
    const struct cuda_overlap *o = run->o;
    run->buffer[MT_OVERLAP_A] = (char *)(uintptr_t)o->operands->a;
    run->buffer[MT_OVERLAP_OUT] = o->operands->out;
    run->buffer[MT_OVERLAP_WHOLE] = o->operands->whole;
    run->buffer[MT_OVERLAP_PARTIAL] = run->scratch.partial;
    for (enum mt_overlap_buffer b = 0; b < MT_OVERLAP_NBUFFERS; b++) {
        mt_overlap_extent(run->problem, o->me, b, run->extent[b]);
        if (mt_overlap_in_window(b))
            run->buffer[b] = (char *)(o->parts[o->me] + (CUdeviceptr)mt_overlap_place(run->problem, b, o->copy));
    }
}

void cuda_overlap_run_init(struct cuda_overlap_run *run, const struct cuda_queue *queue, const struct cuda_overlap *o) {
    *run = (struct cuda_overlap_run){.queue = queue, .o = o, .problem = o->problem};
    mt_overlap_lay_out_scratch(o->problem, o->me, o->operands->scratch, &run->scratch);
    locate(run);
}

enum mt_status cuda_overlap_prepare(const struct cuda_overlap_run *run, const struct mt_overlap_chunks *chunks,
                                    struct mt_err *err) {
    enum mt_status st = MT_OK;
    for (int c = 0; c < chunks->nchunks && !st; c++) {
        const struct mt_overlap_chunk *chunk = &chunks->chunks[c];
        const struct mt_overlap_tile *box = &chunk->box;
        struct gemm_choice choice;
        struct sum s = {.from_type = mt_overlap_type(run->problem, box->from)};
        bool passes = true;
        aim(run, box, &s);
        if (box->kind == MT_TILE_ADD) aim_bias(run, box, &s);
        if (box->kind == MT_TILE_MATMUL) passes = passes_after(run, chunk, &s);
        if (passes) st = load_sums(run, &s, err);
        if (st || box->kind != MT_TILE_MATMUL) continue;
        struct product g = product_of(run, chunk, &s);
        if (g.shape.k) st = choose(run, &g, &choice, err);
        if (g.shape.k && !st) st = gemm_load_passes(run->queue, &g.shape, &choice, err);
    }
    return st;
}

/* ---- on `moves` ---- */

enum mt_status cuda_overlap_fork(const struct cuda_overlap_run *run, struct mt_err *err) {
    CUDA_TRY(cuEventRecord(run->o->joint, run->queue->stream), err, "cuEventRecord");
    CUDA_TRY(cuStreamWaitEvent(run->o->moves, run->o->joint, CU_EVENT_WAIT_DEFAULT), err, "cuStreamWaitEvent");
    return MT_OK;
}

enum mt_status cuda_overlap_join(const struct cuda_overlap_run *run, struct mt_err *err) {
    CUDA_TRY(cuEventRecord(run->o->joint, run->o->moves), err, "cuEventRecord");
    CUDA_TRY(cuStreamWaitEvent(run->queue->stream, run->o->joint, CU_EVENT_WAIT_DEFAULT), err, "cuStreamWaitEvent");
    return MT_OK;
}
