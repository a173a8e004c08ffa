/* Between streams and overlapped GEMMs: addresses of peers, epochs, and what becomes of waits in vain. */
#include "kernels/cuda/device/overlap.h"

#include <assert.h>
#include <unistd.h>

#include "kernels/device/window.h"

/* Puts go first where both streams have work: peers wait for them. */
static enum mt_status make(struct cuda_overlaps *o, struct mt_err *err) {
    int least, greatest;
    if (o->watcher.words) return MT_OK;
    CUDA_TRY(cuCtxGetStreamPriorityRange(&least, &greatest), err, "cuCtxGetStreamPriorityRange");
    CUDA_TRY(cuStreamCreateWithPriority(&o->moves, CU_STREAM_NON_BLOCKING, greatest), err,
             "cuStreamCreateWithPriority");
    CUDA_TRY(cuEventCreate(&o->joint, CU_EVENT_DISABLE_TIMING), err, "cuEventCreate");
    return cuda_watcher_make(&o->watcher, err);
}

void cuda_overlaps_release(struct cuda_overlaps *o) {
    cuda_watcher_release(&o->watcher);
    if (o->joint) cuEventDestroy(o->joint);
    if (o->moves) cuStreamDestroy(o->moves);
    *o = (struct cuda_overlaps){.moves = NULL};
}

/* ---- queueing ---- */

static int rank_of(const struct mt_overlap_call *call, int place) {
    return call->operands.ranks ? call->operands.ranks[place] : place;
}

static int name_of(const struct mt_overlap_call *call, int rank) {
    return call->operands.names ? call->operands.names[rank] : rank;
}

static enum mt_status locate(const struct mt_overlap_call *call, struct cuda_overlap *overlap, struct mt_err *err) {
    overlap->me = -1;
    for (int p = 0; p < call->problem->n; p++) {
        int rank = rank_of(call, p);
        char *part = mt_device_window_part(call->window, rank);
        if (rank == mt_window_rank(call->window)) overlap->me = p;
        if (!part && !overlap->comm)
            return mt_fail(err, MT_EBUG, "the window does not reach rank %d", name_of(call, rank));
        overlap->parts[p] = part ? (CUdeviceptr)(part + call->base) : 0;
    }
    assert(overlap->me >= 0);
    overlap->epoch = overlap->parts[overlap->me] + (CUdeviceptr)mt_overlap_epoch_place(call->problem);
    return MT_OK;
}

/* Part of a run may be queued: the stream then waits for that too, and runs no more, for epochs may differ from what
 * the GPU has counted. A capture is dropped as a whole. */
static void broken(struct cuda_overlaps *o, const struct cuda_queue *queue) {
    CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
    if (cuStreamIsCapturing(queue->stream, &capturing) || capturing != CU_STREAM_CAPTURE_STATUS_NONE) return;
    if (!cuEventRecord(o->joint, o->moves)) cuStreamWaitEvent(queue->stream, o->joint, CU_EVENT_WAIT_DEFAULT);
    o->failed = true;
}

enum mt_status cuda_overlaps_queue(struct cuda_overlaps *o, const struct cuda_queue *queue,
                                   struct mt_overlap_call *call, struct mt_err *err) {
    if (o->failed) return mt_fail(err, MT_EPEER, "after an error, by which ranks are out of step");
    if (call->problem->n > CUDA_OVERLAP_RANKS)
        return mt_fail(err, MT_EINPUT, "%d ranks: at most %d take part in one", call->problem->n, CUDA_OVERLAP_RANKS);
    enum mt_status st = make(o, err);
    if (st) return st;
    int64_t epoch = *call->epoch + 1;
    struct cuda_overlap overlap = {
        .problem = call->problem,
        .schedule = call->schedule,
        .operands = &call->operands,
        .copy = (int)(epoch % call->schedule->copies),
        .comm = call->comm && call->comm->class->queue ? call->comm : NULL,
        .ranks = call->operands.ranks,
        .chunk_rows = call->chunk_rows,
        .watch = cuda_watcher_watch(&o->watcher, mt_window_deadline_s(call->window), (uint64_t)(uintptr_t)call),
        .moves = o->moves,
        .joint = o->joint};
    if ((st = locate(call, &overlap, err))) return st;
    st = cuda_overlap_run(queue, &overlap, call->how, err);
    if (st == MT_EINPUT) return st; /* nothing runs it, and nothing is queued */
    *call->epoch = epoch;
    if (st) broken(o, queue);
    return st;
}

/* ---- waits in vain ---- */

static bool awaits(const struct mt_overlap_schedule *s, int first, int count, int flag, int *from) {
    for (int w = first; w < first + count; w++)
        if (s->waits[w].flag == flag) {
            *from = s->waits[w].from;
            return true;
        }
    return false;
}

/* The first entry that awaits a flag, "tile" or "put"; null: none does. */
static const char *entry_of(const struct mt_overlap_schedule *s, int flag, int *number, int *from) {
    for (*number = 0; *number < s->ntiles; ++*number)
        if (awaits(s, s->tiles[*number].first_wait, s->tiles[*number].nwaits, flag, from)) return "tile";
    for (*number = 0; *number < s->nputs; ++*number)
        if (awaits(s, s->puts[*number].first_wait, s->puts[*number].nwaits, flag, from)) return "put";
    return NULL;
}

static enum mt_status stalled(const struct cuda_watch_words *words, struct mt_err *err) {
    const struct mt_overlap_call *call = (const struct mt_overlap_call *)(uintptr_t)words->stalled[3];
    const int rank = mt_window_rank(call->window);
    const char *part = mt_device_window_part(call->window, rank) + call->base;
    int flag = (int)((words->stalled[0] - (uint64_t)(uintptr_t)part) / 8), number = 0, from = 0;
    const char *entry = entry_of(call->schedule, flag, &number, &from);
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    mt_fail(err, MT_ESTALL,
            "rank %d on %s has waited for %g s for rank %d, for %s %d of %s (flag %d is %llu, not >= %llu)",
            name_of(call, rank), host, mt_window_deadline_s(call->window), name_of(call, rank_of(call, from)),
            entry ? entry : "tile", number, call->operands.what, flag, (unsigned long long)words->stalled[1],
            (unsigned long long)words->stalled[2]);
    mt_window_abort(call->window, err->text);
    return MT_ESTALL;
}

enum mt_status cuda_overlaps_check(struct cuda_overlaps *o, struct mt_err *err) {
    if (!o->watcher.words || !o->window || o->failed) return MT_OK;
    enum mt_status st = cuda_watcher_stalled(&o->watcher)
                            ? stalled(o->watcher.words, err)
                            : cuda_watcher_look(&o->watcher, o->window, "an overlapped instruction", err);
    o->failed = st != MT_OK;
    return st;
}
