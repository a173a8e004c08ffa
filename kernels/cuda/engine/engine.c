/* Steps of messages as work of a stream.
 *
 * A rank's part of the window: a line of 128 bytes for each rank, with the flag of what has arrived from it; as many,
 * with the flag of what it has emptied of this rank's; then words of this rank's own: the epoch, and what flags become,
 * of the end and of each piece; then slots, of each of the other ranks.
 *
 * A flag follows its put on the same stream: kernels/cuda/overlap/engine.c says why that is enough. */
#include "kernels/cuda/engine/engine.h"

#include <stdlib.h>
#include <unistd.h>

#include "kernels/cuda/jit/shape.h"
#include "kernels/cuda/window/watch.h"
#include "kernels/device/window.h"

enum {
    LINE = 128,
    EPOCH_AT = 2 * MT_ENGINE_RANKS * LINE,
    WORDS_AT = 4096,
    STAGING_AT = 64 << 10,
    MOST_PIECES = (STAGING_AT - WORDS_AT) / 8 - 1,
    SEGMENTS = 96, /* of a launch; as in engine.cu */
    THREADS = 256,
    UNIT_BYTES = THREADS * 16 * 4,
    MOST_BLOCKS = 1024
};
/* Smaller messages are for NCCL: few blocks of it take them in less time than it takes to start copies. */
static const int64_t least_bytes = 256 << 10, slot_bytes = 16 << 20;

struct cuda_engines {
    struct mt_window *window;
    int n, me;
    int64_t slot_bytes;
    CUdeviceptr parts[MT_ENGINE_RANKS];
    struct cuda_watcher watcher;
    bool used, failed;
};

/* ---- places ---- */

static CUdeviceptr arrived_at(const struct cuda_engines *e, int rank, int from) {
    return e->parts[rank] + (CUdeviceptr)(from * LINE);
}
static CUdeviceptr emptied_at(const struct cuda_engines *e, int rank, int by) {
    return e->parts[rank] + (CUdeviceptr)((MT_ENGINE_RANKS + by) * LINE);
}
/* What flags become: word 0, the end; then of each piece. */
static CUdeviceptr word_at(const struct cuda_engines *e, int word) {
    return e->parts[e->me] + (CUdeviceptr)(WORDS_AT + 8 * word);
}
static CUdeviceptr slot_at(const struct cuda_engines *e, int rank, int from, int piece) {
    int64_t sender = from < rank ? from : from - 1;
    return e->parts[rank] +
           (CUdeviceptr)(STAGING_AT + (sender * MT_ENGINE_SLOTS + piece % MT_ENGINE_SLOTS) * e->slot_bytes);
}

int64_t cuda_engines_window_bytes(int nranks) {
    if (nranks < 2 || nranks > MT_ENGINE_RANKS) return 0;
    return STAGING_AT + (nranks - 1) * MT_ENGINE_SLOTS * slot_bytes;
}

/* ---- making ---- */

enum mt_status cuda_engines_make(struct mt_window *window, struct cuda_engines **engines, struct mt_err *err) {
    int n = mt_window_nranks(window);
    int64_t room = mt_window_attached(window) ? mt_window_attached(window)->size_bytes - STAGING_AT : 0;
    *engines = NULL;
    if (n < 2 || n > MT_ENGINE_RANKS) return MT_OK;
    int64_t slot = room / ((n - 1) * MT_ENGINE_SLOTS) / 256 * 256;
    if (slot <= 0) return MT_OK;
    for (int r = 0; r < n; r++)
        if (!mt_device_window_part(window, r)) return MT_OK;
    struct cuda_engines *e = mt_calloc(1, sizeof *e);
    *e = (struct cuda_engines){.window = window, .n = n, .me = mt_window_rank(window), .slot_bytes = slot};
    for (int r = 0; r < n; r++) e->parts[r] = (CUdeviceptr)mt_device_window_part(window, r);
    enum mt_status st = cuda_watcher_make(&e->watcher, err);
    if (st)
        cuda_engines_free(e);
    else
        *engines = e;
    return st;
}

void cuda_engines_free(struct cuda_engines *e) {
    if (!e) return;
    cuda_watcher_release(&e->watcher);
    free(e);
}

/* ---- whom they serve ---- */

static int64_t total_of(const struct mt_coll *problem) {
    int64_t total = 0;
    for (int r = 0; r < problem->n; r++) total += problem->counts[r];
    return total;
}

static bool adds(enum mt_type type) {
    return type == MT_F32 || mt_type_is_half(type);
}

bool cuda_engines_serve(const struct cuda_engines *e, const struct mt_coll *problem, const int *group) {
    bool sums = mt_coll_reduces(problem->kind);
    if (!e || problem->n != e->n || (!sums && problem->kind != MT_ALL_GATHER)) return false;
    for (int p = 0; p < problem->n; p++)
        if (group[p] != p) return false;
    if (sums && (problem->reduce != MT_SUM || !adds(problem->wire))) return false;
    int64_t bytes = total_of(problem) * mt_type_size(problem->wire);
    /* Each part may begin a few bytes later than the one before ends; there are never so many. */
    return bytes >= least_bytes && bytes / e->slot_bytes < MOST_PIECES / 2;
}

/* ---- work ---- */

struct merge { /* engine.cu */
    CUdeviceptr slot[MT_ENGINE_RANKS];
    int32_t n, me, nsegments, nunits;
    struct {
        CUdeviceptr to, mine;
        int64_t bytes;
        uint32_t at, unit;
    } segments[SEGMENTS];
};
struct flags { /* engine.cu */
    CUdeviceptr flag[MT_ENGINE_RANKS];
};
struct kernels {
    CUfunction begin, await, merge, copy;
};

struct run {
    struct cuda_engines *engines;
    const struct cuda_queue *queue;
    const struct mt_engine_job *job;
    struct mt_engine_list list;
    struct kernels kernels;
    struct cuda_watch watch;
};

/* Before a wait is queued. */
static enum mt_status load(struct run *run, enum mt_type type, struct mt_err *err) {
    struct cuda *cuda = run->queue->cuda;
    const char *definitions = type == MT_F32 ? "-DTYPE=float" : type == MT_BF16 ? "-DTYPE=bf16" : "-DTYPE=f16";
    struct kernels *k = &run->kernels;
    enum mt_status st = cuda_kernel(cuda, "engine", "", "engine_begin", 0, &k->begin, err);
    if (!st) st = cuda_kernel(cuda, "engine", "", "engine_await", 0, &k->await, err);
    if (!st) st = cuda_kernel(cuda, "engine", "", "engine_copy", 0, &k->copy, err);
    if (st || run->job->kind == MT_ALL_GATHER) return k->merge = k->copy, st;
    return cuda_kernel(cuda, "engine", definitions, "engine_sum", 0, &k->merge, err);
}

static enum mt_status begin(const struct run *run, struct mt_err *err) {
    CUdeviceptr epoch = run->engines->parts[run->engines->me] + EPOCH_AT, words = word_at(run->engines, 0);
    int64_t pieces = run->list.npieces;
    void *arguments[] = {&epoch, &words, &pieces, (void *)(uintptr_t)&run->watch};
    return cuda_launch(run->queue, run->kernels.begin, 1, THREADS, 0, arguments, err);
}

/* For the flags of each of the step's peers. */
static enum mt_status await(const struct run *run, const struct mt_engine_step *step, struct mt_err *err) {
    const struct cuda_engines *e = run->engines;
    struct flags f = {.flag = {0}};
    CUdeviceptr epoch = e->parts[e->me] + EPOCH_AT, words = word_at(e, 0);
    int64_t pieces = run->list.npieces;
    int n = 0, before = step->what == MT_ENGINE_ROOM && step->piece < MT_ENGINE_SLOTS;
    uint64_t piece = (uint64_t)(step->what == MT_ENGINE_ROOM ? step->piece - MT_ENGINE_SLOTS : step->piece) + 1;
    for (int r = 0; r < e->n; r++)
        if (step->peers >> r & 1)
            f.flag[n++] = step->what == MT_ENGINE_ROOM ? emptied_at(e, e->me, r) : arrived_at(e, e->me, r);
    return cuda_launch(run->queue, run->kernels.await, 1, 32, 0,
                       (void *[]){&f, &n, &epoch, &piece, &before, &words, &pieces, (void *)&run->watch}, err);
}

static enum mt_status raise(const struct run *run, CUdeviceptr flag, int word, struct mt_err *err) {
    CUDA_TRY(cuMemcpyDtoDAsync(flag, word_at(run->engines, word), 8, run->queue->stream), err, "raising a flag");
    return MT_OK;
}

/* Copy `bytes` that end before `at` in the slot, and before `from` here; then there are none. */
static enum mt_status copy(const struct run *run, CUdeviceptr slot, CUdeviceptr at, CUdeviceptr from, int64_t *bytes,
                           struct mt_err *err) {
    CUdeviceptr size = (CUdeviceptr)*bytes;
    if (size)
        CUDA_TRY(cuMemcpyDtoDAsync(slot + at - size, from - size, (size_t)size, run->queue->stream), err,
                 "putting a piece");
    *bytes = 0;
    return MT_OK;
}

/* Segments that follow each other here too are one copy. */
static enum mt_status put(const struct run *run, const struct mt_engine_step *step, struct mt_err *err) {
    const struct cuda_engines *e = run->engines;
    const int64_t size = run->job->size_bytes;
    CUdeviceptr slot = slot_at(e, step->peer, e->me, step->piece), at = 0, end = 0;
    int64_t bytes = 0; /* that are to be copied: they end at `at`, and here at `end` */
    enum mt_status st = MT_OK;
    for (int i = step->first_segment; i < step->first_segment + step->nsegments && !st; i++) {
        const struct mt_engine_segment *s = &run->list.segments[i];
        CUdeviceptr from = (CUdeviceptr)run->job->parts[s->part].from + (CUdeviceptr)(s->first * size);
        if (from != end || (CUdeviceptr)s->at != at) st = copy(run, slot, at, end, &bytes, err);
        bytes += s->count * size;
        at = (CUdeviceptr)(s->at + s->count * size), end = from + (CUdeviceptr)(s->count * size);
    }
    if (!st) st = copy(run, slot, at, end, &bytes, err);
    return st ? st : raise(run, arrived_at(e, step->peer, e->me), step->piece + 1, err);
}

static enum mt_status tell(const struct run *run, const struct mt_engine_step *step, struct mt_err *err) {
    const struct cuda_engines *e = run->engines;
    int word = step->what == MT_ENGINE_END ? 0 : step->piece + 1;
    enum mt_status st = MT_OK;
    for (int r = 0; r < e->n && !st; r++)
        if (step->peers >> r & 1) st = raise(run, emptied_at(e, r, e->me), word, err);
    return st;
}

static enum mt_status flush(const struct run *run, CUfunction kernel, struct merge *m, struct mt_err *err) {
    if (!m->nsegments) return MT_OK;
    enum mt_status st = cuda_launch(run->queue, kernel, least(m->nunits, MOST_BLOCKS), THREADS, 0, (void *[]){m}, err);
    m->nsegments = m->nunits = 0;
    return st;
}

static void add_segment(struct merge *m, const void *to, const void *mine, int64_t offset, int64_t bytes, int64_t at) {
    int64_t units = divide_up(bytes, UNIT_BYTES);
    int i = m->nsegments++;
    m->segments[i].to = (CUdeviceptr)to + (CUdeviceptr)offset;
    m->segments[i].mine = mine ? (CUdeviceptr)mine + (CUdeviceptr)offset : 0;
    m->segments[i].bytes = bytes;
    m->segments[i].at = (uint32_t)at, m->segments[i].unit = (uint32_t)m->nunits;
    m->nunits += (int32_t)units;
}

static enum mt_status merge(const struct run *run, const struct mt_engine_step *step, struct mt_err *err) {
    const struct cuda_engines *e = run->engines;
    const int64_t size = run->job->size_bytes;
    bool sums = step->peer < 0;
    struct merge m = {.n = e->n, .me = sums ? e->me : -1};
    enum mt_status st = MT_OK;
    for (int r = 0; r < e->n && sums; r++)
        if (r != e->me) m.slot[r] = slot_at(e, e->me, r, step->piece);
    if (!sums) m.slot[0] = slot_at(e, e->me, step->peer, step->piece);
    for (int i = step->first_segment; i < step->first_segment + step->nsegments && !st; i++) {
        const struct mt_engine_segment *s = &run->list.segments[i];
        const struct mt_engine_part *part = &run->job->parts[s->part];
        add_segment(&m, part->to, sums ? part->from : NULL, s->first * size, s->count * size, s->at);
        if (m.nsegments == SEGMENTS) st = flush(run, run->kernels.merge, &m, err);
    }
    return st ? st : flush(run, run->kernels.merge, &m, err);
}

/* Of an AllGather: this rank's own blocks, where they are not in place. */
static enum mt_status copy_own(const struct run *run, struct mt_err *err) {
    const struct mt_engine_job *job = run->job;
    struct merge m = {.n = 1, .me = 0};
    enum mt_status st = MT_OK;
    for (int i = 0; i < job->nparts && job->kind == MT_ALL_GATHER && !st; i++) {
        const struct mt_engine_part *part = &job->parts[i];
        if (part->owner != job->me || part->from == part->to || !part->count) continue;
        add_segment(&m, part->to, part->from, 0, part->count * job->size_bytes, 0);
        if (m.nsegments == SEGMENTS) st = flush(run, run->kernels.copy, &m, err);
    }
    return st ? st : flush(run, run->kernels.copy, &m, err);
}

static enum mt_status queue_step(const struct run *run, const struct mt_engine_step *step, struct mt_err *err) {
    switch (step->what) {
    case MT_ENGINE_ROOM:
    case MT_ENGINE_DATA: return await(run, step, err);
    case MT_ENGINE_PUT: return put(run, step, err);
    case MT_ENGINE_MERGE: return merge(run, step, err);
    case MT_ENGINE_EMPTY:
    case MT_ENGINE_END: return tell(run, step, err);
    }
    return MT_OK;
}

static enum mt_status queue_job(struct cuda_engines *e, const struct cuda_queue *queue, const struct mt_engine_job *job,
                                enum mt_type type, struct mt_err *err) {
    struct run run = {.engines = e,
                      .queue = queue,
                      .job = job,
                      .watch = cuda_watcher_watch(&e->watcher, mt_window_deadline_s(e->window), 0)};
    bool own = false; /* first what peers wait for */
    if (mt_engine_pieces(job) > MOST_PIECES)
        return mt_fail(err, MT_EBUG, "a message of more than %d pieces", (int)MOST_PIECES);
    enum mt_status st = load(&run, type, err);
    if (st) return st;
    mt_engine_list(job, &run.list);
    st = begin(&run, err);
    for (int i = 0; i < run.list.nsteps && !st; i++) {
        const struct mt_engine_step *step = &run.list.steps[i];
        if (!own && step->what != MT_ENGINE_ROOM && step->what != MT_ENGINE_PUT) own = true, st = copy_own(&run, err);
        if (!st) st = queue_step(&run, step, err);
    }
    mt_engine_release(&run.list);
    return st;
}

/* An AllReduce's parts are read from `to` by the AllGather. */
static enum mt_status queue_all_reduce(struct cuda_engines *e, const struct cuda_queue *queue,
                                       struct mt_engine_job *job, enum mt_type type, struct mt_err *err) {
    struct mt_engine_part *parts = mt_calloc((size_t)(job->nparts + e->n), sizeof *parts);
    job->nparts = mt_engine_divide(job->parts, job->nparts, e->n, job->size_bytes, parts);
    job->parts = parts;
    job->kind = MT_REDUCE_SCATTER;
    enum mt_status st = queue_job(e, queue, job, type, err);
    for (int i = 0; i < job->nparts; i++) parts[i].from = parts[i].to;
    job->kind = MT_ALL_GATHER;
    if (!st) st = queue_job(e, queue, job, type, err);
    free(parts);
    return st;
}

enum mt_status cuda_engines_queue(struct cuda_engines *e, const struct cuda_queue *queue, const struct mt_coll *problem,
                                  const struct mt_engine_part *parts, int nparts, struct mt_err *err) {
    struct mt_engine_job job = {.kind = problem->kind,
                                .n = e->n,
                                .me = e->me,
                                .size_bytes = mt_type_size(problem->wire),
                                .nparts = nparts,
                                .parts = parts,
                                .slot_bytes = e->slot_bytes};
    if (e->failed) return mt_fail(err, MT_EPEER, "after an error, by which ranks are out of step");
    e->used = true;
    enum mt_status st = problem->kind == MT_ALL_REDUCE ? queue_all_reduce(e, queue, &job, problem->wire, err)
                                                       : queue_job(e, queue, &job, problem->wire, err);
    e->failed |= st != MT_OK;
    return st;
}

/* ---- waits in vain ---- */

static enum mt_status stalled(const struct cuda_engines *e, struct mt_err *err) {
    const uint64_t *words = e->watcher.words->stalled;
    int line = (int)((words[0] - e->parts[e->me]) / LINE), peer = line % MT_ENGINE_RANKS;
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    mt_fail(err, MT_ESTALL, "rank %d on %s has waited for %g s for rank %d, to %s (its flag is %llu, not >= %llu)",
            mt_window_name(e->window, e->me), host, mt_window_deadline_s(e->window), mt_window_name(e->window, peer),
            line < MT_ENGINE_RANKS ? "put a piece of a message" : "make room for a message",
            (unsigned long long)words[1], (unsigned long long)words[2]);
    mt_window_abort(e->window, err->text);
    return MT_ESTALL;
}

enum mt_status cuda_engines_check(struct cuda_engines *e, struct mt_err *err) {
    if (!e || !e->used || e->failed) return MT_OK;
    enum mt_status st = cuda_watcher_stalled(&e->watcher)
                            ? stalled(e, err)
                            : cuda_watcher_look(&e->watcher, e->window, "a message by copy engines", err);
    e->failed = st != MT_OK;
    return st;
}

void cuda_engines_abort(struct cuda_engines *e) {
    if (!e) return;
    e->failed = true;
    cuda_watcher_abort(&e->watcher);
}
