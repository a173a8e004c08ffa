/* Print-outs of clusters with many rows: equal rows are folded, and pairs are summed by class without looking at each,
 * as a brute force over all pairs sums them. And documents of 10,000 devices. */
#include <math.h>

#include "kernels/base/number/rng.h"
#include "profiler/cluster/tables.h"
#include "profiler/describe/describe.h"
#include "tests/lines.h"
#include "tests/profiler/clusters.h"

static const uint64_t seed = 7;
static uint64_t drawn;

static int below(int bound) {
    return (int)mt_random_below(seed, 0, drawn++, (uint64_t)bound);
}

/* The print-out, with runs of spaces made one. */
static char *printed(const struct mt_cluster *c) {
    struct mt_tables doc = MT_TABLES_INIT;
    mt_cluster_tables(c, &doc);
    return squeezed(&doc);
}

static void check_line(const char *text, const char *line) {
    CHECK(strstr(text, line), "no \"%s\" in\n%s", line, text);
}

/* The row of two classes and a link, by all pairs. */
static void check_pairs(const struct mt_cluster *c, const struct mt_table *t, int x, int y, int link) {
    long long npairs = 0;
    double least = INFINITY, most = 0;
    for (int a = 0; a < c->ndevices; a++)
        for (int b = 0; b < c->ndevices; b++) {
            struct mt_path path = mt_cluster_path(c, a, b);
            int p = c->devices[a].class, q = c->devices[b].class;
            if (a == b || path.link != link || !((p == x && q == y) || (p == y && q == x))) continue;
            npairs += a < b;
            least = fmin(least, path.bandwidth_Bps);
            most = fmax(most, path.bandwidth_Bps);
        }
    if (!npairs) return;
    for (int r = 0; r < t->nrows; r++) {
        const struct mt_cell *cells = t->rows[r].cells;
        if (strcmp(cells[0].text, c->classes[x].name) || strcmp(cells[1].text, c->classes[y].name) ||
            strcmp(cells[2].text, c->links[link].name))
            continue;
        CHECK_EQ(cells[3].number, npairs);
        CHECK_NEAR(cells[4].number, least, 0);
        CHECK_NEAR(cells[5].number, most, 0);
        return;
    }
    CHECK(false, "no row of %s, %s over %s", c->classes[x].name, c->classes[y].name, c->links[link].name);
}

static void test_pairs(void) {
    for (int round = 0; round < 40; round++) {
        int nclasses = 1 + below(4);
        struct mt_cluster *c = make_cluster(17 + below(40), 1 + below(6), nclasses);
        bool rows = round % 2;
        for (int d = 0; d < c->ndevices; d++) c->devices[d].class = below(c->nclasses);
        for (int n = 0; n < c->nnodes && !rows; n++) {
            if (below(2)) c->nodes[n].egress_Bps = 1e6 * (1 + below(200));
            if (below(2)) c->nodes[n].ingress_Bps = 1e6 * (1 + below(200));
        }
        c->pairs = mt_new(&c->arena, struct mt_cluster_pair, c->ndevices * c->ndevices);
        for (int a = 0; a < c->ndevices && rows; a++)
            for (int b = a + 1; b < c->ndevices; b++)
                if (!below(5))
                    c->pairs[c->npairs++] = (struct mt_cluster_pair){.a = a,
                                                                     .b = b,
                                                                     .link = mt_cluster_path(c, a, b).link,
                                                                     .bandwidth_Bps = 1e6 * (1 + below(200)),
                                                                     .reverse_Bps = 1e6 * below(200)};
        struct mt_tables doc = MT_TABLES_INIT;
        mt_cluster_tables(c, &doc);
        for (int x = 0; x < c->nclasses; x++)
            for (int y = x; y < c->nclasses; y++)
                for (int l = 0; l < c->nlinks; l++) check_pairs(c, mt_tables_find(&doc, "pairs"), x, y, l);
        mt_tables_release(&doc);
        mt_cluster_free(c);
    }
}

static void test_folds(void) {
    struct mt_cluster *c = make_cluster(40, 2, 1);
    for (int d = 0; d < 40; d++) c->devices[d].mask = "";
    c->devices[7].speed = 0.5;
    c->nodes[4].egress_Bps = 1e6;
    char *text = printed(c);
    check_line(text, "\n node0 .. node19 2 2 8.00 GiB memory - - 19\n");
    check_line(text, "\n node4 2 2 8.00 GiB memory 1.00 MB/s - 1\n");
    check_line(text, "\n 0 .. 39 node0 .. node19 class0 1.000 1.0% - 4.00 GiB 39\n");
    check_line(text, "\n 7 node3 class0 0.500 1.0% - 4.00 GiB 1\n");
    free(text);
    mt_cluster_free(c);
    c = make_cluster(4, 2, 1); /* few rows are not folded */
    text = printed(c);
    check_line(text, "\n node0 2 2 8.00 GiB memory\n node1 2 2 8.00 GiB memory\n");
    check_line(text, "\n 3 node1 class0 1.000 1.0% - 4.00 GiB 1\n");
    free(text);
    mt_cluster_free(c);
}

static void test_large(const char *description) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_cluster *c, *back;
    size_t length, again;
    CHECK_OK(mt_cluster_describe(description, NULL, &c, &err), err);
    CHECK_EQ(c->ndevices, 4000);
    char *text = mt_cluster_text(c, &length);
    CHECK_OK(mt_cluster_parse("c", text, length, &back, &err), err);
    char *second = mt_cluster_text(back, &again);
    CHECK_EQ(length, again);
    CHECK(!memcmp(text, second, length), "not the same text");
    free(second);
    second = printed(back);
    CHECK(strlen(second) < 20000, "%zu characters", strlen(second));
    free(second);
    free(text);
    mt_cluster_free(back);
    mt_cluster_free(c);
}

int main(void) {
    test_pairs();
    test_folds();
    test_large("h100:80x8 net=100G + h200:80x8 + a100-40:80x8 + a100-80:80x8 + a10:60x8 egress=1G + l4:60x8 + "
               "t4:40x8 + b200:20x8");
    test_large("t4:2000 net=1G + l4:2000 net=2G");
    return 0;
}
