/* Devices by name, and dispatch to their classes. */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/device/class.h"
#include "kernels/device/facts.h"

static const struct {
    const char *name;
    bool numbered; /* "name:0" */
    enum mt_status (*open)(int index, struct mt_device **device, struct mt_err *err);
} kinds[] = {
    {"cpu", false, mt_cpu_device_open},
    {"cuda", true, mt_cuda_device_open},
};

/* ":12" or "". */
static bool parse_index(const char *text, int *index) {
    *index = 0;
    if (!*text) return true;
    if (text[0] != ':' || text[1] < '0' || text[1] > '9') return false;
    char *end;
    errno = 0;
    long long number = strtoll(text + 1, &end, 10);
    if (errno || *end || number > INT_MAX) return false;
    *index = (int)number;
    return true;
}

enum mt_status mt_device_open(const char *kind, struct mt_device **device, struct mt_err *err) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t length = strlen(kinds[i].name);
        int index;
        if (strncmp(kind, kinds[i].name, length) || !parse_index(kind + length, &index)) continue;
        if (kind[length] && !kinds[i].numbered) continue;
        return kinds[i].open(index, device, err);
    }
    return mt_fail(err, MT_EINPUT, "there is no device \"%s\" (there are: cpu, cuda, cuda:0, cuda:1 and so on)", kind);
}

void mt_device_close(struct mt_device *device) {
    if (device) device->class->close(device);
}

const char *mt_device_describe(struct mt_device *device) {
    return device->description;
}

int mt_device_describe_length(const struct mt_device *device) {
    return (int)(device->unstretched_length ? device->unstretched_length : strlen(device->description));
}

const char *mt_device_kind(struct mt_device *device) {
    return device->class->kind;
}

void mt_device_facts(struct mt_device *device, struct mt_device_facts *facts) {
    memset(facts, 0, sizeof *facts);
    if (device->class->facts) device->class->facts(device, facts);
}

int mt_device_threads(struct mt_device *device) {
    return device->threads;
}

int mt_device_depth(struct mt_device *device) {
    return device->depth;
}

int mt_device_multiprocessors(struct mt_device *device, int *all) {
    *all = device->all_multiprocessors;
    return device->multiprocessors;
}

int64_t mt_device_memory_bytes(struct mt_device *device) {
    return device->class->memory_bytes(device);
}

void mt_device_emulate(struct mt_device *device, double speed) {
    assert(speed > 0 && speed <= 1);
    device->class->emulate(device, speed);
}

double mt_device_emulated_exact_s(const struct mt_device *device) {
    return device->emulated_exact_s;
}

enum mt_status mt_device_emulate_sms(struct mt_device *device, int count, struct mt_err *err) {
    if (device->class->emulate_sms) return device->class->emulate_sms(device, count, err);
    return mt_fail(err, MT_EINPUT, "%s: has no multiprocessors to leave out", device->description);
}

const struct mt_backend *mt_device_backend(struct mt_device *device, const struct mt_call *call) {
    return device->class->backend(device, call);
}

const struct mt_tuner *mt_device_tuner(struct mt_device *device) {
    return device->class->tuner;
}

bool mt_device_merges(const struct mt_device *device, enum mt_op_kind kind) {
    return device->class->merges && device->class->merges[kind];
}

enum mt_status mt_device_alloc(struct mt_device *device, int64_t size_bytes, void **memory, struct mt_err *err) {
    return device->class->alloc(device, size_bytes, memory, err);
}

void mt_device_free(struct mt_device *device, void *memory) {
    device->class->free(device, memory);
}

enum mt_status mt_device_copy_in(struct mt_device *device, void *to, const void *from, int64_t size_bytes,
                                 struct mt_err *err) {
    return device->class->copy_in(device, to, from, size_bytes, err);
}

/* Copies are synchronous, so a short pattern goes many times into each. */
enum mt_status mt_device_repeat(struct mt_device *device, void *to, int64_t size_bytes, const void *pattern,
                                int64_t pattern_bytes, struct mt_err *err) {
    enum { BLOCK = 1 << 20 };
    int64_t most = size_bytes < BLOCK ? size_bytes : BLOCK, times = most / pattern_bytes;
    if (times < 2) times = 1;
    int64_t block_bytes = times * pattern_bytes;
    char *block = times > 1 ? mt_malloc((size_t)block_bytes) : NULL;
    for (int64_t i = 0; block && i < times; i++) memcpy(block + i * pattern_bytes, pattern, (size_t)pattern_bytes);
    enum mt_status st = MT_OK;
    for (int64_t done = 0; done < size_bytes && !st; done += block_bytes) {
        int64_t left = size_bytes - done;
        st = mt_device_copy_in(device, (char *)to + done, block ? block : pattern,
                               left < block_bytes ? left : block_bytes, err);
    }
    free(block);
    return st;
}

enum mt_status mt_device_copy_out(struct mt_device *device, void *to, const void *from, int64_t size_bytes,
                                  struct mt_err *err) {
    return device->class->copy_out(device, to, from, size_bytes, err);
}

static enum mt_status unreachable(const struct mt_device *device, struct mt_err *err) {
    return mt_fail(err, MT_EINPUT, "%s: other processes cannot reach its memory", device->description);
}

enum mt_status mt_device_export(struct mt_device *device, void *memory, void *handle, struct mt_err *err) {
    if (!device->class->export_memory) return unreachable(device, err);
    return device->class->export_memory(device, memory, handle, err);
}

enum mt_status mt_device_import(struct mt_device *device, const void *handle, void **memory, struct mt_err *err) {
    if (!device->class->import_memory) return unreachable(device, err);
    return device->class->import_memory(device, handle, memory, err);
}

void mt_device_forget(struct mt_device *device, void *memory) {
    if (memory && device->class->forget) device->class->forget(device, memory);
}

enum mt_status mt_device_copy_peer(struct mt_device *device, void *to, const void *from, int64_t size_bytes,
                                   int repeats, double *each_s, struct mt_err *err) {
    if (!device->class->copy_peer) return unreachable(device, err);
    return device->class->copy_peer(device, to, from, size_bytes, repeats, each_s, err);
}

enum mt_status mt_device_puts_start(struct mt_device *device, const struct mt_put_probe *probe, struct mt_err *err) {
    if (!device->class->puts_start) return unreachable(device, err);
    return device->class->puts_start(device, probe, err);
}

enum mt_status mt_device_puts_finish(struct mt_device *device, double *each_s, struct mt_err *err) {
    if (!device->class->puts_finish) return unreachable(device, err);
    return device->class->puts_finish(device, each_s, err);
}

enum mt_status mt_device_turns(struct mt_device *device, const struct mt_turns_probe *probe, double *each_s,
                               struct mt_err *err) {
    if (!device->class->turns) return unreachable(device, err);
    return device->class->turns(device, probe, each_s, err);
}

enum mt_status mt_device_host_alloc(struct mt_device *device, int64_t size_bytes, void **memory, struct mt_err *err) {
    return device->class->host_alloc(device, size_bytes, memory, err);
}

void mt_device_host_free(struct mt_device *device, void *memory) {
    device->class->host_free(device, memory);
}

enum mt_status mt_stream_new(struct mt_device *device, const char *name, struct mt_stream **stream,
                             struct mt_err *err) {
    return device->class->stream_new(device, name, stream, err);
}

void mt_stream_free(struct mt_stream *stream) {
    if (stream) stream->device->class->stream_free(stream);
}

void mt_stream_op(struct mt_stream *stream, const struct mt_backend *backend, const struct mt_call *call,
                  double *seconds) {
    stream->device->class->stream_op(stream, backend, call, seconds);
}

void mt_stream_coll(struct mt_stream *stream, const struct mt_coll_call *call, double *seconds) {
    stream->device->class->stream_coll(stream, call, seconds);
}

void mt_stream_overlap(struct mt_stream *stream, struct mt_overlap_call *call, double *seconds) {
    stream->device->class->stream_overlap(stream, call, seconds);
}

void mt_stream_copy(struct mt_stream *stream, enum mt_copy direction, void *to, const void *from, int64_t size_bytes) {
    stream->device->class->stream_copy(stream, direction, to, from, size_bytes);
}

void mt_event_record(struct mt_event *event, struct mt_stream *stream) {
    assert(event->device == stream->device);
    event->device->class->event_record(event, stream);
}

void mt_stream_wait(struct mt_stream *stream, struct mt_event *event) {
    assert(event->device == stream->device);
    stream->device->class->stream_wait(stream, event);
}

struct mt_stream_progress mt_stream_query(struct mt_stream *stream) {
    return stream->device->class->stream_query(stream);
}

enum mt_status mt_stream_sync(struct mt_stream *stream, double deadline_s, struct mt_err *err) {
    return stream->device->class->stream_sync(stream, deadline_s, err);
}

enum mt_status mt_event_new(struct mt_device *device, struct mt_event **event, struct mt_err *err) {
    return device->class->event_new(device, event, err);
}

void mt_event_free(struct mt_event *event) {
    if (event) event->device->class->event_free(event);
}

enum mt_status mt_event_sync(struct mt_event *event, double deadline_s, struct mt_err *err) {
    return event->device->class->event_sync(event, deadline_s, err);
}

bool mt_device_captures(struct mt_device *device) {
    return device->class->capture_begin;
}

enum mt_status mt_capture_begin(struct mt_stream *const *streams, int nstreams, struct mt_capture **capture,
                                struct mt_err *err) {
    assert(nstreams > 0 && mt_device_captures(streams[0]->device));
    return streams[0]->device->class->capture_begin(streams, nstreams, capture, err);
}

enum mt_status mt_capture_end(struct mt_capture *capture, struct mt_err *err) {
    return capture->device->class->capture_end(capture, err);
}

enum mt_status mt_capture_launch(struct mt_capture *capture, const struct mt_clock *clock, uint64_t *launch,
                                 struct mt_err *err) {
    return capture->device->class->capture_launch(capture, clock, launch, err);
}

void mt_capture_times(const struct mt_capture *capture, uint64_t launch, double *stream_s) {
    capture->device->class->capture_times(capture, launch, stream_s);
}

void mt_capture_free(struct mt_capture *capture) {
    if (capture) capture->device->class->capture_free(capture);
}
