/* Edits of clusters: what changes, what stays, and what is refused and leaves the cluster as it was. */
#include "profiler/describe/edit.h"

#include "tests/profiler/clusters.h"

static struct mt_err err;

/* Two nodes of two ranks, classes in turn, with all pairs and three groups measured. */
static struct mt_cluster *make(void) {
    struct mt_cluster *c = make_cluster(4, 2, 2);
    static const int members[] = {0, 1, 2, 3, 0, 1, 2, 3};
    c->pairs = mt_new(&c->arena, struct mt_cluster_pair, 6);
    for (int a = 0; a < 4; a++)
        for (int b = a + 1; b < 4; b++) {
            int link = a / 2 == b / 2 ? 0 : 1;
            c->pairs[c->npairs++] =
                (struct mt_cluster_pair){a, b, link, 1e-6 * (10 * a + b), 0, 1e6 * (10 * a + b), 0, 0, 0};
        }
    int *devices = mt_arena_memdup(&c->arena, members, sizeof members);
    c->ngroups = 3;
    c->groups = mt_new(&c->arena, struct mt_cluster_group, 3);
    c->groups[0] = (struct mt_cluster_group){"all", 4, devices, 1, 0, NULL};
    c->groups[1] = (struct mt_cluster_group){"node:node0", 2, devices + 4, 0, 0, NULL};
    c->groups[2] = (struct mt_cluster_group){"node:node1", 2, devices + 6, 0, 0, NULL};
    CHECK_OK(mt_cluster_check(c, &err), err);
    mt_cluster_hash(c, c->hash);
    return c;
}

/* Sound, and signed. */
static void check(const struct mt_cluster *c, const char *done) {
    char hash[33];
    CHECK_OK(mt_cluster_check(c, &err), err);
    mt_cluster_hash(c, hash);
    CHECK_TEXT(hash, c->hash);
    CHECK_TEXT(c->source, "edited");
    CHECK(strstr(c->description, done), "\"%s\" in \"%s\"", done, c->description);
}

static void test_add(void) {
    struct mt_cluster *c = make();
    CHECK_OK(mt_cluster_add(c, "3xclass1", &err), err);
    check(c, "; add 3xclass1");
    CHECK_EQ(c->ndevices, 7);
    CHECK_EQ(c->nnodes, 3);
    CHECK_EQ(c->devices[6].class, 1);
    CHECK_TEXT(c->nodes[2].name, "node2");
    CHECK_EQ(mt_cluster_path(c, 4, 6).link, 0); /* as in the class's other nodes */
    CHECK_EQ(mt_cluster_path(c, 0, 4).link, 1);
    CHECK_EQ(c->npairs, 6);
    CHECK_TEXT(c->groups[0].name, "ranks:0-3");
    CHECK_OK(mt_cluster_add(c, "class0@node1", &err), err);
    check(c, "; add 3xclass1; add class0@node1");
    CHECK_EQ(c->devices[7].node, 1);
    CHECK_OK(mt_cluster_add(c, "2xh100", &err), err); /* not measured: nominal */
    check(c, "; add 2xh100");
    CHECK_EQ(c->nclasses, 3);
    CHECK(c->classes[2].nominal, "h100");
    CHECK_NEAR(mt_cluster_path(c, 8, 9).bandwidth_Bps, 0.8 * 450e9, 1); /* NVLink */
    CHECK_NEAR(mt_cluster_path(c, 0, 9).bandwidth_Bps, 125e6, 0);
    mt_cluster_free(c);

    c = make_pair(); /* one node: a second one needs a network */
    c->nlinks = 1;
    CHECK_OK(mt_cluster_add(c, "class0", &err), err);
    check(c, "; add class0");
    CHECK_NEAR(mt_cluster_path(c, 0, 2).bandwidth_Bps, 0.94 * 25e9 / 8, 1);
    CHECK(c->links[c->network].nominal, "hardware.def's");
    mt_cluster_free(c);
}

static void test_remove(void) {
    struct mt_cluster *c = make();
    CHECK_OK(mt_cluster_remove(c, "rank:1", &err), err);
    check(c, "; remove rank:1");
    CHECK_EQ(c->ndevices, 3);
    CHECK_EQ(c->devices[1].node, 1);
    CHECK_EQ(c->npairs, 3);
    CHECK_NEAR(mt_cluster_path(c, 1, 2).bandwidth_Bps, 23e6, 0); /* was 2-3 */
    CHECK_NEAR(mt_cluster_path(c, 0, 2).bandwidth_Bps, 3e6, 0);  /* was 0-3 */
    CHECK_EQ(c->ngroups, 1);                                     /* of node1 */
    CHECK(c->groups[0].devices[0] == 1 && c->groups[0].devices[1] == 2, "moved up");
    CHECK_OK(mt_cluster_remove(c, "rank:0", &err), err); /* and its node with it */
    check(c, "; remove rank:1; remove rank:0");
    CHECK_EQ(c->nnodes, 1);
    CHECK_TEXT(c->nodes[c->devices[0].node].name, "node1");
    CHECK_EQ(mt_cluster_remove(c, "node:node1", &err), MT_EINPUT);
    CHECK_TEXT(err.text, "remove \"node:node1\": no device would be left");
    check(c, "; remove rank:0");
    mt_cluster_free(c);

    c = make();
    CHECK_OK(mt_cluster_remove(c, "node:node0", &err), err);
    CHECK(c->ndevices == 2 && c->nnodes == 1 && c->npairs == 1 && c->ngroups == 1, "node1 is left");
    mt_cluster_free(c);
    c = make();
    CHECK_OK(mt_cluster_remove(c, "class1", &err), err); /* the last one: rank 3 */
    CHECK_EQ(c->ndevices, 3);
    CHECK_NEAR(mt_cluster_path(c, 0, 1).bandwidth_Bps, 1e6, 0);
    CHECK_EQ(c->ngroups, 1);
    CHECK_TEXT(c->groups[0].name, "node:node0");
    mt_cluster_free(c);
}

static void test_set(void) {
    struct mt_cluster *c = make();
    CHECK_OK(mt_cluster_set(c, "link.net=10G", &err), err);
    check(c, "; set link.net=10G");
    CHECK_NEAR(c->links[1].bandwidth_Bps, 0.94 * 10e9 / 8, 1);
    CHECK_NEAR(c->links[1].shared_Bps, 0.94 * 10e9 / 8, 1);
    CHECK(c->links[1].nominal && !c->links[0].nominal, "what was set is not measured");
    CHECK_NEAR(mt_cluster_path(c, 0, 2).bandwidth_Bps, 2e6 * 9.4, 1); /* in proportion: 125 MB/s became 1175 */
    CHECK_NEAR(mt_cluster_path(c, 0, 1).bandwidth_Bps, 1e6, 0);
    CHECK_EQ(c->ngroups, 3); /* test_edit_rates.c: how they are scaled */
    CHECK_OK(mt_cluster_set(c, "link.memory.latency=3us", &err), err);
    check(c, "; set link.net=10G; set link.memory.latency=3us");
    CHECK_NEAR(c->links[0].latency_s, 3e-6, 1e-18);
    CHECK_NEAR(mt_cluster_path(c, 0, 1).latency_s, 3e-6, 1e-15); /* 1 us, times 3 */
    CHECK_EQ(c->ngroups, 3);
    CHECK_OK(mt_cluster_set(c, "class.class1.speed=1.25", &err), err);
    CHECK(c->devices[1].speed == 1.25 && c->devices[3].speed == 1.25 && c->devices[0].speed == 1, "class1");
    CHECK_OK(mt_cluster_set(c, "class.class0.memory=32GiB", &err), err);
    CHECK(c->devices[0].memory_bytes == 32ll << 30 && c->devices[1].memory_bytes == 4ll << 30, "class0");
    CHECK_OK(mt_cluster_set(c, "rank.3.speed=0.5", &err), err);
    CHECK(c->devices[3].speed == 0.5 && c->devices[1].speed == 1.25, "rank 3");
    CHECK_OK(mt_cluster_set(c, "rank.2.memory=1GiB", &err), err);
    CHECK_EQ(c->devices[2].memory_bytes, 1ll << 30);
    check(c, "; set rank.2.memory=1GiB");
    c->nodes[0].name = "a.b"; /* names have dots */
    c->classes[0].name = "v.100";
    CHECK_OK(mt_cluster_set(c, "class.v.100.speed=2", &err), err);
    CHECK(c->devices[0].speed == 2, "v.100");
    mt_cluster_free(c);
}

static void test_refusals(void) {
    typedef enum mt_status edit(struct mt_cluster * cluster, const char *what, struct mt_err *err);
    static const struct {
        edit *edit;
        const char *what, *message;
    } wrong[] = {
        {mt_cluster_add, "0xclass0", "add \"0xclass0\": the number of devices must be at least 1"},
        {mt_cluster_add, "2xclass9",
         "add \"2xclass9\": \"class9\" is neither a class of the cluster nor known hardware"},
        {mt_cluster_add, "", "add \"\": \"\" is neither a class of the cluster nor known hardware"},
        {mt_cluster_add, "class0@node9", "add \"class0@node9\": there is no node \"node9\""},
        {mt_cluster_add, "4093xclass0", "add \"4093xclass0\": that would be more than 4096 devices"},
        {mt_cluster_add, "99999999999999999999xclass0", "add \"99999999999999999999xclass0\": the number"},
        {mt_cluster_remove, "rank:4", "remove \"rank:4\": \"4\" must be a rank, from 0 to 3"},
        {mt_cluster_remove, "rank:", "remove \"rank:\": \"\" must be a rank, from 0 to 3"},
        {mt_cluster_remove, "node:nod", "remove \"node:nod\": there is no node \"nod\""},
        {mt_cluster_remove, "3xclass0", "remove \"3xclass0\": there are only 2 of class class0"},
        {mt_cluster_remove, "h100",
         "remove \"h100\": must be rank:R, node:NAME or [Nx]CLASS, and \"h100\" is no class"},
        {mt_cluster_set, "link.net", "set \"link.net\": is not understood"},
        {mt_cluster_set, "net=3G", "set \"net=3G\": is not understood"},
        {mt_cluster_set, "rank.3=4", "set \"rank.3=4\": is not understood"},
        {mt_cluster_set, "rank.3.hope=4", "set \"rank.3.hope=4\": is not understood"},
        {mt_cluster_set, "node.node9.egress=3G", "set \"node.node9.egress=3G\": there is no node \"node9\""},
        {mt_cluster_set, "node.node1.egress=all", "set \"node.node1.egress=all\": \"all\" must be a rate in bits a"},
        {mt_cluster_set, "node.node1.ingress=1",
         "set \"node.node1.ingress=1\": \"1\" must be a rate in bits a second, as"},
        {mt_cluster_set, "node.node1.cores=3", "set \"node.node1.cores=3\": is not understood"},
        {mt_cluster_set, "link.nut=3G", "set \"link.nut=3G\": there is no link \"nut\""},
        {mt_cluster_set, "link.net=fast", "set \"link.net=fast\": \"fast\" must be a rate in bits a second, as 400G"},
        {mt_cluster_set, "link.memory=0", "set \"link.memory=0\": \"0\" must be a rate in bytes a second, as 300G"},
        {mt_cluster_set, "link.net.latency=5", "set \"link.net.latency=5\": \"5\" must be a time, as 5us"},
        {mt_cluster_set, "class.c.speed=1", "set \"class.c.speed=1\": there is no class \"c\""},
        {mt_cluster_set, "class.class0.speed=-1", "set \"class.class0.speed=-1\": \"-1\" must be a number above 0"},
        {mt_cluster_set, "class.class0.memory=1gb",
         "set \"class.class0.memory=1gb\": \"1gb\" must be a number of bytes"},
        {mt_cluster_set, "rank.1.speed=1e9", "set \"rank.1.speed=1e9\": devices[1].speed: is 1e+09, but must be from"},
        {mt_cluster_set, "link.net=999999999999999T", "set \"link.net=999999999999999T\": links[1].bandwidth_Bps: is"},
        {mt_cluster_set, "class.class0.memory=2000TiB", "set \"class.class0.memory=2000TiB\": classes[0].memory_bytes"},
        {mt_cluster_set, "rank.9.speed=1", "set \"rank.9.speed=1\": \"9\" must be a rank, from 0 to 3"}};
    struct mt_cluster *c = make();
    char hash[33];
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        CHECK_EQ(wrong[i].edit(c, wrong[i].what, &err), MT_EINPUT);
        CHECK(!strncmp(err.text, wrong[i].message, strlen(wrong[i].message)), "\"%s\", not \"%s\"", err.text,
              wrong[i].message);
        mt_cluster_hash(c, hash);
        CHECK_TEXT(hash, c->hash); /* as it was */
    }
    mt_cluster_free(c);
}

int main(void) {
    test_add();
    test_remove();
    test_set();
    test_refusals();
    return 0;
}
