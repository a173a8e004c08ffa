/* Inside the CUDA device: what device.c (the GPU and its memory), stream.c and progress.c (streams and events),
 * capture.c (graphs), peer.c, puts.c, device_facts.c and tuned_call.c share. */
#ifndef MT_KERNELS_CUDA_DEVICE_INTERNAL_H
#define MT_KERNELS_CUDA_DEVICE_INTERNAL_H

#include <pthread.h>

#include "kernels/cuda/driver/driver.h"
#include "kernels/device/class.h"

struct cuda_device {
    struct mt_device base;
    struct cuda cuda;
    CUgreenCtx part;                     /* some multiprocessors, for the compute stream; null: it has all */
    struct mt_err pending;               /* of mt_device_emulate, reported by the first stream */
    CUstream copies;                     /* to and from the host */
    CUevent tail;                        /* an event for the streams that a copy waits for */
    CUevent put_span[2];                 /* of puts that are timed (puts.c) */
    int put_repeats;                     /* 0: none were started */
    int multiprocessors;                 /* of the GPU; the compute stream has cuda.nsm of them */
    int64_t others_bytes;                /* of memory, held by other processes when the device was opened */
    int64_t context_bytes, opened_bytes; /* as in kernels/device/facts.h */
    pthread_mutex_t lock; /* of the list, of the errors and items of streams, and of the errors of events */
    struct cuda_stream *streams;
};
static inline struct cuda_device *cuda_of(struct mt_device *device) {
    return (struct cuda_device *)device;
}

/* For the class (device_facts.c). */
void cuda_device_facts(struct mt_device *device, struct mt_device_facts *facts);
/* The device's PCI address, written to `text` and returned; "" if the driver does not tell. */
const char *cuda_bus(const struct cuda *cuda, char text[MT_DEVICE_BUS_TEXT]);

/* For the class (tuned_call.c): calls as a whole. */
extern const struct mt_tuner cuda_tuner;

/* For the class (peer.c). */
enum mt_status cuda_export(struct mt_device *device, void *memory, void *handle, struct mt_err *err);
enum mt_status cuda_import(struct mt_device *device, const void *handle, void **memory, struct mt_err *err);
void cuda_forget(struct mt_device *device, void *memory);
bool cuda_adds_to(struct mt_device *device, const void *memory);
enum mt_status cuda_copy_peer(struct mt_device *device, void *to, const void *from, int64_t size_bytes, int repeats,
                              double *each_s, struct mt_err *err);

/* For the class (puts.c). */
enum mt_status cuda_puts_start(struct mt_device *device, const struct mt_put_probe *probe, struct mt_err *err);
enum mt_status cuda_puts_finish(struct mt_device *device, double *each_s, struct mt_err *err);
enum mt_status cuda_turns(struct mt_device *device, const struct mt_turns_probe *probe, double *each_s,
                          struct mt_err *err);

/* ---- streams and events (stream.c, progress.c), for the class ---- */
struct cuda_stream;
enum mt_status cuda_stream_new(struct mt_device *device, const char *name, struct mt_stream **stream,
                               struct mt_err *err);
void cuda_stream_free(struct mt_stream *stream);
void cuda_stream_op(struct mt_stream *stream, const struct mt_backend *backend, const struct mt_call *call,
                    double *seconds);
void cuda_stream_coll(struct mt_stream *stream, const struct mt_coll_call *call, double *seconds);
void cuda_stream_overlap(struct mt_stream *stream, struct mt_overlap_call *call, double *seconds);
void cuda_stream_copy(struct mt_stream *stream, enum mt_copy direction, void *to, const void *from, int64_t size_bytes);
void cuda_stream_window(struct mt_stream *stream, const struct mt_window_work *work);
void cuda_stream_wait(struct mt_stream *stream, struct mt_event *event);
struct mt_stream_progress cuda_stream_query(struct mt_stream *stream);
enum mt_status cuda_stream_sync(struct mt_stream *stream, double deadline_s, struct mt_err *err);
enum mt_status cuda_event_new(struct mt_device *device, struct mt_event **event, struct mt_err *err);
void cuda_event_free(struct mt_event *event);
void cuda_event_record(struct mt_event *event, struct mt_stream *stream);
enum mt_status cuda_event_sync(struct mt_event *event, double deadline_s, struct mt_err *err);

/* ---- and for captured work (capture.c) ---- */
struct cuda_part;
const struct cuda_queue *cuda_stream_queue(const struct mt_stream *stream);
/* From now on work is captured and recorded by the part; null: not any more. */
void cuda_stream_capture(struct mt_stream *stream, struct cuda_part *part);
/* The first error of queueing; it is then cleared. */
enum mt_status cuda_stream_take_error(struct mt_stream *stream, struct mt_err *err);
/* Have the GPU write its progress, unless nothing was queued since it last did. */
enum mt_status cuda_stream_mark(struct mt_stream *stream, struct mt_err *err);
/* The part's work was launched. */
enum mt_status cuda_stream_launched(struct mt_stream *stream, const struct cuda_part *part, uint64_t launch,
                                    struct mt_err *err);
/* The part will be freed; its launches have ended. */
void cuda_stream_forget(struct mt_stream *stream, const struct cuda_part *part);

/* Work that is queued on `follower` from now on runs after all that is queued on the device's streams. */
enum mt_status cuda_streams_before(struct cuda_device *device, CUstream follower, struct mt_err *err);

#endif
