/* Statistics of a few measurements. */
#ifndef MT_KERNELS_BASE_NUMBER_STATS_H
#define MT_KERNELS_BASE_NUMBER_STATS_H

#include <stddef.h>

/* The q-quantile (0 <= q <= 1) of values[count], linearly interpolated; NaN when count is 0. The values may be in any
 * order and are not changed. */
double mt_quantile(const double *values, size_t count, double q);

static inline double mt_median(const double *values, size_t count) {
    return mt_quantile(values, count, 0.5);
}

/* The median and its distribution-free 95% confidence interval: between two order statistics, chosen by the binomial
 * distribution. Fewer than six values have no such interval: two to five take median +- t s / sqrt(n), with s estimated
 * from their range; one value x takes [x/2, 3x/2]. NaN when count is 0. */
struct mt_interval {
    double median, low, high;
};
struct mt_interval mt_median_interval(const double *values, size_t count);

/* Half the interval's width, relative to the median: at most 1, and 0 where the median is 0. */
double mt_interval_error(struct mt_interval interval);

#endif
