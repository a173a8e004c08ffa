/* What there is, without taking it: the module's side of kernels/gpu.h. */
#ifndef MT_KERNELS_CUDA_FACTS_H
#define MT_KERNELS_CUDA_FACTS_H

#include "kernels/cuda/cuda.h"
#include "kernels/gpu.h"

enum mt_status cuda_gpus_look(struct mt_gpus *gpus, struct mt_err *err);

/* "580.95.05", or "" where it is not told. */
void cuda_driver_version(char *text, size_t size);

#endif
