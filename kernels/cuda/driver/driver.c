#include "kernels/cuda/driver/driver.h"

enum mt_status cuda_fail(struct mt_err *err, CUresult result, const char *what) {
    const char *name = NULL, *text = NULL;
    if (cuGetErrorName(result, &name) || cuGetErrorString(result, &text))
        return mt_fail(err, MT_ESYSTEM, "%s: CUDA error %d", what, (int)result);
    return mt_fail(err, MT_ESYSTEM, "%s: %s (%s)", what, name, text);
}

enum mt_status cuda_enter(const struct cuda *cuda, struct mt_err *err) {
    static _Thread_local CUcontext current;
    static _Thread_local unsigned current_opening;
    if (current == cuda->context && current_opening == cuda->opening) return MT_OK;
    CUDA_TRY(cuCtxSetCurrent(cuda->context), err, "cuCtxSetCurrent");
    current = cuda->context;
    current_opening = cuda->opening;
    return MT_OK;
}
