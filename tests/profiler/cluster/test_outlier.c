/* Outliers: what is planted is named, and noise is not. */
#include "profiler/cluster/outlier.h"

#include "kernels/base/number/rng.h"
#include "tests/profiler/clusters.h"

static struct mt_arena arena;
static struct mt_outlier *outliers;

static int find(struct mt_cluster *c) {
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_cluster_check(c, &err), err);
    mt_arena_release(&arena);
    return mt_cluster_outliers(c, &arena, &outliers);
}

static void add_pairs(struct mt_cluster *c) {
    c->pairs = mt_new(&c->arena, struct mt_cluster_pair, c->ndevices * c->ndevices);
    for (int a = 0; a < c->ndevices; a++)
        for (int b = a + 1; b < c->ndevices; b++) {
            int link = c->devices[a].node == c->devices[b].node ? 0 : 1;
            c->pairs[c->npairs++] = (struct mt_cluster_pair){
                a, b, link, c->links[link].latency_s, 0.01, c->links[link].bandwidth_Bps, 0.01, 0, 0};
        }
}

static struct mt_cluster_pair *pair_of(struct mt_cluster *c, int a, int b) {
    int p = 0;
    while (c->pairs[p].a != a || c->pairs[p].b != b) p++;
    return &c->pairs[p];
}

static void test_devices(void) {
    struct mt_cluster *c = make_unequal_pair();
    CHECK_EQ(find(c), 1);
    CHECK_EQ(outliers[0].kind, MT_SLOW_DEVICE);
    CHECK_EQ(outliers[0].device, 1);
    CHECK_NEAR(outliers[0].ratio, 0.5, 1e-12);
    CHECK_TEXT(outliers[0].text, "rank 1 (node0): at 0.50 of the speed of its class, class0");
    c->devices[1].emulated = 0.5; /* on purpose */
    CHECK_EQ(find(c), 0);
    c->devices[1].speed = 0.25; /* and slow as well */
    CHECK_EQ(find(c), 1);
    CHECK_NEAR(outliers[0].ratio, 0.5, 1e-12);
    c->devices[1].emulated = 1;
    c->devices[1].speed = 0.9; /* within what its error allows */
    c->devices[1].speed_error = 0.1;
    CHECK_EQ(find(c), 0);
    c->devices[1].speed_error = 0.01;
    CHECK_EQ(find(c), 1);
    c->devices[0].stolen = 0.4;
    CHECK_EQ(find(c), 2);
    CHECK_EQ(outliers[1].kind, MT_STOLEN_TIME);
    CHECK_TEXT(outliers[1].text, "rank 0 (node0): other processes had 40% of its time");
    mt_cluster_free(c);

    /* Two classes that differ are no outliers of each other; three of four equal ones show who is slow. */
    c = make_cluster(8, 4, 2);
    for (int d = 0; d < 8; d++) c->devices[d].speed = 1 - 0.3 * (d % 2);
    CHECK_EQ(find(c), 0);
    c->devices[5].speed = 0.5;
    CHECK_EQ(find(c), 1);
    CHECK_EQ(outliers[0].device, 5);
    CHECK_NEAR(outliers[0].ratio, 0.5 / 0.7, 1e-12);
    mt_cluster_free(c);
}

/* 100 clusters of 64 devices whose speeds scatter by 5% (normally distributed): none is named for that in nearly all,
 * and one at 0.7 always is. */
static void test_noise(void) {
    uint64_t seed = 20261121;
    int false_alarms = 0;
    printf("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 100; round++) {
        struct mt_cluster *c = make_cluster(64, 8, 1);
        for (int d = 0; d < 64; d++) {
            double sum = 0; /* of 12 uniform numbers: nearly normal, deviation 1 */
            for (int k = 0; k < 12; k++)
                sum += mt_random_u32(seed, (uint64_t)round, (uint64_t)(d * 12 + k)) / 4294967296.0;
            c->devices[d].speed = 1 + 0.05 * (sum - 6);
        }
        false_alarms += find(c);
        int slow = round % 64;
        c->devices[slow].speed = 0.7;
        int n = find(c);
        bool named = false;
        for (int i = 0; i < n; i++) named |= outliers[i].device == slow;
        CHECK(named, "round %d: rank %d at 0.7", round, slow);
        mt_cluster_free(c);
    }
    CHECK(false_alarms < 40, "%d of 6400", false_alarms); /* 0.13% lie below three deviations */
}

static void test_pairs(void) {
    struct mt_cluster *c = make_cluster(6, 3, 1);
    add_pairs(c);
    CHECK_EQ(find(c), 0);
    pair_of(c, 1, 4)->bandwidth_Bps *= 0.6;
    CHECK_EQ(find(c), 1);
    CHECK_EQ(outliers[0].kind, MT_BAD_LINK);
    CHECK(outliers[0].device == 1 && outliers[0].other == 4, "%d %d", outliers[0].device, outliers[0].other);
    CHECK_TEXT(outliers[0].text, "rank 1 (node0) to rank 4 (node1), over net: 0.60 of the bandwidth of other pairs");
    pair_of(c, 1, 4)->bandwidth_error = 0.5; /* not known so well */
    CHECK_EQ(find(c), 0);
    pair_of(c, 0, 2)->latency_s = 5e-6;
    CHECK_EQ(find(c), 1);
    CHECK_TEXT(outliers[0].text, "rank 0 (node0) to rank 2 (node0), over memory: 5.0 times the latency of other pairs");
    pair_of(c, 0, 2)->latency_s = 1e-6;
    /* All of a rank's pairs: its own port, named once. */
    for (int b = 3; b < 6; b++) pair_of(c, 2, b)->bandwidth_Bps = 50e6;
    CHECK_EQ(find(c), 1);
    CHECK(outliers[0].device == 2 && outliers[0].other == -1, "%d %d", outliers[0].device, outliers[0].other);
    CHECK_TEXT(outliers[0].text, "rank 2 (node0): all its pairs over net: 0.40 of the bandwidth of others");
    mt_cluster_free(c);
}

/* Nodes by direction. Their pairs are explained by it, but not others. */
static void test_nodes(void) {
    struct mt_cluster *c = make_cluster(6, 2, 1); /* three nodes */
    add_pairs(c);
    for (int n = 0; n < 3; n++) c->nodes[n].egress_Bps = c->nodes[n].ingress_Bps = 117e6;
    CHECK_EQ(find(c), 0);
    c->nodes[2].egress_Bps = 11.7e6;
    for (int p = 0; p < c->npairs; p++)
        if (c->pairs[p].link == 1 && c->pairs[p].b >= 4) c->pairs[p].reverse_Bps = 11.7e6;
    CHECK_EQ(find(c), 1);
    CHECK(outliers[0].kind == MT_SLOW_NODE && outliers[0].device == 4 && outliers[0].egress, "%d", outliers[0].device);
    CHECK_TEXT(outliers[0].text, "node node2 sends at 11.7 MB/s, others at 117 MB/s");
    pair_of(c, 0, 2)->reverse_Bps = 30e6; /* and a pair of its own accord */
    CHECK_EQ(find(c), 2);
    CHECK_TEXT(outliers[1].text, "rank 2 (node1) to rank 0 (node0), over net: 0.24 of the bandwidth of other pairs");
    pair_of(c, 0, 2)->reverse_Bps = 0;
    c->nodes[0].egress_Bps = 90e6; /* noise of the others does not hide it, and is not named */
    CHECK_EQ(find(c), 1);
    c->nodes[0].ingress_Bps = 20e6;
    for (int p = 0; p < c->npairs; p++)
        if (c->pairs[p].a < 2 && c->pairs[p].b >= 2 && c->pairs[p].b < 4) c->pairs[p].reverse_Bps = 20e6;
    CHECK_EQ(find(c), 2);
    CHECK_TEXT(outliers[0].text, "node node0 receives at 20.0 MB/s, others at 117 MB/s");
    /* Half of the others is named if it is known so well; a tenth in any case. */
    for (int noise = 0; noise < 2; noise++) {
        c->nodes[0].ingress_Bps = 60e6;
        for (int p = 0; p < c->npairs; p++) {
            if (c->pairs[p].link != 1) continue;
            if (c->pairs[p].a < 2) c->pairs[p].reverse_Bps = c->pairs[p].b < 4 ? 60e6 : 11.7e6;
            c->pairs[p].reverse_error = c->pairs[p].bandwidth_error = noise ? 0.8 : 0.01;
        }
        CHECK_EQ(find(c), noise ? 1 : 2);
        CHECK_TEXT(outliers[!noise].text, "node node2 sends at 11.7 MB/s, others at 90.0 MB/s");
    }
    c->links[1].nominal = true; /* described so */
    CHECK_EQ(find(c), 0);
    mt_cluster_free(c);

    c = make_cluster(4, 2, 1); /* two nodes */
    add_pairs(c);
    c->nodes[0].egress_Bps = c->nodes[1].ingress_Bps = 117e6;
    c->nodes[1].egress_Bps = c->nodes[0].ingress_Bps = 11.7e6;
    for (int p = 0; p < c->npairs; p++)
        if (c->pairs[p].link == 1) c->pairs[p].reverse_Bps = 11.7e6;
    CHECK_EQ(find(c), 1);
    CHECK(outliers[0].device == 2 && outliers[0].other == 0, "%d to %d", outliers[0].device, outliers[0].other);
    CHECK_TEXT(outliers[0].text, "node node1 to node node0: 11.7 MB/s, and 117 MB/s in the other direction");
    c->nodes[1].egress_Bps = c->nodes[0].ingress_Bps = 100e6;
    for (int p = 0; p < c->npairs; p++) c->pairs[p].reverse_Bps = 0;
    CHECK_EQ(find(c), 0);
    mt_cluster_free(c);
}

int main(void) {
    test_nodes();
    test_devices();
    test_noise();
    test_pairs();
    mt_arena_release(&arena);
    return 0;
}
