/* Schedules by waves (kernels/overlap/wave.h), where a peer's memory is out of reach: on another host, or on a GPU that
 * this one has no access to. A GEMM for each chunk on the stream that computes; wave after wave of messages by NCCL on
 * a stream beside it, each a group of sends and receives between staging buffers; events between the two. Uneven shares
 * are messages of unequal sizes. Sums are added by this rank in the order of ranks: the same bits as by puts,
 * but of sums that GEMMs add there (kernels/overlap/chunk.h).
 *
 * Nothing here waits for a flag: NCCL's kernels wait for peers, the communicator's deadline holds for them, and to
 * abort it ends them (kernels/cuda/nccl/comm.h). */
#include <stdlib.h>

#include "kernels/base/arena.h"
#include "kernels/cuda/nccl/comm.h"
#include "kernels/cuda/overlap/compute.h"
#include "kernels/overlap/wave.h"

struct run {
    struct cuda_overlap_run base;
    struct mt_overlap_waves waves;
    int wave;      /* the next */
    int forked;    /* chunks that the stream beside has waited for; -1: not even for what was before the run */
    CUevent *over; /* [nwaves]: a wave is; null: no chunk asks */
};

static bool can(const struct cuda *cuda, const struct cuda_overlap *o) {
    (void)cuda;
    return o->comm && cuda_overlap_computes(o->problem);
}

/* ---- messages ---- */

struct messages {
    struct mt_arena arena;
    struct cuda_nccl_message *list;
    int count, capacity;
};

/* A box of this rank's buffer: one message if its rows are contiguous on both sides, else one for each row. */
static void add(const struct run *run, const struct mt_overlap_transfer *t, struct messages *to) {
    const struct mt_overlap *p = run->base.problem;
    const struct mt_overlap_put *box = &t->box;
    enum mt_overlap_buffer buffer = t->sends ? box->from : box->to;
    int64_t row_bytes = box->cols * mt_type_size(mt_overlap_type(p, buffer)),
            row = t->sends ? box->from_row : box->to_row;
    int64_t from[2], arrives[2], me = run->base.o->me;
    mt_overlap_extent(p, t->sends ? (int)me : t->peer, box->from, from);
    mt_overlap_extent(p, t->sends ? t->peer : (int)me, box->to, arrives);
    bool whole = box->cols == from[1] && box->cols == arrives[1];
    int peer = run->base.o->ranks ? run->base.o->ranks[t->peer] : t->peer;
    for (int64_t i = 0; i < (whole ? 1 : box->rows); i++) {
        mt_arena_grow(&to->arena, &to->list, to->count, &to->capacity, sizeof *to->list);
        to->list[to->count++] = (struct cuda_nccl_message){cuda_overlap_place(&run->base, buffer, row + i, box->col),
                                                           whole ? box->rows * row_bytes : row_bytes, peer, t->sends};
    }
}

static enum mt_status exchange(const struct run *run, int wave, struct mt_err *err) {
    const struct mt_overlap_waves *w = &run->waves;
    struct cuda_queue moves = *run->base.queue;
    struct messages messages = {.count = 0};
    moves.stream = run->base.o->moves;
    for (int t = wave ? w->end[wave - 1] : 0; t < w->end[wave]; t++) add(run, &w->transfers[t], &messages);
    enum mt_status st = MT_OK;
    if (messages.count)
        st = cuda_nccl_exchange(run->base.o->comm, &moves, messages.list, messages.count,
                                mt_overlap_name(run->base.problem->form), err);
    mt_arena_release(&messages.arena);
    return st;
}

/* ---- in order ---- */

/* The waves that send nothing of later chunks than the first `chunks`. */
static enum mt_status queue_waves(struct run *run, int chunks, struct mt_err *err) {
    const struct mt_overlap_waves *w = &run->waves;
    enum mt_status st = MT_OK;
    for (; run->wave < w->nwaves && w->after[run->wave] <= chunks && !st; run->wave++) {
        if (w->after[run->wave] > run->forked) {
            run->forked = chunks;
            if ((st = cuda_overlap_fork(&run->base, err))) return st;
        }
        st = exchange(run, run->wave, err);
        if (!st && run->over[run->wave])
            CUDA_TRY(cuEventRecord(run->over[run->wave], run->base.o->moves), err, "cuEventRecord");
    }
    return st;
}

static enum mt_status make_events(struct run *run, struct mt_err *err) {
    const struct mt_overlap_waves *w = &run->waves;
    for (int c = 0; c < w->chunks.nchunks; c++) {
        int last = w->needs[c] - 1;
        if (last < 0 || run->over[last]) continue;
        CUDA_TRY(cuEventCreate(&run->over[last], CU_EVENT_DISABLE_TIMING), err, "cuEventCreate");
    }
    return MT_OK;
}

static enum mt_status queue_all(struct run *run, struct mt_err *err) {
    const struct mt_overlap_waves *w = &run->waves;
    int awaited = 0;
    enum mt_status st = cuda_overlap_prepare(&run->base, &w->chunks, err);
    if (!st) st = make_events(run, err);
    if (!st) st = cuda_overlap_begin(run->base.queue, run->base.o, NULL, 0, err);
    for (int c = 0; c < w->chunks.nchunks && !st; c++) {
        if ((st = queue_waves(run, c, err))) break;
        if (w->needs[c] > awaited) {
            awaited = w->needs[c];
            CUDA_TRY(cuStreamWaitEvent(run->base.queue->stream, run->over[awaited - 1], CU_EVENT_WAIT_DEFAULT), err,
                     "cuStreamWaitEvent");
        }
        st = cuda_overlap_compute(&run->base, &w->chunks.chunks[c], err);
    }
    if (!st) st = queue_waves(run, w->chunks.nchunks, err);
    if (st || run->forked < 0) return st;
    return cuda_overlap_join(&run->base, err);
}

static enum mt_status queue(const struct cuda_queue *queue_of, const struct cuda_overlap *o, struct mt_err *err) {
    struct run run = {.forked = -1};
    int64_t rows = o->chunk_rows ? o->chunk_rows : mt_overlap_common_rows(o->problem);
    cuda_overlap_run_init(&run.base, queue_of, o);
    mt_overlap_waves_make(o->problem, o->me, rows, &run.waves);
    run.over = mt_calloc((size_t)run.waves.nwaves + 1, sizeof *run.over);
    enum mt_status st = queue_all(&run, err);
    for (int w = 0; w < run.waves.nwaves; w++)
        if (run.over[w]) cuEventDestroy(run.over[w]); /* when it has passed */
    free(run.over);
    mt_overlap_waves_release(&run.waves);
    return st;
}

const struct cuda_overlap_impl cuda_overlap_waves = {MT_OVERLAP_NCCL, can, queue};
