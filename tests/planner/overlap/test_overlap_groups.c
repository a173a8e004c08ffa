/* The search of groups of waves against all compositions of the waves, each simulated; and its cost. */
#include "kernels/base/number/rng.h"
#include "kernels/base/wait.h"
#include "planner/overlap/predict.h"
#include "tests/check.h"

enum { MOST = 4, TRIALS = 150 };
static const uint64_t seed = 20261124;

struct setting {
    struct mt_overlap problem;
    struct mt_overlap_rates rates[MOST];
    double bandwidth_Bps[MOST * MOST], latency_s[MOST * MOST];
    struct mt_overlap_links links;
    int64_t rows[MOST], shares[MOST];
};

/* Waves of 4 units of 8 by 16, of a few ms each; starts, puts and slowdowns from none to much. */
static void draw(struct setting *s, int trial, int waves) {
    uint64_t n = 0;
#define DRAW(below) ((int64_t)mt_random_below(seed, (uint64_t)trial, n++, (uint64_t)(below)))
    struct mt_overlap *p = &s->problem;
    bool ragged = trial % 3 == 2, slowed = trial % 2;
    *s = (struct setting){.problem = {.form = (enum mt_overlap_form)DRAW(MT_OVERLAP_NFORMS),
                                      .n = trial % 3 ? 2 + (int)DRAW(MOST - 1) : 2,
                                      .type = MT_BF16,
                                      .out = MT_BF16,
                                      .wire = MT_BF16,
                                      .tile = {8, 16},
                                      .chunk = 8}};
    bool gather = p->form == MT_OVERLAP_GATHER;
    int64_t across = 1 + DRAW(4), wave = 8 * (4 / across), shares = 0;
    double tile_s = 1e-4 * (double)DRAW(10), put_s = 1e-4 * (double)DRAW(10), rate_Bps = 1e5 * (double)(1 + DRAW(40));
    double slower = slowed ? 1 + 0.1 * (double)DRAW(5) : 1;
    for (int r = 0; r < p->n; r++) {
        s->rows[r] = wave * waves;
        if (ragged && r) s->rows[r] -= wave * DRAW(waves);
        if (ragged && r) s->rows[r] -= DRAW(wave);
        p->m += s->rows[r];
        shares += s->shares[r] = gather ? 16 * across : 64;
        s->rates[r] = (struct mt_overlap_rates){.workers = 1,
                                                .flops = 1e7,
                                                .tile_s = tile_s,
                                                .memory_Bps = 1e8,
                                                .unit = {8, 16},
                                                .units = 4,
                                                .streams = 1,
                                                .put_s = put_s,
                                                .egress_Bps = INFINITY,
                                                .ingress_Bps = INFINITY,
                                                .compute_slowdown = slower,
                                                .put_slowdown = slower};
    }
    for (int i = 0; i < p->n * p->n; i++) s->bandwidth_Bps[i] = rate_Bps, s->latency_s[i] = 1e-5;
    p->rows = s->rows, p->shares = s->shares;
    p->cols = gather ? shares : 16 * across;
    p->k = gather ? 64 : shares;
    s->links = (struct mt_overlap_links){s->bandwidth_Bps, s->latency_s};
#undef DRAW
}

static double simulate(const struct setting *s, const struct mt_overlap *problem) {
    struct mt_overlap_prediction prediction;
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_overlap_check(problem, &err), err);
    CHECK_OK(mt_overlap_predict_problem(problem, s->rates, &s->links, &prediction, &err), err);
    return prediction.s;
}

/* The least time of all compositions: bit i: a group ends after wave i. */
static double least_of_all(const struct setting *s, int waves, int64_t wave) {
    double least = INFINITY;
    for (unsigned cuts = 0; cuts < 1u << (waves - 1); cuts++) {
        int64_t groups[16] = {0};
        struct mt_overlap p = s->problem;
        p.groups = groups, p.ngroups = 1, p.tile[0] = 0, p.tile[1] = p.cols;
        for (int i = 0; i < waves; i++) {
            groups[p.ngroups - 1] += wave;
            if (groups[p.ngroups - 1] > p.tile[0]) p.tile[0] = groups[p.ngroups - 1];
            if (cuts >> i & 1) p.ngroups++;
        }
        least = fmin(least, simulate(s, &p));
    }
    return least;
}

static void test_all(void) {
    double worst = 1, sum = 0;
    int exact = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct setting s;
        struct mt_arena arena = MT_ARENA_INIT;
        struct mt_overlap_prediction found;
        struct mt_err err = MT_ERR_INIT;
        int waves = 1 + trial % 9;
        draw(&s, trial, waves);
        int64_t wave = mt_overlap_wave_rows(&s.problem, s.rates), most = 0;
        struct mt_overlap best = s.problem;
        CHECK_OK(mt_overlap_best_groups(&best, s.rates, &s.links, &arena, &found, &err), err);
        for (int g = 0; g < best.ngroups; g++) {
            CHECK_EQ(best.groups[g] % wave, 0);
            most += best.groups[g];
        }
        CHECK_EQ(most, wave * waves);
        CHECK_NEAR(simulate(&s, &best), found.s, 0);
        double least = least_of_all(&s, waves, wave), ratio = found.s / least;
        exact += ratio <= 1 + 1e-12;
        sum += ratio;
        worst = fmax(worst, ratio);
        CHECK(ratio <= 1.05, "trial %d: %g, not %g", trial, found.s, least);
        mt_arena_release(&arena);
    }
    printf("%d of %d as good as the best of all; mean %.5f, worst %.4f of it\n", exact, TRIALS, sum / TRIALS, worst);
    CHECK(exact >= TRIALS * 9 / 10 && sum / TRIALS < 1.002, "%d exact, mean %g", exact, sum / TRIALS);
}

/* Where starts cost much and there is little to send, one group; where starts are free, as many as there are waves. */
static void test_extremes(void) {
    for (int form = 0; form < MT_OVERLAP_NFORMS; form++) {
        struct setting s;
        struct mt_arena arena = MT_ARENA_INIT;
        struct mt_overlap_prediction found;
        struct mt_err err = MT_ERR_INIT;
        draw(&s, 0, 8);
        if ((int)s.problem.form != form) s.problem.form = (enum mt_overlap_form)form;
        for (int r = 0; r < 2; r++) s.rows[r] = 256, s.shares[r] = 64;
        s.problem.m = 512;
        s.problem.cols = form == MT_OVERLAP_GATHER ? 128 : 64, s.problem.k = form == MT_OVERLAP_GATHER ? 64 : 128;
        for (int free = 0; free < 2; free++) {
            struct mt_overlap p = s.problem;
            for (int r = 0; r < 2; r++) s.rates[r].tile_s = s.rates[r].put_s = free ? 0 : 1;
            for (int i = 0; i < 4; i++) s.bandwidth_Bps[i] = free ? 1e5 : 1e12;
            CHECK_OK(mt_overlap_best_groups(&p, s.rates, &s.links, &arena, &found, &err), err);
            CHECK(free ? p.ngroups > 4 : p.ngroups == 1, "form %d: %d groups", form, p.ngroups);
        }
        mt_arena_release(&arena);
    }
}

int main(void) {
    test_all();
    test_extremes();
    return 0;
}
