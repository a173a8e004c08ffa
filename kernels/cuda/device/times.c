/* Times of queued work on the host's clock. An elapsed time is a float in milliseconds, so the base must be near. */
#include <math.h>
#include <stdlib.h>

#include "kernels/base/arena.h"
#include "kernels/cuda/device/times.h"

static const double oldest_base_s = 1;
static const double narrow_s = 20e-6; /* of two looks at the host's clock; a busy host takes longer at times */
enum { TIES = 3, MOST_TIES = 12 };

static enum mt_status take(struct cuda_times *times, CUevent *event, struct mt_err *err) {
    if (times->nspare)
        *event = times->spare[--times->nspare];
    else
        CUDA_TRY(cuEventCreate(event, CU_EVENT_DEFAULT), err, "cuEventCreate");
    return MT_OK;
}

static void give(struct cuda_times *times, CUevent event) {
    if (times->nspare == times->spare_capacity) {
        times->spare_capacity = times->spare_capacity ? 2 * times->spare_capacity : 256;
        times->spare = mt_realloc(times->spare, times->spare_capacity * sizeof *times->spare);
    }
    times->spare[times->nspare++] = event;
}

static enum mt_status record(struct cuda_times *times, CUevent *event, struct mt_err *err) {
    enum mt_status st = take(times, event, err);
    if (st) return st;
    CUresult result = cuEventRecord(*event, times->stream);
    if (!result) return MT_OK;
    give(times, *event);
    return cuda_fail(err, result, "cuEventRecord");
}

/* The stream is idle: an event comes at once, halfway between two looks at the host's clock. The narrowest of
 * three, or of more until one is narrow. */
static enum mt_status tie(struct cuda_times *times, struct mt_err *err) {
    double narrowest_s = INFINITY;
    for (int i = 0; i < TIES || (i < MOST_TIES && narrowest_s > narrow_s); i++) {
        CUevent event;
        double before_s = mt_now_s();
        enum mt_status st = record(times, &event, err);
        if (st) return st;
        CUresult result = cuEventSynchronize(event);
        double width_s = mt_now_s() - before_s;
        if (!result && width_s < narrowest_s) {
            CUevent old = times->base;
            narrowest_s = width_s;
            times->base = event;
            times->base_s = before_s + width_s / 2;
            event = old;
        }
        if (event) give(times, event);
        if (result) return cuda_fail(err, result, "cuEventSynchronize");
    }
    return MT_OK;
}

enum mt_status cuda_times_init(struct cuda_times *times, CUstream stream, struct mt_err *err) {
    *times = (struct cuda_times){.stream = stream};
    return tie(times, err);
}

static void forget(struct cuda_times *times) {
    for (size_t i = 0; i < times->npending; i++) {
        if (!times->pending[i].shared) give(times, times->pending[i].start);
        if (times->pending[i].end) give(times, times->pending[i].end);
    }
    times->npending = 0;
    times->chained = false;
}

void cuda_times_release(struct cuda_times *times) {
    forget(times);
    for (size_t i = 0; i < times->nspare; i++) cuEventDestroy(times->spare[i]);
    if (times->base) cuEventDestroy(times->base);
    free(times->pending);
    free(times->spare);
}

enum mt_status cuda_times_begin(struct cuda_times *times, double *seconds, struct mt_err *err) {
    bool chained = times->chained;
    times->chained = false;
    if (!seconds) return MT_OK;
    if (times->npending == times->capacity) {
        times->capacity = times->capacity ? 2 * times->capacity : 256;
        times->pending = mt_realloc(times->pending, times->capacity * sizeof *times->pending);
    }
    struct cuda_timing *timing = &times->pending[times->npending];
    *timing = (struct cuda_timing){.seconds = seconds};
    timing->shared = chained && cuEventQuery(timing[-1].end) == CUDA_ERROR_NOT_READY;
    enum mt_status st = MT_OK;
    if (timing->shared)
        timing->start = timing[-1].end;
    else
        st = record(times, &timing->start, err);
    if (!st) times->npending++;
    return st;
}

enum mt_status cuda_times_end(struct cuda_times *times, double *seconds, struct mt_err *err) {
    if (!seconds) return MT_OK;
    struct cuda_timing *timing = &times->pending[times->npending - 1];
    enum mt_status st = record(times, &timing->end, err);
    if (st) timing->end = NULL;
    times->chained = !st;
    return st;
}

static enum mt_status host_s(const struct cuda_times *times, CUevent event, double *when_s, struct mt_err *err) {
    float ms;
    CUDA_TRY(cuEventElapsedTime(&ms, times->base, event), err, "cuEventElapsedTime");
    *when_s = times->base_s + 1e-3 * (double)ms;
    return MT_OK;
}

enum mt_status cuda_times_resolve(struct cuda_times *times, struct mt_err *err) {
    enum mt_status st = MT_OK;
    for (size_t i = 0; i < times->npending && !st; i++) {
        struct cuda_timing *timing = &times->pending[i];
        if (!timing->end) continue; /* it failed */
        if (timing->shared)
            timing->seconds[0] = timing[-1].seconds[1];
        else
            st = host_s(times, timing->start, &timing->seconds[0], err);
        if (!st) st = host_s(times, timing->end, &timing->seconds[1], err);
    }
    forget(times);
    if (!st && mt_now_s() - times->base_s > oldest_base_s) st = tie(times, err);
    return st;
}
