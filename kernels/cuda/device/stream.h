/* Inside a GPU's streams: what stream.c (queueing, errors) and progress.c (how far the GPU has come) share. */
#ifndef MT_KERNELS_CUDA_DEVICE_STREAM_H
#define MT_KERNELS_CUDA_DEVICE_STREAM_H

#include "kernels/cuda/device/capture.h"
#include "kernels/cuda/device/internal.h"
#include "kernels/cuda/device/overlap.h"
#include "kernels/cuda/device/times.h"
#include "kernels/cuda/nccl/pipeline.h"
#include "kernels/cuda/window/on_stream.h"

enum { CUDA_NCLOCKS = 16 };

struct cuda_item {   /* that the host has queued */
    uint64_t number; /* from 1 */
    const char *what;
    bool collective, waits;
    const struct cuda_part *part; /* a launch's; `number` is its last item's */
    uint64_t launch;
};

/* In the host's memory, where the GPU writes and reads. */
struct cuda_pinned {
    uint32_t mark; /* the low bits of the number of the last item that is known to have run */
    uint32_t unused[15];
    struct mt_clock clocks[CUDA_NCLOCKS]; /* to be copied to the GPU, round-robin */
};

struct cuda_stream {
    struct mt_stream base;
    struct cuda_device *device;
    struct cuda_stream *next;
    struct cuda_queue queue;
    char name[16];
    struct cuda_pipeline pipeline;
    struct cuda_overlaps overlaps;
    struct cuda_one_sided one_sided;
    struct mt_err err; /* the first, until it has been reported */
    struct cuda_times times;

    struct cuda_item *items; /* a ring: those that may still run */
    size_t first, count, capacity;
    uint64_t submitted, marked, completed;
    struct cuda_part *part; /* that is being captured; or null */
    struct cuda_pinned *pinned;
    CUdeviceptr mark;

    uint64_t nclocks; /* sent */
    struct mt_clock clock;
    CUevent clock_sent[CUDA_NCLOCKS];
};

struct cuda_event {
    struct mt_event base;
    CUevent handle;
    struct cuda_stream *stream; /* that made the last record */
    struct mt_err err;          /* its */
};

static inline struct cuda_stream *cuda_stream_of(struct mt_stream *stream) {
    return (struct cuda_stream *)stream;
}

/* Keep the first failure to queue, until it has been reported. */
void cuda_stream_keep(struct cuda_stream *stream, const struct mt_err *err);
enum mt_status cuda_stream_name_device(const struct cuda_stream *stream, struct mt_err *err);
/* A stall, or an error of NCCL, names the device, and aborts all communication: other ranks should not wait for what
 * this rank will not send. */
enum mt_status cuda_stream_give_up(const struct cuda_stream *stream, struct mt_err *err);

/* ---- progress ---- */

/* An item is queued, or is about to be; its number is set. What is queued may block this rank's host, so that it has a
 * name by then; that it waits for other ranks (`collective`) is true only after that (cuda_progress_communicates). */
void cuda_progress_push(struct cuda_stream *stream, struct cuda_item item);
void cuda_progress_communicates(struct cuda_stream *stream); /* the item that was pushed last, which has no mark yet */
/* Have the GPU write how far it has come, unless nothing was queued since it last did; or if it is time. */
enum mt_status cuda_progress_mark(struct cuda_stream *stream, struct mt_err *err);
enum mt_status cuda_progress_mark_if_due(struct cuda_stream *stream, struct mt_err *err);
/* Wait until the stream is idle, or has passed `event` (null: until it is idle), or the GPU reports an error; MT_ESTALL
 * after deadline_s without progress. */
enum mt_status cuda_progress_wait(struct cuda_stream *stream, CUevent event, double deadline_s, struct mt_err *err);

#endif
