/* Which way blocks of unequal sizes go over NCCL: what must hold whatever the figures of the rule are. */
#include "kernels/base/number/rng.h"
#include "kernels/coll/nccl_unequal.h"
#include "tests/check.h"

enum { MOST = 16 };
static const uint64_t seed = 20261122;

static struct mt_coll problem_of(enum mt_coll_kind kind, int n, const int64_t *counts) {
    bool sums = kind == MT_REDUCE_SCATTER;
    return (struct mt_coll){kind, sums ? MT_SUM : MT_REDUCE_NONE, MT_F32, MT_F32, n, 0, 0, counts, false, NULL};
}

static void test_serves(void) {
    int64_t even[] = {5, 5, 5}, uneven[] = {5, 4, 5}, one[] = {0, 9, 0};
    struct mt_coll p = problem_of(MT_ALL_GATHER, 3, even), q = problem_of(MT_REDUCE_SCATTER, 3, uneven);
    CHECK(mt_nccl_impl_serves(MT_NCCL_NATIVE, &p) && !mt_nccl_impl_serves(MT_NCCL_NATIVE, &q));
    CHECK(mt_nccl_impl_serves(MT_NCCL_PAIRS, &p) && !mt_nccl_impl_serves(MT_NCCL_PAIRS, &q));
    CHECK(mt_nccl_impl_serves(MT_NCCL_PADDED, &q) && mt_nccl_impl_serves(MT_NCCL_ROOTED, &q));
    CHECK(!mt_nccl_impl_serves(MT_NCCL_AUTO, &p));
    p.counts = one;
    CHECK(!mt_nccl_impl_serves(MT_NCCL_NATIVE, &p));
}

/* The cheapest of those that serve; ranks differ in `me` only, and if blocks are whole lines the order is no matter. */
static void test_choice(void) {
    for (uint64_t trial = 0; trial < 2000; trial++) {
        int64_t counts[MOST], reversed[MOST];
        int n = 2 + (int)mt_random_below(seed, trial, 0, MOST - 1);
        int64_t most = INT64_C(1) << mt_random_below(seed, trial, 1, 27);
        for (int r = 0; r < n; r++)
            counts[r] = reversed[n - 1 - r] =
                trial % 4 ? 16 * (int64_t)mt_random_below(seed, trial, 2 + (uint64_t)r, (uint64_t)most + 1) : 16 * most;
        struct mt_coll p = problem_of(trial % 2 ? MT_ALL_GATHER : MT_REDUCE_SCATTER, n, counts), q = p;
        enum mt_nccl_impl way = mt_nccl_impl_choose(&p);
        CHECK(mt_nccl_impl_serves(way, &p), "trial %d: %d", (int)trial, (int)way);
        for (enum mt_nccl_impl w = MT_NCCL_NATIVE; w < MT_NCCL_NIMPLS; w++)
            CHECK(!mt_nccl_impl_serves(w, &p) || mt_nccl_impl_cost_s(way, &p) <= mt_nccl_impl_cost_s(w, &p));
        q.me = n - 1;
        q.counts = reversed;
        CHECK_EQ(way, mt_nccl_impl_choose(&q));
    }
}

/* Long messages of more than two ranks: equal blocks go natively; where padding would send four times as much as there
 * is, nothing is padded.
 */
static void test_long(void) {
    for (int n = 2; n <= MOST; n++)
        for (int k = 0; k < 2; k++) {
            int64_t even[MOST], one[MOST];
            enum mt_coll_kind kind = k ? MT_ALL_GATHER : MT_REDUCE_SCATTER;
            for (int r = 0; r < n; r++) even[r] = 16 << 20, one[r] = r ? 1 << 10 : 16 << 20;
            struct mt_coll p = problem_of(kind, n, even), q = problem_of(kind, n, one);
            if (n > 2) CHECK_EQ(mt_nccl_impl_choose(&p), MT_NCCL_NATIVE);
            if (n >= 4) CHECK(mt_nccl_impl_choose(&q) != MT_NCCL_PADDED, "%d ranks", n);
        }
}

int main(void) {
    test_serves();
    test_choice();
    test_long();
    return 0;
}
