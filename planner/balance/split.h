/* Shares of an extent: even, proportional, given. */
#ifndef MT_PLANNER_BALANCE_SPLIT_H
#define MT_PLANNER_BALANCE_SPLIT_H

#include <stdint.h>

#include "kernels/base/err.h"

/* Divide `extent` over ranks in proportion to `speed`, in whole multiples of `align`.
 *
 * speed[nranks]   work per second, any common unit; zero takes no share
 * sizes[nranks]   out: shares that sum to extent, each a multiple of align but one
 *
 * Largest remainder; at most `align` away from the exact proportion per rank.
 * Fails with MT_EINPUT when every speed is zero, negative or not finite, or extent is negative. */
enum mt_status mt_split_proportional(int64_t extent, int64_t align, const double *speed, int nranks, int64_t *sizes,
                                     struct mt_err *err);

#endif
