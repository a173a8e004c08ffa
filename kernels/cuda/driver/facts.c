/* The GPUs that CUDA shows to this process, and the files of its libraries: a host may have several of each. */
#include "kernels/cuda/driver/facts.h"

#include <cublasLt.h>
#include <nccl.h>
#include <nvrtc.h>
#include <stdio.h>
#include <string.h>

static void name_file(const void *function, struct mt_gpu_library *library) {
    Dl_info about;
    if (dladdr(function, &about) && about.dli_fname)
        snprintf(library->path, sizeof library->path, "%s", about.dli_fname);
}

void cuda_driver_version(char *text, size_t size) {
    char line[256];
    FILE *file = fopen("/proc/driver/nvidia/version", "re");
    *text = 0;
    if (!file) return;
    char *rest = fgets(line, sizeof line, file), *word;
    while (rest && (word = strtok_r(rest, " \t\n", &rest)))
        if (strspn(word, "0123456789.") == strlen(word) && strchr(word, '.')) {
            snprintf(text, size, "%s", word);
            break;
        }
    fclose(file);
}

static void query_cudnn(struct mt_gpu_library *library) {
    void *file = cuda_cudnn_open();
    size_t (*version)(void) = NULL;
    if (file) *(void **)&version = dlsym(file, "cudnnGetVersion");
    if (!version) {
        snprintf(library->path, sizeof library->path, "%.190s", file ? "it does not tell its version" : dlerror());
        return;
    }
    size_t v = version();
    snprintf(library->version, sizeof library->version, "%zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
    name_file(*(void **)&version, library);
}

static void query_libraries(struct mt_gpu_library *libraries) {
    static const char *const names[MT_GPU_LIBRARIES] = {"NVRTC", "cuBLASLt", "NCCL", "cuDNN"};
    ncclResult_t (*nccl)(int *) = ncclGetVersion;
    nvrtcResult (*nvrtc)(int *, int *) = nvrtcVersion;
    size_t (*cublaslt)(void) = cublasLtGetVersion;
    int major = 0, minor = 0, version = 0;
    for (int i = 0; i < MT_GPU_LIBRARIES; i++) snprintf(libraries[i].name, sizeof libraries[i].name, "%s", names[i]);
    nvrtc(&major, &minor);
    nccl(&version);
    size_t blas = cublaslt();
    snprintf(libraries[0].version, sizeof libraries[0].version, "%d.%d", major, minor);
    snprintf(libraries[1].version, sizeof libraries[1].version, "%zu.%zu.%zu", blas / 10000, blas / 100 % 100,
             blas % 100);
    snprintf(libraries[2].version, sizeof libraries[2].version, "%d.%d.%d", version / 10000, version / 100 % 100,
             version % 100);
    name_file(*(void **)&nvrtc, &libraries[0]);
    name_file(*(void **)&cublaslt, &libraries[1]);
    name_file(*(void **)&nccl, &libraries[2]);
    query_cudnn(&libraries[3]);
}

static enum mt_status query_gpu(int index, int count, struct mt_gpu *gpu, struct mt_err *err) {
    CUdevice device;
    CUuuid identity;
    size_t bytes;
    int major, minor;
    CUDA_TRY(cuDeviceGet(&device, index), err, "cuDeviceGet");
    CUDA_TRY(cuDeviceGetName(gpu->name, sizeof gpu->name, device), err, "cuDeviceGetName");
    CUDA_TRY(cuDeviceGetPCIBusId(gpu->address, sizeof gpu->address, device), err, "cuDeviceGetPCIBusId");
    CUDA_TRY(cuDeviceGetUuid(&identity, device), err, "cuDeviceGetUuid");
    CUDA_TRY(cuDeviceTotalMem(&bytes, device), err, "cuDeviceTotalMem");
    CUDA_TRY(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device), err,
             "cuDeviceGetAttribute");
    CUDA_TRY(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device), err,
             "cuDeviceGetAttribute");
    CUDA_TRY(cuDeviceGetAttribute(&gpu->nsm, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device), err,
             "cuDeviceGetAttribute");
    memcpy(gpu->identity, identity.bytes, sizeof gpu->identity);
    gpu->sm = 10 * major + minor;
    gpu->memory_bytes = (int64_t)bytes;
    for (int other = 0; other < count && other < MT_MOST_GPUS; other++) {
        CUdevice there;
        int can = other == index;
        CUDA_TRY(cuDeviceGet(&there, other), err, "cuDeviceGet");
        if (other != index) CUDA_TRY(cuDeviceCanAccessPeer(&can, device, there), err, "cuDeviceCanAccessPeer");
        if (can) gpu->reaches |= UINT32_C(1) << other;
    }
    return MT_OK;
}

enum mt_status cuda_gpus_query(struct mt_gpus *gpus, struct mt_err *err) {
    int version = 0;
    *gpus = (struct mt_gpus){0};
    CUresult result = cuInit(0);
    query_libraries(gpus->libraries);
    cuda_driver_version(gpus->driver, sizeof gpus->driver);
    if (result == CUDA_ERROR_NO_DEVICE) return MT_OK;
    if (!result) result = cuDriverGetVersion(&version);
    if (!result) result = cuDeviceGetCount(&gpus->count);
    if (result) {
        cuda_fail(err, result, "CUDA does not start");
        return err->status = MT_EMISSING;
    }
    snprintf(gpus->cuda, sizeof gpus->cuda, "%d.%d", version / 1000, version % 1000 / 10);
    enum mt_status st = MT_OK;
    for (int g = 0; g < gpus->count && g < MT_MOST_GPUS && !st; g++)
        st = query_gpu(g, gpus->count, &gpus->gpus[g], err);
    return st;
}
