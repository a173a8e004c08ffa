/* Edits of rates scale what was measured: an edit that makes a link, a node's rate or a latency better makes no path
 * and no collective worse, on random documents with directed pairs, rates of nodes and fits. */
#include "profiler/describe/edit.h"

#include "kernels/base/number/rng.h"
#include "tests/profiler/clusters.h"

enum { SIZES = 3 };
static const int64_t sizes[SIZES] = {4 << 10, 256 << 10, 16 << 20};

static double fit_s(const struct mt_coll_fit *fit, int n, int size) {
    int64_t counts[16] = {sizes[size] / 4};
    for (int i = 1; i < n; i++) counts[i] = sizes[size] / 4;
    const struct mt_coll problem = {fit->kind, MT_SUM, fit->wire, fit->acc, n, 0, 0, counts, false, NULL};
    return mt_coll_find(fit->kind, fit->algorithm)->cost_s(&problem, fit->latency_s, fit->bandwidth_Bps) *
           fit->ratio[size];
}

static void add_group(struct mt_cluster *c, const char *name, int first, int n, double latency_s, double Bps) {
    static const struct {
        enum mt_coll_kind kind;
        const char *algorithm;
    } of[] = {{MT_ALL_REDUCE, "ring"}, {MT_ALL_GATHER, "bruck"}};
    static double ratios[SIZES] = {1.3, 0.9, 1.05};
    struct mt_cluster_group *group = &c->groups[c->ngroups++];
    *group = (struct mt_cluster_group){.name = name, .ndevices = n, .nfits = 2};
    group->devices = mt_new(&c->arena, int, n);
    group->fits = mt_new(&c->arena, struct mt_coll_fit, 2);
    for (int i = 0; i < n; i++) group->devices[i] = first + i;
    group->link = mt_cluster_path(c, first, first + n - 1).link;
    for (int f = 0; f < 2; f++)
        group->fits[f] = (struct mt_coll_fit){of[f].kind, of[f].algorithm, MT_F32, MT_F32, latency_s, Bps,
                                              0.05,       SIZES,           NULL,   ratios, 0,         NULL};
    for (int f = 0; f < 2; f++) group->fits[f].size_bytes = mt_arena_memdup(&c->arena, sizes, sizeof sizes);
}

/* As measured between three hosts of two ranks over 1 Gbit/s, of which the last sends 100 Mbit/s; latencies of 743 us.
 */
static struct mt_cluster *make_measured(void) {
    struct mt_cluster *c = make_cluster(6, 2, 1);
    c->links[1].latency_s = 743e-6, c->links[1].bandwidth_Bps = 117.5e6, c->links[1].shared_Bps = 117.5e6;
    c->pairs = mt_new(&c->arena, struct mt_cluster_pair, 15);
    for (int a = 0; a < 6; a++)
        for (int b = a + 1; b < 6; b++) {
            bool net = a / 2 != b / 2, slow = net && b >= 4;
            c->pairs[c->npairs++] = (struct mt_cluster_pair){
                a, b, net, net ? 743e-6 : 2e-6, 0.02, net ? 117e6 : 4e9, 0.02, slow ? 11.7e6 : 0, slow ? 0.01 : 0};
        }
    c->nodes[2].egress_Bps = 11.75e6, c->nodes[2].ingress_Bps = 117e6;
    c->groups = mt_new(&c->arena, struct mt_cluster_group, 4);
    add_group(c, "all", 0, 6, 700e-6, 11.5e6);
    add_group(c, "node:node0", 0, 2, 3e-6, 3.5e9);
    add_group(c, "pair:1-2", 1, 2, 740e-6, 116e6);
    add_group(c, "ranks:0-3", 0, 4, 740e-6, 110e6);
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_cluster_check(c, &err), err);
    mt_cluster_hash(c, c->hash);
    return c;
}

static void set(struct mt_cluster *c, const char *what) {
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_cluster_set(c, what, &err), err);
}

static void test_link(void) {
    struct mt_cluster *was = make_measured(), *c = mt_cluster_copy(was);
    set(c, "link.net=2G"); /* twice the 117.5 MB/s that were measured */
    CHECK_EQ(c->ngroups, 4);
    CHECK_NEAR(c->nodes[2].egress_Bps, 23.5e6, 1);
    CHECK_NEAR(mt_cluster_path(c, 4, 0).bandwidth_Bps, 23.4e6, 1);
    CHECK_NEAR(mt_cluster_path(c, 0, 4).bandwidth_Bps, 234e6, 1);
    CHECK_NEAR(fit_s(&c->groups[0].fits[0], 6, 2) / fit_s(&was->groups[0].fits[0], 6, 2), 0.5, 0.01);
    CHECK_NEAR(fit_s(&c->groups[1].fits[0], 2, 2), fit_s(&was->groups[1].fits[0], 2, 2), 0);
    set(c, "link.net.latency=100us");
    CHECK_NEAR(c->groups[0].fits[1].latency_s, 100e-6 * 700 / 743, 1e-12);
    CHECK_NEAR(mt_cluster_path(c, 0, 4).latency_s, 100e-6, 1e-12);
    CHECK_NEAR(c->groups[1].fits[1].latency_s, 3e-6, 0);
    /* A network that is faster than the memory between ranks of a node: then the memory limits a group over both. */
    set(c, "link.net=2000G");
    CHECK_NEAR(c->groups[3].fits[0].bandwidth_Bps, 110e6 * 4e9 / 117e6, 1e3);
    CHECK_EQ(c->groups[3].link, 0);
    CHECK_NEAR(c->groups[2].fits[0].bandwidth_Bps, 116e6 * 2000, 1e3);
    mt_cluster_free(c);
    mt_cluster_free(was);
}

static void test_node(void) {
    struct mt_cluster *was = make_measured(), *c = mt_cluster_copy(was);
    set(c, "node.node2.egress=1G"); /* ten times what it sends: as the others */
    CHECK_NEAR(mt_cluster_path(c, 5, 1).bandwidth_Bps, 117e6, 0);
    CHECK_NEAR(mt_cluster_path(c, 1, 5).bandwidth_Bps, 117e6, 0);
    CHECK_NEAR(c->groups[0].fits[0].bandwidth_Bps, 115e6, 1);
    CHECK_NEAR(c->groups[3].fits[0].bandwidth_Bps, 110e6, 0);
    set(c, "node.node2.egress=100G"); /* then others' rates limit its pairs */
    CHECK_NEAR(mt_cluster_path(c, 5, 1).bandwidth_Bps, 117.5e6, 0);
    set(c, "node.node0.ingress=50M");
    CHECK_NEAR(c->nodes[0].ingress_Bps, 5.875e6, 1);
    CHECK_NEAR(mt_cluster_path(c, 2, 0).bandwidth_Bps, 5.875e6, 1);
    CHECK_NEAR(mt_cluster_path(c, 0, 2).bandwidth_Bps, 117e6, 0);
    CHECK_NEAR(mt_cluster_path(c, 5, 0).bandwidth_Bps, 5.875e6, 1);
    CHECK_NEAR(mt_cluster_path(c, 1, 0).bandwidth_Bps, 4e9, 0); /* within the node */
    CHECK_NEAR(c->groups[3].fits[1].bandwidth_Bps, 110e6 * 5.875 / 117, 1e3);
    CHECK_NEAR(c->groups[1].fits[1].bandwidth_Bps, 3.5e9, 0);
    mt_cluster_free(c);
    mt_cluster_free(was);
}

static void test_added(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_cluster *was = make_measured(), *c = mt_cluster_copy(was);
    CHECK_OK(mt_cluster_add(c, "class0", &err), err);
    CHECK_EQ(c->ngroups, 4);
    CHECK_TEXT(c->groups[0].name, "ranks:0-5");
    for (int g = 0; g < 4; g++)
        for (int f = 0; f < 2; f++)
            CHECK_NEAR(fit_s(&c->groups[g].fits[f], 2, 1), fit_s(&was->groups[g].fits[f], 2, 1), 0);
    mt_cluster_free(c);
    mt_cluster_free(was);
}

/* ---- random edits ---- */

static const uint64_t seed = 20261122;

static double draw(uint64_t *rng) {
    return mt_random_uniform(seed, 0, (*rng)++);
}

static double uniform(uint64_t *rng, double from, double to) {
    return from * pow(to / from, draw(rng));
}

static void vary(struct mt_cluster *c, uint64_t *rng) {
    for (int p = 0; p < c->npairs; p++) {
        struct mt_cluster_pair *pair = &c->pairs[p];
        pair->bandwidth_Bps *= uniform(rng, 0.2, 5);
        pair->latency_s *= uniform(rng, 0.5, 2);
        if (draw(rng) < 0.3) pair->reverse_Bps = pair->bandwidth_Bps * uniform(rng, 0.05, 20);
    }
    for (int n = 0; n < c->nnodes; n++) {
        c->nodes[n].egress_Bps = draw(rng) < 0.3 ? 0 : uniform(rng, 1e6, 1e9);
        c->nodes[n].ingress_Bps = draw(rng) < 0.3 ? 0 : uniform(rng, 1e6, 1e9);
    }
    if (draw(rng) < 0.2) c->links[1].shared_Bps = 0;
    if (draw(rng) < 0.3) c->npairs = 0;
}

/* An edit that is an improvement by a factor from 1 to 100. */
static char *draw_edit(const struct mt_cluster *c, uint64_t *rng, struct mt_arena *arena) {
    double factor = uniform(rng, 1, 100);
    int link = draw(rng) < 0.3 ? 0 : 1, node = (int)(3 * draw(rng));
    const struct mt_cluster_link *l = &c->links[link];
    const double bits = 8 / 0.94; /* of a rate of net, for a byte a second that is reached */
    switch ((int)(4 * draw(rng))) {
    case 0:
        return mt_arena_printf(arena, "link.%s=%.6f", l->name,
                               l->bandwidth_Bps * factor * (link ? bits : 1 / 0.7) * (1 + 1e-12));
    case 1: return mt_arena_printf(arena, "link.%s.latency=%.15fus", l->name, 1e6 * l->latency_s / factor);
    case 2: {
        double was = mt_cluster_node_egress(c, node);
        return mt_arena_printf(arena, "node.node%d.egress=%.6f", node, isinf(was) ? 1e20 : was * factor * bits);
    }
    default: {
        double was = mt_cluster_node_ingress(c, node);
        return mt_arena_printf(arena, "node.node%d.ingress=%.6f", node, isinf(was) ? 1e20 : was * factor * bits);
    }
    }
}

static void check_not_worse(const struct mt_cluster *was, const struct mt_cluster *c, const char *edit) {
    const double more = 1 + 1e-9;
    for (int a = 0; a < c->ndevices; a++)
        for (int b = 0; b < c->ndevices; b++) {
            struct mt_path old = mt_cluster_path(was, a, b), now = mt_cluster_path(c, a, b);
            CHECK(a == b || (now.latency_s <= old.latency_s * more && now.bandwidth_Bps * more >= old.bandwidth_Bps),
                  "%s: %d to %d: %g s, %g B/s; before %g s, %g B/s", edit, a, b, now.latency_s, now.bandwidth_Bps,
                  old.latency_s, old.bandwidth_Bps);
        }
    CHECK_EQ(c->ngroups, was->ngroups);
    for (int g = 0; g < c->ngroups; g++)
        for (int f = 0; f < c->groups[g].nfits; f++)
            for (int s = 0; s < SIZES; s++) {
                int n = c->groups[g].ndevices;
                double old_s = fit_s(&was->groups[g].fits[f], n, s), now_s = fit_s(&c->groups[g].fits[f], n, s);
                CHECK(now_s <= old_s * more, "%s: %s of %s: %g s, before %g s", edit, c->groups[g].fits[f].algorithm,
                      c->groups[g].name, now_s, old_s);
            }
}

static void test_random(void) {
    enum { CLUSTERS = 50, EDITS = 10 };
    uint64_t rng = 0;
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_err err = MT_ERR_INIT;
    printf("seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < CLUSTERS; i++) {
        struct mt_cluster *c = make_measured();
        vary(c, &rng);
        for (int k = 0; k < EDITS; k++) {
            struct mt_cluster *was = mt_cluster_copy(c);
            const char *edit = draw_edit(c, &rng, &arena);
            CHECK_OK(mt_cluster_set(c, edit, &err), err);
            check_not_worse(was, c, edit);
            mt_cluster_free(was);
        }
        mt_cluster_free(c);
    }
    mt_arena_release(&arena);
}

int main(void) {
    test_link();
    test_node();
    test_added();
    test_random();
    return 0;
}
