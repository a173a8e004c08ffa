#include "kernels/cuda/window/on_stream.h"

#include <unistd.h>

#include "kernels/device/window.h"

enum mt_status cuda_put_rows(CUstream stream, CUdeviceptr to, int64_t to_stride, CUdeviceptr from, int64_t from_stride,
                             int64_t row_bytes, int64_t rows, struct mt_err *err) {
    CUDA_MEMCPY2D box = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                         .srcDevice = from,
                         .srcPitch = (size_t)from_stride,
                         .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                         .dstDevice = to,
                         .dstPitch = (size_t)to_stride,
                         .WidthInBytes = (size_t)row_bytes,
                         .Height = (size_t)rows};
    if (rows == 1 || (row_bytes == from_stride && row_bytes == to_stride))
        CUDA_TRY(cuMemcpyDtoDAsync(to, from, (size_t)(row_bytes * rows), stream), err, "putting rows");
    else
        CUDA_TRY(cuMemcpy2DAsync(&box, stream), err, "putting a box");
    return MT_OK;
}

/* ---- queueing ---- */

struct kernels {
    CUfunction signal, wait;
};

/* Both before either is queued: to load one may wait for the GPU, and so for a wait. */
static enum mt_status load(struct cuda *cuda, struct kernels *k, struct mt_err *err) {
    enum mt_status st = cuda_kernel(cuda, "on_stream", "", "signal_on_stream", 0, &k->signal, err);
    return st ? st : cuda_kernel(cuda, "on_stream", "", "wait_on_stream", 0, &k->wait, err);
}

static enum mt_status copy(const struct cuda_queue *queue, const struct mt_window_work *work, CUdeviceptr there,
                           struct mt_err *err) {
    CUdeviceptr here = (CUdeviceptr)work->here;
    if (work->kind == MT_WINDOW_GET)
        return cuda_put_rows(queue->stream, here, work->here_stride, there, work->stride, work->row_bytes, work->rows,
                             err);
    return cuda_put_rows(queue->stream, there, work->stride, here, work->here_stride, work->row_bytes, work->rows, err);
}

static enum mt_status signal(const struct cuda_queue *queue, const struct kernels *k, const struct mt_window_work *work,
                             CUdeviceptr there, const struct cuda_watch *watch, struct mt_err *err) {
    uint64_t value = work->value;
    int adds = work->how == MT_SIGNAL_ADD;
    return cuda_launch(queue, k->signal, 1, 1, 0, (void *[]){&there, &value, &adds, (void *)watch}, err);
}

static enum mt_status await(const struct cuda_queue *queue, const struct kernels *k, const struct mt_window_work *work,
                            const struct cuda_watch *watch, struct mt_err *err) {
    CUdeviceptr word =
        (CUdeviceptr)mt_device_window_part(work->window, mt_window_rank(work->window)) + (CUdeviceptr)work->at;
    uint64_t value = work->value, rank = (uint64_t)work->rank, window = (uint64_t)(uintptr_t)work->window;
    int cmp = work->cmp;
    return cuda_launch(queue, k->wait, 1, 32, 0, (void *[]){&word, &cmp, &value, &rank, &window, (void *)watch}, err);
}

static enum mt_status queue_work(const struct cuda_one_sided *o, const struct cuda_queue *queue,
                                 const struct kernels *k, const struct mt_window_work *work, struct mt_err *err) {
    struct cuda_watch watch =
        cuda_watcher_watch(&o->watcher, mt_window_deadline_s(work->window), (uint64_t)(uintptr_t)work->what);
    CUdeviceptr there = (CUdeviceptr)mt_device_window_part(work->window, work->rank) + (CUdeviceptr)work->at;
    switch (work->kind) {
    case MT_WINDOW_PUT:
    case MT_WINDOW_GET: return copy(queue, work, there, err);
    case MT_WINDOW_SIGNAL: return signal(queue, k, work, there, &watch, err);
    case MT_WINDOW_WAIT: return await(queue, k, work, &watch, err);
    case MT_WINDOW_QUIET: break; /* work of a stream begins when all effects of the work before have been seen to */
    }
    return MT_OK;
}

/* Refuse what would not take effect. */
static enum mt_status check(const struct mt_window_work *work, struct mt_err *err) {
    const struct mt_window_memory *memory = mt_window_attached(work->window);
    if (!memory) return mt_fail(err, MT_EBUG, "a window in the memory of another device");
    enum mt_status st = mt_device_window_reaches(work->window, &work->rank, 1, NULL, err);
    bool adds = work->kind == MT_WINDOW_SIGNAL && work->how == MT_SIGNAL_ADD;
    if (st || !adds || !memory->lacks_atomics || work->rank == mt_window_rank(work->window)) return st;
    mt_fail(err, MT_EINPUT, "a signal of rank %d is to be added to, but additions to other GPUs' memory are not atomic",
            mt_window_name(work->window, work->rank));
    return mt_err_hint(err, "give each rank that signals a word of its own, and set it");
}

enum mt_status cuda_one_sided_queue(struct cuda_one_sided *o, const struct cuda_queue *queue,
                                    const struct mt_window_work *work, struct mt_err *err) {
    struct kernels k;
    if (o->failed || mt_window_failed(work->window))
        return mt_fail(err, MT_EPEER, "after an error, by which ranks are out of step");
    enum mt_status st = check(work, err);
    if (!st) st = load(queue->cuda, &k, err);
    if (!st) st = cuda_watcher_make(&o->watcher, err);
    if (st) return st;
    o->window = work->window;
    return queue_work(o, queue, &k, work, err);
}

/* ---- waits in vain ---- */

static enum mt_status stalled(const struct cuda_one_sided *o, struct mt_err *err) {
    const uint64_t *s = o->watcher.words->stalled;
    struct mt_window *window = (struct mt_window *)(uintptr_t)s[6];
    int me = mt_window_rank(window);
    uint64_t part = (uint64_t)(uintptr_t)mt_device_window_part(window, me);
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    mt_fail(err, MT_ESTALL, "rank %d on %s has waited for %g s for rank %d, for %s (signal %lld is %llu, not %s %llu)",
            mt_window_name(window, me), host, mt_window_deadline_s(window), mt_window_name(window, (int)s[5]),
            (const char *)(uintptr_t)s[3], (long long)(s[0] - part), (unsigned long long)s[1],
            mt_cmp_sign((enum mt_cmp)s[4]), (unsigned long long)s[2]);
    mt_window_abort(window, err->text);
    return MT_ESTALL;
}

enum mt_status cuda_one_sided_check(struct cuda_one_sided *o, struct mt_err *err) {
    if (!o->watcher.words || !o->window || o->failed) return MT_OK;
    enum mt_status st = cuda_watcher_stalled(&o->watcher)
                            ? stalled(o, err)
                            : cuda_watcher_look(&o->watcher, o->window, "one-sided operations of a stream", err);
    o->failed = st != MT_OK;
    return st;
}

void cuda_one_sided_release(struct cuda_one_sided *o) {
    cuda_watcher_release(&o->watcher);
}
