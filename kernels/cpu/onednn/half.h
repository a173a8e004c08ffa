/* bf16 products by half precision arithmetic, for Intel CPUs that have AVX512-FP16 and no AMX (or hide it): there a
 * bf16 instruction does half the work of a single precision one, and a half precision one twice.
 *
 * A bf16 number scaled by a power of two is a half precision number, if it is not smaller than 2^-20 of the largest.
 * Each row of a and column of b is scaled so that its largest lies in [16, 32); 32 products are summed in
 * half precision (at most 2^15: no overflow), and those sums in single precision. The error, 6e-4 of the norm for
 * random numbers, is half that of rounding the result to bf16. Infinities and NaNs come out as such. */
#ifndef MT_ONEDNN_HALF_H
#define MT_ONEDNN_HALF_H

#include "kernels/cpu/onednn/gemm.h"

/* Whether this CPU is one of those. */
bool half_is_best(void);

int64_t half_scratch_bytes(const struct product_shape *shape);
/* As product_run, for shapes with bf16 operands. */
void half_run(const struct product_shape *shape, const mt_bf16 *a, const mt_bf16 *b, const mt_bf16 *bias, void *c,
              void *scratch);

#endif
