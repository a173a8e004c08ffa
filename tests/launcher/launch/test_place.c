/* Nodes of described plans on hosts: the matching against all assignments, on random small cases; devices and cores of
 * the hosts that are chosen; what does not match. */
#include "launcher/launch/place.h"

#include "kernels/base/text/printed.h"
#include "profiler/describe/describe.h"
#include "tests/check.h"

enum { MOST_NODES = 4, MOST_RANKS = 12, MOST_DEVICES = 16 };
static const char *const classes[] = {"a10", "t4"};
#define GB INT64_C(1000000000)

static uint64_t state = 7;
static int below(int n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)((state >> 33) % (uint64_t)n);
}

/* Ranks of a plan, node by node: class and need. */
struct wanted {
    int n, node[MOST_RANKS], class[MOST_RANKS];
    int64_t need[MOST_RANKS];
    int nnodes;
};

static struct mt_plan *plan_of(const struct wanted *w) {
    struct mt_plan *p = mt_plan_new(w->n);
    for (int r = 0; r < w->n; r++) {
        p->ranks[r] = (struct mt_plan_rank){
            .host = mt_arena_printf(&p->arena, "p%d", w->node[r]), .class = classes[w->class[r]], .speed = 1};
        p->memory[r].arena_bytes = w->need[r];
    }
    return p;
}

/* Can ranks from `r` on, of a node, each have a device of their own of this host? By trying all. */
static bool fits(const struct wanted *w, int node, int r, const struct mt_cluster *c, int host, unsigned taken) {
    while (r < w->n && w->node[r] != node) r++;
    if (r == w->n) return true;
    for (int d = 0; d < c->ndevices; d++) {
        const struct mt_cluster_device *device = &c->devices[d];
        if (device->node != host || taken & 1u << d || strcmp(c->classes[device->class].name, classes[w->class[r]]) ||
            device->memory_bytes < w->need[r])
            continue;
        if (fits(w, node, r + 1, c, host, taken | 1u << d)) return true;
    }
    return false;
}
static bool assigns(const struct wanted *w, int node, const struct mt_cluster *c, unsigned taken) {
    if (node == w->nnodes) return true;
    for (int h = 0; h < c->nnodes; h++)
        if (!(taken & 1u << h) && fits(w, node, 0, c, h, 0) && assigns(w, node + 1, c, taken | 1u << h)) return true;
    return false;
}

static struct mt_cluster *random_cluster(struct mt_hosts *hosts, struct mt_arena *arena) {
    struct mt_cluster *c;
    struct mt_err err = MT_ERR_INIT;
    const char *text = "", *file = "";
    int nnodes = 1 + below(MOST_NODES);
    for (int n = 0; n < nnodes; n++)
        text = mt_arena_printf(arena, "%s%s%s:1x%d", text, n ? " + " : "", classes[below(2)], 1 + below(3));
    CHECK_OK(mt_cluster_describe(text, NULL, &c, &err), err);
    for (int d = 0; d < c->ndevices; d++) c->devices[d].memory_bytes = (1 + below(3)) * 8 * GB;
    for (int n = nnodes; n-- > 0;) file = mt_arena_printf(arena, "%s%s\n", file, c->nodes[n].name);
    CHECK_OK(mt_hosts_parse("hosts", file, arena, hosts, &err), err);
    return c;
}

static struct wanted random_plan(void) {
    struct wanted w = {.nnodes = 1 + below(MOST_NODES)};
    for (int node = 0; node < w.nnodes; node++)
        for (int class = below(2), n = 1 + below(2); n; n--) {
            w.node[w.n] = node, w.class[w.n] = class;
            w.need[w.n++] = (1 + below(3)) * 7 * GB;
        }
    return w;
}

/* Every rank has a device that is fit, of its node's host, and nobody else's. */
static void check_places(const struct wanted *w, const struct mt_cluster *c, const struct mt_hosts *hosts,
                         const struct mt_places *places) {
    for (int r = 0; r < w->n; r++) {
        const struct mt_cluster_device *device = &c->devices[places->device[r]];
        CHECK(!strcmp(c->nodes[device->node].name, hosts->hosts[places->host[r]].name), "rank %d", r);
        CHECK(!strcmp(c->classes[device->class].name, classes[w->class[r]]), "rank %d", r);
        CHECK(device->memory_bytes >= w->need[r], "rank %d", r);
        int before = 0;
        for (int d = 0; d < places->device[r]; d++) before += c->devices[d].node == device->node;
        CHECK_EQ(places->gpu[r], before);
        for (int q = 0; q < r; q++) {
            CHECK(places->device[q] != places->device[r], "ranks %d and %d", q, r);
            CHECK((places->host[q] == places->host[r]) == (w->node[q] == w->node[r]), "ranks %d and %d", q, r);
        }
    }
}

static void test_matching(void) {
    enum { CASES = 3000 };
    int found = 0;
    for (int i = 0; i < CASES; i++) {
        struct mt_arena arena = MT_ARENA_INIT;
        struct mt_err err = MT_ERR_INIT;
        struct mt_hosts hosts;
        struct mt_places places;
        struct mt_printed printed;
        struct mt_cluster *c = random_cluster(&hosts, &arena);
        struct wanted w = random_plan();
        struct mt_plan *plan = plan_of(&w);
        const struct mt_place_request request = {.plan = plan, .hosts = &hosts, .cluster = c};
        enum mt_status st = mt_place(&request, &arena, &places, mt_printed_begin(&printed), &err);
        char *why = mt_printed_end(&printed);
        bool can = assigns(&w, 0, c, 0);
        CHECK(!st == can, "case %d: %s\n%s", i, err.text, why);
        CHECK(!st == !why[0], "case %d: a table, but no refusal, or the reverse: %s", i, why);
        if (can) check_places(&w, c, &hosts, &places);
        found += can;
        free(why);
        mt_plan_free(plan);
        mt_cluster_free(c);
        mt_arena_release(&arena);
    }
    CHECK(found > CASES / 20 && found < CASES - CASES / 20, "%d of %d match: too one-sided to tell", found, CASES);
}

/* A plan of two ranks on node p0 and one on p1, as text of what does not match. */
static char *refused(const char *cluster, const char *described, const char *file, struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_hosts hosts;
    struct mt_places places;
    struct mt_printed printed;
    struct mt_cluster *c = NULL, *was = NULL;
    const struct wanted w = {
        .n = 3, .nnodes = 2, .node = {0, 0, 1}, .class = {0, 0, 1}, .need = {9 * GB, 9 * GB, 9 * GB}};
    struct mt_plan *plan = plan_of(&w);
    if (cluster) CHECK_OK(mt_cluster_describe(cluster, NULL, &c, err), *err);
    if (described) CHECK_OK(mt_cluster_describe(described, NULL, &was, err), *err);
    for (int n = 0; was && n < was->nnodes; n++) was->nodes[n].name = n ? "p1" : "p0";
    CHECK_OK(mt_hosts_parse("hosts", file, &arena, &hosts, err), *err);
    const struct mt_place_request request = {.plan = plan, .hosts = &hosts, .cluster = c, .described = was};
    enum mt_status st = mt_place(&request, &arena, &places, mt_printed_begin(&printed), err);
    char *why = mt_printed_end(&printed);
    CHECK_EQ(st, why[0] ? MT_EINPUT : MT_OK);
    mt_plan_free(plan);
    mt_cluster_free(c);
    mt_cluster_free(was);
    mt_arena_release(&arena);
    return why;
}

static void test_what_does_not_match(void) {
    static const struct {
        const char *cluster, *described, *hosts, *say; /* say: null: it matches */
    } cases[] = {
        {"a10:1x2 + t4:1", NULL, "node0\nnode1", NULL},
        {"t4:1 + a10:1x2", NULL, "node0\nnode1", NULL},
        {NULL, NULL, "p1 slots=1\np0 slots=2", NULL},
        {NULL, NULL, "p1\np0 slots=1", "slots=1, 2 ranks"},
        {NULL, NULL, "p0\nnode1", "no host has this name"},
        {"a10:1x2 + t4:1", NULL, "node0 slots=1\nnode1", "slots=1, 2 ranks"},
        {"a10:1x2 + t4:1", NULL, "node0\nother", "not in the profile"},
        {"a10:1x1 + t4:1", NULL, "node0\nnode1", "1 of 2 a10"},
        {"a10:1x2 + v100:1", NULL, "node0\nnode1", "0 of 1 t4"},
        {"a10:1x2 + t4:1 net=100G", "a10:1x2 + t4:1 net=100G", "node0\nnode1", NULL},
        {"a10:1x2 + t4:1 net=50G", "a10:1x2 + t4:1 net=100G", "node0\nnode1", "net: 5.88 GB/s, planned 11.8 GB/s"},
        {"a10:1x2 pcie=8G + t4:1", "a10:1x2 pcie=16G + t4:1", "node0\nnode1", "pcie: 6.80 GB/s, planned 13.6 GB/s"},
        {"a10:1x2 pcie=13G + t4:1", "a10:1x2 pcie=16G + t4:1", "node0\nnode1", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mt_err err = MT_ERR_INIT;
        char *why = refused(cases[i].cluster, cases[i].described, cases[i].hosts, &err);
        CHECK(cases[i].say ? strstr(why, cases[i].say) != NULL : !why[0], "case %zu: %s\n%s", i, err.text, why);
        free(why);
    }
}

/* Of two hosts that are fit, the one that answers; of none, the reason. */
static void test_who_answers(void) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_err err = MT_ERR_INIT;
    struct mt_hosts hosts;
    struct mt_places places;
    struct mt_cluster *c;
    struct mt_printed printed;
    const struct wanted w = {.n = 1, .nnodes = 1, .node = {0}, .class = {0}, .need = {GB}};
    struct mt_plan *plan = plan_of(&w);
    CHECK_OK(mt_cluster_describe("a10:2", NULL, &c, &err), err);
    CHECK_OK(mt_hosts_parse("hosts", "node0\nnode1", &arena, &hosts, &err), err);
    const struct mt_place_request request = {.plan = plan, .hosts = &hosts, .cluster = c, .asked = true};
    hosts.hosts[1].answers = true;
    hosts.hosts[0].why = "no route";
    CHECK_OK(mt_place(&request, &arena, &places, stderr, &err), err);
    CHECK_EQ(places.host[0], 1);
    CHECK_EQ(places.device[0], 1);
    hosts.hosts[1].answers = false;
    CHECK_EQ(mt_place(&request, &arena, &places, mt_printed_begin(&printed), &err), MT_EINPUT);
    char *why = mt_printed_end(&printed);
    CHECK(strstr(why, "does not answer: no route"), "%s", why);
    free(why);
    mt_plan_free(plan);
    mt_cluster_free(c);
    mt_arena_release(&arena);
}

int main(void) {
    test_who_answers();
    test_matching();
    test_what_does_not_match();
    return 0;
}
