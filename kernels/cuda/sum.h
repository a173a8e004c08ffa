/* Partial sums, for operators whose kernels make them. */
#ifndef MT_KERNELS_CUDA_SUM_H
#define MT_KERNELS_CUDA_SUM_H

#include "kernels/cuda/cuda.h"

/* to[k][n] = (its old content if `accumulate`) + the sum over parts of partial[k][parts][n]; float, on the device.
 * to[k + 1] is `step` elements after to[k], before it if negative. */
enum mt_status cuda_add_partials(const struct cuda_queue *queue, int64_t outputs, int64_t parts, int64_t n,
                                 const void *partial, bool accumulate, void *to, int64_t step, struct mt_err *err);

#endif
