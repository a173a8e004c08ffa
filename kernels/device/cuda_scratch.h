/* How much scratch the CUDA module's operators ask for, at most: for planning where there is neither a GPU nor the
 * module. Lowering on a GPU asks the operators themselves; tests/kernels/device/test_cuda_scratch.c compares the two.
 */
#ifndef MT_KERNELS_DEVICE_CUDA_SCRATCH_H
#define MT_KERNELS_DEVICE_CUDA_SCRATCH_H

#include "kernels/op/op.h"

/* Attention by cuDNN is left out where it wants more: backward's scores grow with the square of the context, and are
 * not worth their memory. Those of 80 samples of GPT-2 124M, of 1024 positions, are: they add a sixteenth to the
 * activations. */
enum { MT_CUDA_MOST_CUDNN_BYTES = 2047 << 20 };

int64_t mt_cuda_scratch_bytes(const struct mt_call *call);

#endif
