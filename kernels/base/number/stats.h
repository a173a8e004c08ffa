/* Statistics of a few measurements. */
#ifndef MT_KERNELS_BASE_NUMBER_STATS_H
#define MT_KERNELS_BASE_NUMBER_STATS_H

#include <stddef.h>

/* The q-quantile (0 <= q <= 1) of values[count], linear between neighbours; NaN when there are none. The
 * values may come in any order and stay as they are. */
double mt_quantile(const double *values, size_t count, double q);

static inline double mt_median(const double *values, size_t count) {
    return mt_quantile(values, count, 0.5);
}

/* The median and a 95% interval for it that holds whatever the distribution: between two order statistics, chosen by
 * the binomial distribution. Fewer than six values have no such interval: there the range is widened as Student's t
 * asks; a single value's interval is from half to one and a half of it. NaN when there are none. */
struct mt_interval {
    double median, low, high;
};
struct mt_interval mt_median_interval(const double *values, size_t count);

/* Half the interval's width, relative to the median: at most 1, and 0 where the median is 0. */
double mt_interval_error(struct mt_interval interval);

#endif
