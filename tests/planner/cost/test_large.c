/* Prices of groups beyond MT_COST_SIMULATED ranks against their whole schedules, simulated: hosts of several ranks that
 * share a network interface, in order and interleaved, even and uneven blocks, and one host that is slower than the
 * others in one direction. Then 10,240 ranks. */
#include "planner/cost/cost.h"

#include "kernels/base/number/rng.h"
#include "tests/planner/small_cluster.h"

enum { SEED = 20261122 };

static uint64_t draws;
static int64_t below(int64_t bound) {
    return (int64_t)mt_random_below(SEED, 1, draws++, (uint64_t)bound);
}

enum blocks { EVEN, CLASSES, RANDOM, NBLOCKS };

static void fill_counts(enum mt_coll_kind kind, int n, int64_t block, enum blocks blocks, int64_t *counts) {
    bool matrix = kind == MT_ALL_TO_ALL;
    for (int i = 0; i < (matrix ? n * n : n); i++) {
        counts[i] = block;
        if (blocks == CLASSES) counts[i] = block * (1 + (matrix ? i / n : i) * 8 / n); /* of eight sizes */
        if (blocks == RANDOM) counts[i] = 1 + below(2 * block);
        if (matrix && i / n == i % n) counts[i] = 0;
    }
}

/* The least and the largest ratio of price to whole schedule. */
struct spread {
    double least, most;
    int n;
};

static void compare(struct small_cluster *s, bool interleaved, const struct mt_coll_algorithm *algorithm, int64_t block,
                    enum blocks blocks, struct spread *spread) {
    int n = s->costs.nranks, per_host = n / s->cluster.nnodes, *group = calloc((size_t)n, sizeof *group);
    int64_t *counts = calloc((size_t)n * (size_t)n, sizeof *counts);
    for (int i = 0; i < n; i++) group[i] = interleaved ? i % s->cluster.nnodes * per_host + i / s->cluster.nnodes : i;
    fill_counts(algorithm->kind, n, block, blocks, counts);
    int *node = calloc((size_t)n, sizeof *node);
    for (int i = 0; i < n; i++) node[i] = s->devices[group[i]].node;
    struct mt_coll problem = {.kind = algorithm->kind, .wire = MT_F32, .acc = MT_F32, .n = n, .counts = counts};
    problem.reduce = mt_coll_reduces(algorithm->kind) ? MT_SUM : MT_REDUCE_NONE;
    problem.node = s->cluster.nnodes > 1 ? node : NULL;
    if (algorithm->applies(&problem)) {
        double whole_s = mt_cost_schedule_s(&s->costs, &problem, group, algorithm);
        struct mt_cost cost = mt_cost_coll(&s->costs, &problem, group, algorithm);
        double ratio = cost.s / whole_s;
        CHECK(blocks != EVEN || (ratio > 0.9 && ratio < 1.15), "%d hosts of %d, %s %s of blocks of %lld: %g",
              s->cluster.nnodes, per_host, mt_coll_name(algorithm->kind), algorithm->name, (long long)block, ratio);
        CHECK(cost.s >= cost.floor_s);
        spread->least = fmin(spread->least, ratio), spread->most = fmax(spread->most, ratio);
        spread->n++;
    }
    free(group);
    free(node);
    free(counts);
}

static void test_whole(int nhosts, int per_host, bool interleaved, bool slow_host, struct spread *all) {
    struct small_cluster *s = small_cluster(nhosts, per_host);
    struct spread spread = {INFINITY, 0, 0};
    for (int h = 0; h < nhosts; h++) s->nodes[h].egress_Bps = s->nodes[h].ingress_Bps = 2e8;
    if (slow_host) s->nodes[nhosts * 2 / 3].egress_Bps = 2e7;
    for (int a = 0; a < mt_coll_nalgorithms; a++)
        for (int64_t block = 2; block <= 200000; block *= 100000)
            for (int blocks = EVEN; blocks < NBLOCKS; blocks++)
                if (mt_coll_algorithms[a]->kind != MT_ALL_TO_ALL)
                    compare(s, interleaved, mt_coll_algorithms[a], block, (enum blocks)blocks, &spread);
    printf("%3d hosts of %d %s%s: %d prices are %.3f to %.3f of whole schedules\n", nhosts, per_host,
           interleaved ? "interleaved" : "in order", slow_host ? ", one of low egress" : "", spread.n, spread.least,
           spread.most);
    all->least = fmin(all->least, spread.least), all->most = fmax(all->most, spread.most);
    free(s);
}

/* 10,240 ranks on hosts of 8, of eight sizes of blocks: every price is at least its floor, which is the lowest egress.
 */
static void test_ten_thousand(void) {
    enum { HOSTS = 1280, PER_HOST = 8, RANKS = HOSTS * PER_HOST };
    struct small_cluster *s = small_cluster(HOSTS, PER_HOST);
    int *group = calloc(RANKS, sizeof *group), *node = calloc(RANKS, sizeof *node);
    int64_t *counts = calloc(RANKS, sizeof *counts);
    struct mt_costs costs = s->costs;
    costs.memo = mt_cost_memo_new();
    for (int i = 0; i < RANKS; i++) group[i] = i, node[i] = i / PER_HOST;
    for (int h = 0; h < HOSTS; h++) s->nodes[h].egress_Bps = s->nodes[h].ingress_Bps = 2e8;
    s->nodes[777].egress_Bps = 1e7;
    for (int a = 0; a < mt_coll_nalgorithms; a++) {
        const struct mt_coll_algorithm *algorithm = mt_coll_algorithms[a];
        if (algorithm->kind == MT_ALL_TO_ALL) continue;
        fill_counts(algorithm->kind, RANKS, 1000, CLASSES, counts);
        struct mt_coll problem = {.kind = algorithm->kind, .wire = MT_F32, .acc = MT_F32, .n = RANKS, .counts = counts};
        problem.reduce = mt_coll_reduces(algorithm->kind) ? MT_SUM : MT_REDUCE_NONE;
        problem.node = node;
        if (!algorithm->applies(&problem)) continue;
        double all = 0, host = 0;
        for (int i = 0; i < RANKS; i++)
            all += (double)counts[i] * 4, host += node[i] == 777 ? (double)counts[i] * 4 : 0;
        struct mt_cost cost = mt_cost_coll(&costs, &problem, group, algorithm);
        double leaves = algorithm->kind == MT_ALL_REDUCE       ? all
                        : algorithm->kind == MT_REDUCE_SCATTER ? all - host
                        : algorithm->kind == MT_ALL_GATHER     ? host
                                                               : 0;
        printf("  %-13s %-20s %10.4g s, at least %.4g\n", mt_coll_name(algorithm->kind), algorithm->name, cost.s,
               cost.floor_s);
        CHECK(cost.s >= leaves / 1e7 * (1 - 1e-9), "%s: %g", algorithm->name, cost.s);
    }
    mt_cost_memo_free(costs.memo);
    free(group);
    free(node);
    free(counts);
    free(s);
}

int main(void) {
    struct spread all = {INFINITY, 0, 0};
    printf("seed %d\n", SEED);
    test_whole(100, 1, false, false, &all);
    test_whole(24, 4, false, false, &all);
    test_whole(24, 4, true, true, &all);
    test_whole(16, 8, false, false, &all);
    test_whole(16, 8, false, true, &all);
    test_whole(16, 8, true, true, &all);
    CHECK(all.least > 0.75 && all.most < 1.35, "%g to %g", all.least, all.most);
    test_ten_thousand();
    return 0;
}
