/* Largest remainder (Hamilton's method) over units of `align`, the ragged rest being one more, smaller unit. */
#include "planner/balance/split.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "kernels/base/arena.h"

#define MOST_EXTENT ((int64_t)1 << 50) /* so that long double keeps fractions of a sample */

struct claim {
    int rank;
    long double remainder; /* what the rank is still owed, below `align` */
};

static int by_remainder(const void *a, const void *b) {
    const struct claim *x = a, *y = b;
    if (x->remainder != y->remainder) return x->remainder < y->remainder ? 1 : -1;
    return x->rank - y->rank;
}

enum mt_status mt_split_proportional(int64_t extent, int64_t align, const double *speed, int nranks, int64_t *sizes,
                                     struct mt_err *err) {
    assert(align > 0 && nranks > 0);
    if (extent < 0 || extent > MOST_EXTENT)
        return mt_fail(err, MT_EINPUT, "an extent of %lld cannot be divided: it must be from 0 to %lld",
                       (long long)extent, (long long)MOST_EXTENT);
    long double total = 0;
    for (int r = 0; r < nranks; r++) {
        if (!isfinite(speed[r]) || speed[r] < 0)
            return mt_fail(err, MT_EINPUT, "the speed of rank %d is %g, but must be a number from 0", r, speed[r]);
        total += speed[r];
    }
    if (total <= 0) return mt_fail(err, MT_EINPUT, "every rank's speed is 0: no rank could take a share");

    struct claim *claims = mt_malloc((size_t)nranks * sizeof *claims);
    int64_t left = extent;
    for (int r = 0; r < nranks; r++) {
        long double exact = (long double)extent * (speed[r] / total);
        int64_t units = (int64_t)(exact / (long double)align);
        sizes[r] = units * align;
        left -= sizes[r];
        claims[r] = (struct claim){r, exact - (long double)sizes[r]};
    }
    assert(left >= 0);
    qsort(claims, (size_t)nranks, sizeof *claims, by_remainder);
    for (int i = 0; left > 0; i++) {
        assert(i < nranks);
        int64_t unit = left < align ? left : align;
        sizes[claims[i].rank] += unit;
        left -= unit;
    }
    free(claims);
    return MT_OK;
}
