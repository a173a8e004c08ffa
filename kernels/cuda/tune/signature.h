/* What the tuning file calls a call, and which axes its operands share (by kernels/op/ops.def). */
#ifndef MT_KERNELS_CUDA_TUNE_SIGNATURE_H
#define MT_KERNELS_CUDA_TUNE_SIGNATURE_H

#include "kernels/cuda/driver/driver.h"

enum { CUDA_CALL_TEXT = 400 };

/* "layer_norm_grad bf16,bf16,f32,f32,bf16>bf16,f32,f32 rows=2^15 e=768 align=16": equal for calls that the same variant
 * serves best: of rows and samples the next power of two is told, as they only repeat the work. `exact`: all extents.
 */
void cuda_call_text(const struct mt_call *call, bool exact, char text[CUDA_CALL_TEXT]);

/* Of all that cuda_call_text would tell exactly, without the text. */
uint64_t cuda_call_hash(const struct mt_call *call);

/* The leading axis of an operand (inputs, then outputs) that all rows or samples lie along, or -1. */
int cuda_leading_axis(const struct mt_call *call, int operand);

/* "NVIDIA H200, sm_90, 132 multiprocessors | driver 13000": how all keys of a device begin. */
void cuda_device_key(const struct cuda *cuda, char *text, size_t room);

#endif
