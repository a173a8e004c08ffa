/* Successive halving with a timer that is made up: the best of noisy candidates is found, what does not run is out, the
 * default stays where nothing is clearly better, and bad candidates cost little. */
#include <math.h>

#include "kernels/base/number/rng.h"
#include "kernels/cuda/tune/halving.h"
#include "tests/check.h"

enum { MOST = 32 };

/* A run takes its candidate's time, and up to `noise` more of it; one run in twenty ten times as long. */
struct machine {
    double time_s[MOST]; /* negative: does not run */
    double noise;
    uint64_t seed, runs;
    int runs_of[MOST];
};

static double uniform(struct machine *m) {
    return (double)mt_random_u32(m->seed, 1, m->runs++) * 0x1p-32;
}

static bool run(void *context, int which, double *time_s) {
    struct machine *m = context;
    m->runs_of[which]++;
    if (m->time_s[which] < 0) return false;
    *time_s = m->time_s[which] * (1 + m->noise * uniform(m));
    if (uniform(m) < 0.05) *time_s *= 10;
    return true;
}

static int race(struct machine *m, int count, double budget_s, double *times_s) {
    const struct halving h = {count, 3, budget_s, 0.01, run, m};
    return halve(&h, times_s);
}

static void test_finds_the_best(void) {
    int found = 0, near = 0;
    enum { TRIALS = 200, COUNT = 17 };
    for (int trial = 0; trial < TRIALS; trial++) {
        struct machine m = {.noise = 0.1, .seed = (uint64_t)trial + 1};
        double times_s[MOST];
        int best = 1 + trial % (COUNT - 1);
        for (int i = 0; i < COUNT; i++) m.time_s[i] = 1e-5 * (1.08 + 0.9 * uniform(&m));
        m.time_s[best] = 1e-5;
        int winner = race(&m, COUNT, 1, times_s);
        CHECK(winner >= 0 && winner < COUNT);
        found += winner == best;
        near += m.time_s[winner] < 1.25e-5;
        CHECK(times_s[winner] >= m.time_s[winner] && times_s[winner] < 1.2 * m.time_s[winner]);
    }
    CHECK(found >= TRIALS * 9 / 10, "%d of %d", found, TRIALS);
    CHECK_EQ(near, TRIALS);
}

/* The bad half is not run again. */
static void test_work(void) {
    struct machine m = {.noise = 0.01, .seed = 7};
    double times_s[MOST];
    for (int i = 0; i < 16; i++) m.time_s[i] = 1e-5 * (1 + i);
    CHECK_EQ(race(&m, 16, 1, times_s), 0);
    for (int i = 8; i < 16; i++) CHECK_EQ(m.runs_of[i], 3);
    for (int i = 4; i < 8; i++) CHECK_EQ(m.runs_of[i], 9);
    CHECK(m.runs_of[0] > m.runs_of[4]);
}

static void test_default_stays(void) {
    double times_s[MOST];
    struct machine equal = {.time_s = {1.000e-5, 0.996e-5, 1.003e-5}, .noise = 0, .seed = 3};
    CHECK_EQ(race(&equal, 3, 1, times_s), 0);
    struct machine better = {.time_s = {1.00e-5, 0.95e-5, 1.003e-5}, .noise = 0, .seed = 3};
    CHECK_EQ(race(&better, 3, 1, times_s), 1);
    CHECK_NEAR(times_s[1], 0.95e-5, 1e-12);
    CHECK_NEAR(times_s[0], 1.00e-5, 1e-12);
}

static void test_failures(void) {
    double times_s[MOST];
    struct machine some = {.time_s = {-1, 2e-5, -1, 1e-5}, .seed = 5};
    CHECK_EQ(race(&some, 4, 1, times_s), 3);
    CHECK(isinf(times_s[0]) && isinf(times_s[2]) && times_s[3] < times_s[1]);
    struct machine none = {.time_s = {-1, -1}, .seed = 5};
    CHECK_EQ(race(&none, 2, 1, times_s), -1);
    CHECK_EQ(halve(&(struct halving){0, 3, 1, 0.01, run, &none}, times_s), -1);
    struct machine one = {.time_s = {1e-5}, .seed = 5};
    CHECK_EQ(race(&one, 1, 1, times_s), 0);
}

/* However long runs are, each candidate runs, and not much more when the budget is spent. */
static void test_budget(void) {
    struct machine m = {.seed = 11};
    double times_s[MOST];
    for (int i = 0; i < 8; i++) m.time_s[i] = 8 - i;
    CHECK_EQ(race(&m, 8, 0.5, times_s), 7);
    for (int i = 1; i < 7; i++) CHECK_EQ(m.runs_of[i], 1);
}

int main(void) {
    test_finds_the_best();
    test_work();
    test_default_stays();
    test_failures();
    test_budget();
    return 0;
}
