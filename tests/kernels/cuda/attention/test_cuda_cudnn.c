/* cuDNN knows the graphs of attention, forward and backward, also in any order, on each kind of GPU: without one.
 * Devices are described to the library, which then finds an engine and compiles it; where there is no driver that is as
 * far as it gets. The memory that a plan wants is held against the bound, where a plan comes about. That results are
 * right is for test_cuda_attention.
 *
 * Without a GPU one forward and one backward are made for each kind, since each takes a second; all with
 * MOTLEY_ALL_ARCHITECTURES=1. */
#include <dlfcn.h>

#include "kernels/cuda/attention/cudnn/attention_graph.h"
#include "kernels/cuda/attention/cudnn/library.h"
#include "kernels/device/cuda_scratch.h"
#include "tests/check.h"

/* What cudnn.c has of the module, where there is no device to fail. */
enum mt_status cuda_fail(struct mt_err *err, CUresult result, const char *what) {
    return mt_fail(err, MT_ESYSTEM, "%s: %d", what, (int)result);
}
CUresult cuCtxGetId(CUcontext context, unsigned long long *id) {
    (void)context, (void)id;
    return CUDA_ERROR_NOT_INITIALIZED;
}
CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char byte, size_t size_bytes, CUstream stream) {
    (void)at, (void)byte, (void)size_bytes, (void)stream;
    return CUDA_ERROR_NOT_INITIALIZED;
}

/* A GPU that is not there, from its properties as the library writes them: JSON. */
static enum mt_status make(const char *json, struct cudnn_device *device, struct mt_err *err) {
    const struct cudnn_library *lib = cudnn_library(err);
    *device = (struct cudnn_device){0};
    if (!lib) return err->status;
    cudnnStatus_t st = lib->descriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &device->properties);
    if (!st)
        st = lib->set(device->properties, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                      (int64_t)strlen(json), json);
    if (!st) st = lib->finalize(device->properties);
    return st ? cudnn_fail(lib, st, "properties of the device", err) : MT_OK;
}

static void release(struct cudnn_device *device) {
    struct mt_err ignored = MT_ERR_INIT;
    cudnn_library(&ignored)->destroy(device->properties);
}

/* sm: 900 is 9.0. */
static void describe(struct cudnn_device *device, int sm, int shared_bytes) {
    char json[1500];
    struct mt_err err = MT_ERR_INIT;
    snprintf(json, sizeof json,
             "{\"cudaDeviceId\": 0, \"deviceName\": \"described\", \"deviceVer\": %d, \"driverVer\": 13000, "
             "\"isTccDriver\": 0, \"l2CacheSize\": 52428800, \"maxBlockSize\": [1024, 1024, 64], \"maxGridSize\": "
             "[2147483647, 65535, 65535], \"maxCtasPerSM\": 32, \"maxRegistersPerSM\": 65536, "
             "\"maxSharedMemoryPerBlock\": 49152, \"maxSharedMemoryPerBlockOptin\": %d, \"maxThreadsPerBlock\": 1024, "
             "\"maxThreadsPerSM\": 2048, \"memClockRateKHz\": 2619000, \"multiProcessorCount\": 100, \"pciDeviceId\": "
             "0, \"regsPerBlock\": 65536, \"reservedSharedMemoryPerBlock\": 1024, \"smClockRateKHz\": 1700000, "
             "\"supportCoopLaunch\": 1, \"totalGlobalMem\": 85000000000, \"warpSize\": 32}",
             sm, shared_bytes);
    CHECK_OK(make(json, device, &err), err);
}

/* Whether the library gets as far as it can here. */
static bool known(const struct cudnn_device *device, const struct cudnn_attention_shape *shape, char *why) {
    struct cudnn_attention *attention = NULL;
    struct mt_err err = MT_ERR_INIT;
    if (!cudnn_attention_new(shape, device, &attention, &err)) {
        CHECK(cudnn_attention_workspace(attention) <= cudnn_attention_bytes(shape), "more than the bound");
        cudnn_attention_free(attention);
        return true;
    }
    snprintf(why, 300, "%.299s", err.text);
    return strstr(err.text, "cuLibraryLoadData") != NULL; /* compiled, and there is no driver to load it */
}

/* Planning counts what the operator would ask for: for all samples up to the limit, beyond it for equal parts. */
static void test_planned(void) {
    static const struct {
        int64_t b, s, h, g;
        int runs, runs_any_order;
    } cases[] = {
        {32, 1024, 12, 12, 1, 1}, {32, 1024, 30, 30, 1, 1}, /* scores of 0.8 and 2.0 GB */
        {32, 1024, 33, 33, 2, 1}, {8, 2048, 32, 4, 2, 1},   /* 2.2 and 2.15 GB */
        {7, 4096, 32, 32, 7, 1},  {1, 16384, 8, 8, 0, 1},   /* a sample of 1.1, and one of 4.3 GB */
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        const int64_t b = cases[i].b, s = cases[i].s, h = cases[i].h, g = cases[i].g;
        struct cudnn_attention_shape shape = {b, s, h, g, 64, 0, 0.125f, MT_BF16, false, true, true, false};
        struct mt_tensor in[3] = {{.type = MT_BF16, .naxes = 4, .extent = {b, s, h, 64}},
                                  {.type = MT_BF16, .naxes = 4, .extent = {b, s, h, 64}},
                                  {.type = MT_BF16, .naxes = 5, .extent = {b, s, 2, g, 64}}};
        struct mt_attr attr = {.causal = true};
        struct mt_call call = {.kind = MT_OP_attention_grad, .attr = &attr, .nin = 3, .in = in};
        int64_t rows = b * s * h * 2 * (int64_t)sizeof(float), all = cudnn_attention_bytes(&shape);
        for (int any = 0; any < 2; any++) {
            int runs = any ? cases[i].runs_any_order : cases[i].runs;
            shape.any_order = attr.any_order = any;
            if (runs) shape.b = b / runs;
            int64_t bytes = runs ? cudnn_attention_bytes(&shape) : 0;
            CHECK(bytes <= MT_CUDA_MOST_CUDNN_BYTES, "%d: %lld", i, (long long)bytes);
            if (any) CHECK(bytes < all / 2, "%d: %lld, %lld", i, (long long)bytes, (long long)all);
            if (!any) CHECK_EQ(mt_cuda_scratch_bytes(&call), bytes > rows ? bytes : rows);
            if (any) CHECK(mt_cuda_scratch_bytes(&call) >= bytes, "%d", i);
        }
    }
    struct cudnn_attention_shape ragged = {3, 257, 5, 5, 40, 0, 1, MT_F16, true, false, true, true};
    struct mt_tensor in[2] = {{.type = MT_F16, .naxes = 4, .extent = {3, 257, 5, 40}},
                              {.type = MT_F16, .naxes = 5, .extent = {3, 257, 3, 5, 40}}};
    struct mt_attr attr = {.any_order = true};
    struct mt_call call = {.kind = MT_OP_attention_packed_grad, .attr = &attr, .nin = 2, .in = in};
    CHECK(cudnn_attention_bytes(&ragged) <= mt_cuda_scratch_bytes(&call), "planned: %lld",
          (long long)mt_cuda_scratch_bytes(&call));
}

/* The architecture of the driver's first GPU, as 900; 0 without one. The library asks such a driver for its kernels,
 * which has those of its own GPU only. */
static int present(void *driver) {
    enum { MAJOR = 75, MINOR = 76 }; /* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_... */
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
    int (*count)(int *) = (int (*)(int *))dlsym(driver, "cuDeviceGetCount");
    int (*attribute)(int *, int, int) = (int (*)(int *, int, int))dlsym(driver, "cuDeviceGetAttribute");
    int n = 0, major = 0, minor = 0;
    if (!init || !count || !attribute || init(0) || count(&n) || n == 0) return 0;
    return attribute(&major, MAJOR, 0) || attribute(&minor, MINOR, 0) ? 0 : 100 * major + 10 * minor;
}

static const struct {
    struct cudnn_attention_shape shape;
    bool everywhere; /* also without a GPU, for each kind */
} graphs[] = {
    {{4, 1000, 12, 12, 64, 0, 0.125f, MT_BF16, true, false, false, false}, false},
    {{4, 1000, 12, 12, 64, 0, 0.125f, MT_F16, true, true, false, false}, true},
    {{4, 1000, 12, 12, 64, 0, 0.125f, MT_BF16, true, false, true, false}, false},
    {{4, 1000, 12, 12, 64, 0, 0.125f, MT_BF16, true, true, true, false}, false},
    {{4, 1000, 12, 12, 64, 0, 0.125f, MT_BF16, true, false, true, true}, false},
    {{4, 1000, 12, 12, 128, 0, 0.125f, MT_F16, true, true, true, true}, false},
    {{4, 1000, 12, 4, 64, 0, 0.125f, MT_BF16, false, true, false, false}, false},
    {{4, 1000, 12, 4, 64, 0, 0.125f, MT_BF16, false, true, true, false}, false},
    {{4, 1000, 12, 1, 128, 0, 0.125f, MT_BF16, false, true, true, true}, true},
    {{4, 1000, 12, 4, 64, 256, 0.125f, MT_BF16, false, true, false, false}, false},
    {{4, 1000, 12, 12, 64, 100, 0.125f, MT_F16, true, true, true, true}, false},
    {{4, 1000, 12, 4, 128, 256, 0.125f, MT_BF16, false, true, true, true}, false},
};

int main(void) {
    test_planned();
#ifdef MOTLEY_SANITIZE
    printf("skipped: the time is the vendor's library's, which is not built with sanitizers\n");
    return 77;
#endif
    static const struct {
        int sm, shared_bytes;
    } devices[] = {{800, 166912}, {900, 232448}, {1000, 232448}, {1200, 101376}};
    char why[300];
    /* The library's engines want a driver's library, be it the toolkit's stub. */
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    int here = driver ? present(driver) : 0;
    if (!driver && !dlopen(MOTLEY_CUDA_DRIVER, RTLD_NOW | RTLD_GLOBAL)) {
        printf("skipped: %s\n", dlerror());
        return 77;
    }
    if (cudnn_missing()) {
        printf("skipped: %s\n", cudnn_missing());
        return 77;
    }
    for (int k = 0; k < (int)(sizeof devices / sizeof *devices); k++) {
        struct cudnn_device device;
        int sm = devices[k].sm;
        bool all = here || getenv("MOTLEY_ALL_ARCHITECTURES");
        if (here && here != sm) continue;
        describe(&device, sm, devices[k].shared_bytes);
        for (int i = 0; i < (int)(sizeof graphs / sizeof *graphs); i++) {
            struct cudnn_attention_shape shape = graphs[i].shape;
            if (!all && !graphs[i].everywhere) continue;
            CHECK(known(&device, &shape, why), "sm %d, %s, %lld heads of %lld, window %lld, %s%s: %s", sm,
                  shape.causal ? "causal" : "full", (long long)shape.h, (long long)shape.g, (long long)shape.window,
                  shape.backward ? "backward" : "forward", shape.any_order ? " in any order" : "", why);
        }
        release(&device);
    }
    /* A refusal has its reason. */
    struct cudnn_device device;
    describe(&device, 900, 232448);
    struct cudnn_attention_shape odd = {1, 64, 2, 2, 1001, 0, 1, MT_BF16, true, true, false, false};
    CHECK(!known(&device, &odd, why) && strstr(why, "cuDNN"), "%s", why);
    printf("heads of 1001: %s\n", why);
    release(&device);
    return 0;
}
