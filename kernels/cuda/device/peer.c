/* Memory of other GPUs of the host, through the driver's handles between processes. */
#include <string.h>

#include "kernels/cuda/device/internal.h"

_Static_assert(sizeof(CUipcMemHandle) == MT_DEVICE_HANDLE_BYTES, "the size of a handle");

enum mt_status cuda_export(struct mt_device *device, void *memory, void *handle, struct mt_err *err) {
    enum mt_status st = cuda_enter(&cuda_of(device)->cuda, err);
    if (st) return st;
    CUDA_TRY(cuIpcGetMemHandle(handle, (CUdeviceptr)memory), err, "cuIpcGetMemHandle");
    return MT_OK;
}

enum mt_status cuda_import(struct mt_device *device, const void *handle, void **memory, struct mt_err *err) {
    enum mt_status st = cuda_enter(&cuda_of(device)->cuda, err);
    CUipcMemHandle copy;
    CUdeviceptr place;
    if (st) return st;
    memcpy(&copy, handle, sizeof copy);
    CUDA_TRY(cuIpcOpenMemHandle(&place, copy, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), err, "cuIpcOpenMemHandle");
    *memory = (void *)place;
    return MT_OK;
}

void cuda_forget(struct mt_device *device, void *memory) {
    struct mt_err ignored = MT_ERR_INIT;
    if (!cuda_enter(&cuda_of(device)->cuda, &ignored)) cuIpcCloseMemHandle((CUdeviceptr)memory);
}

/* Over NVLink they do; over PCIe a peer's memory has none. Where the driver does not know, yes. */
bool cuda_adds_to(struct mt_device *device, const void *memory) {
    struct mt_err ignored = MT_ERR_INIT;
    int owner, can = 1;
    CUdevice me, there;
    if (cuda_enter(&cuda_of(device)->cuda, &ignored) || cuCtxGetDevice(&me)) return true;
    if (cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (CUdeviceptr)memory)) return true;
    if (cuDeviceGet(&there, owner) || there == me) return true;
    return cuDeviceGetP2PAttribute(&can, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, me, there) || can;
}

struct copies {
    CUstream stream;
    CUevent span[2];
    CUdeviceptr to, from;
    size_t size_bytes;
    int repeats;
};

static enum mt_status time_copies(const struct copies *c, double *each_s, struct mt_err *err) {
    float ms;
    for (int i = -1; i < c->repeats; i++) { /* the first maps pages */
        CUDA_TRY(cuMemcpyDtoDAsync(c->to, c->from, c->size_bytes, c->stream), err, "copying between GPUs");
        if (i < 0) CUDA_TRY(cuEventRecord(c->span[0], c->stream), err, "cuEventRecord");
    }
    CUDA_TRY(cuEventRecord(c->span[1], c->stream), err, "cuEventRecord");
    CUDA_TRY(cuEventSynchronize(c->span[1]), err, "copying between GPUs");
    CUDA_TRY(cuEventElapsedTime(&ms, c->span[0], c->span[1]), err, "cuEventElapsedTime");
    *each_s = 1e-3 * (double)ms / c->repeats;
    return MT_OK;
}

enum mt_status cuda_copy_peer(struct mt_device *base, void *to, const void *from, int64_t size_bytes, int repeats,
                              double *each_s, struct mt_err *err) {
    struct cuda_device *device = cuda_of(base);
    struct copies c = {.stream = device->copies,
                       .to = (CUdeviceptr)to,
                       .from = (CUdeviceptr)from,
                       .size_bytes = (size_t)size_bytes,
                       .repeats = repeats};
    enum mt_status st = cuda_enter(&device->cuda, err);
    if (!st) st = cuda_streams_before(device, device->copies, err);
    for (int i = 0; i < 2 && !st; i++) {
        CUresult result = cuEventCreate(&c.span[i], CU_EVENT_DEFAULT);
        if (result) st = cuda_fail(err, result, "cuEventCreate");
    }
    if (!st) st = time_copies(&c, each_s, err);
    for (int i = 0; i < 2; i++)
        if (c.span[i]) cuEventDestroy(c.span[i]);
    return st;
}
