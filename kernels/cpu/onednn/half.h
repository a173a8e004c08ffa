/* bf16 GEMM in half precision arithmetic, for Intel CPUs with AVX512-FP16 and without AMX: relative to f32 FMA the bf16
 * instruction has half the throughput there, f16 FMA twice.
 *
 * A bf16 number times a power of two is exact in f16 if it is at least 2^-20 of the largest. Each row of a and column
 * of b is scaled so that its largest magnitude lies in [8, 16). CHUNK / 2 products are summed in f16 (less than 2^14:
 * no overflow), and these sums in f32. The error is 6e-4 of the result's norm for random numbers, half of that of
 * rounding to bf16. Infinities and NaNs are preserved. */
#ifndef MT_ONEDNN_HALF_H
#define MT_ONEDNN_HALF_H

#include "kernels/cpu/onednn/gemm.h"

/* Whether this CPU is one of these. */
bool half_is_best(void);

int64_t half_scratch_bytes(const struct gemm_shape *shape);
/* gemm_run for shapes with bf16 operands. */
void half_run(const struct gemm_shape *shape, const mt_bf16 *a, const mt_bf16 *b, const mt_bf16 *bias, void *c,
              void *scratch);

#endif
