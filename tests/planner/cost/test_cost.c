/* Costs of collectives against closed forms and hand-made figures: schedules simulated over equal paths take what the
 * algorithm's own formula says, shared links are divided, fits are reproduced, and what was never measured is scaled by
 * what was. */
#include "planner/cost/cost.h"

#include "kernels/base/number/rng.h"
#include "tests/planner/small_cluster.h"

enum { SEED = 20261121, MOST = 17 };

static uint64_t draws;
static int64_t below(int64_t bound) {
    return (int64_t)mt_random_below(SEED, 1, draws++, (uint64_t)bound);
}

enum skew { EVEN, RAGGED, ZEROS, NSKEWS };

static struct mt_coll problem_of(enum mt_coll_kind kind, int n, int64_t block, enum skew skew, int64_t *counts) {
    bool matrix = kind == MT_ALL_TO_ALL, sums = kind == MT_ALL_REDUCE || kind == MT_REDUCE_SCATTER;
    for (int i = 0; i < (matrix ? n * n : n); i++) {
        counts[i] = skew == EVEN ? block : 1 + below(2 * block);
        if (skew == ZEROS && below(3) == 0) counts[i] = 0;
        if (matrix && i / n == i % n) counts[i] = 0;
    }
    return (struct mt_coll){.kind = kind,
                            .reduce = sums ? MT_SUM : MT_REDUCE_NONE,
                            .wire = MT_F32,
                            .acc = MT_F32,
                            .n = n,
                            .counts = counts};
}

/* Equal paths: the schedule takes what the algorithm's own formula says. */
static void test_closed_forms(void) {
    int group[MOST];
    for (int i = 0; i < MOST; i++) group[i] = i;
    int64_t counts[MOST * MOST];
    int seen = 0;
    double least = 1;
    for (int n = 2; n <= MOST; n++) {
        struct small_cluster *s = small_cluster(n, 1);
        for (int a = 0; a < mt_coll_nalgorithms; a++)
            for (int skew = EVEN; skew < NSKEWS; skew++)
                for (int64_t block = 3; block < 1000000; block *= 400) {
                    const struct mt_coll_algorithm *algorithm = mt_coll_algorithms[a];
                    struct mt_coll problem = problem_of(algorithm->kind, n, block, (enum skew)skew, counts);
                    if (!algorithm->applies(&problem)) continue;
                    double want_s = algorithm->cost_s(&problem, 50e-6, 1e8);
                    double got_s = mt_cost_schedule_s(&s->costs, &problem, group, algorithm);
                    CHECK(got_s <= want_s * (1 + 1e-9) && (skew != EVEN || got_s >= want_s * (1 - 1e-9)),
                          "%s %s of %d: %g, %g", mt_coll_name(algorithm->kind), algorithm->name, n, got_s, want_s);
                    if (want_s > 0 && got_s / want_s < least) least = got_s / want_s;
                    seen++;
                }
        free(s);
    }
    printf("%d schedules, the least is %.2f of its formula\n", seen, least);
    CHECK(seen > 1000);
}

/* Two nodes of two; everybody sends a block to the other three. By hand: one message inside, two over the network. */
static void test_sharing(void) {
    struct small_cluster *s = small_cluster(2, 2);
    const struct mt_coll_algorithm *direct = mt_coll_find(MT_ALL_GATHER, "direct");
    const int group[] = {0, 1, 2, 3};
    int64_t counts[] = {1000, 1000, 1000, 1000};
    struct mt_coll problem = {MT_ALL_GATHER, MT_REDUCE_NONE, MT_F32, MT_F32, 4, 0, 0, counts, false, NULL};
    double latency_s = 1e-6 + 2 * 50e-6, alone_s = 4000 / 1e10 + 2 * 4000 / 1e8;
    CHECK_NEAR(mt_cost_schedule_s(&s->costs, &problem, group, direct), latency_s + alone_s, 1e-12);
    s->links[NETWORK].shared_Bps = 1e8; /* four messages leave each node */
    CHECK_NEAR(mt_cost_schedule_s(&s->costs, &problem, group, direct), latency_s + 4 * 4000 / 1e8, 1e-12);
    s->links[NETWORK].shared_Bps = 0, s->links[MEMORY].shared_Bps = 1e7; /* two messages in each node */
    CHECK_NEAR(mt_cost_schedule_s(&s->costs, &problem, group, direct), latency_s + 2 * 4000 / 1e7, 1e-12);
    s->links[MEMORY].shared_Bps = 0;
    struct mt_cluster_pair pair = {.a = 0, .b = 3, .link = NETWORK, .latency_s = 80e-6, .bandwidth_Bps = 1e6};
    s->cluster.pairs = &pair, s->cluster.npairs = 1; /* one slow pair holds up its round */
    CHECK_NEAR(mt_cost_schedule_s(&s->costs, &problem, group, direct),
               1e-6 + 50e-6 + 80e-6 + 4000 / 1e10 + 4000 / 1e8 + 4000 / 1e6, 1e-12);
    /* A ring crosses the network once a node: neighbours matter. */
    s->cluster.npairs = 0, s->links[NETWORK].shared_Bps = 1e8;
    const struct mt_coll_algorithm *ring = mt_coll_find(MT_ALL_GATHER, "ring");
    const int zigzag[] = {0, 2, 1, 3};
    double straight_s = mt_cost_schedule_s(&s->costs, &problem, group, ring);
    CHECK_NEAR(straight_s, 3 * (50e-6 + 4000 / 1e8), 1e-12);
    CHECK_NEAR(mt_cost_schedule_s(&s->costs, &problem, zigzag, ring), 3 * (50e-6 + 2 * 4000 / 1e8), 1e-12);
    CHECK_EQ(mt_cost_link(&s->costs, group, 4), NETWORK);
    CHECK_EQ(mt_cost_link(&s->costs, group, 2), MEMORY);
    CHECK_EQ(mt_cost_link(&s->costs, group, 1), -1);
    free(s);
}

/* A fit is reproduced at its points, interpolated between, constant beyond; the band widens. */
static void test_fits(void) {
    struct small_cluster *s = small_cluster(2, 2);
    int all[] = {0, 1, 2, 3};
    int64_t sizes[] = {4000, 4000000}, counts[4];
    double ratio[] = {1.2, 0.9};
    struct mt_coll_fit fits[] = {
        {MT_ALL_REDUCE, "ring", MT_F32, MT_F32, 60e-6, 9e7, 0.03, 2, sizes, ratio, 0, NULL},
        {MT_ALL_REDUCE, "direct", MT_BF16, MT_F32, 40e-6, 8e7, 0.03, 0, NULL, NULL, 0, NULL},
    };
    struct mt_cluster_group *g = add_group(s, all, 4, NETWORK);
    g->fits = fits, g->nfits = 2;
    const struct mt_coll_algorithm *ring = mt_coll_find(MT_ALL_REDUCE, "ring");
    const struct mt_coll_algorithm *direct = mt_coll_find(MT_ALL_REDUCE, "direct");
    const int group[] = {3, 1, 0, 2}; /* the same devices */
    struct mt_coll problem = problem_of(MT_ALL_REDUCE, 4, 250, EVEN, counts);
    struct {
        int64_t block;
        double ratio, error;
    } rows[] = {{250, 1.2, 0.03}, {250000, 0.9, 0.03}, {7906, 1.05, 0.03}, {125, 1.2, 0.06}, {1000000, 0.9, 0.09}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int r = 0; r < 4; r++) counts[r] = rows[i].block;
        struct mt_cost cost = mt_cost_coll(&s->costs, &problem, group, ring);
        CHECK_NEAR(cost.s, rows[i].ratio * ring->cost_s(&problem, 60e-6, 9e7), 1e-4 * cost.s);
        CHECK_NEAR(cost.error, rows[i].error, 1e-9);
        CHECK_EQ(cost.basis, MT_COST_MEASURED);
    }
    struct mt_cost other = mt_cost_coll(&s->costs, &problem, group, direct); /* fitted with bf16 on the wire */
    CHECK_NEAR(other.s, direct->cost_s(&problem, 40e-6, 8e7), 1e-12);
    CHECK(other.error > 0.1);
    free(s);
}

/* Three hosts, one of which sends at 11.7 MB/s; fits end at 256 KiB, which a token bucket lets pass at 100 MB/s. A
 * message of 57 MB must leave that host, which takes 4.9 s; fits alone say 0.8 s. */
static void test_slow_host(void) {
    struct small_cluster *s = small_cluster(3, 1);
    int all[] = {0, 1, 2};
    int64_t sizes[] = {1024, 16384, 262144}, counts[3];
    double ratio[] = {1, 1, 1};
    struct mt_cluster_pair pairs[] = {
        {.a = 0, .b = 1, .link = NETWORK, .latency_s = 50e-6, .bandwidth_Bps = 1.17e8, .reverse_Bps = 11.7e6},
        {.a = 0, .b = 2, .link = NETWORK, .latency_s = 50e-6, .bandwidth_Bps = 1.17e8},
        {.a = 1, .b = 2, .link = NETWORK, .latency_s = 50e-6, .bandwidth_Bps = 11.7e6, .reverse_Bps = 1.17e8}};
    struct mt_coll_fit fit = {MT_ALL_REDUCE, "ring", MT_F32, MT_F32, 60e-6, 1e8, 0.05, 3, sizes, ratio, 0, NULL};
    const struct mt_coll_algorithm *ring = mt_coll_find(MT_ALL_REDUCE, "ring");
    s->cluster.pairs = pairs, s->cluster.npairs = 3;
    s->nodes[1].egress_Bps = 11.7e6;
    struct mt_cluster_group *g = add_group(s, all, 3, NETWORK);
    g->fits = &fit, g->nfits = 1;
    struct mt_coll problem = problem_of(MT_ALL_REDUCE, 3, 57330000 / 4 / 3, EVEN, counts);
    double fit_s = ring->cost_s(&problem, fit.latency_s, fit.bandwidth_Bps);
    struct mt_cost cost = mt_cost_coll(&s->costs, &problem, all, ring);
    CHECK_NEAR(fit_s, 0.76, 0.01);
    CHECK_NEAR(mt_cost_cut_s(&s->costs, &problem, all), 4.9, 1e-3);
    CHECK_NEAR(cost.s, 4.9 * 4 / 3, 0.01); /* a ring sends four thirds of the message */
    CHECK_EQ(cost.basis, MT_COST_SCHEDULE);
    CHECK(cost.error >= 0.3 && cost.floor_s > 4.899, "%g", cost.error);
    const int without[] = {0, 2}; /* its other group is not scaled by what the fit gets wrong */
    struct mt_coll two = problem_of(MT_ALL_REDUCE, 2, 57330000 / 4 / 2, EVEN, counts);
    CHECK_NEAR(mt_cost_coll(&s->costs, &two, without, ring).s, 2 * (50e-6 + 57330000 / 2 / 1.17e8), 0.02);
    /* Within its range, and where no cut contradicts it, the fit counts. */
    problem = problem_of(MT_ALL_REDUCE, 3, 100, EVEN, counts);
    cost = mt_cost_coll(&s->costs, &problem, all, ring);
    CHECK_NEAR(cost.s, ring->cost_s(&problem, fit.latency_s, fit.bandwidth_Bps), 1e-12);
    CHECK_EQ(cost.basis, MT_COST_MEASURED);
    free(s);
}

/* Uneven blocks that were measured have a ratio of their own: in full from their skew on, in part below. */
static void test_skew(void) {
    struct small_cluster *s = small_cluster(3, 1);
    int all[] = {0, 1, 2};
    int64_t sizes[] = {1024, 1 << 24};
    double ratio[] = {1.5, 1.5}, skewed[] = {1, 1};
    const struct mt_coll_algorithm *direct = mt_coll_find(MT_ALL_GATHER, "direct");
    struct mt_coll_fit fit = {MT_ALL_GATHER, "direct", MT_F32, MT_F32, 0, 1e6, 0.05, 2, sizes, ratio, 1.8, skewed};
    struct mt_cluster_group *g = add_group(s, all, 3, NETWORK);
    g->fits = &fit, g->nfits = 1;
    const struct {
        int64_t counts[3];
        double s;
    } cases[] = {{{1000, 1000, 1000}, 1.5 * 8e-3},       /* a rank sends its block twice */
                 {{600, 1800, 600}, 1 * 2 * 7.2e-3},     /* skew 1.8 */
                 {{200, 2600, 200}, 1 * 2 * 10.4e-3},    /* more */
                 {{800, 1400, 800}, 1.25 * 2 * 5.6e-3}}; /* skew 1.4: half of it */
    for (int i = 0; i < 4; i++) {
        struct mt_coll problem = {
            .kind = MT_ALL_GATHER, .wire = MT_F32, .acc = MT_F32, .n = 3, .counts = cases[i].counts};
        CHECK_NEAR(mt_cost_coll(&s->costs, &problem, all, direct).s / cases[i].s, 1, 1e-9);
    }
    free(s);
}

/* What a class does at most bounds its operators: flops; bytes only where the rates are nominal, without calibration.
 */
static void test_op_floor(void) {
    struct small_cluster *s = small_cluster(1, 1);
    struct mt_op_shape gemm = {MT_OP_matmul, "nn", MT_F32, 512, {512, 512}, 2 * 0x1p27, 3 * 4 * 0x1p18};
    struct mt_op_shape copy = {MT_OP_add, "", MT_F32, 1 << 20, {1, 1}, 1 << 20, 3 * 4 * 0x1p20};
    s->devices[0].speed = 0.5;
    CHECK_NEAR(mt_cost_op(&s->costs, 0, &gemm).floor_s, 2 * 0x1p27 / 1e11 / 0.5, 1e-12);
    CHECK_NEAR(mt_cost_op(&s->costs, 0, &copy).floor_s, 0x1p20 / 1e11 / 0.5, 1e-12);
    s->classes[0].nominal = true, s->classes[0].calibration = 0.8;
    struct mt_cost cost = mt_cost_op(&s->costs, 0, &copy);
    CHECK_NEAR(cost.floor_s, 3 * 4 * 0x1p20 / 1e10 / 0.5, 1e-12);
    CHECK(cost.s >= cost.floor_s, "%g", cost.s);
    free(s);
}

/* One pair was measured at 1.5 times its schedule: other groups over that link are scaled by it, less surely; over
 * another link only the schedule is known. */
static void test_extrapolation(void) {
    struct small_cluster *s = small_cluster(4, 2);
    int pair[] = {0, 2};
    int64_t counts[8];
    struct mt_coll_fit fits[] = {
        {MT_ALL_REDUCE, "ring", MT_F32, MT_F32, 75e-6, 1e8 / 1.5, 0.02, 0, NULL, NULL, 0, NULL},
        {MT_ALL_GATHER, "ring", MT_F32, MT_F32, 150e-6, 1e8 / 3, 0.02, 0, NULL, NULL, 0, NULL}};
    struct mt_cluster_group *g = add_group(s, pair, 2, NETWORK);
    g->fits = fits, g->nfits = 2;
    const struct mt_coll_algorithm *ring = mt_coll_find(MT_ALL_REDUCE, "ring"),
                                   *tree = mt_coll_find(MT_ALL_REDUCE, "tree");
    const struct mt_coll_algorithm *chain = mt_coll_find(MT_BROADCAST, "chain");
    const int all[] = {0, 1, 2, 3, 4, 5, 6, 7}, neighbours[] = {2, 3};
    struct mt_coll problem = problem_of(MT_ALL_REDUCE, 8, 5000, EVEN, counts);
    struct mt_cost here = mt_cost_coll(
        &s->costs, &(struct mt_coll){MT_ALL_REDUCE, MT_SUM, MT_F32, MT_F32, 2, 0, 0, counts, false, NULL}, pair, ring);
    struct mt_cost cost = mt_cost_coll(&s->costs, &problem, all, ring);
    double simulated_s = mt_cost_schedule_s(&s->costs, &problem, all, ring);
    CHECK_NEAR(cost.s, 1.5 * simulated_s, 1e-9 * simulated_s);
    CHECK_EQ(cost.basis, MT_COST_SCALED);
    CHECK(cost.error > 5 * here.error, "%g", cost.error);
    struct mt_cost kin = mt_cost_coll(&s->costs, &problem, all, tree); /* AllReduce's ring speaks for its tree */
    CHECK_NEAR(kin.s, 1.5 * mt_cost_schedule_s(&s->costs, &problem, all, tree), 1e-9);
    CHECK(kin.error > cost.error);
    problem.kind = MT_BROADCAST; /* both kinds speak: the mean of 1.5 and 3 in logarithms */
    struct mt_cost stranger = mt_cost_coll(&s->costs, &problem, all, chain);
    CHECK_NEAR(stranger.s, sqrt(1.5 * 3) * mt_cost_schedule_s(&s->costs, &problem, all, chain), 1e-9);
    CHECK(stranger.error > kin.error);
    problem = (struct mt_coll){MT_ALL_REDUCE, MT_SUM, MT_F32, MT_F32, 2, 0, 0, counts, false, NULL};
    struct mt_cost inside = mt_cost_coll(&s->costs, &problem, neighbours, ring);
    CHECK_NEAR(inside.s, mt_cost_schedule_s(&s->costs, &problem, neighbours, ring), 1e-15);
    CHECK_EQ(inside.basis, MT_COST_SCHEDULE);
    s->links[MEMORY].nominal = true;
    struct mt_cost nominal = mt_cost_coll(&s->costs, &problem, neighbours, ring);
    CHECK_EQ(nominal.basis, MT_COST_NOMINAL);
    CHECK(nominal.error > inside.error);
    free(s);
}

/* Beyond MT_COST_SIMULATED ranks: over equal paths the closed form itself. test_large.c has hosts. */
static void test_many(void) {
    enum { MANY = 256 };
    int group[MANY];
    int64_t counts[MANY];
    for (int i = 0; i < MANY; i++) group[i] = i;
    struct small_cluster *flat = small_cluster(MANY, 1);
    for (int a = 0; a < mt_coll_nalgorithms; a++) {
        const struct mt_coll_algorithm *algorithm = mt_coll_algorithms[a];
        if (algorithm->kind == MT_ALL_TO_ALL) continue;
        struct mt_coll problem = problem_of(algorithm->kind, MANY, 2000, EVEN, counts);
        if (!algorithm->applies(&problem)) continue;
        double cost_s = algorithm->cost_s(&problem, 50e-6, 1e8);
        CHECK_NEAR(mt_cost_coll(&flat->costs, &problem, group, algorithm).s, cost_s, 1e-9 * cost_s);
    }
    free(flat);
}

/* The choice is the least of all that apply; with a memo all answers are the same. */
static void test_choice(void) {
    struct small_cluster *s = small_cluster(3, 2);
    s->links[NETWORK].shared_Bps = 1.2e8;
    const int groups[2][6] = {{0, 1, 2, 3, 4, 5}, {0, 2, 4, 1, 3, 5}};
    int64_t counts[36];
    struct mt_costs with = s->costs;
    with.memo = mt_cost_memo_new();
    int seen[64] = {0};
    for (int round = 0; round < 400; round++) {
        enum mt_coll_kind kind = (enum mt_coll_kind)below(MT_NCOLLS);
        int n = 2 + (int)below(5);
        const int *group = groups[below(2)];
        struct mt_coll problem = problem_of(kind, n, 1 << below(20), (enum skew)below(NSKEWS), counts);
        int node[6], numbers[3] = {-1, -1, -1}, nnodes = 0;
        for (int i = 0; i < n; i++) {
            int *number = &numbers[s->devices[group[i]].node];
            if (*number < 0) *number = nnodes++;
            node[i] = *number;
        }
        problem.node = node;
        struct mt_cost least = {.s = INFINITY}, cost;
        const struct mt_coll_algorithm *best = mt_cost_choose(&with, &problem, group, &cost);
        for (int a = 0; a < mt_coll_nalgorithms; a++) {
            const struct mt_coll_algorithm *algorithm = mt_coll_algorithms[a];
            if (algorithm->kind != kind || !algorithm->applies(&problem)) continue;
            struct mt_cost one = mt_cost_coll(&s->costs, &problem, group, algorithm);
            struct mt_cost again = mt_cost_coll(&with, &problem, group, algorithm);
            CHECK(one.s == again.s && one.error == again.error && one.basis == again.basis);
            if (one.s < least.s) least = one;
            seen[a] += algorithm == best;
        }
        CHECK(cost.s == least.s && mt_cost_coll(&s->costs, &problem, group, best).s == least.s);
    }
    int used = 0;
    for (int a = 0; a < mt_coll_nalgorithms; a++) used += seen[a] > 0;
    CHECK(used >= 7, "%d algorithms are the best of some problem", used);
    mt_cost_memo_free(with.memo);
    free(s);
}

/* For two ranks ring is direct by its formula: what fits say of both decides only if it is more than noise. */
static void test_same_formula(void) {
    struct small_cluster *s = small_cluster(2, 1);
    int pair[] = {0, 1};
    int64_t counts[] = {1000, 1000};
    struct mt_coll_fit fits[] = {{MT_ALL_GATHER, "direct", MT_F32, MT_F32, 50e-6, 1e8, 0.1, 0, NULL, NULL, 0, NULL},
                                 {MT_ALL_GATHER, "ring", MT_F32, MT_F32, 45e-6, 1.1e8, 0.1, 0, NULL, NULL, 0, NULL},
                                 {MT_ALL_GATHER, "bruck", MT_F32, MT_F32, 60e-6, 0.8e8, 0.1, 0, NULL, NULL, 0, NULL}};
    struct mt_cluster_group *g = add_group(s, pair, 2, NETWORK);
    g->fits = fits, g->nfits = 3;
    struct mt_coll problem = {MT_ALL_GATHER, MT_REDUCE_NONE, MT_F32, MT_F32, 2, 0, 0, counts, false, NULL};
    CHECK_TEXT(mt_cost_choose(&s->costs, &problem, pair, NULL)->name, "direct");
    fits[0].error = fits[1].error = 0.02;
    CHECK_TEXT(mt_cost_choose(&s->costs, &problem, pair, NULL)->name, "ring");
    fits[0].error = fits[1].error = 0.1, fits[1].latency_s = 10e-6;
    CHECK_TEXT(mt_cost_choose(&s->costs, &problem, pair, NULL)->name, "ring");
    free(s);
}

static void test_devices(void) {
    struct small_cluster *s = small_cluster(1, 3);
    s->devices[1].speed = 0.5, s->devices[1].emulated = 0.5, s->devices[1].speed_error = 0.2;
    s->devices[2].speed = 0.5;
    s->devices[0].class = 1, s->classes[1].nominal = true;
    struct mt_op_shape shape = {MT_OP_matmul, "nn", MT_F32, 512, {512, 512}, 2 * 0x1p27, 3 * 4 * 0x1p18};
    struct mt_cost one = mt_cost_op(&s->costs, 0, &shape), half = mt_cost_op(&s->costs, 1, &shape);
    s->classes[1].nominal = false;
    struct mt_cost measured = mt_cost_op(&s->costs, 0, &shape);
    CHECK_NEAR(half.s, 2 * measured.s, 1e-12);
    CHECK(half.error > measured.error);
    CHECK_EQ(one.basis, MT_COST_NOMINAL);
    CHECK_EQ(half.basis, MT_COST_MEASURED);
    /* Emulation slows operators, not copies; a slow device copies slowly. */
    double copy_s = mt_cost_copy_s(&s->costs, 0, 1 << 20, 1);
    CHECK_NEAR(copy_s, 2.0 * (1 << 20) / 1e10, 0.01 * copy_s);
    CHECK_NEAR(mt_cost_copy_s(&s->costs, 1, 1 << 20, 1), copy_s, 1e-12);
    CHECK_NEAR(mt_cost_copy_s(&s->costs, 2, 1 << 20, 1), 2 * copy_s, 0.01 * copy_s);
    CHECK(mt_cost_copy_s(&s->costs, 0, 1 << 20, 1000) > copy_s);
    free(s);
}

/* Among GPUs that were measured NCCL does what it does; among described ones, and CPUs, plans may name anything. */
static void test_offers(void) {
    struct small_cluster *s = small_cluster(1, 4);
    const int group[] = {0, 1, 2, 3};
    int64_t counts[4] = {1 << 16, 1 << 16, 1 << 16, 1 << 16};
    for (int kind = 0; kind < MT_NCOLLS; kind++) CHECK(mt_coll_of_nccl((enum mt_coll_kind)kind), "%d", kind);
    for (int pass = 0; pass < 3; pass++) {
        s->classes[0].kind = pass ? "cuda" : "cpu";
        s->classes[0].nominal = pass == 2;
        int offered = 0;
        for (int a = 0; a < mt_coll_nalgorithms; a++)
            offered += mt_cost_offers(&s->costs, group, 4, mt_coll_algorithms[a]);
        CHECK_EQ(offered, pass == 1 ? MT_NCOLLS + 3 : mt_coll_nalgorithms); /* and three in phases by node */
        struct mt_coll problem = {MT_ALL_REDUCE, MT_SUM, MT_F32, MT_F32, 4, 0, 0, counts, false, NULL};
        const struct mt_coll_algorithm *best = mt_cost_choose(&s->costs, &problem, group, NULL);
        if (pass == 1) CHECK_TEXT(best->name, "ring");
    }
    /* Separate tensors are sent as arrays on a GPU: all kinds, if nothing is converted and blocks need no padding. */
    static const int64_t even[4] = {1 << 20, 1 << 20, 1 << 20, 1 << 20},
                         large[4] = {1 << 24, 1 << 23, 1 << 23, 1 << 23}, nearly[4] = {72, 64, 64, 64};
    struct mt_coll like = {MT_REDUCE_SCATTER, MT_SUM, MT_F32, MT_F32, 4, 0, 0, even, true, NULL};
    CHECK(mt_cost_takes_arrays(&s->costs, 0, &like));
    like.counts = large;
    CHECK(mt_cost_takes_arrays(&s->costs, 0, &like));
    like.wire = MT_BF16;
    CHECK(!mt_cost_takes_arrays(&s->costs, 0, &like));
    like.wire = MT_F32, like.same_pieces = false;
    CHECK(!mt_cost_takes_arrays(&s->costs, 0, &like));
    like.same_pieces = true, like.kind = MT_ALL_GATHER, like.counts = nearly; /* which go between pairs */
    CHECK(!mt_cost_takes_arrays(&s->costs, 0, &like));
    s->classes[0].kind = "cpu";
    like.counts = even;
    CHECK(!mt_cost_takes_arrays(&s->costs, 0, &like));
    s->classes[0].kind = "cuda";
    /* 1 GB read and written; 33 pieces are three launches. */
    s->classes[0].nominal = false;
    CHECK_NEAR(mt_cost_copy_s(&s->costs, 0, 500000000, 33), 0.1 + 3 * 2e-6, 1e-12);
    free(s);
}

int main(void) {
    test_offers();
    printf("seed %d\n", SEED);
    test_closed_forms();
    test_sharing();
    test_fits();
    test_slow_host();
    test_skew();
    test_op_floor();
    test_extrapolation();
    test_many();
    test_choice();
    test_same_formula();
    test_devices();
    return 0;
}
