/* The GPUs of a host and the libraries for them, as this process sees them; no GPU is opened.
 *
 *     struct mt_gpus gpus;
 *     if (!mt_gpus_query(&gpus, &err)) for (int g = 0; g < gpus.count; g++) puts(gpus.gpus[g].name); // "cuda:g" */
#ifndef MT_KERNELS_DEVICE_GPU_H
#define MT_KERNELS_DEVICE_GPU_H

#include <stdint.h>

#include "kernels/base/err.h"

enum { MT_MOST_GPUS = 32, MT_GPU_LIBRARIES = 4 };

struct mt_gpu {
    char name[64], address[32]; /* on the PCI bus: "0000:1b:00.0" */
    unsigned char identity[16]; /* UUID: equal for all processes that see this GPU, or this part of one */
    int sm, nsm;                /* compute capability, 90 is 9.0; multiprocessors */
    int64_t memory_bytes;
    uint32_t reaches; /* bit g: has peer access to GPU g */
};
struct mt_gpu_library {
    char name[16], version[24], path[200]; /* version "": not found, and path says why */
};
struct mt_gpus {
    int count; /* that CUDA shows this process (CUDA_VISIBLE_DEVICES); at most MT_MOST_GPUS are described */
    struct mt_gpu gpus[MT_MOST_GPUS];
    char cuda[16], driver[32]; /* versions: of CUDA that the driver speaks, "13.0"; its own, "580.95.05" or "" */
    struct mt_gpu_library libraries[MT_GPU_LIBRARIES]; /* NVRTC, cuBLASLt, NCCL; cuDNN, which may be missing */
};

/* MT_EMISSING when the CUDA module or the driver is missing or does not start. */
enum mt_status mt_gpus_query(struct mt_gpus *gpus, struct mt_err *err);

/* The version of a library by its name; "" if it was not found. */
const char *mt_gpus_version(const struct mt_gpus *gpus, const char *library);

#endif
