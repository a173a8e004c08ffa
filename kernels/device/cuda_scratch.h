/* An upper bound of the scratch of the CUDA module's operators, for planning without a GPU and without the module.
 * Lowering on a GPU asks the operators themselves; tests/kernels/device/test_cuda_scratch.c compares the two.
 */
#ifndef MT_KERNELS_DEVICE_CUDA_SCRATCH_H
#define MT_KERNELS_DEVICE_CUDA_SCRATCH_H

#include "kernels/op/op.h"

/* cuDNN's attention is not used where it needs more: backward's scores grow with the square of the context, and are
 * then not worth their memory. Those of 80 samples of GPT-2 124M, of 1024 positions, are: they add a sixteenth to the
 * activations. */
enum { MT_CUDA_MOST_CUDNN_BYTES = 2047 << 20 };

int64_t mt_cuda_scratch_bytes(const struct mt_call *call);

#endif
