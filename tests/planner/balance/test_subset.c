/* The bound over subsets: against closed formulas, and against all subsets and shares of small random problems. */
#include "planner/balance/subset.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "kernels/base/number/rng.h"
#include "tests/check.h"

enum { EXTENT = 64, MOST = 5, CHAINS = 3 };

/* A unit takes one second; chain 1 is an exchange of `bytes` while nothing needs to be computed. */
static struct mt_subset_curves linear(int64_t *at, double *least_s) {
    for (int i = 0; i <= EXTENT; i++) at[i] = i, least_s[i] = i, least_s[EXTENT + 1 + i] = 0;
    return (struct mt_subset_curves){EXTENT + 1, at, least_s};
}

static double bound_of(int nhosts, const struct mt_subset_hosts *hosts, double bytes, double all_bytes) {
    int64_t at[EXTENT + 1];
    double least_s[2 * (EXTENT + 1)];
    const struct mt_subset_curves curves = linear(at, least_s);
    const struct mt_subset_chain chains[2] = {{0}, {.sum_bytes = bytes, .result_bytes = bytes, .all_bytes = all_bytes}};
    const struct mt_subset s = {EXTENT, true, 0, 2, 1, nhosts, chains, &curves, hosts};
    return mt_subset_bound(&s);
}

static void test_formulas(void) {
    const struct mt_subset_ranks rank = {0, 1, 1e9, 1e9, 0, 1}, slow = {0, 1, 1e9, 1e6, 0, 1},
                                 four = {0, 1, 1e9, 1e9, 0, 4};
    struct mt_subset_hosts eight = {8, 1e9, 1e9, INFINITY, 0, 1, &rank};
    /* Computing: 64 units on 8 ranks. An exchange that takes longer: 2 (8 - 1) / 8 bytes over each host's rate. Longer
     * yet: fewer hosts, 64 / 3 s of computing and 2 (3 - 1) / 3 bytes over a rate. */
    CHECK_NEAR(bound_of(1, &eight, 1e9, 0), 8, 0.01);
    CHECK_NEAR(bound_of(1, &eight, 5e9, 0), 8.75, 0.01);
    CHECK_NEAR(bound_of(1, &eight, 0, 5e9), 8.75, 0.01);
    CHECK_NEAR(bound_of(1, &eight, 16e9, 0), 22, 0.01); /* some rank has 22 units */
    /* Two ranks would need 32 s for computing, and as much for each GB: one alone takes 64. */
    struct mt_subset_hosts two = {2, 1e9, 1e9, INFINITY, 0, 1, &rank};
    CHECK_NEAR(bound_of(1, &two, 40e9, 0), 40, 0.01);
    CHECK_NEAR(bound_of(1, &two, 400e9, 0), 64, 0.02);
    /* A slow host is left out: with it the exchange takes 1000 s, without it 4 of 5 ranks compute. */
    struct mt_subset_hosts mixed[2] = {{4, 1e9, 1e9, INFINITY, 0, 1, &rank}, {1, 1e9, 1e6, INFINITY, 0, 1, &slow}};
    CHECK_NEAR(bound_of(2, mixed, 1e9, 0), 16, 0.01);
    CHECK_NEAR(bound_of(2, mixed, 1e6, 0), 13, 0.01); /* 64 units on 5: some rank has 13 */
    /* Ranks of one host: their own rates, and what all share. */
    struct mt_subset_hosts node = {1, 0, 0, INFINITY, 0, 1, &four};
    CHECK_NEAR(bound_of(1, &node, 12e9, 0), 18, 0.02);
    node.inside_Bps = 1e9;
    CHECK_NEAR(bound_of(1, &node, 8e9, 0), 32, 0.02); /* two ranks: 2 x 8 GB; three: 32 s */
}

/* ---- brute force ---- */

struct random {
    struct mt_subset_ranks ranks[MOST];
    struct mt_subset_hosts hosts[MOST];
    int64_t at[9];
    double least_s[MOST][CHAINS * 9];
    struct mt_subset_curves curves[MOST];
    struct mt_subset_chain chains[CHAINS];
    struct mt_subset subset;
};

static void make_random(struct random *r, uint64_t seed) {
    uint32_t draw = 0;
#define DRAW(n) (int)(mt_random_u32(seed, 3, draw++) % (uint32_t)(n))
    int n = 2 + DRAW(MOST - 1), extent = 1 + DRAW(8);
    for (int i = 0; i < 9; i++) r->at[i] = i;
    for (int k = 0; k < CHAINS; k++)
        r->chains[k] = k ? (struct mt_subset_chain){1 + DRAW(9), 1 + DRAW(9), DRAW(3), DRAW(3), DRAW(3), DRAW(3)}
                         : (struct mt_subset_chain){0};
    for (int h = 0; h < n; h++) {
        for (int i = 1; i <= extent; i++) r->least_s[h][i] = r->least_s[h][i - 1] + DRAW(5);
        for (int k = 1; k < CHAINS; k++) /* no longer than chain 0 */
            for (int i = 1; i <= extent; i++)
                r->least_s[h][k * (extent + 1) + i] = r->least_s[h][i] * (1 + DRAW(2)) / (2 + k);
        for (int k = 1; k < CHAINS; k++)
            for (int i = extent - 1; i >= 0; i--) {
                double *s = &r->least_s[h][k * (extent + 1) + i];
                s[0] = fmin(s[0], s[1]);
            }
        r->curves[h] = (struct mt_subset_curves){extent + 1, r->at, r->least_s[h]};
        r->ranks[h] = (struct mt_subset_ranks){h, 1 + DRAW(3), 1 + DRAW(9), 1 + DRAW(9), 0.1 * DRAW(3), 1};
        r->hosts[h] =
            (struct mt_subset_hosts){1, r->ranks[h].out_Bps, r->ranks[h].in_Bps, INFINITY, 0, 1, &r->ranks[h]};
    }
    r->subset = (struct mt_subset){extent, DRAW(2), 0.1 * DRAW(3), CHAINS, n, n, r->chains, r->curves, r->hosts};
#undef DRAW
}

/* The step of given shares when the hosts of a set exchange, among them all that have shares: each chain, owners' parts
 * in steps of a thousandth. */
static double step_of_set(const struct random *r, const int64_t *x, unsigned set) {
    double step_s = 0, out = 0, in = 0;
    int members = __builtin_popcount(set);
    for (int h = 0; h < r->subset.nhosts; h++)
        if (set >> h & 1) out += r->hosts[h].out_Bps, in += r->hosts[h].in_Bps;
    for (int k = 0; k < CHAINS; k++) {
        const struct mt_subset_chain *c = &r->chains[k];
        double exchange_s = 0;
        for (int h = 0; h < r->subset.nhosts && members > 1; h++) {
            if (!(set >> h & 1)) continue;
            double o = r->hosts[h].out_Bps, i = r->hosts[h].in_Bps, least = c->sum_bytes / fmin(o, i);
            for (int s = 0; s <= 1000; s++) {
                double own = s / 1000.0;
                least = fmin(least, fmax((1 - own) * c->sum_bytes / o, own * c->sum_bytes / i) +
                                        fmax(own * c->result_bytes / o, (1 - own) * c->result_bytes / i));
            }
            exchange_s = fmax(exchange_s, least + c->all_bytes / fmin(o, i) +
                                              (c->other_sum_bytes + c->other_result_bytes) / (o + i));
        }
        double moved = fmin(2 * c->sum_bytes, c->sum_bytes + c->result_bytes) + 2 * c->all_bytes + c->other_sum_bytes +
                       c->other_result_bytes;
        if (members > 1) exchange_s = fmax(exchange_s, (members - 1) * moved / fmin(out, in));
        for (int h = 0; h < r->subset.nhosts; h++)
            if (x[h])
                step_s = fmax(step_s, r->curves[h].least_s[k * r->curves[h].npoints + x[h]] / r->ranks[h].speed +
                                          exchange_s +
                                          (members > 1 ? c->rounds * (r->subset.latency_s + r->ranks[h].each_s) : 0));
    }
    return step_s;
}

static double step_of(const struct random *r, const int64_t *x) {
    double least_s = INFINITY;
    unsigned with = 0;
    for (int h = 0; h < r->subset.nhosts; h++) with |= (unsigned)(x[h] > 0) << h;
    for (unsigned set = 1; set < 1u << r->subset.nhosts; set++)
        if ((set & with) == with && (r->subset.alone || (set & (set - 1))))
            least_s = fmin(least_s, step_of_set(r, x, set));
    return least_s;
}

static double least_of(const struct random *r, int64_t *x, int host, int64_t left) {
    double least = INFINITY;
    if (host == r->subset.nhosts - 1) return x[host] = left, step_of(r, x);
    for (x[host] = 0; x[host] <= left; x[host]++) {
        double s = least_of(r, x, host + 1, left - x[host]);
        least = fmin(least, s);
    }
    return least;
}

/* One host a rank: then the bound is what the formulas say, to the steps of the owners' parts. */
static void test_brute_force(void) {
    enum { CASES = 300 };
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct random r;
        int64_t x[MOST] = {0};
        make_random(&r, seed);
        double bound_s = mt_subset_bound(&r.subset), least_s = least_of(&r, x, 0, r.subset.extent);
        /* Chain 0 of one rank alone is all that it takes; others have exchanges. */
        CHECK(bound_s <= least_s * (1 + 1e-9), "seed %d: %g above %g", (int)seed, bound_s, least_s);
        CHECK(bound_s >= least_s * 0.9, "seed %d: %g far below %g", (int)seed, bound_s, least_s);
    }
}

int main(void) {
    test_formulas();
    test_brute_force();
    return 0;
}
