/* What there is, without taking it. */
#ifndef MT_KERNELS_CUDA_FACTS_H
#define MT_KERNELS_CUDA_FACTS_H

#include "kernels/cuda/cuda.h"

/* "580.95.05", or "" where it is not told. */
void cuda_driver_version(char *text, size_t size);

#endif
