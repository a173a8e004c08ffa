/* What fused.c keeps on a device. */
#ifndef MT_KERNELS_CUDA_OVERLAP_FUSED_H
#define MT_KERNELS_CUDA_OVERLAP_FUSED_H

#include "kernels/cuda/overlap/overlap.h"

/* Free the tables on the device, which will be closed. */
void cuda_fused_forget(const struct cuda *cuda);

/* mt_device_overlaps, in one kernel. */
bool cuda_fused_serves(const struct cuda *cuda, const struct mt_overlap *problem, int me);

#endif
