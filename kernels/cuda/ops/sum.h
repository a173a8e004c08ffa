/* The second stage of sums, for operators whose kernels write partial sums. */
#ifndef MT_KERNELS_CUDA_OPS_SUM_H
#define MT_KERNELS_CUDA_OPS_SUM_H

#include "kernels/cuda/driver/driver.h"

enum { CUDA_MOST_SUMS = 3 };

/* to[k][n] = (its old content if `accumulate`) + the sum over parts of partial[k][parts][n], for k = 0...outputs - 1,
 * at most CUDA_MOST_SUMS; float, on the device. */
enum mt_status cuda_add_partials(const struct cuda_queue *queue, int outputs, int64_t parts, int64_t n,
                                 const void *partial, bool accumulate, void *const *to, struct mt_err *err);

#endif
