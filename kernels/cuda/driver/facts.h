/* GPUs and libraries of this host, without a context: the module's side of kernels/device/gpu.h. */
#ifndef MT_KERNELS_CUDA_DRIVER_FACTS_H
#define MT_KERNELS_CUDA_DRIVER_FACTS_H

#include <dlfcn.h>

#include "kernels/cuda/driver/driver.h"
#include "kernels/device/gpu.h"

enum mt_status cuda_gpus_query(struct mt_gpus *gpus, struct mt_err *err);

/* "580.95.05", or "" if it is unknown. */
void cuda_driver_version(char *text, size_t size);

/* cuDNN's library; null where there is none, and dlerror says why. */
static inline void *cuda_cudnn_open(void) {
    return dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
}

#endif
