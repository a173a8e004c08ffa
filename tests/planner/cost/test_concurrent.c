/* Groups that communicate at the same time: how many share a host, against counting them one by one on random groups
 * over ragged hosts; and what they take, against one AllToAll of all ranks in which the same messages are simulated
 * together, and against what the hosts' network needs for all their bytes. */
#include <math.h>
#include <string.h>

#include "kernels/base/number/rng.h"
#include "planner/cost/cost.h"
#include "profiler/describe/describe.h"
#include "tests/check.h"

enum { SEED = 20261123, MOST = 16 };
static struct mt_err err = MT_ERR_INIT;

struct job {
    struct mt_cluster *cluster;
    int device[MOST];
    struct mt_costs costs;
};

static void begin(struct job *j, const char *text) {
    *j = (struct job){.cluster = NULL};
    CHECK_OK(mt_cluster_describe(text, NULL, &j->cluster, &err), err);
    CHECK(j->cluster->ndevices <= MOST, "%d", j->cluster->ndevices);
    for (int d = 0; d < j->cluster->ndevices; d++) j->device[d] = d;
    j->costs = (struct mt_costs){.cluster = j->cluster, .nranks = j->cluster->ndevices, .device = j->device};
}

static int node_of(const struct job *j, int rank) {
    return j->cluster->devices[rank].node;
}

/* ---- who shares ---- */

static bool crosses(const struct job *j, const int *group, int g) {
    int node = -1;
    bool several = false;
    for (int r = 0; r < j->costs.nranks; r++) {
        if (group[r] != g) continue;
        several |= node >= 0 && node_of(j, r) != node;
        node = node_of(j, r);
    }
    return several;
}

static int members(const struct job *j, const int *group, int g, int node) {
    int n = 0;
    for (int r = 0; r < j->costs.nranks; r++) n += group[r] == g && (node < 0 || node_of(j, r) == node);
    return n;
}

static int naive(const struct job *j, const int *group, int rank) {
    int most = 1, g = group[rank];
    if (members(j, group, g, -1) < 2) return 1;
    for (int node = 0; node < j->cluster->nnodes; node++) {
        int sharing = 0;
        if (!members(j, group, g, node)) continue;
        for (int other = 0; other < j->costs.nranks; other++)
            sharing += members(j, group, other, -1) > 1 && members(j, group, other, node) > 0 &&
                       crosses(j, group, other) == crosses(j, group, g);
        if (sharing > most) most = sharing;
    }
    return most;
}

static void test_counts(void) {
    struct job j;
    begin(&j, "h100:1x8 + h100:1x4 + h100:1x2");
    int n = j.costs.nranks, shared = 0;
    for (uint64_t trial = 0; trial < 300; trial++) {
        int group[MOST], number[MOST], found[MOST], ngroups = 0;
        uint64_t kinds = 1 + trial % (uint64_t)n;
        memset(number, -1, sizeof number);
        for (int r = 0; r < n; r++) { /* numbered by first rank */
            int *of = &number[mt_random_below(SEED, trial, (uint64_t)r, kinds)];
            if (*of < 0) *of = ngroups++;
            group[r] = *of;
        }
        mt_cost_concurrent(&j.costs, group, n, found);
        for (int r = 0; r < n; r++) {
            CHECK_EQ(found[r], naive(&j, group, r));
            shared += found[r] > 1;
        }
    }
    CHECK(shared > 1000, "%d", shared);
    mt_cluster_free(j.cluster);
}

/* ---- what they take ---- */

/* Ranks r and r + half exchange `count` elements: by groups of two at once, and in one AllToAll of all. */
static void test_pairs(const char *text, int half, int64_t count) {
    struct job j;
    begin(&j, text);
    int n = 2 * half, group[MOST], concurrent[MOST], all[MOST], pair[] = {0, half};
    int64_t counts[MOST * MOST] = {0}, two[] = {0, count, count, 0};
    for (int r = 0; r < n; r++) {
        group[r] = r % half, all[r] = r;
        counts[r * n + (r + half) % n] = count;
    }
    mt_cost_concurrent(&j.costs, group, n, concurrent);
    CHECK_EQ(concurrent[0], half);
    const struct mt_coll_algorithm *direct = mt_coll_find(MT_ALL_TO_ALL, "direct");
    struct mt_coll together = {MT_ALL_TO_ALL, MT_REDUCE_NONE, MT_F32, MT_F32, n, 0, 0, counts, false, NULL};
    struct mt_coll apart = {MT_ALL_TO_ALL, MT_REDUCE_NONE, MT_F32, MT_F32, 2, 0, 0, two, false, NULL};
    double together_s = mt_cost_schedule_s(&j.costs, &together, all, direct);
    double alone_s = mt_cost_coll(&j.costs, &apart, pair, direct).s;
    j.costs.concurrent = concurrent[0];
    double found_s = mt_cost_coll(&j.costs, &apart, pair, direct).s;
    printf("%-24s %d pairs at once: %.4g ms, one AllToAll %.4g, alone %.4g\n", text, half, 1e3 * found_s,
           1e3 * together_s, 1e3 * alone_s);
    CHECK_NEAR(found_s, together_s, 1e-9 * together_s);
    CHECK(found_s > alone_s * (half - 0.5), "%g alone", alone_s);
    mt_cluster_free(j.cluster);
}

/* An AllReduce over four hosts in each of two groups: at least what a host sends and receives of both. */
static void test_floor(void) {
    struct job j;
    begin(&j, "h100:4x2 net=100G");
    const struct mt_cluster_link *net = &j.cluster->links[j.cluster->network];
    const int group[] = {0, 2, 4, 6};
    int64_t counts[] = {1 << 22, 1 << 22, 1 << 22, 1 << 22};
    struct mt_coll problem = {MT_ALL_REDUCE, MT_SUM, MT_F32, MT_F32, 4, 0, 0, counts, false, NULL};
    struct mt_cost cost;
    j.costs.concurrent = 2;
    mt_cost_choose(&j.costs, &problem, group, &cost);
    double needed_s = 2 * 1.5 * 4 * 4 * (1 << 22) / net->shared_Bps; /* twice, 2 (4 - 1)/4 of the message */
    CHECK(cost.s >= needed_s * (1 - 1e-9) && cost.s <= 1.1 * needed_s, "%g s, the network needs %g", cost.s, needed_s);
    CHECK(cost.floor_s >= 2 * 4 * 4 * (1 << 22) / net->shared_Bps * (1 - 1e-9) && cost.floor_s <= cost.s, "%g",
          cost.floor_s);
    mt_cluster_free(j.cluster);
}

int main(void) {
    test_counts();
    test_pairs("h100:2x4 net=100G", 4, 1 << 22);
    test_pairs("h100:2x2 net=25G", 2, 1 << 20);
    test_floor();
    return 0;
}
