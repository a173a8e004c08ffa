/* Times of puts and messages between GPUs (kernels/device/put.h): kernels of window/puts.cu on the device's stream for
 * copies, which runs concurrently with the others. */
#include <stdio.h>

#include "kernels/cuda/device/internal.h"

enum { STAGES = 8, LEAST_FLIGHT = 512, MOST_STORED = 32 << 10, MOST_BULK = 128 << 10 };

static enum mt_status check(const struct cuda_device *device, const struct mt_put_probe *probe, struct mt_err *err) {
    int flight = probe->flight_bytes;
    bool bulk = probe->how == MT_PUT_BULK;
    if (probe->repeats < 1 || probe->size_bytes < 1) return mt_fail(err, MT_EINPUT, "puts of nothing");
    if (probe->how == MT_PUT_ENGINE) return MT_OK;
    if (bulk && device->cuda.sm < 90)
        return mt_fail(err, MT_EMISSING, "bulk copies need compute capability 9.0; this is %d.%d", device->cuda.sm / 10,
                       device->cuda.sm % 10);
    if (probe->blocks < 1 || flight & (flight - 1) || flight < (bulk ? 2 * LEAST_FLIGHT : LEAST_FLIGHT) ||
        flight > (bulk ? MOST_BULK : MOST_STORED) || probe->size_bytes % flight)
        return mt_fail(err, MT_EINPUT, "puts of %lld bytes by %d blocks with %d bytes in flight",
                       (long long)probe->size_bytes, probe->blocks, flight);
    return MT_OK;
}

static void definitions(char text[128], int threads, int unroll, int chunk, const char *level) {
    snprintf(text, 128, "-DTHREADS=%d -DUNROLL=%d -DSTAGES=%d -DCHUNK=%d -DLEVEL=%s", threads, unroll, STAGES, chunk,
             level);
}

static enum mt_status launch(struct cuda_device *device, const struct mt_put_probe *probe, struct mt_err *err) {
    struct cuda_queue queue = {.cuda = &device->cuda, .stream = device->copies};
    CUfunction kernel;
    char text[128];
    bool bulk = probe->how == MT_PUT_BULK;
    int unroll = probe->flight_bytes >= MOST_STORED ? 4 : 1, chunk = probe->flight_bytes / STAGES;
    int threads = bulk ? 32 : probe->flight_bytes / 16 / unroll, shared = bulk ? probe->flight_bytes : 0;
    definitions(text, threads, unroll, chunk, "BLOCK");
    enum mt_status st =
        cuda_kernel(&device->cuda, "puts", text, bulk ? "put_bulk" : "put_stores", shared, &kernel, err);
    if (st) return st;
    CUdeviceptr to = (CUdeviceptr)probe->to, from = (CUdeviceptr)probe->from;
    int64_t bytes = probe->size_bytes, repeats = probe->repeats;
    void *arguments[] = {&to, &from, &bytes, &repeats};
    CUDA_TRY(cuEventRecord(device->put_span[0], device->copies), err, "cuEventRecord");
    return cuda_launch(&queue, kernel, probe->blocks, threads, shared, arguments, err);
}

static enum mt_status copy(struct cuda_device *device, const struct mt_put_probe *probe, struct mt_err *err) {
    CUDA_TRY(cuEventRecord(device->put_span[0], device->copies), err, "cuEventRecord");
    for (int i = 0; i < probe->repeats; i++)
        CUDA_TRY(cuMemcpyDtoDAsync((CUdeviceptr)probe->to, (CUdeviceptr)probe->from, (size_t)probe->size_bytes,
                                   device->copies),
                 err, "copying between GPUs");
    return MT_OK;
}

static void forget_span(struct cuda_device *device) {
    for (int i = 0; i < 2; i++) {
        if (device->put_span[i]) cuEventDestroy(device->put_span[i]);
        device->put_span[i] = NULL;
    }
}

static enum mt_status make_span(struct cuda_device *device, struct mt_err *err) {
    for (int i = 0; i < 2; i++) CUDA_TRY(cuEventCreate(&device->put_span[i], CU_EVENT_DEFAULT), err, "cuEventCreate");
    return MT_OK;
}

static enum mt_status end_span(struct cuda_device *device, struct mt_err *err) {
    CUDA_TRY(cuEventRecord(device->put_span[1], device->copies), err, "cuEventRecord");
    return MT_OK;
}

static enum mt_status read_span(struct cuda_device *device, double *s, struct mt_err *err) {
    float ms;
    CUDA_TRY(cuEventSynchronize(device->put_span[1]), err, "puts between GPUs");
    CUDA_TRY(cuEventElapsedTime(&ms, device->put_span[0], device->put_span[1]), err, "cuEventElapsedTime");
    *s = 1e-3 * (double)ms;
    return MT_OK;
}

enum mt_status cuda_puts_start(struct mt_device *base, const struct mt_put_probe *probe, struct mt_err *err) {
    struct cuda_device *device = cuda_of(base);
    enum mt_status st = check(device, probe, err);
    if (!st) st = cuda_enter(&device->cuda, err);
    if (!st) st = make_span(device, err);
    if (!st) st = (probe->how == MT_PUT_ENGINE ? copy : launch)(device, probe, err);
    if (!st) st = end_span(device, err);
    if (st) forget_span(device);
    device->put_repeats = st ? 0 : probe->repeats;
    return st;
}

enum mt_status cuda_puts_finish(struct mt_device *base, double *each_s, struct mt_err *err) {
    struct cuda_device *device = cuda_of(base);
    if (!device->put_repeats) return mt_fail(err, MT_EBUG, "no puts were started");
    enum mt_status st = cuda_enter(&device->cuda, err);
    if (!st) st = read_span(device, each_s, err);
    *each_s /= device->put_repeats;
    device->put_repeats = 0;
    forget_span(device);
    return st;
}

/* ---- messages ---- */

static enum mt_status take_turns(struct cuda_device *device, const struct mt_turns_probe *probe, struct mt_err *err) {
    static const char *const levels[] = {"THREAD", "WARP", "BLOCK"};
    struct cuda_queue queue = {.cuda = &device->cuda, .stream = device->copies};
    int threads = probe->level == MT_TURNS_BLOCK ? 512 : 32, leads = probe->leads;
    CUfunction kernel;
    char text[128];
    definitions(text, threads, 1, LEAST_FLIGHT, levels[probe->level]);
    enum mt_status st = cuda_kernel(&device->cuda, "puts", text, "message_turns", 0, &kernel, err);
    if (st) return st;
    CUdeviceptr mine = (CUdeviceptr)probe->mine, peer = (CUdeviceptr)probe->peer;
    int64_t bytes = probe->size_bytes, rounds = probe->rounds;
    uint64_t deadline_ns = (uint64_t)(1e9 * probe->deadline_s);
    void *arguments[] = {&mine, &peer, &bytes, &rounds, &leads, &deadline_ns};
    CUDA_TRY(cuEventRecord(device->put_span[0], device->copies), err, "cuEventRecord");
    return cuda_launch(&queue, kernel, 1, threads, 0, arguments, err);
}

enum mt_status cuda_turns(struct mt_device *base, const struct mt_turns_probe *probe, double *each_s,
                          struct mt_err *err) {
    struct cuda_device *device = cuda_of(base);
    uint64_t words[6]; /* as message_turns has them */
    enum mt_status st = cuda_enter(&device->cuda, err);
    if (!st) st = make_span(device, err);
    if (!st) st = take_turns(device, probe, err);
    if (!st) st = end_span(device, err);
    if (!st) st = read_span(device, each_s, err);
    forget_span(device);
    if (!st) st = mt_device_copy_out(base, words, probe->mine, sizeof words, err);
    if (st) return st;
    *each_s /= 2 * (double)probe->rounds;
    if (words[1])
        return mt_fail(err, MT_ESTALL, "the peer's message %llu did not come within %g s: its signal is %llu",
                       (unsigned long long)words[4], probe->deadline_s, (unsigned long long)words[3]);
    if (words[5])
        return mt_fail(err, MT_EBUG,
                       "%llu words of messages between GPUs were seen after their signal, but not as sent",
                       (unsigned long long)words[5]);
    return MT_OK;
}
