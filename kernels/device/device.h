/* Devices, streams, events: what the executor speaks. It has no opinion on what they are (class.h).
 *
 *     mt_device_open("cpu", &device, &err);
 *     mt_device_alloc(device, bytes, &arena, &err);
 *     mt_stream_new(device, "compute", &compute, &err);
 *     mt_stream_op(compute, mt_device_backend(device, &call), &call, NULL); // queued; runs in order on that stream
 *     mt_event_record(event, compute); mt_stream_wait(comm, event);
 *     mt_stream_sync(comm, 60, &err);                // errors of queued work come out here
 *
 * On CPU a device is the process's affinity mask: a stream is a thread with a queue; the compute stream's thread owns
 * the OpenMP team, the communication stream's thread makes all calls of its communicator and sleeps while it
 * waits. Numbers below the smallest normal one count as zero there. Work that a stream does after an error is skipped
 * until mt_stream_sync has reported it.
 *
 * On CUDA (a module, loaded when it is asked for) a device is one GPU and a stream is one of the driver's: work is
 * launched as it is queued, by the calling thread, and `seconds` are there once mt_stream_sync has returned. Memory is
 * the GPU's: only copies reach it. An error of the GPU itself ends its use in this process. What is queued again and
 * again may be captured once and launched as a whole (see below). */
#ifndef MT_KERNELS_DEVICE_DEVICE_H
#define MT_KERNELS_DEVICE_DEVICE_H

#include "kernels/base/wait.h"
#include "kernels/coll/coll.h"
#include "kernels/comm/comm.h"
#include "kernels/op/op.h"

struct mt_device;
struct mt_stream;
struct mt_event;
struct mt_capture;

/* A collective as a stream runs it: gather pieces into the message, run the schedule, scatter the pieces. Pieces
 * are boxes of values (tensors of this rank); piece i of `in` or `out` takes the message's elements
 * [at[i], +its count). The tensor's type is converted to and from the message's. All pointers must stay valid until
 * the work is done. */
struct mt_piece {
    int buffer; /* 0 or 1, as in coll.h */
    int64_t at; /* in the message, elements; unpack, -1: no message, the tensor's elements become zero (-infinity for
                   MT_MAX) */
    /* Unpack, in the order given: NONE overwrites, SUM and MAX join what is there (an all_to_all whose receiver
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
    /* Null: only the pieces are copied; any stream may do that, and comm is not used. */
    const struct mt_schedule *schedule;
    struct mt_comm *comm;
    const int *group;
    int tag;
    double deadline_s;
    int npack, nunpack;
    const struct mt_piece *pack, *unpack;
    /* Message buffers of type problem.acc; where all pieces of a buffer lie in the tensor as they lie in the
     * message, the executor points it at the tensor and gives no pieces. Elements that no piece packs must
     * already be there. When `zero` is set, message 0 is first filled with what changes no result: zeros, or
     * -infinity for a maximum (elements that this rank does not have). */
    void *message[2];
    int64_t message_count[2];
    bool zero;
    const char *what; /* for messages: "AllReduce grad.h.3" */
};

/* "cpu", "cuda" (the first GPU) or "cuda:N". MT_EINPUT where the name means nothing, MT_EMISSING where this host has no
 * such device, or not what its use takes. */
enum mt_status mt_device_open(const char *kind, struct mt_device **device, struct mt_err *err);
void mt_device_close(struct mt_device *device);
/* "cpu, 2 threads, oneDNN 2.6.3"; "NVIDIA H200, 132 multiprocessors, CUDA 13.0, driver 580.95.05" */
const char *mt_device_describe(struct mt_device *device);
const char *mt_device_kind(struct mt_device *device); /* "cpu", "cuda" */
int mt_device_threads(struct mt_device *device);      /* of this host, that compute; 1 for a GPU */
/* A GPU's multiprocessors that the stream "compute" has, and all that it has; other streams have all. 0: a CPU. */
int mt_device_multiprocessors(struct mt_device *device, int *all);
int64_t mt_device_memory_bytes(struct mt_device *device); /* what can still be had: kernel and cgroup, or the GPU's */

/* How many runs of a program are worth having under way: 1 on a CPU, where nothing is gained by queueing ahead; 2 on a
 * GPU, which goes from one to the next while the host sees to the one before. */
int mt_device_depth(struct mt_device *device);

/* From now on the device computes as one of `speed` (above 0, at most 1) does: what operators, and copies between them,
 * take is stretched to 1/speed of it, by sleeping (of one thread only what it worked itself: not what other processes
 * took from it). Collectives are left as they are. Times that streams report are the stretched ones. Call it before
 * there are streams. On CUDA: mt_device_emulate_sms with that part of the multiprocessors, its errors told by
 * mt_stream_new. */
void mt_device_emulate(struct mt_device *device, double speed);

/* How exact that is: operators that work for so long or longer take at most a tenth (MT_EMULATED_ERROR) more than they
 * should, in seconds of the device's own speed; 0 where nothing is stretched. mt_device_emulate measures it, since it
 * hangs on what reading a thread's clock costs. It is to be at most MT_EMULATED_EXACT_S; where it is more, whoever
 * reports emulated times says so. */
double mt_device_emulated_exact_s(const struct mt_device *device);
#define MT_EMULATED_ERROR 0.1
#define MT_EMULATED_EXACT_S 50e-6

/* From now on the stream "compute" has `count` of a GPU's multiprocessors, or the next number that the GPU can be
 * divided by (see the description); other streams have them all. Call it before there are streams. MT_EINPUT on a CPU
 * and for a count that the GPU has not. */
enum mt_status mt_device_emulate_sms(struct mt_device *device, int count, struct mt_err *err);

/* The backend that will run a call, and the scratch it wants. On a CPU there is one for every call; on CUDA it may not
 * support the call (f64), and then work that is queued with it fails. */
const struct mt_backend *mt_device_backend(struct mt_device *device, const struct mt_call *call);
/* Whether calls of the kind may be one (mt_call.ncalls). */
bool mt_device_merges(const struct mt_device *device, enum mt_op_kind kind);

enum mt_status mt_device_alloc(struct mt_device *device, int64_t size_bytes, void **memory, struct mt_err *err);
void mt_device_free(struct mt_device *device, void *memory);
/* Done when they return, after all work that was queued before, on whichever stream. (On a CPU nothing waits: sync
 * first.) */
enum mt_status mt_device_copy_in(struct mt_device *device, void *to, const void *from, int64_t size_bytes,
                                 struct mt_err *err);
enum mt_status mt_device_copy_out(struct mt_device *device, void *to, const void *from, int64_t size_bytes,
                                  struct mt_err *err);

/* A pattern over and over. */
enum mt_status mt_device_repeat(struct mt_device *device, void *to, int64_t size_bytes, const void *pattern,
                                int64_t pattern_bytes, struct mt_err *err);

/* Memory of the host that a stream's copies may begin and end in. */
enum mt_status mt_device_host_alloc(struct mt_device *device, int64_t size_bytes, void **memory, struct mt_err *err);
void mt_device_host_free(struct mt_device *device, void *memory);

/* Memory of a GPU that other processes of the host may reach: a handle is sent to them in any way, and memory that was
 * imported is forgotten before its owner frees it. Only whole allocations can be exported. MT_EINPUT on a CPU. */
enum { MT_DEVICE_HANDLE_BYTES = 64 };
enum mt_status mt_device_export(struct mt_device *device, void *memory, void *handle, struct mt_err *err);
enum mt_status mt_device_import(struct mt_device *device, const void *handle, void **memory, struct mt_err *err);
void mt_device_forget(struct mt_device *device, void *memory);
/* Copy `repeats` times between memory of this GPU and of another, by a copy engine; *each_s: what one takes. */
enum mt_status mt_device_copy_peer(struct mt_device *device, void *to, const void *from, int64_t size_bytes,
                                   int repeats, double *each_s, struct mt_err *err);

enum mt_status mt_stream_new(struct mt_device *device, const char *name, struct mt_stream **stream, struct mt_err *err);
void mt_stream_free(struct mt_stream *stream);
/* Queue work. The call, its tensors and attributes must stay valid until the stream is done with it. `seconds`, if not
 * null, gets two times (start, end; CLOCK_MONOTONIC: mt_now_s). */
void mt_stream_op(struct mt_stream *stream, const struct mt_backend *backend, const struct mt_call *call,
                  double *seconds);
void mt_stream_coll(struct mt_stream *stream, const struct mt_coll_call *call, double *seconds);
/* A copy in the stream's order, between the device's memory and the host's (mt_device_host_alloc). */
enum mt_copy { MT_COPY_IN, MT_COPY_OUT };
void mt_stream_copy(struct mt_stream *stream, enum mt_copy direction, void *to, const void *from, int64_t size_bytes);
void mt_event_record(struct mt_event *event, struct mt_stream *stream);
void mt_stream_wait(struct mt_stream *stream, struct mt_event *event); /* for the last record before this call */

/* What a stream is doing right now, for messages; any thread may ask while the calls are valid. */
struct mt_stream_progress {
    const char *what; /* null: nothing, or it waits for an event */
    bool collective;
    uint64_t completed; /* so far */
};
struct mt_stream_progress mt_stream_query(struct mt_stream *stream);

enum mt_status mt_stream_sync(struct mt_stream *stream, double deadline_s, struct mt_err *err);

enum mt_status mt_event_new(struct mt_device *device, struct mt_event **event, struct mt_err *err);
void mt_event_free(struct mt_event *event);
/* mt_stream_sync as far as the event's last record only; what was queued after it goes on. */
enum mt_status mt_event_sync(struct mt_event *event, double deadline_s, struct mt_err *err);

/* ---- captured work: queued once, launched often ----
 *
 *     if (mt_device_captures(device)) {
 *         mt_capture_begin(streams, 2, &capture, &err);
 *         ... what is queued on these streams now is kept, and does not run: operators, collectives, records, waits ...
 *         mt_capture_end(capture, &err);
 *         mt_capture_launch(capture, &clock, &launch, &err);                   // as often as it is to run
 *         mt_event_record(event, streams[0]); mt_event_sync(event, 60, &err);
 *         mt_capture_times(capture, launch, stream_s);
 *         mt_capture_free(capture);                                            // before the streams
 *     }
 *
 * Everything must have run once before: kernels are compiled, algorithms chosen and connections made when work is met
 * first. Calls are read while they are captured and may be changed then, so the same ones can be queued for several
 * iterations; only what their pointers point to, and the clock, are read at each launch. `seconds` must be null.
 *
 * A launch is like queueing all of it again, after what was queued on these streams before. mt_stream_query goes on to
 * tell what runs: the GPU writes to the host's memory how far it is, before and after what can stall and every few
 * operators. */
bool mt_device_captures(struct mt_device *device); /* a CPU does not */

/* Nothing is left to free after a failure; after one of mt_capture_end the streams are as they were before. */
enum mt_status mt_capture_begin(struct mt_stream *const *streams, int nstreams, struct mt_capture **capture,
                                struct mt_err *err);
enum mt_status mt_capture_end(struct mt_capture *capture, struct mt_err *err);

/* *launch: its number, from 1. MT_EBUG with more than MT_CAPTURE_LAUNCHES under way. */
enum { MT_CAPTURE_LAUNCHES = 4 };
enum mt_status mt_capture_launch(struct mt_capture *capture, const struct mt_clock *clock, uint64_t *launch,
                                 struct mt_err *err);

/* Of a launch that is done and is one of the last MT_CAPTURE_LAUNCHES: stream_s[i] is how long the stream i worked:
 * not the waits for events, but in a collective the wait for peers. By the GPU's clock, read by a kernel of one thread
 * at the ends of what lies between waits. */
void mt_capture_times(const struct mt_capture *capture, uint64_t launch, double *stream_s);
void mt_capture_free(struct mt_capture *capture);

#endif
