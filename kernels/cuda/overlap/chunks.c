/* Schedules by chunks (kernels/overlap/chunk.h), in stream order: a GEMM for each chunk of tiles; puts by copy engines
 * (engine.c), on a stream of their own, when their chunk is done. So nothing of a put needs a multiprocessor, which a
 * GEMM may hold for long. Waits are kernels of one block, which poll and give up by a clock; none is queued before all
 * puts that peers need for theirs. */
#include <stdio.h>

#include "kernels/cuda/overlap/compute.h"

struct run {
    struct cuda_overlap_run base;
    struct mt_overlap_chunks chunks;
    bool ahead; /* the data of the first put has been queued before the run begins */
};

/* ---- flags ---- */

struct flags { /* chunks.cu */
    CUdeviceptr flag[CUDA_OVERLAP_WAITS];
    uint32_t count[CUDA_OVERLAP_WAITS], lag[CUDA_OVERLAP_WAITS];
};

static enum mt_status await_kernel(const struct run *run, CUfunction *kernel, struct mt_err *err) {
    char text[100];
    snprintf(text, sizeof text, "-DWAITS=%d -DFROM=float -DTO=float -DVECTOR=1", CUDA_OVERLAP_WAITS);
    return cuda_kernel(run->base.queue->cuda, "chunks", text, "overlap_await", 0, kernel, err);
}

/* This rank's own flags need no wait: what raises them has been queued before, on the stream that computes. */
static enum mt_status await(const struct run *run, const struct cuda_queue *queue, int first, int count,
                            struct mt_err *err) {
    struct flags f = {.count = {0}};
    CUfunction kernel;
    CUdeviceptr epoch = run->base.o->epoch;
    void *words = run->base.scratch.words;
    int64_t nwords = run->chunks.most_flags;
    enum mt_status st = await_kernel(run, &kernel, err);
    for (int w = first, n = 0; w < first + count && !st; w++) {
        const struct mt_overlap_wait *wait = &run->chunks.waits[w];
        if (wait->from != run->base.o->me) {
            f.flag[n] =
                run->base.o->parts[run->base.o->me] + (CUdeviceptr)mt_overlap_flag_place(run->base.problem, wait->flag);
            f.count[n] = (uint32_t)wait->count, f.lag[n++] = (uint32_t)wait->lag;
        }
        if (n < CUDA_OVERLAP_WAITS && (!n || w + 1 < first + count)) continue;
        st = cuda_launch(queue, kernel, 1, CUDA_OVERLAP_WAITS, 0,
                         (void *[]){&f, &n, &epoch, &words, &nwords, (void *)&run->base.o->watch}, err);
        n = 0;
    }
    return st;
}

/* ---- puts ---- */

/* Puts [first, + count), after what the computing stream has been given; but a rank's own flags, which nothing awaits.
 */
static enum mt_status put_all(const struct run *run, int first, int count, struct mt_err *err) {
    struct cuda_queue moves = *run->base.queue;
    moves.stream = run->base.o->moves;
    bool forked = false;
    enum mt_status st = MT_OK;
    for (int i = first; i < first + count && !st; i++) {
        const struct mt_overlap_move *put = &run->chunks.puts[i];
        if (put->box.peer == run->base.o->me) continue;
        if (!forked) st = cuda_overlap_fork(&run->base, err);
        forked = true;
        if (!st && put->box.nwaits) st = await(run, &moves, put->box.first_wait, put->box.nwaits, err);
        if (!st && !(run->ahead && i == 0)) st = cuda_overlap_put_data(&run->base, &put->box, err);
        if (!st) st = cuda_overlap_raise(&run->base, &put->box, &run->chunks.flags[put->first_flag], put->nflags, err);
    }
    return st;
}

/* ---- the whole ---- */

/* Queue the kernel that begins: beside the data of the first put, if that awaits nothing; if there are no puts at the
 * start on `moves`, beside the first chunk, and *apart. */
static enum mt_status begin(struct run *run, bool *apart, struct mt_err *err) {
    const struct mt_overlap_chunks *chunks = &run->chunks;
    const struct mt_overlap_put *first = chunks->nstart ? &chunks->puts[0].box : NULL;
    struct cuda_queue queue = *run->base.queue;
    enum mt_status st = cuda_overlap_fork(&run->base, err);
    run->ahead = first && first->rows && !first->nwaits && first->peer != run->base.o->me;
    *apart = !first;
    if (*apart) queue.stream = run->base.o->moves;
    if (!st && run->ahead) st = cuda_overlap_put_data(&run->base, first, err);
    return st ? st : cuda_overlap_begin(&queue, run->base.o, run->base.scratch.words, chunks->most_flags, err);
}

/* Before a wait is queued. */
static enum mt_status prepare(const struct run *run, struct mt_err *err) {
    CUfunction kernel;
    enum mt_status st = await_kernel(run, &kernel, err);
    return st ? st : cuda_overlap_prepare(&run->base, &run->chunks, err);
}

static enum mt_status queue_chunks(struct run *run, struct mt_err *err) {
    const struct mt_overlap_chunks *chunks = &run->chunks;
    bool apart = false; /* the epoch is counted up on `moves`, before which no wait may be */
    enum mt_status st = prepare(run, err);
    if (!st) st = begin(run, &apart, err);
    if (!st) st = put_all(run, 0, chunks->nstart, err);
    for (int c = 0; c < chunks->nchunks && !st; c++) {
        const struct mt_overlap_chunk *chunk = &chunks->chunks[c];
        if (apart && chunk->box.nwaits) st = cuda_overlap_join(&run->base, err), apart = false;
        if (!st) st = await(run, run->base.queue, chunk->box.first_wait, chunk->box.nwaits, err);
        if (!st) st = cuda_overlap_compute(&run->base, chunk, err);
        if (!st && apart) st = cuda_overlap_join(&run->base, err), apart = false; /* before puts are queued */
        if (!st) st = put_all(run, chunk->first_put, chunk->nputs, err);
    }
    return st ? st : cuda_overlap_fork(&run->base, err) ? err->status : cuda_overlap_join(&run->base, err);
}

/* Flags are set to the epoch, not counted up; and what a rank puts to itself, as for joint tiles, is copied on a stream
 * beside, for which its own tiles do not wait. */
static bool can(const struct cuda *cuda, const struct cuda_overlap *o) {
    const struct mt_overlap_schedule *s = o->schedule;
    bool may = cuda_overlap_computes(o->problem) && !o->problem->joint; /* all ranks say the same */
    (void)cuda;
    for (int w = 0; w < s->nwaits && may; w++) may = s->waits[w].count == 1;
    for (int j = 0; j < s->nputs && may; j++) may = s->puts[j].peer != o->me || !s->puts[j].rows;
    return may;
}

static enum mt_status queue(const struct cuda_queue *queue_of, const struct cuda_overlap *o, struct mt_err *err) {
    struct run run;
    int64_t rows = o->chunk_rows;
    if (!rows && o->problem->ngroups) rows = 1; /* tiles are as large as chunks should be */
    if (!rows) rows = mt_overlap_chunk_rows(o->problem, o->me, queue_of->cuda->nsm);
    cuda_overlap_run_init(&run.base, queue_of, o);
    mt_overlap_chunks_make(o->schedule, rows, &run.chunks);
    mt_overlap_chunks_add(o->problem, o->me, o->operands->trans_out, &run.chunks);
    enum mt_status st = queue_chunks(&run, err);
    mt_overlap_chunks_release(&run.chunks);
    return st;
}

const struct cuda_overlap_impl cuda_overlap_chunks = {MT_OVERLAP_CHUNKS, can, queue};
