/* How the tuning file names devices and calls, and which axes the operands of a call share (kernels/op/ops.def). */
#ifndef MT_KERNELS_CUDA_TUNE_SIGNATURE_H
#define MT_KERNELS_CUDA_TUNE_SIGNATURE_H

#include "kernels/cuda/driver/driver.h"

enum { CUDA_CALL_TEXT = 400 };

/* "layer_norm_grad bf16,bf16,f32,f32,bf16>bf16,f32,f32 rows=2^15 e=768 align=16": equal for calls with the same
 * best variant: of rows and samples only the next power of two, since they repeat the work. `exact`: all extents. */
void cuda_call_text(const struct mt_call *call, bool exact, char text[CUDA_CALL_TEXT]);

/* Of all that cuda_call_text writes with `exact`. */
uint64_t cuda_call_hash(const struct mt_call *call);

/* The leading axis of an operand (inputs, then outputs), if it counts rows or samples; else -1. */
int cuda_leading_axis(const struct mt_call *call, int operand);

/* "NVIDIA H200, sm_90, 132 multiprocessors | driver 13000": how all keys of a device begin. */
void cuda_device_key(const struct cuda *cuda, char *text, size_t room);

#endif
