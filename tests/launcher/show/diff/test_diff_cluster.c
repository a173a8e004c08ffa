/* Two profiles: equal within their error bands, different beyond, and what differs is named. */
#include <unistd.h>

#include "launcher/show/diff/diff.h"
#include "tests/profiler/clusters.h"

static char *printed;

/* How many facts differ; the table is in `printed`. */
static int differ(struct mt_cluster *a, struct mt_cluster *b) {
    char paths[2][40] = {"/tmp/motley-test-diff-a-XXXXXX", "/tmp/motley-test-diff-b-XXXXXX"};
    struct mt_cluster *clusters[2] = {a, b};
    struct mt_err err = MT_ERR_INIT;
    size_t length;
    int count = -1;
    free(printed);
    FILE *file = open_memstream(&printed, &length);
    for (int i = 0; i < 2; i++) {
        int fd = mkstemp(paths[i]);
        CHECK(fd >= 0, "%s", paths[i]);
        close(fd);
        CHECK_OK(mt_cluster_write(clusters[i], paths[i], &err), err);
    }
    struct mt_tables tables = MT_TABLES_INIT;
    CHECK_OK(mt_diff(paths[0], paths[1], &tables, &count, &err), err);
    mt_tables_write(&tables, MT_TABLES_TEXT, file);
    mt_tables_release(&tables);
    for (int i = 0; i < 2; i++) unlink(paths[i]);
    fclose(file);
    return count;
}

static void add_fit(struct mt_cluster *c, double latency_s, double bandwidth_Bps) {
    static int64_t sizes[] = {1 << 20};
    static double ratio[] = {1};
    static int all[] = {0, 1, 2, 3};
    c->ngroups = 1;
    c->groups = mt_new(&c->arena, struct mt_cluster_group, 1);
    c->groups[0] = (struct mt_cluster_group){"all", 4, all, 1, 1, mt_new(&c->arena, struct mt_coll_fit, 1)};
    c->groups[0].fits[0] = (struct mt_coll_fit){MT_ALL_REDUCE, "ring", MT_F32, MT_F32, latency_s, bandwidth_Bps,
                                                0.02,          1,      sizes,  ratio,  0,         NULL};
}

int main(void) {
    struct mt_cluster *a = make_two_nodes(), *b = make_two_nodes();
    CHECK_EQ(differ(a, b), 0);

    /* Bands of 1% each: 1.9% apart they meet, 3% apart they do not. */
    b->devices[2].speed = 1.019;
    b->links[1].bandwidth_Bps *= 0.985;
    b->classes[0].flops[MT_F32] *= 1.03; /* of 2% */
    b->devices[0].stolen = 0.01;         /* a part of time: 2 points */
    CHECK_EQ(differ(a, b), 0);
    b->devices[2].speed = 0.5;
    CHECK_EQ(differ(a, b), 1);
    CHECK(strstr(printed, "rank 2: speed") && strstr(printed, "-50.0%"), "%s", printed);
    b->links[1].bandwidth_Bps = 1.03 * 125e6;
    b->devices[0].stolen = 0.3;
    b->classes[0].flops[MT_BF16] *= 2;
    CHECK_EQ(differ(a, b), 4);
    CHECK(strstr(printed, "link net: bytes a second") && strstr(printed, "+3.0%"), "%s", printed);
    CHECK(strstr(printed, "rank 0: stolen") && strstr(printed, "30.0%"), "%s", printed);
    CHECK(strstr(printed, "class class0: bf16 flop/s") && strstr(printed, "+100.0%"), "%s", printed);
    mt_cluster_free(b);

    /* Fits by their times: a ring over 4 of 1 MiB is 6 rounds of 1/4 MiB. At 125 MB/s that is 12.6 ms in all, so that
     * 10 us more latency and a little more bandwidth give the same; half the bandwidth does not. */
    b = make_two_nodes();
    add_fit(a, 50e-6, 125e6);
    add_fit(b, 60e-6, 125.6e6);
    CHECK_EQ(differ(a, b), 0);
    b->groups[0].fits[0].bandwidth_Bps = 62.5e6;
    CHECK_EQ(differ(a, b), 1);
    CHECK(strstr(printed, "group all: AllReduce ring f32 of 1.00 MiB"), "%s", printed);
    CHECK(strstr(printed, "12.9 ms") && strstr(printed, "25.5 ms"), "%s", printed);
    mt_cluster_free(b);

    /* One direction of a link. */
    b = make_two_nodes();
    a->ngroups = 0;
    for (int i = 0; i < 2; i++) {
        struct mt_cluster *c = i ? b : a;
        c->npairs = 1;
        c->pairs = mt_new(&c->arena, struct mt_cluster_pair, 1);
        c->pairs[0] = (struct mt_cluster_pair){0, 2, 1, 50e-6, 0.01, 125e6, 0.01, 12e6, 0.01};
        c->nodes[1].egress_Bps = 12e6;
    }
    CHECK_EQ(differ(a, b), 0);
    b->nodes[1].egress_Bps = 125e6;
    b->pairs[0].reverse_Bps = b->pairs[0].reverse_error = 0;
    CHECK_EQ(differ(a, b), 2);
    CHECK(strstr(printed, "rank 2 to 0: bytes a second"), "%s", printed);
    CHECK(strstr(printed, "node node1: bytes sent a second"), "%s", printed);
    mt_cluster_free(b);

    /* What only one has. */
    b = make_cluster(3, 2, 1);
    CHECK(differ(a, b) > 5, "%s", printed);
    CHECK(strstr(printed, "rank 3: speed"), "%s", printed);
    mt_cluster_free(a);
    mt_cluster_free(b);
    free(printed);
    return 0;
}
