/* Quantiles by sorting a copy. */
#include "kernels/base/stats.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double mt_quantile(const double *values, size_t count, double q) {
    assert(q >= 0 && q <= 1);
    if (!count) return NAN;
    double *sorted = mt_malloc(count * sizeof *sorted);
    memcpy(sorted, values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_value);
    double at = q * (double)(count - 1);
    size_t below = (size_t)at, above = below + 1 < count ? below + 1 : below;
    double part = at - (double)below;
    double result = sorted[below] * (1 - part) + sorted[above] * part;
    free(sorted);
    return result;
}
