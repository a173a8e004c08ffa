/* Quantiles and intervals by sorting a copy. */
#include "kernels/base/number/stats.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double *sort(const double *values, size_t count) {
    double *sorted = mt_malloc(count * sizeof *sorted);
    memcpy(sorted, values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_value);
    return sorted;
}

double mt_quantile(const double *values, size_t count, double q) {
    assert(q >= 0 && q <= 1);
    if (!count) return NAN;
    double *sorted = sort(values, count), at = q * (double)(count - 1);
    size_t below = (size_t)at, above = below + 1 < count ? below + 1 : below;
    double part = at - (double)below;
    double result = sorted[below] * (1 - part) + sorted[above] * part;
    free(sorted);
    return result;
}

/* The number of order statistics to leave out on each side: the largest d with P(X < d) <= 2.5% for X binomial with
 * `count` trials of probability 1/2. */
static size_t left_out(size_t count) {
    double each = pow(0.5, (double)count), sum = 0;
    if (count > 1000) { /* the normal approximation; 0.5^count would underflow */
        double d = 0.5 * ((double)count - 1.959964 * sqrt((double)count));
        return (size_t)d;
    }
    size_t d = 0;
    for (; d < count; d++) {
        sum += each;
        if (sum > 0.025) break;
        each *= (double)(count - d) / (double)(d + 1);
    }
    return d;
}

struct mt_interval mt_median_interval(const double *values, size_t count) {
    /* t(97.5%, n - 1) / (sqrt(n) d), where range / d estimates the standard deviation: d = sqrt(2) for two values, else
     * the expected range of n standard normal values (1.69, 2.06, 2.33) */
    static const double widening[] = {0, 0, 6.35, 1.47, 0.77, 0.53};
    if (!count) return (struct mt_interval){NAN, NAN, NAN};
    double *sorted = sort(values, count);
    struct mt_interval interval = {mt_median(sorted, count), 0, 0};
    if (count < sizeof widening / sizeof *widening) {
        double half = count == 1 ? 0.5 * fabs(sorted[0]) : widening[count] * (sorted[count - 1] - sorted[0]);
        interval.low = interval.median - half, interval.high = interval.median + half;
    } else {
        size_t d = left_out(count); /* sorted[d - 1] to sorted[count - d] */
        interval.low = sorted[d - 1], interval.high = sorted[count - d];
    }
    free(sorted);
    return interval;
}

double mt_interval_error(struct mt_interval interval) {
    double half = 0.5 * (interval.high - interval.low);
    if (!(half > 0) || !(interval.median > 0)) return 0;
    return half < interval.median ? half / interval.median : 1;
}
