/* Better shares: said when they gain enough in every window, not said for noise, not repeated; and the series that
 * windows are made of. */
#include "planner/balance/drift.h"

#include <math.h>

#include "kernels/base/number/hash.h"
#include "launcher/train/series.h"
#include "tests/check.h"

enum { N = 3, SEED = 20260 };
static const int64_t shares[N] = {20, 20, 8};

/* Windows a second apart from `from_s` on, with a relative noise; how often better shares were said. */
static int windows(struct mt_drift *d, double *clock_s, int count, const double *sample_s, double rest_s,
                   double noise) {
    int said = 0;
    static uint64_t draw;
    for (int w = 0; w < count; w++) {
        double compute_s[N], longest = 0;
        for (int r = 0; r < N; r++) {
            double u = (double)(mt_hash64(&draw, sizeof draw, SEED) >> 11) / (double)(1ull << 53);
            draw++;
            compute_s[r] = (double)shares[r] * sample_s[r] * (1 + noise * (2 * u - 1));
            longest = fmax(longest, compute_s[r]);
        }
        said += mt_drift_window(d, *clock_s, compute_s, longest + rest_s);
        *clock_s += 1;
    }
    return said;
}

static void test_gain(void) {
    struct mt_drift d;
    double clock_s = 1000;
    mt_drift_init(&d, N, shares, 1);
    /* Rank 1 is half as fast as thought: 20 samples of 20 ms against 10 ms; 8 samples of 25 ms. */
    const double slow[N] = {0.010, 0.020, 0.025};
    CHECK_EQ(windows(&d, &clock_s, MT_DRIFT_WARMUP_S, slow, 0.05, 0.02), 0); /* not before the warm-up has ended */
    CHECK_EQ(windows(&d, &clock_s, 5, slow, 0.05, 0.02), 1);
    /* In proportion to 100, 50, 40 samples a second: 25.3 12.6 10.1 of 48; the longest rank goes from 0.4 to 0.26 s. */
    CHECK(d.better[0] == 25 && d.better[1] == 13 && d.better[2] == 10, "%d %d %d", (int)d.better[0], (int)d.better[1],
          (int)d.better[2]);
    CHECK_NEAR(d.from_s, 0.45, 0.02);
    CHECK_NEAR(d.to_s, 0.31, 0.03);
    CHECK_NEAR(d.gain, d.from_s / d.to_s - 1, 1e-12);
    CHECK_EQ(windows(&d, &clock_s, 3 * MT_DRIFT_PAUSE_S, slow, 0.05, 0.001), 0); /* said already */
    const double other[N] = {0.030, 0.010, 0.025};
    CHECK_EQ(windows(&d, &clock_s, 20, other, 0.05, 0.02), 1); /* something new, and the pause is over */
    CHECK(d.better[0] < d.better[1], "%d %d", (int)d.better[0], (int)d.better[1]);
    CHECK_EQ(windows(&d, &clock_s, 20, slow, 0.05, 0.02), 0); /* new again, but too soon */
    mt_drift_release(&d);
}

static void test_quiet(void) {
    struct mt_drift d;
    double clock_s = 0;
    const double even[N] = {0.010, 0.010, 0.025}, nearly[N] = {0.010, 0.0105, 0.025}, none[N] = {0, 0, 0};
    mt_drift_init(&d, N, shares, 1);
    CHECK_EQ(windows(&d, &clock_s, 400, even, 0.05, 0.02), 0);
    CHECK_EQ(windows(&d, &clock_s, 400, nearly, 0.05, 0.02), 0); /* a gain below 5% */
    CHECK_EQ(windows(&d, &clock_s, 400, even, 0.05, 0.3), 0);    /* large, but noise */
    CHECK_EQ(windows(&d, &clock_s, 20, none, 0.05, 0), 0);       /* nothing was measured */
    mt_drift_release(&d);
    /* Who has no samples stays without; shares that are all computing says nothing of communication. */
    static const int64_t some[N] = {40, 0, 8};
    const double compute_s[N] = {0.4, 0.1, 0.2};
    mt_drift_init(&d, N, some, 1);
    int said = 0;
    for (int w = 0; w < 30; w++) said += mt_drift_window(&d, w, compute_s, 0.5);
    CHECK_EQ(said, 1);
    CHECK(d.better[1] == 0 && d.better[0] + d.better[2] == 48 && d.better[0] == 34, "%d", (int)d.better[0]);
    mt_drift_release(&d);
}

/* However many: the median of a sequence that rises evenly is its middle, within the spacing of what is kept. */
static void test_series(void) {
    for (int count = 1; count < 300000; count = count * 7 / 2 + 1) {
        struct mt_series s = {0};
        for (int i = 0; i < count; i++) mt_series_add(&s, i);
        CHECK_EQ(s.seen, count);
        CHECK(s.count <= MT_SERIES_MOST && (s.count == count || s.count >= MT_SERIES_MOST / 2), "%d", s.count);
        CHECK_NEAR(mt_series_median(&s), (count - 1) / 2.0, count <= MT_SERIES_MOST ? 0 : count / 256.0);
    }
    struct mt_series none = {0};
    CHECK_EQ(mt_series_median(&none), 0);
}

int main(void) {
    printf("seed %d\n", SEED);
    test_gain();
    test_quiet();
    test_series();
    return 0;
}
