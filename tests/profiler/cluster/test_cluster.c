/* The cluster document: a round trip by bytes, every member in the hash, copies, paths, refusals by name. */
#include <unistd.h>

#include "tests/edited.h"
#include "tests/profiler/clusters.h"

/* Two nodes of two ranks, two classes; with curves, pairs, groups, fits and warnings. */
static struct mt_cluster *make_full(void) {
    struct mt_cluster *c = make_cluster(4, 2, 2);
    struct mt_arena *arena = &c->arena;
    static int64_t rows[] = {16, 64, 256}, sizes[] = {1024, 1 << 20};
    static double times[] = {1e-5, 2.5e-5, 9.1e-5}, errors[] = {0.01, 0.02, 0.03}, ratios[] = {1.25, 0.97};
    c->classes[0].ncurves = 2;
    c->classes[0].curves = mt_new(arena, struct mt_curve, 2);
    c->classes[0].curves[0] = (struct mt_curve){"matmul", "nt", MT_F32, {384, 1536}, 3, rows, times, errors};
    c->classes[0].curves[1] = (struct mt_curve){"gelu", "", MT_BF16, {1, 1}, 1, rows, times, errors};
    c->npairs = 2;
    c->pairs = mt_new(arena, struct mt_cluster_pair, 2);
    c->pairs[0] = (struct mt_cluster_pair){0, 1, 0, 2e-6, 0.02, 4e9, 0.03, 0, 0};
    c->pairs[1] = (struct mt_cluster_pair){0, 2, 1, 70e-6, 0.02, 110e6, 0.03, 11.7e6, 0.05};
    c->ngroups = 2;
    c->groups = mt_new(arena, struct mt_cluster_group, 2);
    static int all[] = {0, 1, 2, 3}, two[] = {0, 1};
    c->groups[0] = (struct mt_cluster_group){"all", 4, all, 1, 2, mt_new(arena, struct mt_coll_fit, 2)};
    c->groups[0].fits[0] =
        (struct mt_coll_fit){MT_ALL_REDUCE, "ring", MT_F32, MT_F32, 60e-6, 115e6, 0.05, 2, sizes, ratios, 1.5, ratios};
    c->groups[0].fits[1] =
        (struct mt_coll_fit){MT_ALL_GATHER, "bruck", MT_F32, MT_F32, 60e-6, 115e6, 0.05, 0, 0, 0, 0, 0};
    c->nodes[0].ingress_Bps = 12.5e6;
    c->groups[1] = (struct mt_cluster_group){"node:node0", 2, two, 0, 0, NULL};
    c->devices[3].stolen = 0.25;
    c->devices[2].emulated = c->devices[2].speed = 0.5;
    c->devices[1].mask = "0-1,4";
    c->links[1].compute_slowdown = 0.125;
    c->links[1].comm_slowdown = 0.5;
    c->nwarnings = 1;
    c->warnings = mt_new(arena, const char *, 1);
    c->warnings[0] = "rank 1 on node0: its mask has 1 of 8 cores";
    return c;
}

static void test_round_trip(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_cluster *c = make_full(), *back;
    size_t length, again;
    CHECK_OK(mt_cluster_check(c, &err), err);
    char *text = mt_cluster_text(c, &length);
    CHECK_OK(mt_cluster_parse("c", text, length, &back, &err), err);
    CHECK_TEXT(back->hash, c->hash);
    CHECK_EQ(back->ndevices, 4);
    CHECK_EQ(back->classes[0].curves[0].rows[2], 256);
    CHECK_NEAR(back->classes[0].curves[0].time_s[2], 9.1e-5, 0);
    CHECK_EQ(back->classes[0].curves[0].dim[1], 1536);
    CHECK_EQ(back->classes[0].curves[1].type, MT_BF16);
    CHECK_NEAR(back->classes[1].flops[MT_F32], 50e9, 0);
    CHECK_NEAR(back->devices[2].speed, 0.5, 0);
    CHECK_TEXT(back->devices[1].mask, "0-1,4");
    CHECK_EQ(back->devices[3].class, 1);
    CHECK_EQ(back->groups[0].fits[1].kind, MT_ALL_GATHER);
    CHECK_EQ(back->groups[0].fits[0].size_bytes[1], 1 << 20);
    CHECK_NEAR(back->groups[0].fits[0].ratio[1], 0.97, 0);
    CHECK_NEAR(back->groups[0].fits[0].skew, 1.5, 0);
    CHECK_NEAR(back->groups[0].fits[0].skewed_ratio[0], 1.25, 0);
    CHECK_EQ(back->network, 1);
    CHECK_TEXT(back->warnings[0], c->warnings[0]);
    char *second = mt_cluster_text(back, &again);
    CHECK_TEXT(second, text);
    free(second);

    /* A copy shares nothing with what it was made from. */
    struct mt_cluster *copy = mt_cluster_copy(back);
    mt_cluster_free(back);
    second = mt_cluster_text(copy, &again);
    CHECK_TEXT(second, text);
    free(second);
    mt_cluster_free(copy);

    char *spaced = edited(text, "\"version\": 1", "\"version\"   :\n1");
    CHECK_OK(mt_cluster_parse("c", spaced, strlen(spaced), &back, &err), err);
    mt_cluster_free(back);
    free(spaced);

    char path[] = "/tmp/motley-test-cluster-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0, "%s", path);
    close(fd);
    CHECK_OK(mt_cluster_write(c, path, &err), err);
    CHECK_OK(mt_cluster_read(path, &back, &err), err);
    CHECK_TEXT(back->hash, c->hash);
    unlink(path);
    mt_cluster_free(back);
    mt_cluster_free(c);
    free(text);
}

/* Every number of the document counts: with one digit changed it is refused, by the hash if by nothing else. And every
 * key is needed. */
static void test_mutations(void) {
    struct mt_cluster *c = make_full(), *back;
    size_t length;
    char *text = mt_cluster_text(c, &length);
    const char *start = strstr(text, "\"made_by\"");
    int numbers = 0, keys = 0;
    for (char *at = text + (start - text); *at; at++) {
        struct mt_err err = MT_ERR_INIT;
        if (*at >= '0' && *at <= '9') {
            char was = *at;
            *at = was == '9' ? '8' : (char)(was + 1);
            CHECK_EQ(mt_cluster_parse("c", text, length, &back, &err), MT_EINPUT);
            *at = was;
            numbers++;
        } else if (*at == '"' && at[-1] != '\\') {
            char *end = strchr(at + 1, '"');
            if (end[1] == ':') {
                char was = at[1];
                at[1] = was == 'z' ? 'y' : 'z';
                CHECK_EQ(mt_cluster_parse("c", text, length, &back, &err), MT_EINPUT);
                CHECK(strstr(err.text, "unknown key"), "%s", err.text);
                at[1] = was;
                keys++;
            }
            at = end;
        }
    }
    CHECK(numbers > 200 && keys > 100, "%d numbers, %d keys", numbers, keys);
    for (size_t cut = 0; cut + 2 < length; cut += 13) {
        struct mt_err err = MT_ERR_INIT;
        CHECK_EQ(mt_cluster_parse("c", text, cut, &back, &err), MT_EINPUT);
    }
    free(text);
    mt_cluster_free(c);
}

/* The second class of GPUs: what only they have goes and comes, is hashed and copied, and is refused for CPUs. */
static void test_gpus(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_cluster *c = make_full(), *back;
    size_t length;
    c->nccl = "2.28.9";
    c->nodes[1].driver = "580.95.05", c->nodes[1].nics = "eth0 mlx5_0";
    c->links[0].copy_Bps = 392e9;
    c->classes[1].kind = "cuda", c->classes[1].capability = 90, c->classes[1].threads = 66;
    for (int d = 0; d < 4; d++) {
        if (c->devices[d].class != 1) continue;
        c->devices[d].mask = "";
        c->devices[d].gpu = mt_new(&c->arena, struct mt_cluster_gpu, 1);
        *c->devices[d].gpu = (struct mt_cluster_gpu){
            .bus = "0000:1b:00.0", .reserved_bytes = 1 << 29, .from_host_Bps = 7e9, .sm_clock_Hz = 1.98e9};
    }
    CHECK_OK(mt_cluster_check(c, &err), err);
    char *text = mt_cluster_text(c, &length);
    CHECK(strstr(text,
                 "\"gpu\": {\"bus\": \"0000:1b:00.0\", \"reserved_bytes\": 536870912, \"from_host_Bps\": 7000000000, "
                 "\"sm_clock_Hz\": 1980000000}"),
          "%s", text);
    CHECK_OK(mt_cluster_parse("c", text, length, &back, &err), err);
    CHECK_TEXT(back->hash, c->hash);
    struct mt_cluster *copy = mt_cluster_copy(back);
    mt_cluster_free(back);
    char hash[33];
    mt_cluster_hash(copy, hash);
    CHECK_TEXT(hash, c->hash);
    CHECK_TEXT(copy->nccl, "2.28.9");
    CHECK_TEXT(copy->nodes[1].driver, "580.95.05");
    CHECK(!copy->nodes[0].driver && !copy->nodes[0].nics, "node0 has no GPU");
    CHECK_TEXT(mt_cluster_kind(copy), "cpu");
    CHECK_NEAR(mt_cluster_gpu_figure(copy->devices[1].gpu, 2), 1.98e9, 0);
    copy->devices[1].gpu->sm_clock_Hz = 1e9;
    mt_cluster_hash(copy, hash);
    CHECK(strcmp(hash, c->hash), "figures of GPUs are not hashed");
    copy->devices[1].gpu->power_W = -1;
    CHECK_EQ(mt_cluster_check(copy, &err), MT_EINPUT);
    CHECK(!strncmp(err.text, "devices[1].gpu.power_W: is -1", 29), "%s", err.text);
    copy->classes[1].kind = "cpu";
    CHECK_EQ(mt_cluster_check(copy, &err), MT_EINPUT);
    CHECK_TEXT(err.text, "devices[1].gpu: a device of kind \"cpu\" is none");
    mt_cluster_free(copy);
    char *wrong = edited(text, "\"reserved_bytes\": 536870912", "\"reserved_bytes\": -1");
    CHECK_EQ(mt_cluster_parse("c", wrong, strlen(wrong), &back, &err), MT_EINPUT);
    free(wrong);
    wrong = edited(text, "\"sm_clock_Hz\"", "\"smclock_Hz\"");
    CHECK_EQ(mt_cluster_parse("c", wrong, strlen(wrong), &back, &err), MT_EINPUT);
    CHECK(strstr(err.text, "smclock_Hz"), "%s", err.text);
    free(wrong);
    free(text);
    mt_cluster_free(c);
}

/* Figures of puts are written, read, hashed and copied. Either all are there, or none; a wrong one is named. */
static void test_puts(void) {
    static const struct {
        const char *from, *to, *message;
    } edits[] = {
        {"\"copy_s\": 2e-06", "\"copy_s\": -2e-06", "c: links[0].puts.copy_s: is -2e-06, but must be from 0"},
        {"\"blocks_Bps\": 360000000000", "\"blocks_Bps\": 0", "c: links[0].puts.blocks_Bps: is 0, but must be from 1"},
        {"\"blocks_Bps\": 360000000000, ", "", "c: links[0].puts: has no \"blocks_Bps\""},
        {"\"signal_s\": 1.5e-06", "\"signal_s\": 0", "c: links[0].puts.signal_s: is 0, but must be above 0"},
        {"\"signal_s\": 1.5e-06", "\"signal_s\": 2", "c: links[0].puts.signal_s: is 2, but must be from 0 to 1"},
        {"\"put_slowdown\": 0.0", "\"put_slowdown\": -0.0", "c: links[0].puts.put_slowdown: is -0.05, but must be"},
        {"\"put_slowdown\"", "\"puts_slowdown\"", "c: links[0].puts: unknown key \"puts_slowdown\""},
        {"\"copy_Bps\": 392000000000,", "", "c: links[0].puts: is there, but copy_Bps is not"},
    };
    struct mt_err err = MT_ERR_INIT;
    struct mt_cluster *c = make_full(), *back;
    size_t length;
    char hash[33];
    char *text = mt_cluster_text(c, &length);
    CHECK(!strstr(text, "\"puts\""), "none were measured: %s", text);
    CHECK_OK(mt_cluster_parse("c", text, length, &back, &err), err);
    CHECK(!mt_cluster_has_puts(&back->links[0]), "a profile of before has none");
    mt_cluster_free(back);
    free(text);
    c->links[0].copy_Bps = 392e9;
    c->links[0].puts = (struct mt_cluster_puts){2e-6, 3.6e11, 1.5e-6, 0.08, 0.05};
    text = mt_cluster_text(c, &length);
    CHECK_OK(mt_cluster_parse("c", text, length, &back, &err), err);
    CHECK_TEXT(back->hash, c->hash);
    struct mt_cluster *copy = mt_cluster_copy(back);
    mt_cluster_free(back);
    mt_cluster_hash(copy, hash);
    CHECK_TEXT(hash, c->hash);
    CHECK_NEAR(copy->links[0].puts.copy_s, 2e-6, 0);
    CHECK_NEAR(copy->links[0].puts.compute_slowdown, 0.08, 0);
    copy->links[0].puts.blocks_Bps = 3e11;
    mt_cluster_hash(copy, hash);
    CHECK(strcmp(hash, c->hash), "figures of puts are not hashed");
    mt_cluster_free(copy);
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        char *wrong = edited(text, edits[i].from, edits[i].to);
        CHECK_EQ(mt_cluster_parse("c", wrong, strlen(wrong), &back, &err), MT_EINPUT);
        CHECK(!strncmp(err.text, edits[i].message, strlen(edits[i].message)), "%s", err.text);
        free(wrong);
    }
    free(text);
    mt_cluster_free(c);
}

static void test_refusals(void) {
    static const struct {
        const char *from, *to, *message;
    } edits[] = {
        {"motley-cluster", "motley-cloister", "c: is a \"motley-cloister\", not a \"motley-cluster\""},
        {"\"version\": 1", "\"version\": 2", "c: version: is 2, but this motley knows version 1 only"},
        {"\"threads\": 1", "\"threads\": 1000000", "c: classes[0].threads: is 1e+06, but must be from 0 to 262144"},
        {"\"threads\": 1", "\"threads\": 2", "c: hash: does not fit: the document was changed after it was made"},
        {"\"source\": \"measured\"", "\"source\": \"dreamt\"", "c: source: \"dreamt\" must be"},
        {"\"kind\": \"cpu\"", "\"kind\": \"tpu\"", "c: classes[0].kind: \"tpu\" must be \"cpu\" or \"cuda\""},
        {"\"model\": \"Test CPU\"", "\"model\": \"\\u001b[2J\"", "c: classes[0]: model: has a control character"},
        {"\"calibration\": 1", "\"calibration\": 0", "c: classes[0].calibration: is 0, but must be from"},
        {"\"memory_bytes\": 4294967296", "\"memory_bytes\": -1", "c: classes[0].memory_bytes: is -1, but must be from"},
        {"\"memory_Bps\": 10000000000", "\"memory_Bps\": 0", "c: classes[0].memory_Bps: is 0, but must be from 1 to"},
        {"\"memory_error\": 0.01", "\"memory_error\": -0.01", "c: classes[0].memory_error: is -0.01, but must be from"},
        {"\"overhead_s\": 2e-06", "\"overhead_s\": -2e-06", "c: classes[0].overhead_s: is -2e-06, but must be from 0"},
        {"\"f32\": 1", "\"f32\": -1", "c: classes[0].flops.f32: is -1"},
        {"\"f32\": 1", "\"f23\": 1", "c: classes[0].flops: unknown key \"f23\""},
        {"\"op\": \"matmul\"", "\"op\": \"matmal\"", "c: classes[0].curves[0].op: there is no operator \"matmal\""},
        {"\"dim\": [384, 1536]", "\"dim\": [384, 0]", "c: classes[0].curves[0].dim: must be at least 1"},
        {"\"rows\": [16, 64, 256]", "\"rows\": [16, 64, 64]", "c: classes[0].curves[0].rows[2]: must rise, from 1"},
        {"\"rows\": [16, 64, 256]", "\"rows\": [0, 64, 65]", "c: classes[0].curves[0].rows[0]: must rise, from 1"},
        {"\"rows\": [16, 64, 256]", "\"rows\": [16, 64]", "c: classes[0].curves[0].time_s: has 3 numbers, but must"},
        {"\"time_s\": [1e-05", "\"time_s\": [0", "c: classes[0].curves[0].time_s[0]: is 0, but must be above 0"},
        {"\"error\": [0.01, 0.02", "\"error\": [0.01, -1", "c: classes[0].curves[0].error[1]: is -1"},
        {"\"op\": \"gelu\", \"variant\": \"\", \"type\": \"bf16\", \"dim\": [1, 1]",
         "\"op\": \"matmul\", \"variant\": \"nt\", \"type\": \"f32\", \"dim\": [384, 1536]",
         "c: classes[0].curves[1]: is there already, as curves[0]"},
        {"\"bandwidth_Bps\": 5", "\"bandwidth_Bps\": -5", "c: links[0].bandwidth_Bps: is -5"},
        {"\"latency_s\": 1e-06", "\"latency_s\": -1", "c: links[0].latency_s: is -1, but must be from 0"},
        {"\"comm_slowdown\": 0.5", "\"comm_slowdown\": -1", "c: links[1].comm_slowdown: is -1, but must be from 0"},
        {"\"shared_Bps\": 125", "\"shared_Bps\": -125", "c: links[1].shared_Bps: is -1.25e+08"},
        {"\"network\": \"net\"", "\"network\": \"nut\"", "c: network: there is no \"nut\""},
        {"\"network\": \"net\"", "\"network\": \"\"", "c: network: there are 2 nodes, but no link between them"},
        {"\"name\": \"node1\"", "\"name\": \"node2\"", "c: devices[2]: node: there is no \"node1\""},
        {"\"inside\": \"memory\"", "\"inside\": \"\"", "c: nodes[0].inside: \"node0\" has 2 devices, but no link"},
        {"\"inside\": \"memory\"", "\"inside\": \"mem\"", "c: nodes[0]: inside: there is no \"mem\""},
        {"\"cores\": 2", "\"cores\": -2", "c: nodes[0].cores: is -2"},
        {"\"class\": \"class1\"", "\"class\": \"class7\"", "c: devices[1]: class: there is no \"class7\""},
        {"\"speed\": 0.5", "\"speed\": 0", "c: devices[2].speed: is 0, but must be from"},
        {"\"emulated\": 0.5", "\"emulated\": -1", "c: devices[2].emulated: is -1, but must be from"},
        {"\"stolen\": 0.25", "\"stolen\": 1.25", "c: devices[3].stolen: is 1.25, but must be from 0 to 1"},
        {"\"mask\": \"0-1,4\"", "\"mask\": \"0-1,1\"", "c: devices[1].mask: \"0-1,1\" must be a rising list"},
        {"\"mask\": \"0-1,4\"", "\"mask\": \"0-1,\"", "c: devices[1].mask: \"0-1,\" must be a rising list"},
        {"\"mask\": \"0-1,4\"", "\"mask\": \"-1\"", "c: devices[1].mask: \"-1\" must be a rising list"},
        {"{\"a\": 0, \"b\": 1", "{\"a\": 0, \"b\": 3", "c: pairs[1]: 0-2 after 0-3 is not in order"},
        {"{\"a\": 0, \"b\": 1", "{\"a\": 1, \"b\": 1", "c: pairs[0]: of 1 and 1, but must be of a < b below 4"},
        {"{\"a\": 0, \"b\": 1", "{\"a\": 0, \"b\": 4", "c: pairs[0].b: is 4, but must be from 0 to 3"},
        {"\"b\": 1, \"link\": \"memory\"", "\"b\": 1, \"link\": \"\"", "c: pairs[0]: link: there is no \"\""},
        {"\"bandwidth_Bps\": 110000000", "\"bandwidth_Bps\": 0", "c: pairs[1].bandwidth_Bps: is 0, but must be from"},
        {"\"reverse_Bps\": 1", "\"reverse_Bps\": -1", "c: pairs[1].reverse_Bps: is -1.17e+07, but must be from 1"},
        {"\"reverse_Bps\": 11700000, ", "", "c: pairs[1].reverse_error: is 0.05, but must be from 0 to 0"},
        {"\"ingress_Bps\": 12500000", "\"ingress_Bps\": 0.5", "c: nodes[0].ingress_Bps: is 0.5, but must be from 1"},
        {"\"name\": \"all\"", "\"name\": \"\"", "c: groups[0].name: must not be empty"},
        {"\"name\": \"all\"", "\"name\": \"node:node0\"", "c: groups[1].name: \"node:node0\" is there more than once"},
        {"\"devices\": [0, 1, 2, 3]", "\"devices\": [0, 1, 3, 2]", "c: groups[0].devices[3]: must rise, below 4"},
        {"\"devices\": [0, 1, 2, 3]", "\"devices\": [0]", "c: groups[0].devices: must be at least two"},
        {"\"devices\": [0, 1, 2, 3]", "\"devices\": [0, 4]", "c: groups[0].devices[1]: is 4, but must be from 0 to 3"},
        {"\"skew\": 1.5", "\"skew\": 0.5", "c: groups[0].fits[0].skew: is 0.5, but must be above 1"},
        {"\"skewed_ratio\": [1.25", "\"skewed_ratio\": [-1", "c: groups[0].fits[0].skewed_ratio[0]"},
        {"\"skewed_ratio\": [1.25, ", "\"skewed_ratio\": [", "c: groups[0].fits[0].skewed_ratio"},
        {"\"algorithm\": \"ring\"", "\"algorithm\": \"rong\"", "c: groups[0].fits[0].algorithm: AllReduce has no"},
        {"\"kind\": \"AllReduce\"", "\"kind\": \"AllSeduce\"", "c: groups[0].fits[0].kind: \"AllSeduce\" is not known"},
        {"\"size_bytes\": [1024, 1048576]", "\"size_bytes\": [1048576, 1024]", "c: groups[0].fits[0].size_bytes[1]: "},
        {"\"ratio\": [1.25", "\"ratio\": [0", "c: groups[0].fits[0].ratio[0]: is 0, but must be from"},
        {"\"ratio\": [1.25, ", "\"ratio\": [", "c: groups[0].fits[0].ratio: has 1 numbers, but must have 2"},
        {"\"kind\": \"AllGather\", \"algorithm\": \"bruck\"", "\"kind\": \"AllReduce\", \"algorithm\": \"ring\"",
         "c: groups[0].fits[1]: is there already, as fits[0]"},
        {"\"warnings\": [", "\"warnings\": [4, ", "c: warnings[0]: must be a string, not a number"},
        {"\"hash\": \"", "\"hash\": \"0", "c: hash: must be 32 hexadecimal digits"}};
    struct mt_cluster *c = make_full(), *back;
    size_t length;
    char *text = mt_cluster_text(c, &length);
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        struct mt_err err = MT_ERR_INIT;
        char *wrong = edited(text, edits[i].from, edits[i].to);
        CHECK_EQ(mt_cluster_parse("c", wrong, strlen(wrong), &back, &err), MT_EINPUT);
        CHECK(!strncmp(err.text, edits[i].message, strlen(edits[i].message)), "\"%s\", not \"%s\"", err.text,
              edits[i].message);
        free(wrong);
    }
    free(text);
    mt_cluster_free(c);
}

/* What only a program can get wrong: rows without a text of their own, and sizes. */
static void test_check(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_cluster *c = make_full();
    double *ratio = &c->groups[0].fits[0].skewed_ratio[0], was = *ratio;
    *ratio = 1.57e6; /* as measured on a busy host, where noise hid the latency */
    CHECK_OK(mt_cluster_check(c, &err), err);
    *ratio = was;
    c->devices[0].speed = NAN;
    CHECK_EQ(mt_cluster_check(c, &err), MT_EINPUT);
    CHECK_TEXT(err.text, "devices[0].speed: is nan, but must be from 1e-06 to 1e+06");
    c->devices[0].speed = 1;
    static const struct {
        const char *name, *message;
    } names[] = {{"class0", "classes[1].name: \"class0\" is there more than once"},
                 {"", "classes[1].name: must not be empty"},
                 {"a b", "classes[1].name: \"a b\" must be of letters, digits, '.', '_' and '-'"}};
    for (int i = 0; i < 3; i++) {
        c->classes[1].name = names[i].name;
        CHECK_EQ(mt_cluster_check(c, &err), MT_EINPUT);
        CHECK_TEXT(err.text, names[i].message);
    }
    c->classes[1].name = "class1";
    c->links[1].name = "memory";
    CHECK_EQ(mt_cluster_check(c, &err), MT_EINPUT);
    CHECK_TEXT(err.text, "links[1].name: \"memory\" is there more than once");
    c->links[1].name = "net";
    c->nodes[1].name = "node0";
    CHECK_EQ(mt_cluster_check(c, &err), MT_EINPUT);
    CHECK_TEXT(err.text, "nodes[1].name: \"node0\" is there more than once");
    c->nodes[1].name = "node1";
    c->devices[2].node = c->devices[3].node = 0;
    CHECK_EQ(mt_cluster_check(c, &err), MT_EINPUT);
    CHECK_TEXT(err.text, "nodes[1]: \"node1\" has no device");
    c->devices[2].node = c->devices[3].node = 1;
    c->devices[3].class = 2;
    CHECK_EQ(mt_cluster_check(c, &err), MT_EINPUT);
    CHECK_TEXT(err.text, "devices[3].class: there is no class 2");
    c->devices[3].class = 1;
    c->classes[1].kind = "cuda";
    CHECK_EQ(mt_cluster_check(c, &err), MT_EINPUT);
    CHECK_TEXT(err.text, "devices[1].mask: a device of kind \"cuda\" has none");
    c->classes[1].kind = "cpu";
    memset(c->classes[1].flops, 0, sizeof c->classes[1].flops);
    CHECK_EQ(mt_cluster_check(c, &err), MT_EINPUT);
    CHECK_TEXT(err.text, "classes[1]: has neither a rate (flops) nor a curve");
    c->ndevices = MT_CLUSTER_MOST_DEVICES + 1;
    CHECK_EQ(mt_cluster_check(c, &err), MT_EINPUT);
    CHECK_TEXT(err.text, "devices: there are 4097, but must be from 1 to 4096");
    mt_cluster_free(c);
    c = mt_cluster_new();
    CHECK_EQ(mt_cluster_check(c, &err), MT_EINPUT);
    CHECK_TEXT(err.text, "devices: there are 0, but must be from 1 to 4096");
    mt_cluster_free(c);
}

static void test_path(void) {
    struct mt_cluster *c = make_full();
    struct mt_path path = mt_cluster_path(c, 2, 0); /* its own row, by direction */
    CHECK_EQ(path.link, 1);
    CHECK_NEAR(path.latency_s, 70e-6, 0);
    CHECK_NEAR(path.bandwidth_Bps, 11.7e6, 0);
    CHECK_NEAR(mt_cluster_path(c, 0, 2).bandwidth_Bps, 110e6, 0);
    path = mt_cluster_path(c, 2, 3); /* within a node, without a row */
    CHECK_EQ(path.link, 0);
    CHECK_NEAR(path.bandwidth_Bps, 5e9, 0);
    path = mt_cluster_path(c, 1, 3); /* between nodes, without a row */
    CHECK_EQ(path.link, 1);
    CHECK_NEAR(path.latency_s, 50e-6, 0);
    CHECK_NEAR(path.bandwidth_Bps, c->links[1].bandwidth_Bps, 0);
    CHECK_NEAR(mt_cluster_path(c, 3, 1).bandwidth_Bps, 12.5e6, 0); /* what node 0 receives */
    CHECK_NEAR(mt_cluster_path(c, 1, 0).bandwidth_Bps, 4e9, 0);    /* no reverse_Bps: the same in both directions */
    CHECK_NEAR(mt_cluster_node_ingress(c, 0), 12.5e6, 0);
    CHECK_NEAR(mt_cluster_node_egress(c, 0), 125e6, 0); /* the network's shared_Bps */
    c->links[1].shared_Bps = 0;
    CHECK(isinf(mt_cluster_node_egress(c, 1)), "no limit is known");
    c->nodes[1].egress_Bps = 5e6;
    CHECK_NEAR(mt_cluster_path(c, 3, 1).bandwidth_Bps, 5e6, 0);
    path = mt_cluster_path(c, 1, 1);
    CHECK(path.link == -1 && path.latency_s == 0 && isinf(path.bandwidth_Bps), "of itself");
    CHECK_EQ(mt_cluster_node_named(c, "node1"), 1);
    CHECK_EQ(mt_cluster_class_named(c, "node1"), -1);
    CHECK_EQ(mt_cluster_link_named(c, "net"), 1);
    mt_cluster_free(c);
}

int main(void) {
    test_round_trip();
    test_mutations();
    test_gpus();
    test_puts();
    test_refusals();
    test_check();
    test_path();
    return 0;
}
