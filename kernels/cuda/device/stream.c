/* Streams and events of a GPU: the driver's, with a list of what the host has queued.
 *
 * Work is launched when it is queued. The first failure to launch is kept; all later work is left out until
 * mt_stream_sync has reported it, on this stream and on those that wait for an event that was recorded after the
 * failure. Errors that the GPU reports come out at the next call, and at every one after it.
 *
 * A stream's items are numbered. A mark is a write of the current number into the host's memory, by the stream: before
 * and after what can stall (collectives, waits), and after every MARK_EVERY operators; not more, since a mark costs a
 * bubble between kernels. Items up to the last mark are dropped; the first that is left is what runs. A launch of
 * captured work counts as all of its items; the capture knows which of them runs (capture.h).
 *
 * The file is long because queueing, marks, waits and errors all work on the one list of items. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/cuda/device/capture.h"
#include "kernels/cuda/nccl/call.h"
#include "kernels/cuda/nccl/comm.h"
#include "kernels/cuda/nccl/pipeline.h"
#include "kernels/cuda/device/internal.h"
#include "kernels/cuda/device/overlap.h"
#include "kernels/cuda/device/times.h"

enum { MARK_EVERY = 16, NCLOCKS = 16 };
static const double nap_s = 20e-6;

struct item {
    uint64_t number; /* from 1 */
    const char *what;
    bool collective, waits;
    const struct cuda_part *part; /* a launch's; `number` is its last item's */
    uint64_t launch;
};

/* In the host's memory, where the GPU writes and reads. */
struct pinned {
    uint32_t mark; /* the low bits of the number of the last item that is known to have run */
    uint32_t unused[15];
    struct mt_clock clocks[NCLOCKS]; /* to be copied to the GPU, round-robin */
};

struct cuda_stream {
    struct mt_stream base;
    struct cuda_device *device;
    struct cuda_stream *next;
    struct cuda_queue queue;
    char name[16];
    struct cuda_pipeline pipeline;
    struct cuda_overlaps overlaps;
    struct mt_err err; /* the first, until it has been reported */
    struct cuda_times times;

    struct item *items; /* a ring: those that may still run */
    size_t first, count, capacity;
    uint64_t submitted, marked, completed;
    struct cuda_part *part; /* that is being captured; or null */
    struct pinned *pinned;
    CUdeviceptr mark;

    uint64_t nclocks; /* sent */
    struct mt_clock clock;
    CUevent clock_sent[NCLOCKS];
};

struct cuda_event {
    struct mt_event base;
    CUevent handle;
    struct cuda_stream *stream; /* that made the last record */
    struct mt_err err;          /* its */
};

static struct cuda_stream *stream_of(struct mt_stream *stream) {
    return (struct cuda_stream *)stream;
}

/* ---- errors ---- */

static void keep(struct cuda_stream *s, const struct mt_err *err) {
    pthread_mutex_lock(&s->device->lock);
    if (!s->err.status) s->err = *err;
    pthread_mutex_unlock(&s->device->lock);
}

/* Whether work may be queued; the context is current then. */
static bool enter(struct cuda_stream *s) {
    if (s->err.status) return false; /* only this thread sets it */
    struct mt_err err = MT_ERR_INIT;
    if (!cuda_enter(s->queue.cuda, &err)) return true;
    keep(s, &err);
    return false;
}

static enum mt_status name_device(const struct cuda_stream *s, struct mt_err *err) {
    const char *device = s->device->base.description;
    return mt_err_context(err, "%.*s", (int)strcspn(device, ","), device);
}

/* A stall, or an error of NCCL, names the device, and aborts all communication: other ranks should not wait for what
 * this rank will not send. */
static enum mt_status give_up(const struct cuda_stream *s, struct mt_err *err) {
    cuda_nccl_abort_all();
    return name_device(s, err);
}

/* ---- progress ---- */

static enum mt_status mark(struct cuda_stream *s, struct mt_err *err) {
    if (s->marked == s->submitted) return MT_OK;
    CUDA_TRY(cuStreamWriteValue32(s->queue.stream, s->mark, (uint32_t)s->submitted, CU_STREAM_WRITE_VALUE_DEFAULT), err,
             "cuStreamWriteValue32");
    s->marked = s->submitted;
    s->times.chained = false;
    return MT_OK;
}

/* Drop the items that have run. The lock is held. */
static void drop(struct cuda_stream *s, uint64_t completed) {
    s->completed = completed;
    while (s->count && s->items[s->first].number <= completed) {
        s->first = (s->first + 1) % s->capacity;
        s->count--;
    }
}

static void look(struct cuda_stream *s) {
    uint32_t reached = __atomic_load_n(&s->pinned->mark, __ATOMIC_ACQUIRE);
    int32_t more = (int32_t)(reached - (uint32_t)s->completed);
    if (more > 0) drop(s, s->completed + (uint32_t)more);
}

static void push(struct cuda_stream *s, struct item item) {
    pthread_mutex_lock(&s->device->lock);
    look(s);
    if (s->count == s->capacity) {
        size_t capacity = s->capacity ? 2 * s->capacity : 256;
        struct item *items = mt_malloc(capacity * sizeof *items);
        for (size_t i = 0; i < s->count; i++) items[i] = s->items[(s->first + i) % s->capacity];
        free(s->items);
        s->items = items, s->first = 0, s->capacity = capacity;
    }
    item.number = s->submitted += item.part ? cuda_part_count(item.part) + 1 : 1;
    s->items[(s->first + s->count++) % s->capacity] = item;
    pthread_mutex_unlock(&s->device->lock);
}

static const char *item_name(const struct item *item) {
    return item->waits ? "the wait for an event" : item->what;
}

/* ---- the clock ---- */

/* Copy the call's clock to the GPU, if it differs from the last one. */
static enum mt_status send_clock(struct cuda_stream *s, const struct mt_clock *clock, struct mt_err *err) {
    if (!clock) return MT_OK;
    if (s->nclocks && clock->step == s->clock.step && clock->seed == s->clock.seed && clock->lr == s->clock.lr)
        return MT_OK;
    int i = (int)(s->nclocks % NCLOCKS);
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
    push(s, (struct item){.what = what});
    return s->submitted - s->marked < MARK_EVERY ? MT_OK : mark(s, err);
}

void cuda_stream_op(struct mt_stream *stream, const struct mt_backend *backend, const struct mt_call *call,
                    double *seconds) {
    struct cuda_stream *s = stream_of(stream);
    struct mt_err err = MT_ERR_INIT;
    if (!enter(s)) return;
    const char *what = call->what ? call->what : mt_op_info[call->kind].name;
    if (!queue_op(s, backend, call, seconds, what, &err)) return;
    mt_err_context(&err, "%s", what);
    keep(s, &err);
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
    enum mt_status st = collective ? mark(s, err) : MT_OK;
    if (!st) st = cuda_times_begin(&s->times, seconds, err);
    if (!st) st = cuda_coll(&s->queue, &s->pipeline, call, err);
    if (!st) st = cuda_times_end(&s->times, seconds, err);
    if (st) return st;
    push(s, (struct item){.what = what, .collective = collective});
    return !collective && s->submitted - s->marked < MARK_EVERY ? MT_OK : mark(s, err);
}

void cuda_stream_coll(struct mt_stream *stream, const struct mt_coll_call *call, double *seconds) {
    struct cuda_stream *s = stream_of(stream);
    struct mt_err err = MT_ERR_INIT;
    const char *what = call->what ? call->what : "a copy";
    if (!enter(s) || !queue_coll(s, call, what, seconds, &err)) return;
    mt_err_context(&err, "%s", what);
    if (err.status == MT_ESTALL) /* or earlier work would be waited for with another deadline */
        give_up(s, &err);
    else if (call->schedule)
        name_device(s, &err);
    keep(s, &err);
}

static enum mt_status queue_overlap(struct cuda_stream *s, struct mt_overlap_call *call, double *seconds,
                                    struct mt_err *err) {
    const struct cuda_queue *queue = s->part ? cuda_part_queue(s->part) : &s->queue;
    enum mt_status st = s->part ? cuda_part_begin(s->part, true, err) : mark(s, err);
    if (!st && !s->part) st = cuda_times_begin(&s->times, seconds, err);
    if (!st) st = cuda_overlaps_queue(&s->overlaps, queue, call, err);
    if (!st && s->part) cuda_part_overlaps(s->part, call->window);
    if (!st && !s->part) s->overlaps.window = call->window;
    if (st || s->part) return st ? st : cuda_part_end(s->part, call->operands.what, true, true, err);
    st = cuda_times_end(&s->times, seconds, err);
    if (st) return st;
    push(s, (struct item){.what = call->operands.what, .collective = true});
    return mark(s, err);
}

void cuda_stream_overlap(struct mt_stream *stream, struct mt_overlap_call *call, double *seconds) {
    struct cuda_stream *s = stream_of(stream);
    struct mt_err err = MT_ERR_INIT;
    if (!enter(s) || !queue_overlap(s, call, seconds, &err)) return;
    mt_err_context(&err, "%s", call->operands.what);
    if (err.status == MT_ESTALL) /* NCCL's, whose earlier work no one would end */
        give_up(s, &err);
    else
        name_device(s, &err);
    keep(s, &err);
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
    push(s, (struct item){.what = direction == MT_COPY_IN ? "a copy to the GPU" : "a copy from the GPU"});
    return s->submitted - s->marked < MARK_EVERY ? MT_OK : mark(s, err);
}

void cuda_stream_copy(struct mt_stream *stream, enum mt_copy direction, void *to, const void *from,
                      int64_t size_bytes) {
    struct cuda_stream *s = stream_of(stream);
    struct mt_err err = MT_ERR_INIT;
    if (size_bytes && enter(s) && queue_copy(s, direction, to, from, size_bytes, &err)) keep(s, &err);
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
    struct cuda_stream *s = stream_of(stream);
    struct mt_err err = MT_ERR_INIT;
    if (enter(s)) {
        CUresult result = cuEventRecord(e->handle, s->queue.stream);
        if (result) {
            cuda_fail(&err, result, "cuEventRecord");
            keep(s, &err);
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
    enum mt_status st = s->part ? cuda_part_wait(s->part, err) : mark(s, err);
    if (st) return st;
    CUDA_TRY(cuStreamWaitEvent(s->queue.stream, event, CU_EVENT_WAIT_DEFAULT), err, "cuStreamWaitEvent");
    if (s->part) return MT_OK;
    s->times.chained = false;
    push(s, (struct item){.waits = true});
    return mark(s, err);
}

void cuda_stream_wait(struct mt_stream *stream, struct mt_event *event) {
    struct cuda_event *e = (struct cuda_event *)event;
    struct cuda_stream *s = stream_of(stream);
    struct mt_err err = MT_ERR_INIT;
    pthread_mutex_lock(&s->device->lock);
    if (!s->err.status && e->err.status) s->err = e->err;
    pthread_mutex_unlock(&s->device->lock);
    if (enter(s) && queue_wait(s, e->handle, &err)) keep(s, &err);
}

/* ---- progress and waiting ---- */

struct mt_stream_progress cuda_stream_query(struct mt_stream *stream) {
    struct cuda_stream *s = stream_of(stream);
    struct mt_stream_progress progress_of = {0};
    pthread_mutex_lock(&s->device->lock);
    look(s);
    progress_of.completed = s->completed;
    const struct item *item = s->count ? &s->items[s->first] : NULL;
    if (item && item->part) {
        progress_of = cuda_part_query(item->part, item->launch);
        progress_of.completed += s->completed;
    } else if (item && !item->waits) {
        progress_of.what = item->what;
        progress_of.collective = item->collective;
    }
    pthread_mutex_unlock(&s->device->lock);
    return progress_of;
}

/* Text such as: "compute" in the wait for an event, "comm" in AllReduce grad.h.3. All streams: another one may be the
 * reason why this one stalls. */
static void describe_streams(const struct cuda_stream *s, char *text, size_t size) {
    size_t used = 0;
    text[0] = 0;
    pthread_mutex_lock(&s->device->lock);
    for (struct cuda_stream *t = s->device->streams; t && used < size; t = t->next) {
        look(t);
        if (!t->count) continue;
        const struct item *item = &t->items[t->first];
        char name[200];
        snprintf(name, sizeof name, "%s", item->part ? "" : item_name(item));
        if (item->part) cuda_part_describe(item->part, item->launch, name, sizeof name);
        used += (size_t)snprintf(text + used, size - used, "%s \"%s\" in %s", used ? "," : "", t->name, name);
    }
    pthread_mutex_unlock(&s->device->lock);
}

static enum mt_status fail_stalled(const struct cuda_stream *s, double deadline_s, struct mt_err *err) {
    char text[600];
    describe_streams(s, text, sizeof text);
    mt_fail(err, MT_ESTALL, "no progress for %g s: stream%s", deadline_s, *text ? text : "s are idle");
    return give_up(s, err);
}

static enum mt_status fail_communicating(const struct cuda_stream *s, struct mt_err *err) {
    char text[600];
    describe_streams(s, text, sizeof text);
    if (*text) mt_err_context(err, "stream%s", text);
    return give_up(s, err);
}

/* Whether an overlapped GEMM of any stream has given up, or must; its peers learn of it. */
static enum mt_status check_overlaps(const struct cuda_stream *s, struct mt_err *err) {
    enum mt_status st = MT_OK;
    pthread_mutex_lock(&s->device->lock);
    for (struct cuda_stream *t = s->device->streams; t && !st; t = t->next) st = cuda_overlaps_check(&t->overlaps, err);
    pthread_mutex_unlock(&s->device->lock);
    return st ? give_up(s, err) : MT_OK;
}

/* A number that changes with the stream's progress; within a launch, with that of any of its streams. */
static uint64_t progress(struct cuda_stream *s) {
    pthread_mutex_lock(&s->device->lock);
    look(s);
    const struct item *item = s->count ? &s->items[s->first] : NULL;
    uint64_t sum = s->completed + (item && item->part ? cuda_part_progress(item->part) : 0);
    pthread_mutex_unlock(&s->device->lock);
    return sum;
}

/* Wait until the stream is idle, or has passed `event` (null: until it is idle), or the GPU reports an error; MT_ESTALL
 * after deadline_s without progress. */
static enum mt_status wait_idle(struct cuda_stream *s, CUevent event, double deadline_s, struct mt_err *err) {
    struct mt_awake awake = {0};
    uint64_t seen = progress(s);
    CUresult result;
    mt_awake_check(&awake, 1);
    while ((result = event ? cuEventQuery(event) : cuStreamQuery(s->queue.stream)) == CUDA_ERROR_NOT_READY) {
        uint64_t now = progress(s);
        double still_s = mt_awake_check(&awake, 1);
        if (now != seen) {
            seen = now;
            awake.awake_s = 0;
        } else if (still_s >= deadline_s) {
            return fail_stalled(s, deadline_s, err);
        }
        if (cuda_nccl_check_all(err)) return fail_communicating(s, err);
        if (check_overlaps(s, err)) return err->status;
        mt_sleep_s(nap_s);
    }
    if (!result) return check_overlaps(s, err);
    cuda_fail(err, result, "the GPU");
    return mt_err_context(err, "stream \"%s\"", s->name);
}

enum mt_status cuda_stream_take_error(struct mt_stream *stream, struct mt_err *err) {
    struct cuda_stream *s = stream_of(stream);
    enum mt_status st;
    pthread_mutex_lock(&s->device->lock);
    if ((st = s->err.status)) *err = s->err;
    s->err = (struct mt_err)MT_ERR_INIT;
    pthread_mutex_unlock(&s->device->lock);
    return st;
}

enum mt_status cuda_stream_sync(struct mt_stream *stream, double deadline_s, struct mt_err *err) {
    struct cuda_stream *s = stream_of(stream);
    struct mt_err first = MT_ERR_INIT;
    enum mt_status st = cuda_enter(s->queue.cuda, err), reported;
    if (!st && !s->err.status && mark(s, &first)) keep(s, &first);
    if (!st) st = wait_idle(s, NULL, deadline_s, err);
    if (st == MT_ESTALL) return st;
    pthread_mutex_lock(&s->device->lock);
    drop(s, s->submitted);
    pthread_mutex_unlock(&s->device->lock);
    if (!st) s->overlaps.window = NULL; /* it may be freed now */
    if (!st) st = cuda_times_resolve(&s->times, err);
    reported = cuda_stream_take_error(stream, &first);
    if (!reported) return st;
    *err = first;
    return reported;
}

enum mt_status cuda_event_sync(struct mt_event *event, double deadline_s, struct mt_err *err) {
    struct cuda_event *e = (struct cuda_event *)event;
    struct mt_err first = MT_ERR_INIT;
    if (!e->stream) return MT_OK; /* never recorded */
    enum mt_status st = cuda_enter(e->stream->queue.cuda, err), reported;
    if (!st) st = wait_idle(e->stream, e->handle, deadline_s, err);
    if (st == MT_ESTALL || !(reported = cuda_stream_take_error(&e->stream->base, &first))) return st;
    *err = first;
    return reported;
}

/* ---- for captured work ---- */

const struct cuda_queue *cuda_stream_queue(const struct mt_stream *stream) {
    return &((const struct cuda_stream *)stream)->queue;
}

void cuda_stream_capture(struct mt_stream *stream, struct cuda_part *part) {
    stream_of(stream)->part = part;
}

enum mt_status cuda_stream_mark(struct mt_stream *stream, struct mt_err *err) {
    return mark(stream_of(stream), err);
}

enum mt_status cuda_stream_launched(struct mt_stream *stream, const struct cuda_part *part, uint64_t launch,
                                    struct mt_err *err) {
    struct cuda_stream *s = stream_of(stream);
    s->times.chained = false;
    if (cuda_part_window(part)) s->overlaps.window = cuda_part_window(part);
    push(s, (struct item){.part = part, .launch = launch});
    return mark(s, err);
}

void cuda_stream_forget(struct mt_stream *stream, const struct cuda_part *part) {
    struct cuda_stream *s = stream_of(stream);
    pthread_mutex_lock(&s->device->lock);
    for (size_t i = 0; i < s->count; i++) {
        struct item *item = &s->items[(s->first + i) % s->capacity];
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
    for (int i = 0; i < NCLOCKS; i++)
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
    return !cuda_enter(s->queue.cuda, &ignored) && (!s->queue.stream || wait_idle(s, NULL, 1, &ignored) != MT_ESTALL);
}

void cuda_stream_free(struct mt_stream *stream) {
    struct cuda_stream *s = stream_of(stream), **place = &s->device->streams;
    bool drained = drain(s);
    pthread_mutex_lock(&s->device->lock);
    while (*place != s) place = &(*place)->next;
    *place = s->next;
    pthread_mutex_unlock(&s->device->lock);
    if (drained) {
        if (s->queue.stream) cuda_times_release(&s->times);
        cuda_pipeline_release(&s->pipeline);
        cuda_overlaps_release(&s->overlaps);
        for (int i = 0; i < NCLOCKS; i++)
            if (s->clock_sent[i]) cuEventDestroy(s->clock_sent[i]);
        if (s->queue.clock) cuMemFree(s->queue.clock);
        if (s->queue.room) cuMemFree(s->queue.room);
        if (s->pinned) cuMemFreeHost(s->pinned);
        if (s->queue.stream) cuStreamDestroy(s->queue.stream);
    }
    free(s->items);
    free(s);
}
