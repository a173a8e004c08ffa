/* Proportional shares against every other way to divide small extents. */
#include "planner/balance/split.h"

#include "kernels/base/number/rng.h"
#include "tests/check.h"

enum { MOST_RANKS = 4 };

static double worst(const int64_t *sizes, const double *exact, int n) {
    double w = 0;
    for (int r = 0; r < n; r++) w = fmax(w, fabs((double)sizes[r] - exact[r]));
    return w;
}

/* The least worst error of all vectors whose parts are multiples of `align` but one. */
static double best(int64_t left, int64_t align, const double *exact, int n, int64_t *sizes, int at, int ragged) {
    if (at >= n - 1) {
        sizes[at] = left;
        return ragged + (left % align != 0) > 1 ? INFINITY : worst(sizes, exact, n);
    }
    double least = INFINITY;
    for (int64_t take = 0; take <= left; take++) {
        int now = ragged + (take % align != 0);
        if (now > 1) continue;
        sizes[at] = take;
        least = fmin(least, best(left - take, align, exact, n, sizes, at + 1, now));
    }
    return least;
}

static void test_best(void) {
    struct mt_err err = MT_ERR_INIT;
    uint64_t draw = 0;
    for (int trial = 0; trial < 3000; trial++) {
        int n = 1 + (int)mt_random_below(5, 0, draw++, MOST_RANKS);
        int64_t extent = (int64_t)mt_random_below(5, 0, draw++, 19);
        int64_t align = 1 + (int64_t)mt_random_below(5, 0, draw++, 5);
        double speed[MOST_RANKS], exact[MOST_RANKS], total = 0;
        for (int r = 0; r < n; r++) {
            uint64_t kind = mt_random_below(5, 0, draw++, 4);
            speed[r] = kind == 0 ? 0 : kind == 1 ? 1 : mt_random_uniform(5, 1, draw++);
            total += speed[r];
        }
        if (total == 0) speed[0] = total = 1;
        for (int r = 0; r < n; r++) exact[r] = (double)extent * speed[r] / total;
        int64_t sizes[MOST_RANKS], other[16], sum = 0;
        CHECK_OK(mt_split_proportional(extent, align, speed, n, sizes, &err), err);
        int ragged = 0;
        for (int r = 0; r < n; r++) {
            sum += sizes[r];
            ragged += sizes[r] % align != 0;
            CHECK(sizes[r] >= 0 && (speed[r] > 0 || sizes[r] == 0), "trial %d rank %d", trial, r);
            CHECK(fabs((double)sizes[r] - exact[r]) < (double)align, "trial %d rank %d", trial, r);
        }
        CHECK_EQ(sum, extent);
        CHECK(ragged <= 1, "trial %d", trial);
        double least = best(extent, align, exact, n, other, 0, 0);
        CHECK(worst(sizes, exact, n) <= least + 1e-9, "trial %d: %g, but %g can be had", trial, worst(sizes, exact, n),
              least);
    }
}

static void test_known(void) {
    struct mt_err err = MT_ERR_INIT;
    int64_t s[4];
    CHECK_OK(mt_split_proportional(128, 1, (const double[]){45, 45, 25, 13}, 4, s, &err), err);
    CHECK(s[0] == 45 && s[1] == 45 && s[2] == 25 && s[3] == 13, "an exact proportion");
    CHECK_OK(mt_split_proportional(10, 1, (const double[]){1, 1, 1, 1}, 4, s, &err), err);
    CHECK(s[0] == 3 && s[1] == 3 && s[2] == 2 && s[3] == 2, "ties go to the first");
    CHECK_OK(mt_split_proportional(50257, 8, (const double[]){1, 0.5}, 2, s, &err), err);
    CHECK(s[0] % 8 == 0 || s[1] % 8 == 0, "one may be ragged");
    CHECK_EQ(s[0] + s[1], 50257);
    CHECK_OK(mt_split_proportional((int64_t)1 << 50, 1, (const double[]){1, 1e-300, 2}, 3, s, &err), err);
    CHECK_EQ(s[0] + s[1] + s[2], (int64_t)1 << 50);

    CHECK_EQ(mt_split_proportional(4, 1, (const double[]){0, 0}, 2, s, &err), MT_EINPUT);
    CHECK_EQ(mt_split_proportional(4, 1, (const double[]){1, -1}, 2, s, &err), MT_EINPUT);
    CHECK_EQ(mt_split_proportional(4, 1, (const double[]){1, NAN}, 2, s, &err), MT_EINPUT);
    CHECK_EQ(mt_split_proportional(4, 1, (const double[]){1, INFINITY}, 2, s, &err), MT_EINPUT);
    CHECK_EQ(mt_split_proportional(-4, 1, (const double[]){1, 1}, 2, s, &err), MT_EINPUT);
}

int main(void) {
    test_best();
    test_known();
    return 0;
}
