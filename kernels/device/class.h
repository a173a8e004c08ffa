/* The interface that a kind of device implements: device.c passes each function of device.h to the device's class.
 *
 * A kind's own structs begin with the structs below; the class fills these in what it makes. Streams and events are
 * used only with others of the same device. device.h documents the functions, by name. */
#ifndef MT_KERNELS_DEVICE_CLASS_H
#define MT_KERNELS_DEVICE_CLASS_H

#include "kernels/device/device.h"
#include "kernels/device/facts.h"
#include "kernels/device/put.h"
#include "kernels/device/tuner.h"
#include "kernels/window/window.h"

/* A one-sided operation as a stream queues it (window.h, on_stream.c). */
enum mt_window_work_kind { MT_WINDOW_PUT, MT_WINDOW_GET, MT_WINDOW_SIGNAL, MT_WINDOW_WAIT, MT_WINDOW_QUIET };
struct mt_window_work {
    enum mt_window_work_kind kind;
    struct mt_window *window;
    int rank;           /* whose part, or signal; of a wait: whom it waits for */
    int64_t at, stride; /* there: of the first row, or of the signal; bytes between rows */
    char *here;         /* the first row in this device's memory: of a put, it is only read */
    int64_t here_stride, row_bytes, rows;
    uint64_t value; /* of a signal, or to compare with */
    enum mt_signal how;
    enum mt_cmp cmp;
    const char *what; /* of a wait: what it waits for; else what it is */
};

struct mt_device_class {
    const char *kind; /* name by which device.c opens it */
    void (*close)(struct mt_device *device);
    int64_t (*memory_bytes)(struct mt_device *device);
    void (*facts)(struct mt_device *device, struct mt_device_facts *facts); /* null: there are none (facts.h) */
    void (*emulate)(struct mt_device *device, double speed);
    enum mt_status (*emulate_sms)(struct mt_device *device, int count, struct mt_err *err); /* null: it has none */
    const struct mt_backend *(*backend)(struct mt_device *device, const struct mt_call *call);
    const bool *merges; /* [MT_NOPS]; null: no kind */
    enum mt_status (*alloc)(struct mt_device *device, int64_t size_bytes, void **memory, struct mt_err *err);
    void (*free)(struct mt_device *device, void *memory);
    enum mt_status (*copy_in)(struct mt_device *device, void *to, const void *from, int64_t size_bytes,
                              struct mt_err *err);
    enum mt_status (*copy_out)(struct mt_device *device, void *to, const void *from, int64_t size_bytes,
                               struct mt_err *err);
    enum mt_status (*host_alloc)(struct mt_device *device, int64_t size_bytes, void **memory, struct mt_err *err);
    void (*host_free)(struct mt_device *device, void *memory);

    /* All seven null: other processes cannot reach its memory. */
    enum mt_status (*export_memory)(struct mt_device *device, void *memory, void *handle, struct mt_err *err);
    enum mt_status (*import_memory)(struct mt_device *device, const void *handle, void **memory, struct mt_err *err);
    void (*forget)(struct mt_device *device, void *memory);
    enum mt_status (*copy_peer)(struct mt_device *device, void *to, const void *from, int64_t size_bytes, int repeats,
                                double *each_s, struct mt_err *err);
    enum mt_status (*puts_start)(struct mt_device *device, const struct mt_put_probe *probe, struct mt_err *err);
    enum mt_status (*puts_finish)(struct mt_device *device, double *each_s, struct mt_err *err);
    enum mt_status (*turns)(struct mt_device *device, const struct mt_turns_probe *probe, double *each_s,
                            struct mt_err *err);
    /* Whether its kernels' atomic additions work in memory that it has imported. Null: yes. */
    bool (*adds_to)(struct mt_device *device, const void *memory);

    enum mt_status (*stream_new)(struct mt_device *device, const char *name, struct mt_stream **stream,
                                 struct mt_err *err);
    void (*stream_free)(struct mt_stream *stream);
    void (*stream_op)(struct mt_stream *stream, const struct mt_backend *backend, const struct mt_call *call,
                      double *seconds);
    void (*stream_coll)(struct mt_stream *stream, const struct mt_coll_call *call, double *seconds);
    void (*stream_overlap)(struct mt_stream *stream, struct mt_overlap_call *call, double *seconds);
    /* mt_device_overlaps, of another `how` than ANY. Null: none. */
    bool (*overlaps)(struct mt_device *device, const struct mt_overlap *problem, int me);
    void (*stream_copy)(struct mt_stream *stream, enum mt_copy direction, void *to, const void *from,
                        int64_t size_bytes);
    void (*stream_window)(struct mt_stream *stream, const struct mt_window_work *work); /* it is copied */
    void (*stream_wait)(struct mt_stream *stream, struct mt_event *event);
    struct mt_stream_progress (*stream_query)(struct mt_stream *stream);
    enum mt_status (*stream_sync)(struct mt_stream *stream, double deadline_s, struct mt_err *err);

    enum mt_status (*event_new)(struct mt_device *device, struct mt_event **event, struct mt_err *err);
    void (*event_free)(struct mt_event *event);
    void (*event_record)(struct mt_event *event, struct mt_stream *stream);
    enum mt_status (*event_sync)(struct mt_event *event, double deadline_s, struct mt_err *err);

    /* Null: it cannot capture; then the others are null too. */
    enum mt_status (*capture_begin)(struct mt_stream *const *streams, int nstreams, struct mt_capture **capture,
                                    struct mt_err *err);
    enum mt_status (*capture_end)(struct mt_capture *capture, struct mt_err *err);
    enum mt_status (*capture_launch)(struct mt_capture *capture, const struct mt_clock *clock, uint64_t *launch,
                                     struct mt_err *err);
    void (*capture_times)(const struct mt_capture *capture, uint64_t launch, double *stream_s);
    void (*capture_free)(struct mt_capture *capture);

    const struct mt_tuner *tuner; /* null: nothing is tuned */
};

struct mt_device {
    const struct mt_device_class *class;
    int threads, depth;
    int multiprocessors, all_multiprocessors; /* of the stream "compute", and in all; 0: a CPU */
    double emulated_exact_s;                  /* mt_device_emulated_exact_s */
    size_t unstretched_length;                /* of the description, before an emulated speed; 0: all of it */
    char description[1200];
};
struct mt_stream {
    struct mt_device *device;
};
struct mt_event {
    struct mt_device *device;
};
struct mt_capture {
    struct mt_device *device;
};

/* Open device number `index` of a kind. */
enum mt_status mt_cpu_device_open(int index, struct mt_device **device, struct mt_err *err);
enum mt_status mt_cuda_device_open(int index, struct mt_device **device, struct mt_err *err);

#endif
