/* What fused.c runs by the kernel for few rows (few.cu). */
#ifndef MT_KERNELS_CUDA_OVERLAP_FEW_H
#define MT_KERNELS_CUDA_OVERLAP_FEW_H

#include "kernels/cuda/overlap/fused.h"

/* Whether the kernel is for the problem (mt_overlap_fused_few), and has room on this GPU. */
bool cuda_few_serves(const struct cuda *cuda, const struct mt_overlap *problem, int me);

/* Queue a run, by tables on the device. */
enum mt_status cuda_few_launch(const struct cuda_queue *queue, const struct cuda_overlap *overlap,
                               struct cuda_fused_call *call, struct mt_err *err);

#endif
