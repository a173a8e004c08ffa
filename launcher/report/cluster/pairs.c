/* The bandwidth from each device to each, in both directions. Of large clusters some devices stand for those that are
 * alike: of each kind of node and class the first two devices of the first node, and the first of the second node. */
#include <math.h>
#include <string.h>

#include "launcher/report/cluster/internal.h"
#include "launcher/report/svg/matrix.h"

enum { MOST_DEVICES = 24 };

struct chosen {
    int n, devices[MOST_DEVICES];
};

static bool like_nodes(const struct mt_cluster *c, int a, int b) {
    return c->nodes[a].inside == c->nodes[b].inside && mt_cluster_node_egress(c, a) == mt_cluster_node_egress(c, b) &&
           mt_cluster_node_ingress(c, a) == mt_cluster_node_ingress(c, b);
}

/* How many of the chosen are of the device's class on its own node, and on other nodes that are like it. */
static void count_alike(const struct mt_cluster *c, const struct chosen *chosen, int device, int *here, int *nodes) {
    const struct mt_cluster_device *d = &c->devices[device];
    int last = -1;
    *here = *nodes = 0;
    for (int i = 0; i < chosen->n; i++) {
        const struct mt_cluster_device *x = &c->devices[chosen->devices[i]];
        if (x->class != d->class) continue;
        if (x->node == d->node)
            (*here)++;
        else if (like_nodes(c, x->node, d->node) && x->node != last)
            (*nodes)++, last = x->node;
    }
}

static void choose(const struct mt_cluster *c, struct chosen *chosen) {
    for (int d = 0; d < c->ndevices && chosen->n < MOST_DEVICES; d++) {
        int here, nodes;
        count_alike(c, chosen, d, &here, &nodes);
        if (c->ndevices <= MOST_DEVICES || (nodes == 0 && here < 2) || (nodes == 1 && here < 1))
            chosen->devices[chosen->n++] = d;
    }
}

static void tabulate(const struct mt_cluster *c, const struct chosen *chosen, struct mt_table *t) {
    mt_table_columns(t, {"from", "from rank", MT_UNIT_COUNT}, {"to", "to rank", MT_UNIT_COUNT},
                     {"link", "link", MT_UNIT_TEXT}, {"latency_s", "latency", MT_UNIT_SECONDS},
                     {"bandwidth_Bps", "bandwidth", MT_UNIT_BPS});
    for (int i = 0; i < chosen->n; i++)
        for (int j = 0; j < chosen->n; j++) {
            if (i == j) continue;
            struct mt_path path = mt_cluster_path(c, chosen->devices[i], chosen->devices[j]);
            mt_table_row(t);
            mt_cell_int(t, chosen->devices[i]);
            mt_cell_int(t, chosen->devices[j]);
            mt_cell_text(t, "%s", path.link >= 0 ? c->links[path.link].name : "-");
            mt_cell_real(t, path.latency_s);
            mt_cell_real(t, path.bandwidth_Bps);
        }
}

void mt_report_pairs(struct mt_page *page, const struct mt_cluster *c) {
    struct chosen chosen = {0};
    if (c->ndevices < 2) return;
    choose(c, &chosen);
    const char **names = mt_new(&page->arena, const char *, chosen.n);
    double *values = mt_new(&page->arena, double, chosen.n *chosen.n);
    for (int i = 0; i < chosen.n; i++) {
        const struct mt_cluster_device *d = &c->devices[chosen.devices[i]];
        names[i] = mt_arena_printf(&page->arena, "%d %s", chosen.devices[i], c->nodes[d->node].name);
        for (int j = 0; j < chosen.n; j++)
            values[i * chosen.n + j] =
                i == j ? NAN : mt_cluster_path(c, chosen.devices[i], chosen.devices[j]).bandwidth_Bps;
    }
    struct mt_matrix matrix = {.n = chosen.n,
                               .names = names,
                               .values = values,
                               .unit = MT_UNIT_BPS,
                               .from = "from the row",
                               .to = "to the column"};
    mt_page_heading(page, "Pairs");
    if (chosen.n < c->ndevices)
        mt_page_say(page, "%d of %d devices stand for those that are alike: two of a node, and one of another.",
                    chosen.n, c->ndevices);
    struct mt_table *t = mt_page_table(page, "pairs", "Bandwidth from each device to each, one way", "");
    tabulate(c, &chosen, t);
    mt_page_picture(page, "Bandwidth of pairs of devices",
                    "A row for each device that sends, a column for each that "
                    "receives; darker steps, on dark pages brighter ones, are "
                    "faster. The table has the same figures.",
                    mt_matrix_draw, &matrix);
}
