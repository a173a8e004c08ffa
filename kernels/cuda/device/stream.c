/* Streams and events of a GPU: the driver's, with a list of what the host has queued (progress.c).
 *
 * Work is launched when it is queued. The first failure to launch is kept; all later work is left out until
 * mt_stream_sync has reported it, on this stream and on those that wait for an event that was recorded after the
 * failure. Errors that the GPU reports come out at the next call, and at every one after it. */
#include "kernels/cuda/device/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/cuda/nccl/call.h"
#include "kernels/cuda/nccl/comm.h"
#include "kernels/cuda/overlap/fused.h"

/* ---- errors ---- */

void cuda_stream_keep(struct cuda_stream *s, const struct mt_err *err) {
    pthread_mutex_lock(&s->device->lock);
    if (!s->err.status) s->err = *err;
    pthread_mutex_unlock(&s->device->lock);
}

/* Whether work may be queued; the context is current then. */
static bool enter(struct cuda_stream *s) {
    if (s->err.status) return false; /* only this thread sets it */
    struct mt_err err = MT_ERR_INIT;
    if (!cuda_enter(s->queue.cuda, &err)) return true;
    cuda_stream_keep(s, &err);
    return false;
}

enum mt_status cuda_stream_name_device(const struct cuda_stream *s, struct mt_err *err) {
    const char *device = s->device->base.description;
    return mt_err_context(err, "%.*s", (int)strcspn(device, ","), device);
}

enum mt_status cuda_stream_give_up(const struct cuda_stream *s, struct mt_err *err) {
    cuda_nccl_abort_all();
    return cuda_stream_name_device(s, err);
}

enum mt_status cuda_stream_take_error(struct mt_stream *stream, struct mt_err *err) {
    struct cuda_stream *s = cuda_stream_of(stream);
    enum mt_status st;
    pthread_mutex_lock(&s->device->lock);
    if ((st = s->err.status)) *err = s->err;
    s->err = (struct mt_err)MT_ERR_INIT;
    pthread_mutex_unlock(&s->device->lock);
    return st;
}

/* ---- the clock ---- */

/* Copy the call's clock to the GPU, if it differs from the last one. */
static enum mt_status send_clock(struct cuda_stream *s, const struct mt_clock *clock, struct mt_err *err) {
    if (!clock) return MT_OK;
    if (s->nclocks && clock->step == s->clock.step && clock->seed == s->clock.seed && clock->lr == s->clock.lr)
        return MT_OK;
    int i = (int)(s->nclocks % CUDA_NCLOCKS);
    CUDA_TRY(cuEventSynchronize(s->clock_sent[i]), err, "sending the clock"); /* the last copy from this slot */
    s->pinned->clocks[i] = *clock;
    CUDA_TRY(cuMemcpyHtoDAsync(s->queue.clock, &s->pinned->clocks[i], sizeof *clock, s->queue.stream), err,
             "sending the clock");
    CUDA_TRY(cuEventRecord(s->clock_sent[i], s->queue.stream), err, "sending the clock");
    s->clock = *clock;
    s->nclocks++;
    s->times.chained = false;
    return MT_OK;
}

/* ---- work ---- */

/* While the stream is captured: no clock is sent, no times are taken, and the part takes care of progress. */
static enum mt_status capture_op(struct cuda_part *part, const struct mt_call *call, const char *what,
                                 struct mt_err *err) {
    enum mt_status st = cuda_part_begin(part, false, err);
    if (!st) st = cuda_ops[call->kind]->queue(cuda_part_queue(part), call, err);
    return st ? st : cuda_part_end(part, what, false, false, err);
}

static enum mt_status queue_op(struct cuda_stream *s, const struct mt_backend *backend, const struct mt_call *call,
                               double *seconds, const char *what, struct mt_err *err) {
    if (!backend->supports(call)) return mt_fail(err, MT_EINPUT, "this does not run on CUDA: another type, or shape");
    if (s->part) return capture_op(s->part, call, what, err);
    enum mt_status st = send_clock(s, call->clock, err);
    if (!st) st = cuda_times_begin(&s->times, seconds, err);
    if (!st) st = cuda_ops[call->kind]->queue(&s->queue, call, err);
    if (!st) st = cuda_times_end(&s->times, seconds, err);
    if (st) return st;
    cuda_progress_push(s, (struct cuda_item){.what = what});
    return cuda_progress_mark_if_due(s, err);
}

void cuda_stream_op(struct mt_stream *stream, const struct mt_backend *backend, const struct mt_call *call,
                    double *seconds) {
    struct cuda_stream *s = cuda_stream_of(stream);
    struct mt_err err = MT_ERR_INIT;
    if (!enter(s)) return;
    const char *what = call->what ? call->what : mt_op_info[call->kind].name;
    if (!queue_op(s, backend, call, seconds, what, &err)) return;
    mt_err_context(&err, "%s", what);
    cuda_stream_keep(s, &err);
}

/* Between pipelined collectives there are no timestamps, which cost as much as a small one's start. */
static enum mt_status capture_coll(struct cuda_stream *s, const struct mt_coll_call *call, const char *what,
                                   struct mt_err *err) {
    enum mt_status st = cuda_part_begin(s->part, call->schedule && !call->ahead, err);
    if (!st) st = cuda_coll(cuda_part_queue(s->part), &s->pipeline, call, err);
    return st ? st : cuda_part_end(s->part, what, call->schedule, call->schedule && !call->more, err);
}

static enum mt_status queue_coll(struct cuda_stream *s, const struct mt_coll_call *call, const char *what,
                                 double *seconds, struct mt_err *err) {
    bool collective = call->schedule;
    if (s->part) return capture_coll(s, call, what, err);
    enum mt_status st = collective ? cuda_progress_mark(s, err) : MT_OK;
    if (st) return st;
    cuda_progress_push(s, (struct cuda_item){.what = what}); /* to queue it may block */
    st = cuda_times_begin(&s->times, seconds, err);
    if (!st) st = cuda_coll(&s->queue, &s->pipeline, call, err);
    if (collective) cuda_progress_communicates(s);
    if (!st) st = cuda_times_end(&s->times, seconds, err);
    if (st) return st;
    return collective ? cuda_progress_mark(s, err) : cuda_progress_mark_if_due(s, err);
}

void cuda_stream_coll(struct mt_stream *stream, const struct mt_coll_call *call, double *seconds) {
    struct cuda_stream *s = cuda_stream_of(stream);
    struct mt_err err = MT_ERR_INIT;
    const char *what = call->what ? call->what : "a copy";
    if (!enter(s) || !queue_coll(s, call, what, seconds, &err)) return;
    mt_err_context(&err, "%s", what);
    if (err.status == MT_ESTALL) /* or earlier work would be waited for with another deadline */
        cuda_stream_give_up(s, &err);
    else if (call->schedule)
        cuda_stream_name_device(s, &err);
    cuda_stream_keep(s, &err);
}

static enum mt_status queue_overlap(struct cuda_stream *s, struct mt_overlap_call *call, double *seconds,
                                    struct mt_err *err) {
    const struct cuda_queue *queue = s->part ? cuda_part_queue(s->part) : &s->queue;
    enum mt_status st = s->part ? cuda_part_begin(s->part, true, err) : cuda_progress_mark(s, err);
    if (!st && !s->part) {
        cuda_progress_push(s, (struct cuda_item){.what = call->operands.what}); /* to queue it may block */
        st = cuda_times_begin(&s->times, seconds, err);
    }
    if (!st) st = cuda_overlaps_queue(&s->overlaps, queue, call, err);
    if (!st && s->part) cuda_part_overlaps(s->part, call->window);
    if (!st && !s->part) s->overlaps.window = call->window;
    if (!s->part) cuda_progress_communicates(s);
    if (st || s->part) return st ? st : cuda_part_end(s->part, call->operands.what, true, true, err);
    st = cuda_times_end(&s->times, seconds, err);
    return st ? st : cuda_progress_mark(s, err);
}

void cuda_stream_overlap(struct mt_stream *stream, struct mt_overlap_call *call, double *seconds) {
    struct cuda_stream *s = cuda_stream_of(stream);
    struct mt_err err = MT_ERR_INIT;
    if (!enter(s) || !queue_overlap(s, call, seconds, &err)) return;
    mt_err_context(&err, "%s", call->operands.what);
    if (err.status == MT_ESTALL) /* NCCL's, whose earlier work no one would end */
        cuda_stream_give_up(s, &err);
    else
        cuda_stream_name_device(s, &err);
    cuda_stream_keep(s, &err);
}

static enum mt_status queue_copy(struct cuda_stream *s, enum mt_copy direction, void *to, const void *from,
                                 int64_t size_bytes, struct mt_err *err) {
    size_t size = (size_t)size_bytes;
    CUstream stream = s->queue.stream;
    if (s->part) return mt_fail(err, MT_EBUG, "copies from and to the host are not captured");
    if (direction == MT_COPY_IN)
        CUDA_TRY(cuMemcpyHtoDAsync((CUdeviceptr)to, from, size, stream), err, "copying to the GPU");
    else
        CUDA_TRY(cuMemcpyDtoHAsync(to, (CUdeviceptr)from, size, stream), err, "copying from the GPU");
    s->times.chained = false;
    cuda_progress_push(
        s, (struct cuda_item){.what = direction == MT_COPY_IN ? "a copy to the GPU" : "a copy from the GPU"});
    return cuda_progress_mark_if_due(s, err);
}

void cuda_stream_copy(struct mt_stream *stream, enum mt_copy direction, void *to, const void *from,
                      int64_t size_bytes) {
    struct cuda_stream *s = cuda_stream_of(stream);
    struct mt_err err = MT_ERR_INIT;
    if (size_bytes && enter(s) && queue_copy(s, direction, to, from, size_bytes, &err)) cuda_stream_keep(s, &err);
}

static enum mt_status queue_window(struct cuda_stream *s, const struct mt_window_work *work, struct mt_err *err) {
    bool waits = work->kind == MT_WINDOW_WAIT;
    if (s->part) return mt_fail(err, MT_EBUG, "one-sided operations, whose values are constants, are not captured");
    enum mt_status st = waits ? cuda_progress_mark(s, err) : MT_OK;
    if (st) return st;
    cuda_progress_push(s, (struct cuda_item){.what = work->what, .collective = waits}); /* to queue it may block */
    s->times.chained = false;
    if ((st = cuda_one_sided_queue(&s->one_sided, &s->queue, work, err))) return st;
    return waits ? cuda_progress_mark(s, err) : cuda_progress_mark_if_due(s, err);
}

void cuda_stream_window(struct mt_stream *stream, const struct mt_window_work *work) {
    struct cuda_stream *s = cuda_stream_of(stream);
    struct mt_err err = MT_ERR_INIT;
    if (!enter(s) || !queue_window(s, work, &err)) return;
    mt_err_context(&err, "%s", work->what);
    cuda_stream_name_device(s, &err);
    cuda_stream_keep(s, &err);
}

/* ---- events ---- */

enum mt_status cuda_event_new(struct mt_device *device, struct mt_event **event, struct mt_err *err) {
    enum mt_status st = cuda_enter(&((struct cuda_device *)device)->cuda, err);
    if (st) return st;
    CUevent handle;
    CUDA_TRY(cuEventCreate(&handle, CU_EVENT_DISABLE_TIMING), err, "cuEventCreate");
    struct cuda_event *e = mt_calloc(1, sizeof *e);
    e->base.device = device;
    e->handle = handle;
    *event = &e->base;
    return MT_OK;
}

void cuda_event_free(struct mt_event *event) {
    struct cuda_event *e = (struct cuda_event *)event;
    struct mt_err ignored = MT_ERR_INIT;
    if (!cuda_enter(&((struct cuda_device *)event->device)->cuda, &ignored)) cuEventDestroy(e->handle);
    free(e);
}

void cuda_event_record(struct mt_event *event, struct mt_stream *stream) {
    struct cuda_event *e = (struct cuda_event *)event;
    struct cuda_stream *s = cuda_stream_of(stream);
    struct mt_err err = MT_ERR_INIT;
    if (enter(s)) {
        CUresult result = cuEventRecord(e->handle, s->queue.stream);
        if (result) {
            cuda_fail(&err, result, "cuEventRecord");
            cuda_stream_keep(s, &err);
        }
    }
    pthread_mutex_lock(&s->device->lock);
    e->stream = s;
    e->err.status = s->err.status;
    if (s->err.status) e->err = s->err;
    pthread_mutex_unlock(&s->device->lock);
}

static enum mt_status queue_wait(struct cuda_stream *s, CUevent event, struct mt_err *err) {
    if (!s->part && cuEventQuery(event) == CUDA_SUCCESS) return MT_OK; /* done, or never recorded */
    enum mt_status st = s->part ? cuda_part_wait(s->part, err) : cuda_progress_mark(s, err);
    if (st) return st;
    CUDA_TRY(cuStreamWaitEvent(s->queue.stream, event, CU_EVENT_WAIT_DEFAULT), err, "cuStreamWaitEvent");
    if (s->part) return MT_OK;
    s->times.chained = false;
    cuda_progress_push(s, (struct cuda_item){.waits = true});
    return cuda_progress_mark(s, err);
}

void cuda_stream_wait(struct mt_stream *stream, struct mt_event *event) {
    struct cuda_event *e = (struct cuda_event *)event;
    struct cuda_stream *s = cuda_stream_of(stream);
    struct mt_err err = MT_ERR_INIT;
    pthread_mutex_lock(&s->device->lock);
    if (!s->err.status && e->err.status) s->err = e->err;
    pthread_mutex_unlock(&s->device->lock);
    if (enter(s) && queue_wait(s, e->handle, &err)) cuda_stream_keep(s, &err);
}

/* ---- for captured work ---- */

const struct cuda_queue *cuda_stream_queue(const struct mt_stream *stream) {
    return &((const struct cuda_stream *)stream)->queue;
}

void cuda_stream_capture(struct mt_stream *stream, struct cuda_part *part) {
    cuda_stream_of(stream)->part = part;
}

enum mt_status cuda_stream_mark(struct mt_stream *stream, struct mt_err *err) {
    return cuda_progress_mark(cuda_stream_of(stream), err);
}

enum mt_status cuda_stream_launched(struct mt_stream *stream, const struct cuda_part *part, uint64_t launch,
                                    struct mt_err *err) {
    struct cuda_stream *s = cuda_stream_of(stream);
    s->times.chained = false;
    if (cuda_part_window(part)) s->overlaps.window = cuda_part_window(part);
    cuda_progress_push(s, (struct cuda_item){.part = part, .launch = launch});
    return cuda_progress_mark(s, err);
}

void cuda_stream_forget(struct mt_stream *stream, const struct cuda_part *part) {
    struct cuda_stream *s = cuda_stream_of(stream);
    pthread_mutex_lock(&s->device->lock);
    for (size_t i = 0; i < s->count; i++) {
        struct cuda_item *item = &s->items[(s->first + i) % s->capacity];
        if (item->part == part) item->part = NULL, item->waits = true;
    }
    pthread_mutex_unlock(&s->device->lock);
}

enum mt_status cuda_streams_before(struct cuda_device *device, CUstream follower, struct mt_err *err) {
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&device->lock);
    for (struct cuda_stream *s = device->streams; s && !result; s = s->next) {
        result = cuStreamQuery(s->queue.stream);
        if (result != CUDA_ERROR_NOT_READY) continue;
        result = cuEventRecord(device->tail, s->queue.stream);
        if (!result) result = cuStreamWaitEvent(follower, device->tail, CU_EVENT_WAIT_DEFAULT);
    }
    pthread_mutex_unlock(&device->lock);
    return result ? cuda_fail(err, result, "waiting for the GPU's streams") : MT_OK;
}

/* ---- making and freeing ---- */

/* The compute stream has the multiprocessors of the emulated device. Other streams have all of them, and a higher
 * priority. */
static enum mt_status make_queue(struct cuda_stream *s, struct mt_err *err) {
    bool computes = !strcmp(s->name, "compute");
    int least, greatest;
    CUDA_TRY(cuMemHostAlloc((void **)&s->pinned, sizeof *s->pinned, CU_MEMHOSTALLOC_DEVICEMAP), err, "cuMemHostAlloc");
    memset(s->pinned, 0, sizeof *s->pinned);
    CUDA_TRY(cuMemHostGetDevicePointer(&s->mark, &s->pinned->mark, 0), err, "cuMemHostGetDevicePointer");
    if (computes && s->device->part) {
        CUDA_TRY(cuGreenCtxStreamCreate(&s->queue.stream, s->device->part, CU_STREAM_NON_BLOCKING, 0), err,
                 "cuGreenCtxStreamCreate");
    } else {
        CUDA_TRY(cuCtxGetStreamPriorityRange(&least, &greatest), err, "cuCtxGetStreamPriorityRange");
        CUDA_TRY(cuStreamCreateWithPriority(&s->queue.stream, CU_STREAM_NON_BLOCKING, computes ? least : greatest), err,
                 "cuStreamCreateWithPriority");
    }
    CUDA_TRY(cuMemAlloc(&s->queue.clock, sizeof(struct mt_clock)), err, "cuMemAlloc");
    CUDA_TRY(cuMemAlloc(&s->queue.room, CUDA_ROOM_BYTES), err, "cuMemAlloc");
    CUDA_TRY(cuMemsetD8Async(s->queue.clock, 0, sizeof(struct mt_clock), s->queue.stream), err, "cuMemsetD8Async");
    for (int i = 0; i < CUDA_NCLOCKS; i++)
        CUDA_TRY(cuEventCreate(&s->clock_sent[i], CU_EVENT_DISABLE_TIMING), err, "cuEventCreate");
    return cuda_times_init(&s->times, s->queue.stream, err);
}

enum mt_status cuda_stream_new(struct mt_device *device, const char *name, struct mt_stream **stream,
                               struct mt_err *err) {
    struct cuda_device *d = (struct cuda_device *)device;
    if (d->pending.status) {
        *err = d->pending;
        return err->status;
    }
    struct cuda_stream *s = mt_calloc(1, sizeof *s);
    s->base.device = device;
    s->device = d;
    s->queue.cuda = &d->cuda;
    snprintf(s->name, sizeof s->name, "%s", name);
    enum mt_status st = cuda_enter(&d->cuda, err);
    if (!st) st = make_queue(s, err);
    pthread_mutex_lock(&d->lock);
    s->next = d->streams;
    d->streams = s;
    pthread_mutex_unlock(&d->lock);
    *stream = &s->base;
    if (!st) return MT_OK;
    mt_err_context(err, "cannot make stream \"%s\"", name);
    cuda_stream_free(&s->base);
    return err->status;
}

/* Work on the GPU cannot be cancelled. Wait for it for a second; false if it is stuck: then memory that it may still
 * write to is never freed. */
static bool drain(struct cuda_stream *s) {
    struct mt_err ignored = MT_ERR_INIT;
    return !cuda_enter(s->queue.cuda, &ignored) &&
           (!s->queue.stream || cuda_progress_wait(s, NULL, 1, &ignored) != MT_ESTALL);
}

void cuda_stream_free(struct mt_stream *stream) {
    struct cuda_stream *s = cuda_stream_of(stream), **place = &s->device->streams;
    bool drained = drain(s);
    pthread_mutex_lock(&s->device->lock);
    while (*place != s) place = &(*place)->next;
    *place = s->next;
    pthread_mutex_unlock(&s->device->lock);
    if (drained) {
        if (s->queue.stream) cuda_times_release(&s->times);
        cuda_pipeline_release(&s->pipeline);
        cuda_overlaps_release(&s->overlaps);
        if (s->queue.stream) cuda_fused_forget(s->queue.cuda, s->queue.stream);
        cuda_one_sided_release(&s->one_sided);
        for (int i = 0; i < CUDA_NCLOCKS; i++)
            if (s->clock_sent[i]) cuEventDestroy(s->clock_sent[i]);
        if (s->queue.clock) cuMemFree(s->queue.clock);
        if (s->queue.room) cuMemFree(s->queue.room);
        if (s->pinned) cuMemFreeHost(s->pinned);
        if (s->queue.stream) cuStreamDestroy(s->queue.stream);
    }
    free(s->items);
    free(s);
}
