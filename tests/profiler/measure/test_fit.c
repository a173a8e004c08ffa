/* Fits against the figures that made the data, with noise of a fixed seed, and intervals by how often they hold. */
#include "profiler/measure/fit.h"

#include "kernels/base/number/rng.h"
#include "kernels/base/number/stats.h"
#include "tests/check.h"

enum { SEED = 20 };
static uint64_t drawn;

static double uniform(void) {
    return (mt_random_u32(SEED, 1, drawn++) + 0.5) * 0x1p-32;
}

static double normal(void) {
    return sqrt(-2 * log(uniform())) * cos(2 * acos(-1) * uniform());
}

/* Times that scatter upwards, as measured ones do. */
static double skewed(void) {
    return 1 + 0.3 * exp(normal());
}

static void test_line(void) {
    enum { N = 60 };
    static const double latencies[] = {2e-6, 40e-6, 1e-3}, bandwidths[] = {1.2e8, 3e9, 2e10};
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++) {
            struct mt_fit_point points[N];
            for (int i = 0; i < N; i++) {
                double bytes = pow(10, 1 + 6.5 * i / N), messages = 1 + i % 3;
                double time_s = messages * latencies[a] + bytes / bandwidths[b];
                points[i] = (struct mt_fit_point){.messages = messages, .bytes = bytes, .time_s = time_s};
            }
            double latency_s, bandwidth_Bps, residual;
            mt_fit_line(points, N, &latency_s, &bandwidth_Bps, &residual);
            CHECK_NEAR(latency_s / latencies[a], 1, 1e-6);
            CHECK_NEAR(bandwidth_Bps / bandwidths[b], 1, 1e-6);
            CHECK_NEAR(residual, 0, 1e-6);
            for (int i = 0; i < N; i++) points[i].time_s *= 1 + 0.03 * normal();
            mt_fit_line(points, N, &latency_s, &bandwidth_Bps, &residual);
            CHECK_NEAR(latency_s / latencies[a], 1, 0.05);
            CHECK_NEAR(bandwidth_Bps / bandwidths[b], 1, 0.05);
            CHECK(residual > 0.02 && residual < 0.2, "%g", residual);
        }
}

/* Neither figure may come out negative, whatever the data say. */
static void test_edges(void) {
    double latency_s, bandwidth_Bps;
    const struct mt_fit_point falling[] = {{1, 1e3, 2e-3, 0, 0}, {1, 1e6, 1e-3, 0, 0}, {1, 1e7, 1e-3, 0, 0}};
    mt_fit_line(falling, 3, &latency_s, &bandwidth_Bps, NULL);
    CHECK(latency_s > 0.9e-3 && latency_s < 1.5e-3 && bandwidth_Bps >= 1e15, "%g %g", latency_s, bandwidth_Bps);
    /* more than in proportion to the bytes: a latency below zero would fit best */
    const struct mt_fit_point steep[] = {{1, 1e3, 1e-8, 0, 0}, {1, 1e6, 1e-3, 0, 0}, {1, 1e7, 1e-2, 0, 0}};
    mt_fit_line(steep, 3, &latency_s, &bandwidth_Bps, NULL);
    CHECK(latency_s >= 0 && bandwidth_Bps > 0 && isfinite(bandwidth_Bps), "%g %g", latency_s, bandwidth_Bps);
    const struct mt_fit_point one[] = {{1, 1e6, 1e-3, 0, 0}};
    mt_fit_line(one, 1, &latency_s, &bandwidth_Bps, NULL);
    CHECK_NEAR(latency_s + 1e6 / bandwidth_Bps, 1e-3, 1e-9);
}

/* Collectives timed by their own cost, times a factor that depends on the size: the fit with its ratios gives every
 * time back. */
static void test_collectives(void) {
    static const int64_t even[] = {4, 4, 4, 4}, uneven[] = {2, 6, 2, 6};
    static const double factors[] = {1.3, 1, 0.9};
    struct mt_arena arena = MT_ARENA_INIT;
    for (int a = 0; a < mt_coll_nalgorithms; a++) {
        const struct mt_coll_algorithm *algorithm = mt_coll_algorithms[a];
        struct mt_fit_point points[6];
        struct mt_coll_fit fit = {.kind = algorithm->kind};
        int64_t counts[6][16];
        struct mt_coll problems[6];
        int n = 0;
        for (int size = 0; size < 3; size++)
            for (int skew = 0; skew < 2; skew++, n++) {
                int64_t scale = INT64_C(64) << (7 * size);
                int cells = algorithm->kind == MT_ALL_TO_ALL ? 16 : 4;
                for (int i = 0; i < cells; i++) {
                    const int64_t *weights = skew ? uneven : even;
                    counts[n][i] = scale * weights[i % 4] * (cells == 16 ? weights[i / 4] : 1);
                }
                problems[n] =
                    (struct mt_coll){algorithm->kind, MT_REDUCE_NONE, MT_F32, MT_F32, 4, 0, 0, counts[n], false, NULL};
                double time_s = factors[size] * algorithm->cost_s(&problems[n], 30e-6, 2e9);
                points[n] = mt_fit_point(algorithm, &problems[n], time_s, 0.01);
                CHECK_EQ(points[n].size_bytes, 4 * 16 * scale * (cells == 16 ? 16 : 1));
            }
        mt_fit_coll(points, n, &arena, &fit);
        CHECK_EQ(fit.npoints, 3);
        double skew = points[1].bytes / points[0].bytes;
        CHECK_NEAR(fit.skew, skew > 1.1 ? skew : 0, 1e-9);
        CHECK(fit.error > 0.0099 && fit.error < 0.15, "%s %s: %g", mt_coll_name(algorithm->kind), algorithm->name,
              fit.error);
        for (int i = 0; i < n; i++) {
            int size = 0;
            while (fit.size_bytes[size] != points[i].size_bytes) size++;
            double ratio = i % 2 && fit.skew > 0 ? fit.skewed_ratio[size] : fit.ratio[size];
            double again_s = ratio * algorithm->cost_s(&problems[i], fit.latency_s, fit.bandwidth_Bps);
            CHECK_NEAR(again_s / points[i].time_s, 1, 1.3 * fit.error);
        }
    }
    mt_arena_release(&arena);
}

/* Even blocks take 1.5 times what uneven ones do for their bytes: each has its ratio; a size that has only even ones
 * takes the nearest size's. */
static void test_skew(void) {
    struct mt_arena arena = MT_ARENA_INIT;
    const struct mt_fit_point points[] = {{1, 1e4, 1.5e-3, 0.01, 10000},
                                          {1, 1.8e4, 1.8e-3, 0.01, 10000},
                                          {1, 1e6, 1.5e-1, 0.01, 1000000},
                                          {1, 1.8e6, 1.8e-1, 0.01, 1000000},
                                          {1, 4e6, 6e-1, 0.01, 4000000}};
    struct mt_coll_fit fit = {.kind = MT_ALL_GATHER};
    mt_fit_coll(points, 5, &arena, &fit);
    CHECK_NEAR(fit.skew, 1.8, 1e-9);
    CHECK_EQ(fit.npoints, 3);
    for (int i = 0; i < 5; i++) {
        double ratio = i % 2 ? fit.skewed_ratio[i / 2] : fit.ratio[i / 2];
        CHECK_NEAR(ratio * (fit.latency_s + points[i].bytes / fit.bandwidth_Bps) / points[i].time_s, 1, 1e-9);
    }
    CHECK_NEAR(fit.skewed_ratio[2] / fit.ratio[2], fit.skewed_ratio[1] / fit.ratio[1], 1e-9);
    CHECK_NEAR(fit.error, 0.01, 1e-6); /* nothing but what was measured */
    mt_arena_release(&arena);
}

/* Times that fall with the size: a larger message than any is still not free. */
static void test_hidden_bandwidth(void) {
    struct mt_arena arena = MT_ARENA_INIT;
    const struct mt_fit_point points[] = {
        {2, 4e3, 5e-3, 0, 4000}, {2, 2e5, 4e-3, 0, 200000}, {2, 4e6, 3e-3, 0, 4000000}};
    struct mt_coll_fit fit = {.kind = MT_ALL_REDUCE};
    mt_fit_coll(points, 3, &arena, &fit);
    for (int i = 0; i < 3; i++) {
        double again_s = fit.ratio[i] * (points[i].messages * fit.latency_s + points[i].bytes / fit.bandwidth_Bps);
        CHECK_NEAR(again_s / points[i].time_s, 1, 1e-9);
    }
    CHECK_NEAR(fit.ratio[2] * (2 * fit.latency_s + 4e7 / fit.bandwidth_Bps), 3e-2, 1e-6);
    mt_arena_release(&arena);
}

/* How often the interval has the true median, which for exp(normal) is exp(0). */
static void test_coverage(void) {
    static const int counts[] = {2, 3, 5, 6, 10, 25, 100};
    enum { TRIALS = 4000 };
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        int held = 0;
        for (int t = 0; t < TRIALS; t++) {
            double values[100];
            for (int i = 0; i < counts[c]; i++) values[i] = skewed();
            struct mt_interval interval = mt_median_interval(values, (size_t)counts[c]);
            CHECK(interval.low <= interval.median && interval.median <= interval.high, "order");
            held += interval.low <= 1.3 && 1.3 <= interval.high;
        }
        double part = (double)held / TRIALS;
        CHECK(part > (counts[c] < 6 ? 0.88 : 0.94), "%d values: held %.3f of the time", counts[c], part);
        CHECK(counts[c] < 25 || part < 0.99, "%d values: %.3f is wider than asked", counts[c], part);
    }
}

static void test_intervals(void) {
    double values[2000];
    for (int i = 0; i < 2000; i++) values[i] = i + 1;
    /* From tables: of 10 the 2nd to 9th, of 100 the 40th to 61st; 2000 by the normal limit, about 44 each side. */
    struct mt_interval ten = mt_median_interval(values, 10), hundred = mt_median_interval(values, 100);
    CHECK(ten.low == 2 && ten.high == 9 && ten.median == 5.5, "%g %g", ten.low, ten.high);
    CHECK(hundred.low == 40 && hundred.high == 61, "%g %g", hundred.low, hundred.high);
    struct mt_interval many = mt_median_interval(values, 2000);
    CHECK_NEAR(many.low, 1000.5 - 44, 1.5);
    CHECK_NEAR(many.high, 1000.5 + 44, 1.5);
    CHECK_NEAR(mt_interval_error(ten), 3.5 / 5.5, 1e-12);
    CHECK_NEAR(mt_interval_error(mt_median_interval(values + 3, 1)), 0.5, 1e-12);
    CHECK(isnan(mt_median_interval(values, 0).median), "of nothing");
}

int main(void) {
    printf("seed %d\n", SEED);
    test_line();
    test_edges();
    test_collectives();
    test_skew();
    test_hidden_bandwidth();
    test_intervals();
    test_coverage();
    return 0;
}
