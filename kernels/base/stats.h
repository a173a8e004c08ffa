/* Statistics of a few measurements. */
#ifndef MT_KERNELS_BASE_STATS_H
#define MT_KERNELS_BASE_STATS_H

#include <stddef.h>

/* The q-quantile (0 <= q <= 1) of values[count], linear between neighbours; NaN when there are none. The
 * values may come in any order and stay as they are. */
double mt_quantile(const double *values, size_t count, double q);

static inline double mt_median(const double *values, size_t count) {
    return mt_quantile(values, count, 0.5);
}

#endif
