/* Captured work: a graph of the driver's, and for each stream a mark in the host's memory.
 *
 * Timestamps are kernels of one thread (timestamp.cu) between operators: they write the GPU's time, and how many of
 * them the stream has passed. A stream has one where its work begins and ends, that is around its waits for other
 * streams and at both ends of a launch; before and after a collective; and after every TIMESTAMP_EVERY operators. Not
 * more, since one costs some microseconds (about two on an H100, after each of 885 operators). The items between the
 * last timestamp that was passed and the next are what runs. Times of the last launches are kept in slots.
 *
 * A captured kernel takes some hundred bytes of the driver's memory on the host and on the GPU; so items are limited.
 */
#include "kernels/cuda/device/capture.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"

enum {
    TIMESTAMP_EVERY = 32,
    MOST_TIMESTAMPS = 8192,
    MOST_ITEMS = 1 << 17,
    MOST_PARTS = 4,
    SLOTS = MT_CAPTURE_LAUNCHES,
    PASSED_BITS = 20
};
static const double patience_s = 1; /* for a last launch that does not end */

struct item {
    const char *what; /* null: a wait */
    bool collective;
    uint32_t timestamps; /* before it */
};

/* Work of a stream between two waits. */
struct span {
    uint32_t begin, end; /* timestamps */
};

struct cuda_part {
    struct cuda_capture *capture;
    struct mt_stream *stream;
    struct cuda_queue queue;
    CUfunction timestamp;
    uint64_t *mark;  /* a launch's number above, the timestamps that it has passed below */
    uint64_t *times; /* [SLOTS][MOST_TIMESTAMPS] nanoseconds */
    CUdeviceptr mark_at, times_at;
    uint32_t ntimestamps;
    struct mt_window *window; /* of its overlapped GEMMs; or null */
    bool working;             /* in a span */
    int since;                /* items since the last timestamp */
    struct item *items;
    int nitems, items_capacity;
    struct span *spans;
    int nspans, spans_capacity;
};

/* The capture's clock, as it is on the GPU, and in pinned memory to be copied there. */
struct state {
    struct mt_clock clock;
    uint64_t launch;
};

struct cuda_capture {
    struct mt_capture base;
    const struct cuda *cuda;
    int nparts;
    struct cuda_part parts[MOST_PARTS];
    struct mt_arena arena;
    CUgraph graph;
    CUgraphExec exec;
    CUevent join;
    CUdeviceptr state; /* struct state */
    void *pinned;
    struct state *states; /* [SLOTS], pinned */
    uint64_t launches;
    CUevent done[SLOTS];
};

static struct cuda_capture *capture_of(struct mt_capture *capture) {
    return (struct cuda_capture *)capture;
}

/* ---- parts ---- */

const struct cuda_queue *cuda_part_queue(const struct cuda_part *part) {
    return &part->queue;
}

void cuda_part_overlaps(struct cuda_part *part, struct mt_window *window) {
    part->window = window;
}

struct mt_window *cuda_part_window(const struct cuda_part *part) {
    return part->window;
}

static enum mt_status timestamp(struct cuda_part *part, struct mt_err *err) {
    if (part->ntimestamps == MOST_TIMESTAMPS || part->nitems >= MOST_ITEMS)
        return mt_fail(err, MT_EINPUT, "more work than one graph should hold: %d operators, %d marks of progress",
                       part->nitems, (int)part->ntimestamps);
    CUdeviceptr launch = part->capture->state + offsetof(struct state, launch);
    CUdeviceptr times = part->times_at + part->ntimestamps * sizeof *part->times;
    uint64_t stride = MOST_TIMESTAMPS, passed = part->ntimestamps + 1;
    enum mt_status st = cuda_launch(&part->queue, part->timestamp, 1, 1, 0,
                                    (void *[]){&launch, &times, &stride, &part->mark_at, &passed}, err);
    if (st) return st;
    part->ntimestamps++;
    part->since = 0;
    return MT_OK;
}

static void push(struct cuda_part *part, const char *what, bool collective) {
    mt_arena_grow(&part->capture->arena, &part->items, part->nitems, &part->items_capacity, sizeof *part->items);
    part->items[part->nitems++] = (struct item){what, collective, part->ntimestamps};
    part->since++;
}

enum mt_status cuda_part_begin(struct cuda_part *part, bool collective, struct mt_err *err) {
    if (part->working && !(collective && part->since)) return MT_OK;
    enum mt_status st = timestamp(part, err);
    if (st || part->working) return st;
    mt_arena_grow(&part->capture->arena, &part->spans, part->nspans, &part->spans_capacity, sizeof *part->spans);
    part->spans[part->nspans++] = (struct span){.begin = part->ntimestamps - 1};
    part->working = true;
    return MT_OK;
}

enum mt_status cuda_part_end(struct cuda_part *part, const char *what, bool collective, bool timestamps,
                             struct mt_err *err) {
    push(part, what, collective);
    return timestamps || part->since >= TIMESTAMP_EVERY ? timestamp(part, err) : MT_OK;
}

/* The end of a span is the last timestamp, if nothing came after it. */
static enum mt_status stop_working(struct cuda_part *part, struct mt_err *err) {
    if (!part->working) return MT_OK;
    enum mt_status st = part->since ? timestamp(part, err) : MT_OK;
    if (st) return st;
    part->spans[part->nspans - 1].end = part->ntimestamps - 1;
    part->working = false;
    return MT_OK;
}

enum mt_status cuda_part_wait(struct cuda_part *part, struct mt_err *err) {
    enum mt_status st = stop_working(part, err);
    if (!st) push(part, NULL, false);
    return st;
}

/* ---- capturing ---- */

static enum mt_status make_part(struct cuda_capture *capture, int index, struct mt_stream *stream, char *pinned,
                                CUdeviceptr pinned_at, struct mt_err *err) {
    struct cuda_part *part = &capture->parts[index];
    size_t times_bytes = (size_t)SLOTS * MOST_TIMESTAMPS * sizeof *part->times, at = sizeof(struct state[SLOTS]);
    size_t mine = at + (size_t)index * (times_bytes + sizeof *part->mark);
    char definitions[64];
    snprintf(definitions, sizeof definitions, "-DSLOTS=%d -DPASSED_BITS=%d", SLOTS, PASSED_BITS);
    *part = (struct cuda_part){.capture = capture,
                               .stream = stream,
                               .queue = *cuda_stream_queue(stream),
                               .times = (uint64_t *)(pinned + mine),
                               .times_at = pinned_at + mine,
                               .mark = (uint64_t *)(pinned + mine + times_bytes),
                               .mark_at = pinned_at + mine + times_bytes};
    part->queue.clock = capture->state;
    return cuda_kernel(part->queue.cuda, "timestamp", definitions, "timestamp", 0, &part->timestamp, err);
}

static enum mt_status make(struct cuda_capture *capture, struct mt_stream *const *streams, struct mt_err *err) {
    size_t size_bytes = sizeof(struct state[SLOTS]) +
                        (size_t)capture->nparts * ((size_t)SLOTS * MOST_TIMESTAMPS + 1) * sizeof(uint64_t);
    CUdeviceptr at;
    CUDA_TRY(cuMemHostAlloc(&capture->pinned, size_bytes, CU_MEMHOSTALLOC_DEVICEMAP), err, "cuMemHostAlloc");
    memset(capture->pinned, 0, size_bytes);
    CUDA_TRY(cuMemHostGetDevicePointer(&at, capture->pinned, 0), err, "cuMemHostGetDevicePointer");
    capture->states = capture->pinned;
    CUDA_TRY(cuMemAlloc(&capture->state, sizeof(struct state)), err, "cuMemAlloc");
    CUDA_TRY(cuEventCreate(&capture->join, CU_EVENT_DISABLE_TIMING), err, "cuEventCreate");
    for (int i = 0; i < SLOTS; i++)
        CUDA_TRY(cuEventCreate(&capture->done[i], CU_EVENT_DISABLE_TIMING), err, "cuEventCreate");
    enum mt_status st = MT_OK;
    for (int p = 0; p < capture->nparts && !st; p++) st = make_part(capture, p, streams[p], capture->pinned, at, err);
    return st;
}

/* The first stream's capture extends to the streams that wait for its event. Relaxed mode: no other thread does at the
 * same time what the driver would have to forbid. */
static enum mt_status fork_parts(struct cuda_capture *capture, struct mt_err *err) {
    CUstream origin = capture->parts[0].queue.stream;
    CUDA_TRY(cuStreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_RELAXED), err, "cuStreamBeginCapture");
    CUDA_TRY(cuEventRecord(capture->join, origin), err, "cuEventRecord");
    for (int p = 1; p < capture->nparts; p++)
        CUDA_TRY(cuStreamWaitEvent(capture->parts[p].queue.stream, capture->join, CU_EVENT_WAIT_DEFAULT), err,
                 "cuStreamWaitEvent");
    return MT_OK;
}

static enum mt_status join_parts(struct cuda_capture *capture, struct mt_err *err) {
    enum mt_status st = MT_OK;
    for (int p = 0; p < capture->nparts && !st; p++) st = stop_working(&capture->parts[p], err);
    for (int p = 1; p < capture->nparts && !st; p++) {
        CUDA_TRY(cuEventRecord(capture->join, capture->parts[p].queue.stream), err, "cuEventRecord");
        CUDA_TRY(cuStreamWaitEvent(capture->parts[0].queue.stream, capture->join, CU_EVENT_WAIT_DEFAULT), err,
                 "cuStreamWaitEvent");
    }
    return st;
}

/* End the driver's capture, valid or not. */
static CUresult end_capture(struct cuda_capture *capture) {
    CUstreamCaptureStatus status;
    CUstream origin = capture->parts[0].queue.stream;
    CUresult result = cuStreamIsCapturing(origin, &status);
    for (int p = 0; p < capture->nparts; p++) cuda_stream_capture(capture->parts[p].stream, NULL);
    if (result || status == CU_STREAM_CAPTURE_STATUS_NONE) return result;
    return cuStreamEndCapture(origin, &capture->graph);
}

enum mt_status cuda_capture_begin(struct mt_stream *const *streams, int nstreams, struct mt_capture **out,
                                  struct mt_err *err) {
    assert(nstreams <= MOST_PARTS);
    struct cuda_capture *capture = mt_calloc(1, sizeof *capture);
    capture->base.device = streams[0]->device;
    capture->cuda = cuda_stream_queue(streams[0])->cuda;
    capture->nparts = nstreams;
    enum mt_status st = cuda_enter(capture->cuda, err);
    if (!st) st = make(capture, streams, err);
    if (!st && (st = fork_parts(capture, err))) end_capture(capture);
    if (st) {
        cuda_capture_free(&capture->base);
        return st;
    }
    for (int p = 0; p < nstreams; p++) cuda_stream_capture(streams[p], &capture->parts[p]);
    *out = &capture->base;
    return MT_OK;
}

/* The error is the first work that could not be queued; else the driver's. */
static enum mt_status instantiate(struct cuda_capture *capture, struct mt_err *err) {
    struct mt_err ignored = MT_ERR_INIT;
    enum mt_status st = MT_OK;
    for (int p = 0; p < capture->nparts; p++) {
        enum mt_status here = cuda_stream_take_error(capture->parts[p].stream, st ? &ignored : err);
        if (!st) st = here;
    }
    if (!st) st = join_parts(capture, err);
    CUresult result = end_capture(capture);
    if (st) return st;
    CUDA_TRY(result, err, "cuStreamEndCapture");
    CUDA_TRY(cuGraphInstantiateWithFlags(&capture->exec, capture->graph, 0), err, "cuGraphInstantiateWithFlags");
    CUDA_TRY(cuGraphUpload(capture->exec, capture->parts[0].queue.stream), err, "cuGraphUpload");
    return MT_OK;
}

enum mt_status cuda_capture_end(struct mt_capture *base, struct mt_err *err) {
    struct cuda_capture *capture = capture_of(base);
    enum mt_status st = instantiate(capture, err);
    if (st) cuda_capture_free(base);
    return st;
}

/* ---- launching ---- */

/* The other streams' earlier work comes before the launch. */
static enum mt_status follow_others(struct cuda_capture *capture, struct mt_err *err) {
    CUstream origin = capture->parts[0].queue.stream;
    for (int p = 1; p < capture->nparts; p++) {
        CUstream other = capture->parts[p].queue.stream;
        if (cuStreamQuery(other) == CUDA_SUCCESS) continue;
        CUDA_TRY(cuEventRecord(capture->join, other), err, "cuEventRecord");
        CUDA_TRY(cuStreamWaitEvent(origin, capture->join, CU_EVENT_WAIT_DEFAULT), err, "cuStreamWaitEvent");
    }
    return MT_OK;
}

enum mt_status cuda_capture_launch(struct mt_capture *base, const struct mt_clock *clock, uint64_t *launch,
                                   struct mt_err *err) {
    struct cuda_capture *capture = capture_of(base);
    CUstream origin = capture->parts[0].queue.stream;
    enum mt_status st = cuda_enter(capture->cuda, err);
    uint64_t number = capture->launches + 1, slot = number % SLOTS;
    if (!st && number > SLOTS && cuEventQuery(capture->done[slot]) == CUDA_ERROR_NOT_READY)
        return mt_fail(err, MT_EBUG, "more than %d launches are in flight", SLOTS);
    for (int p = 0; p < capture->nparts && !st; p++) st = cuda_stream_mark(capture->parts[p].stream, err);
    if (!st) st = follow_others(capture, err);
    if (st) return st;
    capture->states[slot] = (struct state){*clock, number};
    CUDA_TRY(cuMemcpyHtoDAsync(capture->state, &capture->states[slot], sizeof(struct state), origin), err,
             "sending the clock");
    CUDA_TRY(cuGraphLaunch(capture->exec, origin), err, "cuGraphLaunch");
    CUDA_TRY(cuEventRecord(capture->done[slot], origin), err, "cuEventRecord");
    *launch = capture->launches = number;
    for (int p = 0; p < capture->nparts && !st; p++) {
        struct cuda_part *part = &capture->parts[p];
        if (p)
            CUDA_TRY(cuStreamWaitEvent(part->queue.stream, capture->done[slot], CU_EVENT_WAIT_DEFAULT), err,
                     "cuStreamWaitEvent");
        st = cuda_stream_launched(part->stream, part, number, err);
    }
    return st;
}

void cuda_capture_times(const struct mt_capture *base, uint64_t launch, double *stream_s) {
    const struct cuda_capture *capture = (const struct cuda_capture *)base;
    for (int p = 0; p < capture->nparts; p++) {
        const struct cuda_part *part = &capture->parts[p];
        const uint64_t *times = part->times + launch % SLOTS * MOST_TIMESTAMPS;
        uint64_t sum_ns = 0;
        for (int i = 0; i < part->nspans; i++) sum_ns += times[part->spans[i].end] - times[part->spans[i].begin];
        stream_s[p] = 1e-9 * (double)sum_ns;
    }
}

/* ---- progress ---- */

uint64_t cuda_part_count(const struct cuda_part *part) {
    return (uint64_t)part->nitems;
}

/* How many timestamps of a launch a stream has passed. */
static uint32_t passed(const struct cuda_part *part, uint64_t launch) {
    uint64_t mark = __atomic_load_n(part->mark, __ATOMIC_ACQUIRE), number = mark >> PASSED_BITS;
    if (number > launch) return part->ntimestamps;
    return number < launch ? 0 : (uint32_t)(mark & ((1u << PASSED_BITS) - 1));
}

/* The first item that comes after the last timestamp that was passed. */
static int reached(const struct cuda_part *part, uint32_t timestamps) {
    int low = 0, high = part->nitems;
    while (low < high) {
        int middle = (low + high) / 2;
        if (part->items[middle].timestamps < timestamps)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct mt_stream_progress cuda_part_query(const struct cuda_part *part, uint64_t launch) {
    int at = reached(part, passed(part, launch));
    struct mt_stream_progress progress = {.completed = (uint64_t)at};
    if (at < part->nitems) progress.what = part->items[at].what, progress.collective = part->items[at].collective;
    return progress;
}

uint64_t cuda_part_progress(const struct cuda_part *part) {
    uint64_t sum = 0;
    for (int p = 0; p < part->capture->nparts; p++)
        sum += __atomic_load_n(part->capture->parts[p].mark, __ATOMIC_ACQUIRE);
    return sum;
}

/* There may be several items between two timestamps. */
void cuda_part_describe(const struct cuda_part *part, uint64_t launch, char *text, size_t room) {
    int first = reached(part, passed(part, launch)), last = first;
    if (first == part->nitems || !part->items[first].what) {
        snprintf(text, room, "%s", first == part->nitems ? "nothing more" : "the wait for an event");
        return;
    }
    while (last + 1 < part->nitems && part->items[last + 1].timestamps == part->items[first].timestamps &&
           part->items[last + 1].what)
        last++;
    int n = snprintf(text, room, "%s", part->items[first].what);
    if (last > first && n >= 0 && (size_t)n < room)
        snprintf(text + n, room - (size_t)n, " or one of the %d after it", last - first);
}

/* ---- freeing ---- */

/* Whether the last launch ends in time. What a GPU that is stuck may still write to is never freed. */
static bool has_ended(const struct cuda_capture *capture) {
    if (!capture->launches) return true;
    double end_s = mt_now_s() + patience_s;
    CUresult result;
    while ((result = cuEventQuery(capture->done[capture->launches % SLOTS])) == CUDA_ERROR_NOT_READY) {
        if (mt_now_s() > end_s) return false;
        mt_sleep_s(1e-4);
    }
    return true;
}

void cuda_capture_free(struct mt_capture *base) {
    struct cuda_capture *capture = capture_of(base);
    struct mt_err ignored = MT_ERR_INIT;
    if (cuda_enter(capture->cuda, &ignored) || !has_ended(capture)) return;
    for (int p = 0; p < capture->nparts; p++)
        if (capture->parts[p].stream) cuda_stream_forget(capture->parts[p].stream, &capture->parts[p]);
    if (capture->exec) cuGraphExecDestroy(capture->exec);
    if (capture->graph) cuGraphDestroy(capture->graph);
    for (int i = 0; i < SLOTS; i++)
        if (capture->done[i]) cuEventDestroy(capture->done[i]);
    if (capture->join) cuEventDestroy(capture->join);
    if (capture->state) cuMemFree(capture->state);
    if (capture->pinned) cuMemFreeHost(capture->pinned);
    mt_arena_release(&capture->arena);
    free(capture);
}
