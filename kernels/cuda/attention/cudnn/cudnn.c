/* Loading cuDNN, and its handle. */
#include <pthread.h>
#include <string.h>

#include "kernels/cuda/driver/driver.h"
#include "kernels/cuda/attention/cudnn/library.h"
#include "kernels/cuda/driver/facts.h"

enum { LEAST_VERSION = 90800 }; /* the first with properties of devices */

static struct cudnn_library functions;
static struct mt_err refusal = MT_ERR_INIT;

static void load(void) {
    static const struct {
        void *place;
        const char *name;
    } symbols[] = {{&functions.version, "cudnnGetVersion"},
                   {&functions.error_string, "cudnnGetErrorString"},
                   {&functions.last_error_string, "cudnnGetLastErrorString"},
                   {&functions.create, "cudnnCreate"},
                   {&functions.set_stream, "cudnnSetStream"},
                   {&functions.descriptor, "cudnnBackendCreateDescriptor"},
                   {&functions.destroy, "cudnnBackendDestroyDescriptor"},
                   {&functions.finalize, "cudnnBackendFinalize"},
                   {&functions.set, "cudnnBackendSetAttribute"},
                   {&functions.get, "cudnnBackendGetAttribute"},
                   {&functions.execute, "cudnnBackendExecute"}};
    void *library = cuda_cudnn_open();
    if (!library) {
        mt_fail(&refusal, MT_EMISSING, "cuDNN is not used: %s", dlerror());
        return;
    }
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (!symbol) {
            mt_fail(&refusal, MT_EMISSING, "cuDNN is not used: it has no %s", symbols[i].name);
            return;
        }
        memcpy(symbols[i].place, &symbol, sizeof symbol);
    }
    if (functions.version() < LEAST_VERSION)
        mt_fail(&refusal, MT_EMISSING, "cuDNN is not used: its version is %zu, and %d is the least",
                functions.version(), LEAST_VERSION);
}

const struct cudnn_library *cudnn_library(struct mt_err *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    if (!refusal.status) return &functions;
    *err = refusal;
    return NULL;
}

size_t cudnn_version(void) {
    struct mt_err ignored = MT_ERR_INIT;
    const struct cudnn_library *lib = cudnn_library(&ignored);
    return lib ? lib->version() : 0;
}

const char *cudnn_missing(void) {
    struct mt_err ignored = MT_ERR_INIT;
    return cudnn_library(&ignored) ? NULL : refusal.text;
}

enum mt_status cudnn_fail(const struct cudnn_library *lib, cudnnStatus_t status, const char *what, struct mt_err *err) {
    char reason[400] = "";
    lib->last_error_string(reason, sizeof reason);
    reason[strcspn(reason, "\n")] = 0;
    return mt_fail(err, MT_ESYSTEM, "cuDNN: %s: %s%s%s%s", what, lib->error_string(status), *reason ? " (" : "", reason,
                   *reason ? ")" : "");
}

/* ---- devices ---- */

/* A handle of the library, and the properties of its device. */
static enum mt_status open_device(const struct cudnn_library *lib, struct cudnn_device *device, struct mt_err *err) {
    cudnnStatus_t st = lib->create(&device->handle);
    if (st) return cudnn_fail(lib, st, "it does not start", err);
    st = lib->descriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &device->properties);
    if (!st) st = lib->set(device->properties, CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, 1, &device->handle);
    if (!st) st = lib->finalize(device->properties);
    return st ? cudnn_fail(lib, st, "properties of the device", err) : MT_OK;
}

/* The handle belongs to a context; a device that was closed and opened again has another one. */
enum mt_status cudnn_device_here(struct cudnn_device *device, struct mt_err *err) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct cudnn_device made;
    static unsigned long long made_in;
    unsigned long long context;
    const struct cudnn_library *lib = cudnn_library(err);
    if (!lib) return err->status;
    CUDA_TRY(cuCtxGetId(NULL, &context), err, "cuCtxGetId");
    enum mt_status st = MT_OK;
    pthread_mutex_lock(&lock);
    if (!made.handle || made_in != context) {
        struct cudnn_device fresh = {0};
        if (!(st = open_device(lib, &fresh, err))) made = fresh, made_in = context;
    }
    *device = made;
    pthread_mutex_unlock(&lock);
    return st;
}
