/* Devices, streams and events: the interface that the executor uses. class.h is the one that devices implement.
 *
 *     mt_device_open("cpu", &device, &err);
 *     mt_device_alloc(device, bytes, &arena, &err);
 *     mt_stream_new(device, "compute", &compute, &err);
 *     mt_stream_op(compute, mt_device_backend(device, &call), &call, NULL); // queued; runs in order on that stream
 *     mt_event_record(event, compute); mt_stream_wait(comm, event);
 *     mt_stream_sync(comm, 60, &err);                // errors of queued work come out here
 *
 * On CPU a device is the process's affinity mask, and a stream is a thread with a queue. The compute stream's thread
 * owns the OpenMP team; the communication stream's thread makes all calls of its communicator, and sleeps while it
 * waits. Subnormal numbers are flushed to zero there. After an error a stream skips its work until mt_stream_sync has
 * reported the error.
 *
 * On CUDA (a module, loaded when first opened) a device is one GPU, and a stream is a CUDA stream: the calling thread
 * launches work as it queues it, and `seconds` are valid once mt_stream_sync has returned. Memory is the GPU's: the
 * host reaches it by copies only. After an error of the GPU itself, this process cannot use it any more. Work that is
 * queued repeatedly can be captured once and launched as a whole (see below). */
#ifndef MT_KERNELS_DEVICE_DEVICE_H
#define MT_KERNELS_DEVICE_DEVICE_H

#include "kernels/base/wait.h"
#include "kernels/coll/coll.h"
#include "kernels/comm/comm.h"
#include "kernels/op/op.h"
#include "kernels/overlap/overlap.h"

struct mt_device;
struct mt_stream;
struct mt_event;
struct mt_capture;

/* A collective as a stream runs it: pack pieces into the message, run the schedule, unpack the pieces. A piece is a
 * strided box of a tensor of this rank; it corresponds to elements [at, at + its count) of the message. Its type is
 * converted to and from the message's. All pointers must stay valid until the work is done. */
struct mt_piece {
    int buffer; /* 0 or 1, as in coll.h */
    int64_t at; /* offset in the message, elements; -1 (unpack only): no message, the elements become 0 (-infinity for
                   MT_MAX) */
    /* Unpack, in the order given: NONE overwrites the tensor; SUM and MAX reduce into it (an all_to_all whose receiver
     * reduces). */
    enum mt_reduce reduce;
    int naxes;
    int64_t extent[MT_MAX_AXES]; /* of the piece */
    int64_t stride[MT_MAX_AXES]; /* elements, in the tensor */
    void *data;                  /* the piece's first element in the tensor's memory */
    enum mt_type type;
};
struct mt_coll_call {
    struct mt_coll problem;
    /* Null: only pack and unpack; on any stream, without comm. */
    const struct mt_schedule *schedule;
    struct mt_comm *comm;
    const int *group;
    int tag;
    double deadline_s;
    int npack, nunpack;
    const struct mt_piece *pack, *unpack;
    /* Message buffers of type problem.acc. A buffer whose pieces are contiguous in a tensor may be that tensor itself
     * (in place), without pieces. Elements that no piece packs must be there already. `zero`: first fill message 0 with
     * the neutral element, 0 or -infinity for a maximum (elements that this rank does not have). */
    void *message[2];
    int64_t message_count[2];
    bool zero;
    /* Of an AllToAll: blocks of message b that are not copied, but sent from, or received into, the tensors: each piece
     * is one block, contiguous, of the message's type, and reduces nothing. message[b] has memory for the other blocks,
     * in order; what a rank sends to itself is in message 1 only. in_place.h turns such a call into one without. */
    int nin_place[2];
    const struct mt_piece *in_place[2];
    /* Pipelining. ahead: the call before on this stream was made with `more`, and nothing was queued in between: this
     * one may be packed while that one runs, and that one be unpacked while this one runs. Their messages share no
     * memory, nor does anything that one packs and the other unpacks. more: the next call is `ahead`. A device may as
     * well run them one after the other. */
    bool ahead, more;
    const char *what; /* for messages: "AllReduce grad.h.3" */
};

/* Open "cpu", "cuda" (the first GPU) or "cuda:N". MT_EINPUT for an unknown name; MT_EMISSING when this host has no such
 * device, or lacks a library for it. */
enum mt_status mt_device_open(const char *kind, struct mt_device **device, struct mt_err *err);
void mt_device_close(struct mt_device *device);
/* "cpu, 2 threads, oneDNN 2.6.3"; "NVIDIA H200, 132 multiprocessors, CUDA 13.0, driver 580.95.05" */
const char *mt_device_describe(struct mt_device *device);
/* How much of the description decides the bits of its results, for %.*s: all but an emulated speed that only stretches
 * time. */
int mt_device_describe_length(const struct mt_device *device);
const char *mt_device_kind(struct mt_device *device); /* "cpu", "cuda" */
int mt_device_threads(struct mt_device *device);      /* host threads that compute; 1 for a GPU */
/* The multiprocessors of a GPU's stream "compute"; *all: those of the GPU, which other streams have. 0: a CPU. */
int mt_device_multiprocessors(struct mt_device *device, int *all);
int64_t mt_device_memory_bytes(struct mt_device *device); /* free: by kernel and cgroups, or on the GPU */

/* How many runs of a program should be in flight: 1 on a CPU, where queueing ahead gains nothing; 2 on a GPU, which
 * runs one while the host handles the results of the one before. */
int mt_device_depth(struct mt_device *device);

/* Emulate a device of `speed` in (0, 1]: from now on the time of operators, and of copies between them, is stretched to
 * 1/speed by sleeping (with one thread only its own CPU time is stretched, not what other processes took from it).
 * Collectives keep their speed. Streams report stretched times. Call it before there are streams. On CUDA:
 * mt_device_emulate_sms with that fraction of the multiprocessors; mt_stream_new reports its errors. */
void mt_device_emulate(struct mt_device *device, double speed);

/* The accuracy of emulation: operators of at least this many seconds, at the device's own speed, take at most a
 * fraction of MT_EMULATED_ERROR longer than they should; 0: nothing is stretched. mt_device_emulate measures it, since
 * it depends on the cost of reading a thread's clock. It should be at most MT_EMULATED_EXACT_S; if it is more, reports
 * of emulated times say so. */
double mt_device_emulated_exact_s(const struct mt_device *device);
#define MT_EMULATED_ERROR 0.1
#define MT_EMULATED_EXACT_S 50e-6

/* From now on the stream "compute" has `count` of a GPU's multiprocessors, or the next number that the GPU's partitions
 * allow (see the description); other streams have all. Call it before there are streams. MT_EINPUT on a CPU, and for a
 * count that the GPU does not have. */
enum mt_status mt_device_emulate_sms(struct mt_device *device, int count, struct mt_err *err);

/* The backend for a call; it says how much scratch the call needs. On a CPU there is one for every call. On CUDA it may
 * not support the call (f64); then work that is queued with it fails. */
const struct mt_backend *mt_device_backend(struct mt_device *device, const struct mt_call *call);
/* Whether several calls of the kind can be one launch (mt_call.ncalls). */
bool mt_device_merges(const struct mt_device *device, enum mt_op_kind kind);

enum mt_status mt_device_alloc(struct mt_device *device, int64_t size_bytes, void **memory, struct mt_err *err);
void mt_device_free(struct mt_device *device, void *memory);
/* Synchronous copies; on CUDA after all work queued before, on any stream. (On a CPU they do not wait: sync first.) */
enum mt_status mt_device_copy_in(struct mt_device *device, void *to, const void *from, int64_t size_bytes,
                                 struct mt_err *err);
enum mt_status mt_device_copy_out(struct mt_device *device, void *to, const void *from, int64_t size_bytes,
                                  struct mt_err *err);

/* Fill with a repeated pattern. */
enum mt_status mt_device_repeat(struct mt_device *device, void *to, int64_t size_bytes, const void *pattern,
                                int64_t pattern_bytes, struct mt_err *err);

/* Host memory that a stream's copies may read and write (pinned on CUDA). */
enum mt_status mt_device_host_alloc(struct mt_device *device, int64_t size_bytes, void **memory, struct mt_err *err);
void mt_device_host_free(struct mt_device *device, void *memory);

/* Memory of a GPU that other processes of the host map: export gives a handle, which is sent to them by any means;
 * imported memory must be forgotten before its owner frees it. Only whole allocations can be exported. MT_EINPUT on a
 * CPU. */
enum { MT_DEVICE_HANDLE_BYTES = 64 };
enum mt_status mt_device_export(struct mt_device *device, void *memory, void *handle, struct mt_err *err);
enum mt_status mt_device_import(struct mt_device *device, const void *handle, void **memory, struct mt_err *err);
void mt_device_forget(struct mt_device *device, void *memory);
/* Copy `repeats` times between memory of this GPU and of another, by a copy engine; *each_s: time of one copy. */
enum mt_status mt_device_copy_peer(struct mt_device *device, void *to, const void *from, int64_t size_bytes,
                                   int repeats, double *each_s, struct mt_err *err);

enum mt_status mt_stream_new(struct mt_device *device, const char *name, struct mt_stream **stream, struct mt_err *err);
void mt_stream_free(struct mt_stream *stream);
/* Queue work. The call, its tensors and attributes must stay valid until the work is done. seconds[2], if not null: the
 * times of start and end (CLOCK_MONOTONIC: mt_now_s). */
void mt_stream_op(struct mt_stream *stream, const struct mt_backend *backend, const struct mt_call *call,
                  double *seconds);
void mt_stream_coll(struct mt_stream *stream, const struct mt_coll_call *call, double *seconds);
/* A GEMM with its collective (kernels/overlap/overlap.h), on the stream that computes; no other stream may communicate
 * meanwhile. The window is mt_device_window_new's (kernels/device/window.h). */
void mt_stream_overlap(struct mt_stream *stream, struct mt_overlap_call *call, double *seconds);
/* A copy in the stream's order, between the device's memory and the host's (mt_device_host_alloc). */
enum mt_copy { MT_COPY_IN, MT_COPY_OUT };
void mt_stream_copy(struct mt_stream *stream, enum mt_copy direction, void *to, const void *from, int64_t size_bytes);
void mt_event_record(struct mt_event *event, struct mt_stream *stream);
void mt_stream_wait(struct mt_stream *stream, struct mt_event *event); /* for the last record before this call */

/* What a stream is running now, for messages; any thread may ask while the calls are valid. */
struct mt_stream_progress {
    const char *what;   /* null: nothing, or it waits for an event */
    bool collective;    /* that is a collective with other ranks */
    uint64_t completed; /* items of work so far */
};
struct mt_stream_progress mt_stream_query(struct mt_stream *stream);

enum mt_status mt_stream_sync(struct mt_stream *stream, double deadline_s, struct mt_err *err);

enum mt_status mt_event_new(struct mt_device *device, struct mt_event **event, struct mt_err *err);
void mt_event_free(struct mt_event *event);
/* mt_stream_sync up to the event's last record; work queued after it goes on. */
enum mt_status mt_event_sync(struct mt_event *event, double deadline_s, struct mt_err *err);

/* ---- capture: work that is queued once and launched often ----
 *
 *     if (mt_device_captures(device)) {
 *         mt_capture_begin(streams, 2, &capture, &err);
 *         ... work queued on these streams is now recorded, and does not run: operators, collectives, events ...
 *         mt_capture_end(capture, &err);
 *         mt_capture_launch(capture, &clock, &launch, &err);                    // for each run
 *         mt_event_record(event, streams[0]); mt_event_sync(event, 60, &err);
 *         mt_capture_times(capture, launch, stream_s);
 *         mt_capture_free(capture);                                            // before the streams
 *     }
 *
 * All work must have run once before: the first run compiles kernels, chooses algorithms and makes connections. Call
 * structs are read during capture and may be changed afterwards, so that the same ones can be queued for several
 * iterations. At each launch only the memory they point to, and the clock, are read. `seconds` must be null.
 *
 * A launch runs all of it, after the work queued on these streams before. mt_stream_query reports what runs: the GPU
 * writes its progress to host memory, before and after work that can stall and every few operators. */
bool mt_device_captures(struct mt_device *device); /* a CPU does not */

/* After a failure there is nothing to free; after one of mt_capture_end the streams are as before the capture. */
enum mt_status mt_capture_begin(struct mt_stream *const *streams, int nstreams, struct mt_capture **capture,
                                struct mt_err *err);
enum mt_status mt_capture_end(struct mt_capture *capture, struct mt_err *err);

/* *launch: its number, from 1. MT_EBUG with more than MT_CAPTURE_LAUNCHES in flight. */
enum { MT_CAPTURE_LAUNCHES = 4 };
enum mt_status mt_capture_launch(struct mt_capture *capture, const struct mt_clock *clock, uint64_t *launch,
                                 struct mt_err *err);

/* Times of a launch that is done and among the last MT_CAPTURE_LAUNCHES: stream_s[i] is how long stream i worked. Waits
 * for events do not count; a collective's wait for its peers does. Measured by the GPU's clock, which a kernel of one
 * thread reads at both ends of the work between two waits. */
void mt_capture_times(const struct mt_capture *capture, uint64_t launch, double *stream_s);
void mt_capture_free(struct mt_capture *capture);

#endif
