/* One GPU: its primary context, its memory, and copies to and from it. */
#include "kernels/cuda/device/device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/cuda/device/capture.h"
#include "kernels/cuda/device/internal.h"
#include "kernels/cuda/driver/facts.h"
#include "kernels/cuda/jit/jit.h"
#include "kernels/cuda/driver/nvml.h"
#include "kernels/cuda/nccl/comm.h"
#include "kernels/cuda/overlap/fused.h"
#include "kernels/device/facts.h"

static struct cuda *opened; /* one device a process: functions of backends have no device argument */

/* ---- the backend ---- */

/* Tensor cores before sm_80 multiply neither tf32 nor bf16. */
static bool able(const struct mt_call *call) {
    bool gemm = call->kind == MT_OP_matmul || call->kind == MT_OP_fused_matmul;
    return opened->sm >= MT_CAPABILITY_BF16 || !gemm || !(call->attr->tf32 || call->in[0].type == MT_BF16);
}

static bool supports(const struct mt_call *call) {
    const struct cuda_op *op = cuda_ops[call->kind];
    if (!op || !able(call)) return false;
    if (call->ncalls && !cuda_merges[call->kind]) return false;
    for (int i = 0; i < call->nin; i++)
        if (call->in[i].type == MT_F64) return false;
    for (int i = 0; i < call->nout; i++)
        if (call->out[i].type == MT_F64) return false;
    return !op->supports || op->supports(call);
}

static int64_t scratch_bytes(const struct mt_call *call) {
    const struct cuda_op *op = cuda_ops[call->kind];
    return op && op->scratch_bytes && supports(call) ? op->scratch_bytes(opened, call) : 0;
}

static const struct mt_backend *backend(struct mt_device *device, const struct mt_call *call) {
    static const struct mt_backend cuda = {"CUDA", supports, scratch_bytes, NULL};
    (void)device, (void)call;
    return &cuda;
}

/* ---- memory ---- */

static int64_t memory_bytes(struct mt_device *device) {
    struct mt_err ignored = MT_ERR_INIT;
    size_t available, total;
    if (cuda_enter(&cuda_of(device)->cuda, &ignored) || cuMemGetInfo(&available, &total)) return 0;
    return (int64_t)available;
}

/* Whole pages where there is one. Memory of 256 MiB and a piece of a page is written by the copy engine of another GPU,
 * while that writes as well, at 274 GB/s, of 256 MiB at 384 (two H100). */
static size_t whole_pages(int64_t size_bytes) {
    const int64_t page = 2 << 20;
    return (size_t)(size_bytes < page ? size_bytes + !size_bytes : (size_bytes + page - 1) / page * page);
}

static enum mt_status allocate(struct mt_device *device, int64_t size_bytes, void **memory, struct mt_err *err) {
    enum mt_status st = cuda_enter(&cuda_of(device)->cuda, err);
    if (st) return st;
    CUdeviceptr place;
    int64_t available = memory_bytes(device);
    CUresult result = size_bytes < 0 || size_bytes > available ? CUDA_ERROR_OUT_OF_MEMORY
                                                               : cuMemAlloc(&place, whole_pages(size_bytes));
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return mt_fail(err, MT_ESYSTEM, "no memory: %.3f GB are wanted, %.3f GB of the GPU's can be had",
                       1e-9 * (double)size_bytes, 1e-9 * (double)available);
    if (result) return cuda_fail(err, result, "cuMemAlloc");
    *memory = (void *)place;
    return MT_OK;
}

/* cuMemFree waits until the GPU does not use the memory any more. */
static void release(struct mt_device *device, void *memory) {
    struct mt_err ignored = MT_ERR_INIT;
    if (memory && !cuda_enter(&cuda_of(device)->cuda, &ignored)) cuMemFree((CUdeviceptr)memory);
}

enum direction { IN, OUT };

static enum mt_status copy(struct mt_device *base, enum direction direction, void *to, const void *from,
                           int64_t size_bytes, struct mt_err *err) {
    struct cuda_device *device = cuda_of(base);
    if (!size_bytes) return MT_OK;
    enum mt_status st = cuda_enter(&device->cuda, err);
    if (!st) st = cuda_streams_before(device, device->copies, err);
    if (st) return st;
    CUresult result = direction == IN ? cuMemcpyHtoDAsync((CUdeviceptr)to, from, (size_t)size_bytes, device->copies)
                                      : cuMemcpyDtoHAsync(to, (CUdeviceptr)from, (size_t)size_bytes, device->copies);
    if (!result) result = cuStreamSynchronize(device->copies);
    if (result) return cuda_fail(err, result, direction == IN ? "copying to the GPU" : "copying from the GPU");
    return MT_OK;
}

static enum mt_status copy_in(struct mt_device *device, void *to, const void *from, int64_t size_bytes,
                              struct mt_err *err) {
    return copy(device, IN, to, from, size_bytes, err);
}

static enum mt_status copy_out(struct mt_device *device, void *to, const void *from, int64_t size_bytes,
                               struct mt_err *err) {
    return copy(device, OUT, to, from, size_bytes, err);
}

static enum mt_status host_allocate(struct mt_device *device, int64_t size_bytes, void **memory, struct mt_err *err) {
    enum mt_status st = cuda_enter(&cuda_of(device)->cuda, err);
    if (st) return st;
    CUDA_TRY(cuMemHostAlloc(memory, size_bytes ? (size_t)size_bytes : 1, 0), err, "pinned memory of the host");
    return MT_OK;
}

static void host_release(struct mt_device *device, void *memory) {
    struct mt_err ignored = MT_ERR_INIT;
    if (memory && !cuda_enter(&cuda_of(device)->cuda, &ignored)) cuMemFreeHost(memory);
}

/* ---- emulation: a green context owns some of the multiprocessors ---- */

static enum mt_status emulate_sms(struct mt_device *base, int count, struct mt_err *err) {
    struct cuda_device *device = cuda_of(base);
    struct cuda *cuda = &device->cuda;
    if (count == cuda->nsm) return MT_OK;
    if (count < 1 || count > cuda->nsm || device->part)
        return mt_fail(err, MT_EINPUT, "%d multiprocessors cannot be had of %d: %s", count, cuda->nsm,
                       base->description);
    enum mt_status st = cuda_enter(cuda, err);
    if (st) return st;
    CUdevResource all, part;
    CUdevResourceDesc description;
    unsigned groups = 1;
    CUDA_TRY(cuDeviceGetDevResource(cuda->handle, &all, CU_DEV_RESOURCE_TYPE_SM), err, "cuDeviceGetDevResource");
    CUresult divided = cuDevSmResourceSplitByCount(&part, &groups, &all, NULL, 0, (unsigned)count);
    if (divided && divided != CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION)
        return cuda_fail(err, divided, "cuDevSmResourceSplitByCount");
    if (divided || !groups || (int)part.sm.smCount >= cuda->nsm) {
        mt_fail(err, MT_EINPUT, "the GPU cannot be divided so that %d of its %d multiprocessors compute", count,
                cuda->nsm);
        return mt_err_hint(err, "counts are rounded up to what it can be divided by (8 since Hopper, 2 before); or %d",
                           cuda->nsm);
    }
    CUDA_TRY(cuDevResourceGenerateDesc(&description, &part, 1), err, "cuDevResourceGenerateDesc");
    CUDA_TRY(cuGreenCtxCreate(&device->part, description, cuda->handle, CU_GREEN_CTX_DEFAULT_STREAM), err,
             "cuGreenCtxCreate");
    cuda->nsm = base->multiprocessors = (int)part.sm.smCount;
    size_t used = strlen(base->description);
    snprintf(base->description + used, sizeof base->description - used, ", emulated: %d multiprocessors compute",
             cuda->nsm);
    return MT_OK;
}

static void emulate(struct mt_device *base, double speed) {
    struct cuda_device *device = cuda_of(base);
    int count = (int)lround(speed * device->cuda.nsm);
    emulate_sms(base, count > 1 ? count : 1, &device->pending);
}

/* ---- opening and closing ---- */

static void close_device(struct mt_device *base) {
    struct cuda_device *device = cuda_of(base);
    struct mt_err ignored = MT_ERR_INIT;
    if (device->cuda.context && !cuda_enter(&device->cuda, &ignored)) {
        cuda_fused_forget(&device->cuda, NULL);
        cuda_jit_free(device->cuda.jit);
        if (device->tail) cuEventDestroy(device->tail);
        if (device->copies) cuStreamDestroy(device->copies);
        if (device->part) cuGreenCtxDestroy(device->part);
        /* And its memory with it; not under communicators that do not end. */
        if (!cuda_nccl_is_leaving()) cuDevicePrimaryCtxRelease(device->cuda.handle);
    }
    if (opened == &device->cuda) opened = NULL;
    pthread_mutex_destroy(&device->lock);
    free(device);
}

static bool overlaps(struct mt_device *device, const struct mt_overlap *problem, int me) {
    return cuda_overlap_serves(&cuda_of(device)->cuda, problem, me);
}

static const struct mt_device_class class = {
    .kind = "cuda",
    .close = close_device,
    .memory_bytes = memory_bytes,
    .facts = cuda_device_facts,
    .emulate = emulate,
    .emulate_sms = emulate_sms,
    .backend = backend,
    .merges = cuda_merges,
    .alloc = allocate,
    .free = release,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .export_memory = cuda_export,
    .import_memory = cuda_import,
    .forget = cuda_forget,
    .copy_peer = cuda_copy_peer,
    .puts_start = cuda_puts_start,
    .puts_finish = cuda_puts_finish,
    .turns = cuda_turns,
    .adds_to = cuda_adds_to,
    .host_alloc = host_allocate,
    .host_free = host_release,
    .stream_new = cuda_stream_new,
    .stream_free = cuda_stream_free,
    .stream_op = cuda_stream_op,
    .stream_coll = cuda_stream_coll,
    .stream_overlap = cuda_stream_overlap,
    .overlaps = overlaps,
    .stream_copy = cuda_stream_copy,
    .stream_window = cuda_stream_window,
    .stream_wait = cuda_stream_wait,
    .stream_query = cuda_stream_query,
    .stream_sync = cuda_stream_sync,
    .event_new = cuda_event_new,
    .event_free = cuda_event_free,
    .event_record = cuda_event_record,
    .event_sync = cuda_event_sync,
    .capture_begin = cuda_capture_begin,
    .capture_end = cuda_capture_end,
    .capture_launch = cuda_capture_launch,
    .capture_times = cuda_capture_times,
    .capture_free = cuda_capture_free,
    .tuner = &cuda_tuner,
};

static enum mt_status describe(struct cuda_device *device, struct mt_err *err) {
    char name[256], driver[64];
    int version;
    CUDA_TRY(cuDeviceGetName(name, sizeof name, device->cuda.handle), err, "cuDeviceGetName");
    CUDA_TRY(cuDriverGetVersion(&version), err, "cuDriverGetVersion");
    cuda_driver_version(driver, sizeof driver);
    snprintf(device->base.description, sizeof device->base.description, "%s, %d multiprocessors, CUDA %d.%d%s%s", name,
             device->cuda.nsm, version / 1000, version % 1000 / 10, *driver ? ", driver " : "", driver);
    device->base.multiprocessors = device->base.all_multiprocessors = device->cuda.nsm;
    return MT_OK;
}

static enum mt_status find(int index, CUdevice *handle, struct mt_err *err) {
    CUresult result = cuInit(0);
    int count = 0;
    if (!result) result = cuDeviceGetCount(&count);
    if (result) {
        cuda_fail(err, result, "CUDA does not start");
        return err->status = MT_EMISSING;
    }
    if (index >= count)
        return mt_fail(err, MT_EMISSING, "there is no device cuda:%d: this process sees %d GPU%s", index, count,
                       count == 1 ? "" : "s");
    CUDA_TRY(cuDeviceGet(handle, index), err, "cuDeviceGet");
    return MT_OK;
}

static enum mt_status attribute(const struct cuda *cuda, CUdevice_attribute which, int *value, struct mt_err *err) {
    CUDA_TRY(cuDeviceGetAttribute(value, which, cuda->handle), err, "cuDeviceGetAttribute");
    return MT_OK;
}

/* Without NVML all memory that is not available counts as the context's. */
static void note_memory(struct cuda_device *device, int64_t used_bytes) {
    size_t available, total;
    if (cuMemGetInfo(&available, &total)) return;
    device->opened_bytes = (int64_t)available;
    device->context_bytes = used_bytes ? used_bytes - device->others_bytes : (int64_t)(total - available);
}

static enum mt_status start(struct cuda_device *device, int index, struct mt_err *err) {
    struct cuda *cuda = &device->cuda;
    char bus[MT_DEVICE_BUS_TEXT];
    int major, minor, memory_khz, memory_bits;
    enum mt_status st = find(index, &cuda->handle, err);
    if (!st) st = attribute(cuda, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major, err);
    if (!st) st = attribute(cuda, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor, err);
    if (!st) st = attribute(cuda, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &cuda->nsm, err);
    if (!st) st = attribute(cuda, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &cuda->shared_bytes, err);
    if (!st) st = attribute(cuda, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &cuda->l2_bytes, err);
    if (!st) st = attribute(cuda, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, &memory_khz, err);
    if (!st) st = attribute(cuda, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, &memory_bits, err);
    if (!st) st = describe(device, err);
    if (st) return st;
    cuda->memory_Bps = 2e3 * memory_khz * memory_bits / 8; /* two bits a clock and line */
    cuda->sm = 10 * major + minor;
    if (cuda->sm < MT_CAPABILITY_LEAST)
        return mt_fail(err, MT_EMISSING, "%s: has compute capability %d.%d, and at least %d.%d is needed",
                       device->base.description, major, minor, MT_CAPABILITY_LEAST / 10, MT_CAPABILITY_LEAST % 10);
    device->multiprocessors = cuda->nsm;
    device->others_bytes = cuda_nvml_used_bytes(cuda_bus(cuda, bus));
    CUDA_TRY(cuDevicePrimaryCtxRetain(&cuda->context, cuda->handle), err, "cuDevicePrimaryCtxRetain");
    if ((st = cuda_enter(cuda, err))) return st;
    cuda->jit = cuda_jit_new();
    CUDA_TRY(cuStreamCreate(&device->copies, CU_STREAM_NON_BLOCKING), err, "cuStreamCreate");
    CUDA_TRY(cuEventCreate(&device->tail, CU_EVENT_DISABLE_TIMING), err, "cuEventCreate");
    note_memory(device, cuda_nvml_used_bytes(bus));
    return MT_OK;
}

enum mt_status cuda_device_open(int index, struct mt_device **device, struct mt_err *err) {
    static unsigned nopened;
    struct cuda_device *d = mt_calloc(1, sizeof *d);
    pthread_mutex_init(&d->lock, NULL);
    d->base.class = &class;
    d->base.threads = 1;
    d->base.depth = 2;
    d->cuda.opening = nopened++;
    enum mt_status st = start(d, index, err);
    if (st) {
        close_device(&d->base);
        return st;
    }
    opened = &d->cuda;
    *device = &d->base;
    return MT_OK;
}
