/* Clusters from a line: figures as computed by hand from public ones, calibration, and refusals that name the column.
 */
#include "profiler/describe/describe.h"

#include <unistd.h>

#include "profiler/cluster/shape.h"
#include "profiler/describe/runs.h"
#include "tests/profiler/clusters.h"

static struct mt_cluster *describe(const char *text, const struct mt_cluster *measured) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_cluster *c;
    CHECK_OK(mt_cluster_describe(text, measured, &c, &err), err);
    return c;
}

static void test_figures(void) {
    struct mt_cluster *c = describe("a100-40:2x8 nvlink=300G net=25G + v100:1x4", NULL);
    CHECK_TEXT(c->source, "described");
    CHECK_TEXT(c->description, "a100-40:2x8 nvlink=300G net=25G + v100:1x4");
    CHECK_EQ(c->nclasses, 2);
    CHECK_EQ(c->nnodes, 3);
    CHECK_EQ(c->ndevices, 20);
    const struct mt_cluster_class *a100 = &c->classes[0], *v100 = &c->classes[1];
    CHECK_TEXT(a100->name, "a100-40");
    CHECK_TEXT(a100->kind, "cuda");
    CHECK(a100->nominal && v100->nominal, "nominal");
    CHECK_NEAR(a100->flops[MT_BF16], 312e12, 1); /* NVIDIA A100 data sheet, dense */
    CHECK_NEAR(a100->flops[MT_F32], 19.5e12, 1); /* without TF32 */
    CHECK_NEAR(a100->memory_Bps, 1555e9, 1);
    CHECK_EQ(a100->memory_bytes, 40960ll << 20);
    CHECK_NEAR(v100->flops[MT_F32], 15.7e12, 1);
    CHECK_NEAR(v100->flops[MT_BF16], 0, 0); /* has none */
    CHECK_EQ(c->devices[15].node, 1);
    CHECK_EQ(c->devices[15].class, 0);
    CHECK_EQ(c->devices[16].node, 2);
    CHECK_EQ(c->devices[16].class, 1);
    CHECK_EQ(c->devices[19].memory_bytes, 32510ll << 20);
    /* NVLink reaches 0.8 of 300 GB/s and of the V100's 150; the net 0.94 of 25 Gbit/s. */
    CHECK_TEXT(c->links[c->nodes[0].inside].name, "nvlink");
    CHECK_NEAR(c->links[c->nodes[0].inside].bandwidth_Bps, 240e9, 1);
    CHECK_TEXT(c->links[c->nodes[2].inside].name, "nvlink2");
    CHECK_NEAR(c->links[c->nodes[2].inside].bandwidth_Bps, 120e9, 1);
    CHECK_NEAR(c->links[c->network].bandwidth_Bps, 25e9 / 8 * 0.94, 1);
    CHECK_NEAR(c->links[c->network].shared_Bps, 25e9 / 8 * 0.94, 1);
    CHECK_EQ(c->npairs, 0);
    /* Puts over NVLink have public figures too, by its rate; networks and CPUs have none. */
    const struct mt_cluster_link *nvlink = &c->links[c->nodes[0].inside], *older = &c->links[c->nodes[2].inside];
    CHECK(nvlink->nominal && mt_cluster_has_puts(nvlink) && mt_cluster_has_puts(older), "nominal puts");
    CHECK_NEAR(nvlink->copy_Bps, 258e9, 1);
    CHECK_NEAR(nvlink->puts.blocks_Bps, 2 * older->puts.blocks_Bps, 1);
    CHECK_NEAR(nvlink->puts.signal_s, older->puts.signal_s, 0);
    CHECK(!mt_cluster_has_puts(&c->links[c->network]), "a network");

    /* A large GEMM takes 2 m n k over what the A100 reaches of its peak: 0.8. */
    struct mt_op_shape shape = {MT_OP_matmul,         "nt", MT_BF16, 8192, {8192, 8192}, 2.0 * 8192 * 8192 * 8192,
                                3.0 * 8192 * 8192 * 2};
    CHECK_NEAR(mt_class_op_s(a100, &shape, NULL), 4e-6 + 2.0 * 8192 * 8192 * 8192 / (0.8 * 312e12), 1e-7);
    mt_cluster_free(c);

    c = describe("cpu-8t:2x3", NULL); /* 8 cores with AVX2 at 3 GHz: 2 fused multiply-adds of 8 floats a cycle */
    CHECK_NEAR(c->classes[0].flops[MT_F32], 8 * 2 * 2 * 8 * 3e9, 1e9);
    CHECK_NEAR(c->classes[0].flops[MT_F64], 8 * 2 * 2 * 4 * 3e9, 1e9);
    CHECK_EQ(c->classes[0].threads, 8);
    CHECK_EQ(c->nodes[0].cores, 24);
    CHECK_EQ(c->nodes[1].memory_bytes, 24ll << 32);
    CHECK_TEXT(c->links[c->nodes[1].inside].name, "memory");
    mt_cluster_free(c);

    c = describe("h100", NULL);
    CHECK(c->ndevices == 1 && c->nnodes == 1 && c->network == -1, "one device, no net");
    mt_cluster_free(c);
}

static void test_nets(void) {
    /* Said once, it is for all. */
    struct mt_cluster *c = describe("t4:2 + a10:2x2 net=10G", NULL);
    CHECK_EQ(c->npairs, 0);
    CHECK_NEAR(mt_cluster_path(c, 0, 1).bandwidth_Bps, 10e9 / 8 * 0.94, 1);
    mt_cluster_free(c);
    /* Said per term: t4 devices 0, 1 at 10 Gbit/s; a10 nodes (2 3) (4 5) at 100; between them the slower. */
    c = describe("t4:2 net=10G + a10:2x2 net=100G", NULL);
    CHECK_NEAR(mt_cluster_path(c, 0, 1).bandwidth_Bps, 10e9 / 8 * 0.94, 1);
    CHECK_NEAR(mt_cluster_path(c, 1, 2).bandwidth_Bps, 10e9 / 8 * 0.94, 1);
    CHECK_NEAR(mt_cluster_path(c, 3, 4).bandwidth_Bps, 100e9 / 8 * 0.94, 1);
    CHECK_NEAR(mt_cluster_path(c, 2, 3).bandwidth_Bps, 31.5e9 * 0.85, 1); /* PCIe */
    CHECK_EQ(c->npairs, 0); /* the network is the fastest; nodes have their own rates */
    CHECK_NEAR(c->nodes[0].egress_Bps, 10e9 / 8 * 0.94, 1);
    CHECK_NEAR(c->nodes[1].ingress_Bps, 10e9 / 8 * 0.94, 1);
    CHECK_NEAR(mt_cluster_node_egress(c, 2), 100e9 / 8 * 0.94, 1);
    mt_cluster_free(c);
    c = describe("t4:2000 net=1G + a10:2000 net=2G", NULL);
    CHECK_NEAR(mt_cluster_path(c, 2000, 3999).bandwidth_Bps, 2e9 / 8 * 0.94, 1);
    CHECK_NEAR(mt_cluster_path(c, 3999, 1999).bandwidth_Bps, 1e9 / 8 * 0.94, 1);
    mt_cluster_free(c);
    /* A term's nodes that send, or receive, less than the network does. */
    c = describe("h100:2x2 net=10G + a10:2 egress=100M ingress=1G + t4 ingress=20G", NULL);
    double G = 1e9 / 8 * 0.94;
    CHECK_NEAR(mt_cluster_path(c, 0, 2).bandwidth_Bps, 10 * G, 1);
    CHECK_NEAR(mt_cluster_path(c, 4, 0).bandwidth_Bps, 0.1 * G, 1);
    CHECK_NEAR(mt_cluster_path(c, 0, 4).bandwidth_Bps, G, 1);
    CHECK_NEAR(mt_cluster_path(c, 4, 5).bandwidth_Bps, 0.1 * G, 1);
    CHECK_NEAR(mt_cluster_path(c, 0, 6).bandwidth_Bps, 10 * G, 1); /* the network's, though the node takes more */
    CHECK_NEAR(mt_cluster_node_ingress(c, 4), 20 * G, 1);
    CHECK(c->nodes[4].egress_Bps == 0 && c->nodes[0].ingress_Bps == 0, "not given");
    mt_cluster_free(c);
    c = describe("a10 egress=1G", NULL); /* for nodes that may be added */
    CHECK_NEAR(mt_cluster_node_egress(c, 0), G, 1);
    mt_cluster_free(c);
}

static void test_measured(void) {
    /* An A100 measured at 0.6 of its public rates in both precisions, and a CPU with a curve. */
    struct mt_cluster *m = make_cluster(4, 2, 2);
    static int64_t rows[] = {64};
    static double time[] = {1e-4}, error[] = {0.02};
    m->classes[0].name = "a100-40";
    m->classes[0].kind = "cuda";
    m->classes[0].flops[MT_F64] = 0;
    m->classes[0].flops[MT_F32] = 0.6 * 19.5e12;
    m->classes[0].flops[MT_BF16] = 0.6 * 312e12;
    for (int d = 0; d < 4; d++) m->devices[d].mask = "";
    m->classes[1].ncurves = 1;
    m->classes[1].curves = mt_new(&m->arena, struct mt_curve, 1);
    m->classes[1].curves[0] = (struct mt_curve){"gelu", "", MT_F32, {1, 1}, 1, rows, time, error};

    /* The same row under its model's name reaches 0.6; of others of the kind, typical times 0.6 / 0.8; cpus as ever. */
    struct mt_cluster *c = describe("a100-40 + h100:2 + cpu + class1:2x4", m);
    CHECK(!c->classes[0].nominal, "a class of the measured cluster is what was measured");
    CHECK_NEAR(c->classes[0].flops[MT_BF16], 0.6 * 312e12, 1);
    CHECK(c->classes[1].nominal, "h100");
    CHECK_NEAR(c->classes[1].calibration, 0.82 * 0.6 / 0.8, 1e-9);
    CHECK_NEAR(c->classes[2].calibration, 0.8, 1e-9);
    CHECK_EQ(c->classes[3].ncurves, 1);
    CHECK_NEAR(c->classes[3].curves[0].time_s[0], 1e-4, 0);
    /* Links as measured, where they were. */
    CHECK(!c->links[c->nodes[5].inside].nominal && !c->links[c->network].nominal, "measured links");
    CHECK_NEAR(c->links[c->network].bandwidth_Bps, 125e6, 0);
    mt_cluster_free(c);
    m->classes[0].name = "gpu0";
    m->classes[0].model = "NVIDIA A100-SXM4-40GB";
    c = describe("a100-40", m);
    CHECK(c->classes[0].nominal, "a row");
    CHECK_NEAR(c->classes[0].calibration, 0.6, 1e-9);
    mt_cluster_free(c);
    mt_cluster_free(m);
}

/* What a class of devices runs, by the compute capability that NVIDIA states for its model. */
static void test_runs(void) {
    static const struct {
        const char *name;
        int capability;
        bool f32, bf16, f64;
    } expected[] = {{"p100", 60, false, false, false},  {"v100-16", 70, false, false, false},
                    {"v100", 70, false, false, false},  {"t4", 75, true, false, false},
                    {"a100-40", 80, true, true, false}, {"rtx3090", 86, true, true, false},
                    {"l40s", 89, true, true, false},    {"h200", 90, true, true, false},
                    {"b200", 100, true, true, false},   {"cpu-8t", 0, true, true, true}};
    char why[MT_RUNS_TEXT];
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        struct mt_cluster *c = describe(expected[i].name, NULL);
        const struct mt_cluster_class *class = &c->classes[0];
        CHECK_EQ(mt_cluster_class_capability(class), expected[i].capability);
        CHECK(mt_cluster_class_runs(class, MT_F32, false, why) == expected[i].f32, "%s", expected[i].name);
        CHECK(mt_cluster_class_runs(class, MT_F16, false, NULL) == expected[i].f32, "%s", expected[i].name);
        CHECK(mt_cluster_class_runs(class, MT_F32, true, why) == expected[i].bf16, "%s", expected[i].name);
        CHECK(mt_cluster_class_runs(class, MT_BF16, false, why) == expected[i].bf16, "%s", expected[i].name);
        CHECK(mt_cluster_class_runs(class, MT_F64, false, why) == expected[i].f64, "%s", expected[i].name);
        mt_cluster_free(c);
    }
    struct mt_cluster_class class = {.name = "gpu", .kind = "cuda", .model = "Tesla V100-SXM2-32GB"};
    CHECK(!mt_cluster_class_has_kernels(&class, why), "by model");
    CHECK_TEXT(why, "gpu: has compute capability 7.0, and kernels need 7.5 (sm_75)");
    class.capability = 75; /* as measured: this counts */
    CHECK(mt_cluster_class_has_kernels(&class, why), "%s", why);
    CHECK(!mt_cluster_class_runs(&class, MT_BF16, false, why), "bf16");
    CHECK_TEXT(why, "gpu: has compute capability 7.5, and bf16 needs 8.0 (sm_80)");
    class.capability = 0, class.model = "NVIDIA Z1"; /* not known */
    CHECK(mt_cluster_class_runs(&class, MT_BF16, false, why), "%s", why);
}

static void test_refusals(void) {
    static const struct {
        const char *text, *message;
    } wrong[] = {
        {"", "\"\": column 1: there is no term; as h100:2x8"},
        {"a101:2", "\"a101:2\": column 1: \"a101\" is not known here"},
        {"h100:2 + a101", "\"h100:2 + a101\": column 10: \"a101\" is not known here"},
        {"h100:0", "\"h100:0\": column 6: \"0\" must be NODES or NODESxDEVICES, as 2 or 2x8"},
        {"h100:2x", "\"h100:2x\": column 6: \"2x\" must be NODES"},
        {"h100:x2", "\"h100:x2\": column 6: \"x2\" must be NODES"},
        {"h100:-1x2", "\"h100:-1x2\": column 6: \"-1x2\" must be NODES"},
        {"h100:2x8x2", "\"h100:2x8x2\": column 6: \"2x8x2\" must be NODES"},
        {"h100:", "\"h100:\": column 6: \"\" must be NODES"},
        {"h100:1000x8", "\"h100:1000x8\": column 6: more than 4096 devices"},
        {"h100:4096 + t4", "\"h100:4096 + t4\": column 13: more than 4096 devices"},
        {"h100 nvlonk=3G", "\"h100 nvlonk=3G\": column 6: there is no link \"nvlonk\""},
        {"h100 nvlink2=3G", "\"h100 nvlink2=3G\": column 6: there is no link \"nvlink2\""},
        {"h100 net=fast", "\"h100 net=fast\": column 10: \"fast\" must be a rate in bits a second, as 25G"},
        {"h100 nvlink=-3G", "\"h100 nvlink=-3G\": column 13: \"-3G\" must be a rate in bytes a second, as 300G"},
        {"h100 net=1G net=2G", "\"h100 net=1G net=2G\": column 13: the term has two links between its nodes"},
        {"h100 pcie=1G nvlink=2G", "\"h100 pcie=1G nvlink=2G\": column 14: the term has two links within"},
        {"h100 t4", "\"h100 t4\": column 6: \"t4\" must be LINK=RATE, or a \"+\" must stand before it"},
        {"net=1G", "\"net=1G\": column 1: a term must begin with the NAME of a device, as h100:2x8"},
        {"+ h100", "\"+ h100\": column 1: there is no term before this \"+\""},
        {"h100 + + t4", "\"h100 + + t4\": column 8: there is no term before this \"+\""},
        {"h100 +", "\"h100 +\": column 7: a term must follow the last \"+\""},
        {"cpu-0t", "\"cpu-0t\": column 1: \"cpu-0t\" is not known here"},
        {"h100-8t", "\"h100-8t\": column 1: \"h100-8t\" is not known here"},
        {"t4 net=1G + t4 net=2G + t4",
         "\"t4 net=1G + t4 net=2G + t4\": column 13: net must be given once, or in every"},
        {"t4 egress=1G egress=2G", "\"t4 egress=1G egress=2G\": column 14: the term has two of egress"},
        {"t4 egress=0", "\"t4 egress=0\": column 11: \"0\" must be a rate in bits a second, as 25G"},
        {"t4\033[2J", "the description of a cluster has a control character at column 3"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct mt_err err = MT_ERR_INIT;
        struct mt_cluster *c;
        CHECK_EQ(mt_cluster_describe(wrong[i].text, NULL, &c, &err), MT_EINPUT);
        CHECK(!strncmp(err.text, wrong[i].message, strlen(wrong[i].message)), "\"%s\", not \"%s\"", err.text,
              wrong[i].message);
    }
}

/* Names in capitals, and rates that say their unit, are those of the plain line; what is not clear gets a hint. */
static void test_spellings(void) {
    static const char *const same[] = {"H100:2x8 NVLink=450GB/s net=400Gbps", "h100:2x8 nvlink=3600Gbit/s net=50GB/s",
                                       "H100:2x8 nvlink=450GBps net=400gbps"};
    struct mt_cluster *plain = describe("h100:2x8 nvlink=450G net=400G", NULL);
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        struct mt_cluster *c = describe(same[i], NULL);
        c->description = plain->description;
        char hash[33];
        mt_cluster_hash(c, hash);
        CHECK_TEXT(hash, plain->hash);
        mt_cluster_free(c);
    }
    mt_cluster_free(plain);
    static const struct {
        const char *text, *hint;
    } unclear[] = {{"a100:8", "a100-40 or a100-80?"},         {"H100-SXM:8", "h100-pcie or h100?"},
                   {"z9:8", "known: p100, v100-16, v100"},    {"h100:2 net=50gb/s", "bits or bytes?"},
                   {"h100:2 net=fast", "as 400G or 400Gbps"}, {"h100:1x2 nvlink=fast", "as 300G or 300GB/s"}};
    for (size_t i = 0; i < sizeof unclear / sizeof unclear[0]; i++) {
        struct mt_err err = MT_ERR_INIT;
        struct mt_cluster *c;
        CHECK_EQ(mt_cluster_describe(unclear[i].text, NULL, &c, &err), MT_EINPUT);
        CHECK(!strncmp(err.hint, unclear[i].hint, strlen(unclear[i].hint)), "%s: %s", unclear[i].text, err.hint);
    }
}

static void test_open(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_cluster *c, *back;
    CHECK_OK(mt_cluster_open("t4:2x2", &c, &err), err);
    CHECK_EQ(c->ndevices, 4);
    char path[] = "/tmp/motley-test-describe-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0, "%s", path);
    close(fd);
    CHECK_OK(mt_cluster_write(c, path, &err), err);
    CHECK_OK(mt_cluster_open(path, &back, &err), err);
    CHECK_TEXT(back->hash, c->hash);
    unlink(path);
    mt_cluster_free(c);
    mt_cluster_free(back);
    CHECK_OK(mt_cluster_open("t4:2 net=5GB/s + t4 net=8Gb/s", &c, &err), err); /* no folders */
    CHECK_EQ(c->ndevices, 3);
    mt_cluster_free(c);
    CHECK_EQ(mt_cluster_open("B/s/nothing", &c, &err), MT_EINPUT);
    CHECK_TEXT(err.text, "B/s/nothing: No such file or directory");
    CHECK_EQ(mt_cluster_open("nothing.json", &c, &err), MT_EINPUT);
    CHECK_TEXT(err.text, "nothing.json: No such file or directory");
    CHECK_EQ(mt_cluster_open("a101:2", &c, &err), MT_EINPUT);
    CHECK_TEXT(
        err.text,
        "there is no such file, and as a description of a cluster: \"a101:2\": column 1: \"a101\" is not known here");
}

static void check_understood(const char *line, const char *want) {
    struct mt_cluster *c = describe(line, NULL);
    struct mt_arena arena = MT_ARENA_INIT;
    CHECK_TEXT(mt_cluster_understood(c, &arena), want);
    mt_arena_release(&arena);
    mt_cluster_free(c);
}

/* What links and networks reach, by the rows of hardware.def: nvlink 0.8, net 0.94. */
static void test_understood(void) {
    check_understood("h100:2x8 net=400G", "2 nodes of 8 h100, nvlink 360 GB/s; messages between nodes reach 47.0 GB/s");
    check_understood("H100:2", "2 nodes of 1 h100; messages between nodes reach 2.94 GB/s, of net=25.0 Gbit/s, as "
                               "nothing else is given");
    check_understood(
        "a10 egress=1G + t4:3x2 pcie=10GB/s net=25Gbps",
        "1 node of 1 a10, egress 118 MB/s + 3 nodes of 2 t4, pcie2 8.50 GB/s; messages between nodes reach "
        "2.94 GB/s");
    check_understood("h100", "1 node of 1 h100; no network");
    struct mt_cluster *largest = describe("h100:512x8", NULL);
    CHECK_EQ(largest->ndevices, MT_CLUSTER_MOST_DEVICES);
    largest->source = "measured";
    struct mt_arena arena = MT_ARENA_INIT;
    CHECK_TEXT(mt_cluster_understood(largest, &arena), "");
    mt_arena_release(&arena);
    mt_cluster_free(largest);
}

int main(void) {
    test_figures();
    test_understood();
    test_nets();
    test_measured();
    test_runs();
    test_refusals();
    test_spellings();
    test_open();
    return 0;
}
