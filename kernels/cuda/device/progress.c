/* How far a GPU's streams have come, and waiting for them.
 *
 * A stream's items are numbered. A mark is a write of the current number into the host's memory, by the stream: before
 * and after what can stall (collectives, waits), and after every MARK_EVERY operators; not more, since a mark costs a
 * bubble between kernels. Items up to the last mark are dropped; the first that is left is what runs. A launch of
 * captured work counts as all of its items; the capture knows which of them runs (capture.h). */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/base/arena.h"
#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/nccl/comm.h"

enum { MARK_EVERY = 16 };
static const double nap_s = 20e-6;

/* ---- items and marks ---- */

enum mt_status cuda_progress_mark(struct cuda_stream *s, struct mt_err *err) {
    if (s->marked == s->submitted) return MT_OK;
    CUDA_TRY(cuStreamWriteValue32(s->queue.stream, s->mark, (uint32_t)s->submitted, CU_STREAM_WRITE_VALUE_DEFAULT), err,
             "cuStreamWriteValue32");
    s->marked = s->submitted;
    s->times.chained = false;
    return MT_OK;
}

enum mt_status cuda_progress_mark_if_due(struct cuda_stream *s, struct mt_err *err) {
    return s->submitted - s->marked < MARK_EVERY ? MT_OK : cuda_progress_mark(s, err);
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

void cuda_progress_push(struct cuda_stream *s, struct cuda_item item) {
    pthread_mutex_lock(&s->device->lock);
    look(s);
    if (s->count == s->capacity) {
        size_t capacity = s->capacity ? 2 * s->capacity : 256;
        struct cuda_item *items = mt_malloc(capacity * sizeof *items);
        for (size_t i = 0; i < s->count; i++) items[i] = s->items[(s->first + i) % s->capacity];
        free(s->items);
        s->items = items, s->first = 0, s->capacity = capacity;
    }
    item.number = s->submitted += item.part ? cuda_part_count(item.part) + 1 : 1;
    s->items[(s->first + s->count++) % s->capacity] = item;
    pthread_mutex_unlock(&s->device->lock);
}

void cuda_progress_communicates(struct cuda_stream *s) {
    pthread_mutex_lock(&s->device->lock);
    if (s->count) s->items[(s->first + s->count - 1) % s->capacity].collective = true;
    pthread_mutex_unlock(&s->device->lock);
}

static const char *item_name(const struct cuda_item *item) {
    return item->waits ? "the wait for an event" : item->what;
}

/* ---- waiting ---- */

struct mt_stream_progress cuda_stream_query(struct mt_stream *stream) {
    struct cuda_stream *s = cuda_stream_of(stream);
    struct mt_stream_progress progress_of = {0};
    pthread_mutex_lock(&s->device->lock);
    look(s);
    progress_of.completed = s->completed;
    const struct cuda_item *item = s->count ? &s->items[s->first] : NULL;
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
        const struct cuda_item *item = &t->items[t->first];
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
    return cuda_stream_give_up(s, err);
}

static enum mt_status fail_communicating(const struct cuda_stream *s, struct mt_err *err) {
    char text[600];
    describe_streams(s, text, sizeof text);
    if (*text) mt_err_context(err, "stream%s", text);
    return cuda_stream_give_up(s, err);
}

/* Whether a wait of any stream for a peer, of an overlapped GEMM or its own, has given up, or must; its peers learn of
 * it. */
static enum mt_status check_waits(const struct cuda_stream *s, struct mt_err *err) {
    enum mt_status st = MT_OK;
    pthread_mutex_lock(&s->device->lock);
    for (struct cuda_stream *t = s->device->streams; t && !st; t = t->next) {
        st = cuda_overlaps_check(&t->overlaps, err);
        if (!st) st = cuda_one_sided_check(&t->one_sided, err);
        if (st && t != s && !t->err.status) t->err = *err; /* what it has computed since is not to be used either */
    }
    pthread_mutex_unlock(&s->device->lock);
    return st ? cuda_stream_give_up(s, err) : MT_OK;
}

/* A number that changes with the stream's progress; within a launch, with that of any of its streams. */
static uint64_t progress(struct cuda_stream *s) {
    pthread_mutex_lock(&s->device->lock);
    look(s);
    const struct cuda_item *item = s->count ? &s->items[s->first] : NULL;
    uint64_t sum = s->completed + (item && item->part ? cuda_part_progress(item->part) : 0);
    pthread_mutex_unlock(&s->device->lock);
    return sum;
}

enum mt_status cuda_progress_wait(struct cuda_stream *s, CUevent event, double deadline_s, struct mt_err *err) {
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
        if (check_waits(s, err)) return err->status;
        mt_sleep_s(nap_s);
    }
    /* Work that gave up a wait went on at once, and may have ended before the last look. */
    if (!result && cuda_nccl_check_all(err)) return fail_communicating(s, err);
    if (!result) return check_waits(s, err);
    cuda_fail(err, result, "the GPU");
    return mt_err_context(err, "stream \"%s\"", s->name);
}

enum mt_status cuda_stream_sync(struct mt_stream *stream, double deadline_s, struct mt_err *err) {
    struct cuda_stream *s = cuda_stream_of(stream);
    struct mt_err first = MT_ERR_INIT;
    enum mt_status st = cuda_enter(s->queue.cuda, err), reported;
    if (!st && !s->err.status && cuda_progress_mark(s, &first)) cuda_stream_keep(s, &first);
    if (!st) st = cuda_progress_wait(s, NULL, deadline_s, err);
    if (st == MT_ESTALL) return st;
    pthread_mutex_lock(&s->device->lock);
    drop(s, s->submitted);
    if (!st) s->overlaps.window = s->one_sided.window = NULL; /* they may be freed now */
    pthread_mutex_unlock(&s->device->lock);
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
    if (!st) st = cuda_progress_wait(e->stream, e->handle, deadline_s, err);
    if (st == MT_ESTALL || !(reported = cuda_stream_take_error(&e->stream->base, &first))) return st;
    *err = first;
    return reported;
}
