/* Schedules by chunks (kernels/overlap/chunk.h), in stream order: a GEMM for each chunk of tiles; puts by copy engines,
 * on a stream of their own, when their chunk is done; flags behind them, by copy engines too, from a word that has the
 * epoch. So nothing of a put needs a multiprocessor, which a GEMM may hold for long. Waits are kernels of one block,
 * which poll and give up by a clock; none is queued before all puts that peers need for theirs.
 *
 * A write by stream memory operation stands between a put and its flag, since it is ordered after the writes of the
 * copy for the whole system.
 *
 * GEMMs have the type of the operands or f32 as result; other types are rounded from f32 by a pass of ours. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/jit/shape.h"
#include "kernels/cuda/overlap/overlap.h"
#include "kernels/overlap/chunk.h"

enum { WAITS = 128, SUM_THREADS = 256, SUM_BLOCKS = 2048 };

struct run {
    const struct cuda_queue *queue;
    const struct cuda_overlap *o;
    const struct mt_overlap *problem;
    struct mt_overlap_chunks chunks;
    char *buffer[MT_OVERLAP_NBUFFERS];
    int64_t extent[MT_OVERLAP_NBUFFERS][2];
    struct mt_overlap_scratch scratch;
};

static bool known(enum mt_type type) {
    return gemm_types(type, type);
}

static bool can(const struct cuda *cuda, const struct cuda_overlap *o) {
    const struct mt_overlap *p = o->problem;
    (void)cuda;
    return known(p->type) && known(p->out) && known(p->wire) && p->n <= CUDA_OVERLAP_RANKS;
}

static char *place(const struct run *run, enum mt_overlap_buffer buffer, int64_t row, int64_t col) {
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
};

static enum mt_status sum_kernel(const struct cuda *cuda_of, const struct sum *s, int vector, CUfunction *kernel,
                                 struct mt_err *err) {
    char text[160];
    snprintf(text, sizeof text, "-DWAITS=%d -DFROM=%s -DTO=%s -DVECTOR=%d", WAITS, cuda_type(s->from_type),
             cuda_type(s->to_type), vector);
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

static enum mt_status queue_sum(const struct run *run, const struct sum *s, struct mt_err *err) {
    int vector = sum_vector(s);
    CUfunction kernel;
    enum mt_status st = sum_kernel(run->queue->cuda, s, vector, &kernel, err);
    int64_t blocks = s->transposed ? divide_up(s->rows, 32) * divide_up(s->cols, 32)
                                   : divide_up(s->rows * divide_up(s->cols, vector), SUM_THREADS);
    void *arguments[] = {(void *)&s->to,      (void *)&s->to_stride, (void *)&s->from, (void *)&s->stride,
                         (void *)&s->sources, (void *)&s->rows,      (void *)&s->cols};
    return st ? st : cuda_launch(run->queue, kernel, least(blocks, SUM_BLOCKS), SUM_THREADS, 0, arguments, err);
}

/* Where a chunk's result goes, and how it lies there. */
static void aim(const struct run *run, const struct mt_overlap_tile *box, struct sum *s) {
    s->transposed = box->to == MT_OVERLAP_OUT && run->o->operands->trans_out;
    s->to_type = mt_overlap_type(run->problem, box->to);
    s->to_stride = run->extent[box->to][!s->transposed];
    s->to = s->transposed ? run->buffer[box->to] + (box->col * s->to_stride + box->row) * mt_type_size(s->to_type)
                          : place(run, box->to, box->row, box->col);
    s->rows = box->rows, s->cols = box->cols;
}

static enum mt_status add(const struct run *run, const struct mt_overlap_tile *box, struct mt_err *err) {
    const struct mt_overlap *p = run->problem;
    int64_t first, owned = mt_overlap_owned(p, run->o->me, &first);
    struct sum s = {.from = place(run, box->from, box->from_row, box->col),
                    .from_type = p->wire,
                    .stride = run->extent[box->from][1]};
    aim(run, box, &s);
    for (int r = 0; r < p->n; r++)
        if (mt_overlap_contributes(p, r)) s.sources.at[s.sources.count++] = r * owned * s.stride;
    return queue_sum(run, &s, err);
}

static enum mt_status copy(const struct run *run, const struct mt_overlap_tile *box, struct mt_err *err) {
    struct sum s = {.from = place(run, box->from, box->from_row, box->col),
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
    bits |= (uintptr_t)(g->view.lda * in) | (uintptr_t)(g->view.ldb * in) | (uintptr_t)(g->view.ldy * out);
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

/* `target`: where the sum kernel would write it; a type that the library does not have goes through scratch. */
static struct product product_of(const struct run *run, const struct mt_overlap_tile *box, const struct sum *target) {
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
                                  .tf32 = p->tf32},
                        .data = {.b = operands->b, .scratch = run->scratch.gemm}};
    g.view.lda = trans_a ? run->extent[MT_OVERLAP_A][0] : run->extent[box->from][1];
    g.view.ldb = operands->trans_b ? k : box->cols;
    g.data.a = trans_a ? run->buffer[box->from] + box->from_row * mt_type_size(p->type)
                       : place(run, box->from, box->from_row, 0);
    if (direct && target->transposed) transpose(&g);
    g.view.ldy = direct ? target->to_stride : box->cols;
    g.data.y = direct ? target->to : run->scratch.wide;
    g.view.m = g.shape.m, g.view.n = g.shape.n, g.view.k = k, g.view.batches = 1;
    g.shape.align = alignment(&g);
    return g;
}

static bool contiguous(const struct product *g) {
    struct gemm_view whole = gemm_whole_view(&g->shape, GEMM_WHOLE);
    return whole.lda == g->view.lda && whole.ldb == g->view.ldb && whole.ldy == g->view.ldy;
}

/* Rows that are further apart are for the library: by the algorithm that it has for contiguous ones, if these are not
 * aligned better; else by its own choice. */
static enum mt_status run_product(const struct run *run, const struct product *g, struct mt_err *err) {
    struct gemm_choice choice;
    enum mt_status st = gemm_choose(run->queue, &g->shape, &choice, err);
    if (st) return st;
    if (contiguous(g)) return gemm_run(run->queue, &g->shape, &choice, &g->data, err);
    struct product whole = *g;
    whole.view = gemm_whole_view(&g->shape, GEMM_WHOLE);
    bool fits = choice.impl == GEMM_WHOLE && alignment(&whole) <= g->shape.align;
    return gemm_multiply(run->queue, &g->shape, GEMM_WHOLE, &g->view, fits ? &choice.algo : NULL, &g->data, err);
}

/* Of nothing the sum is zero. */
static enum mt_status zero(const struct run *run, const struct sum *s, struct mt_err *err) {
    size_t size = (size_t)mt_type_size(s->to_type), rows = (size_t)(s->transposed ? s->cols : s->rows);
    size_t cols = (size_t)(s->transposed ? s->rows : s->cols);
    CUDA_TRY(
        cuMemsetD2D8Async((CUdeviceptr)s->to, (size_t)s->to_stride * size, 0, cols * size, rows, run->queue->stream),
        err, "zeroing a result");
    return MT_OK;
}

static enum mt_status multiply(const struct run *run, const struct mt_overlap_tile *box, struct mt_err *err) {
    const struct mt_overlap *p = run->problem;
    struct sum target = {0};
    aim(run, box, &target);
    struct product g = product_of(run, box, &target);
    if (!g.shape.k) return zero(run, &target, err);
    enum mt_status st = run_product(run, &g, err);
    if (st || gemm_types(p->type, target.to_type)) return st;
    target.from = run->scratch.wide, target.from_type = MT_F32, target.stride = box->cols, target.sources.count = 1;
    return queue_sum(run, &target, err);
}

static enum mt_status compute(const struct run *run, const struct mt_overlap_tile *box, struct mt_err *err) {
    switch (box->kind) {
    case MT_TILE_MATMUL: return multiply(run, box, err);
    case MT_TILE_ADD: return add(run, box, err);
    case MT_TILE_COPY: return copy(run, box, err);
    }
    return MT_OK;
}

/* ---- flags ---- */

struct flags { /* chunks.cu */
    CUdeviceptr flag[WAITS];
    uint32_t count[WAITS], lag[WAITS];
};

static enum mt_status await_kernel(const struct run *run, CUfunction *kernel, struct mt_err *err) {
    char text[100];
    snprintf(text, sizeof text, "-DWAITS=%d -DFROM=float -DTO=float -DVECTOR=1", WAITS);
    return cuda_kernel(run->queue->cuda, "chunks", text, "overlap_await", 0, kernel, err);
}

/* This rank's own flags need no wait: what raises them has been queued before, on the stream that computes. */
static enum mt_status await(const struct run *run, const struct cuda_queue *queue, int first, int count,
                            struct mt_err *err) {
    struct flags f = {.count = {0}};
    CUfunction kernel;
    CUdeviceptr epoch = run->o->epoch;
    enum mt_status st = await_kernel(run, &kernel, err);
    for (int w = first, n = 0; w < first + count && !st; w++) {
        const struct mt_overlap_wait *wait = &run->chunks.waits[w];
        if (wait->from != run->o->me) {
            f.flag[n] = run->o->parts[run->o->me] + (CUdeviceptr)mt_overlap_flag_place(run->problem, wait->flag);
            f.count[n] = (uint32_t)wait->count, f.lag[n++] = (uint32_t)wait->lag;
        }
        if (n < WAITS && (!n || w + 1 < first + count)) continue;
        st = cuda_launch(queue, kernel, 1, WAITS, 0, (void *[]){&f, &n, &epoch, (void *)&run->o->watch}, err);
        n = 0;
    }
    return st;
}

/* Write the epoch to flags that lie `step` bytes apart. */
static enum mt_status raise_row(const struct run *run, CUdeviceptr flag, int64_t step, int count, struct mt_err *err) {
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = (CUdeviceptr)run->scratch.words,
                          .srcPitch = 8,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = flag,
                          .dstPitch = (size_t)step,
                          .WidthInBytes = 8,
                          .Height = (size_t)count};
    if (count == 1 || step == 8)
        CUDA_TRY(cuMemcpyDtoDAsync(flag, (CUdeviceptr)run->scratch.words, 8 * (size_t)count, run->o->moves), err,
                 "raising a flag");
    else
        CUDA_TRY(cuMemcpy2DAsync(&rows, run->o->moves), err, "raising flags");
    return MT_OK;
}

/* Raise a put's flags, in rows of equal steps. */
static enum mt_status raise(const struct run *run, const struct mt_overlap_move *put, struct mt_err *err) {
    const int *flags = &run->chunks.flags[put->first_flag];
    CUdeviceptr part = run->o->parts[put->box.peer];
    enum mt_status st = MT_OK;
    for (int i = 0, end; i < put->nflags && !st; i = end) {
        int step = i + 1 < put->nflags ? flags[i + 1] - flags[i] : 1;
        for (end = i + 1; end < put->nflags && step > 0 && flags[end] - flags[end - 1] == step;) end++;
        st = raise_row(run, part + (CUdeviceptr)mt_overlap_flag_place(run->problem, flags[i]),
                       mt_overlap_flag_place(run->problem, step), end - i, err);
    }
    return st;
}

/* ---- puts ---- */

static enum mt_status put_box(const struct run *run, const struct mt_overlap_put *box, struct mt_err *err) {
    const struct mt_overlap *p = run->problem;
    int64_t size = mt_type_size(mt_overlap_type(p, box->to)), to[2], stride = run->extent[box->from][1];
    mt_overlap_extent(p, box->peer, box->to, to);
    CUdeviceptr source = (CUdeviceptr)place(run, box->from, box->from_row, box->col);
    CUdeviceptr target = run->o->parts[box->peer] + (CUdeviceptr)(mt_overlap_place(p, box->to, run->o->copy) +
                                                                  (box->to_row * to[1] + box->col) * size);
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = source,
                          .srcPitch = (size_t)(stride * size),
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = target,
                          .dstPitch = (size_t)(to[1] * size),
                          .WidthInBytes = (size_t)(box->cols * size),
                          .Height = (size_t)box->rows};
    if (box->rows == 1 || (box->cols == stride && box->cols == to[1]))
        CUDA_TRY(cuMemcpyDtoDAsync(target, source, rows.WidthInBytes * rows.Height, run->o->moves), err,
                 "putting rows");
    else
        CUDA_TRY(cuMemcpy2DAsync(&rows, run->o->moves), err, "putting a box");
    return MT_OK;
}

static enum mt_status fork_moves(const struct run *run, struct mt_err *err) {
    CUDA_TRY(cuEventRecord(run->o->joint, run->queue->stream), err, "cuEventRecord");
    CUDA_TRY(cuStreamWaitEvent(run->o->moves, run->o->joint, CU_EVENT_WAIT_DEFAULT), err, "cuStreamWaitEvent");
    return MT_OK;
}

static enum mt_status join_moves(const struct run *run, struct mt_err *err) {
    CUDA_TRY(cuEventRecord(run->o->joint, run->o->moves), err, "cuEventRecord");
    CUDA_TRY(cuStreamWaitEvent(run->queue->stream, run->o->joint, CU_EVENT_WAIT_DEFAULT), err, "cuStreamWaitEvent");
    return MT_OK;
}

/* Puts [first, + count), after what the computing stream has been given. */
static enum mt_status put_all(const struct run *run, int first, int count, struct mt_err *err) {
    struct cuda_queue moves = *run->queue;
    moves.stream = run->o->moves;
    enum mt_status st = count ? fork_moves(run, err) : MT_OK;
    for (int i = first; i < first + count && !st; i++) {
        const struct mt_overlap_move *put = &run->chunks.puts[i];
        if (put->box.nwaits) st = await(run, &moves, put->box.first_wait, put->box.nwaits, err);
        if (!st && put->box.rows) st = put_box(run, &put->box, err);
        if (!st)
            CUDA_TRY(
                cuStreamWriteValue64(moves.stream, (CUdeviceptr)run->scratch.order, 0, CU_STREAM_WRITE_VALUE_DEFAULT),
                err, "cuStreamWriteValue64");
        if (!st) st = raise(run, put, err);
    }
    return st;
}

/* ---- the whole ---- */

static void locate(struct run *run) {
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

/* Load the kernels, and choose the GEMMs, before a wait is queued: both may wait for the GPU. */
static enum mt_status prepare(const struct run *run, struct mt_err *err) {
    CUfunction kernel;
    enum mt_status st = await_kernel(run, &kernel, err);
    for (int c = 0; c < run->chunks.nchunks && !st; c++) {
        const struct mt_overlap_tile *box = &run->chunks.chunks[c].box;
        struct gemm_choice choice;
        struct sum s = {.from_type = box->kind == MT_TILE_MATMUL ? MT_F32 : mt_overlap_type(run->problem, box->from)};
        aim(run, box, &s);
        for (int v = 1; v <= 8 && !st; v *= 2)
            if (v == 1 || (!s.transposed && v * mt_type_size(s.to_type) <= 16 && v * mt_type_size(s.from_type) <= 16))
                st = sum_kernel(run->queue->cuda, &s, v, &kernel, err);
        if (st || box->kind != MT_TILE_MATMUL) continue;
        struct product g = product_of(run, box, &s);
        if (g.shape.k) st = gemm_choose(run->queue, &g.shape, &choice, err);
    }
    return st;
}

static enum mt_status queue_chunks(struct run *run, struct mt_err *err) {
    const struct mt_overlap_chunks *chunks = &run->chunks;
    enum mt_status st = prepare(run, err);
    if (!st) st = cuda_overlap_begin(run->queue, run->o, run->scratch.words, chunks->most_flags, err);
    if (!st) st = put_all(run, 0, chunks->nstart, err);
    for (int c = 0; c < chunks->nchunks && !st; c++) {
        const struct mt_overlap_chunk *chunk = &chunks->chunks[c];
        st = await(run, run->queue, chunk->box.first_wait, chunk->box.nwaits, err);
        if (!st) st = compute(run, &chunk->box, err);
        if (!st) st = put_all(run, chunk->first_put, chunk->nputs, err);
    }
    return st ? st : fork_moves(run, err) ? err->status : join_moves(run, err);
}

static enum mt_status queue(const struct cuda_queue *queue_of, const struct cuda_overlap *o, struct mt_err *err) {
    struct run run = {.queue = queue_of, .o = o, .problem = o->problem};
    int64_t rows = o->chunk_rows;
    if (!rows && o->problem->ngroups) rows = 1; /* tiles are as large as chunks should be */
    if (!rows) rows = mt_overlap_chunk_rows(o->problem, o->me, queue_of->cuda->nsm);
    mt_overlap_lay_out_scratch(o->problem, o->me, o->operands->scratch, &run.scratch);
    locate(&run);
    mt_overlap_chunks_make(o->schedule, rows, &run.chunks);
    enum mt_status st = queue_chunks(&run, err);
    mt_overlap_chunks_release(&run.chunks);
    return st;
}

const struct cuda_overlap_impl cuda_overlap_chunks = {MT_OVERLAP_CHUNKS, can, queue};
