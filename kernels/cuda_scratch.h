/* How much scratch the CUDA module's operators ask for, at most: for planning where there is neither a GPU nor the
 * module. Lowering on a GPU asks the operators themselves; tests/profiler/test_cuda_scratch.c compares the two. */
#ifndef MT_KERNELS_CUDA_SCRATCH_H
#define MT_KERNELS_CUDA_SCRATCH_H

#include "kernels/op.h"

/* Attention by cuDNN is left out where it wants more: backward's scores grow with the square of the context, and are
 * not worth their memory. A gibibyte of scores and what lies beside them are. */
enum { MT_CUDA_MOST_CUDNN_BYTES = (1 << 30) + (1 << 26) };

int64_t mt_cuda_scratch_bytes(const struct mt_call *call);

#endif
