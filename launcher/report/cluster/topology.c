/* Topology: equal nodes are one box. Where there are too many kinds, nodes that differ only in rates are one, too. */
#include <math.h>
#include <string.h>

#include "launcher/report/cluster/internal.h"
#include "launcher/report/svg/network.h"
#include "profiler/cluster/tables.h"

enum { MOST_BOXES = 12 };

struct kind {
    struct mt_network_node box;
    int first; /* the first of the nodes */
    int counts[MT_NETWORK_DEVICES], classes[MT_NETWORK_DEVICES];
    double least_Bps[2], most_Bps[2]; /* sends, receives */
    int64_t memory_bytes;
};
struct kinds {
    const struct mt_cluster *cluster;
    struct mt_page *page;
    int count;
    struct kind *items;
    int *of_node;
};

static void describe(const struct kinds *k, int node, struct kind *kind) {
    const struct mt_cluster *c = k->cluster;
    *kind = (struct kind){.first = node, .box.count = 1};
    for (int d = 0; d < c->ndevices; d++) {
        if (c->devices[d].node != node) continue;
        int i = 0;
        while (i < kind->box.ndevices && kind->classes[i] != c->devices[d].class) i++;
        if (i == MT_NETWORK_DEVICES) continue;
        if (i == kind->box.ndevices) kind->classes[kind->box.ndevices++] = c->devices[d].class;
        kind->counts[i]++;
    }
    kind->memory_bytes = c->nodes[node].memory_bytes;
    kind->least_Bps[0] = kind->most_Bps[0] = mt_cluster_node_egress(c, node);
    kind->least_Bps[1] = kind->most_Bps[1] = mt_cluster_node_ingress(c, node);
}

static bool alike(const struct kinds *k, const struct kind *a, const struct kind *b, bool rates) {
    const struct mt_cluster *c = k->cluster;
    if (a->box.ndevices != b->box.ndevices || c->nodes[a->first].inside != c->nodes[b->first].inside) return false;
    for (int i = 0; i < a->box.ndevices; i++)
        if (a->classes[i] != b->classes[i] || a->counts[i] != b->counts[i]) return false;
    return !rates || (a->least_Bps[0] == b->least_Bps[0] && a->least_Bps[1] == b->least_Bps[1] &&
                      a->memory_bytes == b->memory_bytes);
}

static void find(struct kinds *k, bool rates) {
    k->count = 0;
    for (int n = 0; n < k->cluster->nnodes; n++) {
        struct kind kind;
        int i = 0;
        describe(k, n, &kind);
        while (i < k->count && !alike(k, &k->items[i], &kind, rates)) i++;
        k->of_node[n] = i;
        if (i == k->count) {
            k->items[k->count++] = kind;
            continue;
        }
        k->items[i].box.count++;
        for (int way = 0; way < 2; way++) {
            k->items[i].least_Bps[way] = fmin(k->items[i].least_Bps[way], kind.least_Bps[way]);
            k->items[i].most_Bps[way] = fmax(k->items[i].most_Bps[way], kind.most_Bps[way]);
        }
    }
}

/* A node's rate to the network: its own, else that of the network's pairs. */
static double rate_of(const struct mt_cluster *c, double Bps) {
    return isfinite(Bps) || c->network < 0 ? Bps : c->links[c->network].bandwidth_Bps;
}

static const char *rates_text(const struct kinds *k, const struct kind *kind, int way) {
    const char *least = mt_page_quantity(k->page, MT_UNIT_BPS, rate_of(k->cluster, kind->least_Bps[way]));
    const char *most = mt_page_quantity(k->page, MT_UNIT_BPS, rate_of(k->cluster, kind->most_Bps[way]));
    return strcmp(least, most) ? mt_arena_printf(&k->page->arena, "%s to %s", least, most) : least;
}

static void fill_box(const struct kinds *k, struct kind *kind) {
    const struct mt_cluster *c = k->cluster;
    struct mt_network_node *box = &kind->box;
    struct mt_arena *arena = &k->page->arena;
    const struct mt_cluster_node *node = &c->nodes[kind->first];
    int last = kind->first;
    for (int n = 0; n < c->nnodes; n++)
        if (k->of_node[n] == (int)(kind - k->items)) last = n;
    box->name = last == kind->first ? node->name
                                    : mt_arena_printf(arena, "%s \xe2\x80\xa6 %s", node->name, c->nodes[last].name);
    box->note = node->cores ? mt_arena_printf(arena, "%d cores, %s", node->cores,
                                              mt_page_quantity(k->page, MT_UNIT_BYTES, (double)node->memory_bytes))
                            : "";
    for (int i = 0; i < box->ndevices; i++) {
        const struct mt_cluster_class *class = &c->classes[kind->classes[i]];
        box->devices[i] = (struct mt_network_devices){
            kind->counts[i], class->name,
            mt_arena_printf(arena, "%s%s", mt_page_quantity(k->page, MT_UNIT_BYTES, (double)class->memory_bytes),
                            class->nominal ? ", public figures" : ", measured")};
    }
    const struct mt_cluster_link *inside = node->inside >= 0 ? &c->links[node->inside] : NULL;
    box->inside = inside ? mt_arena_printf(arena, "%s: %s a pair", inside->name,
                                           mt_page_quantity(k->page, MT_UNIT_BPS, inside->bandwidth_Bps))
                         : "";
    box->inside_Bps = inside ? inside->bandwidth_Bps : 0;
    box->egress_Bps = rate_of(c, kind->least_Bps[0]), box->ingress_Bps = rate_of(c, kind->least_Bps[1]);
    box->egress = rates_text(k, kind, 0), box->ingress = rates_text(k, kind, 1);
}

static void tabulate(const struct kinds *k, struct mt_table *t) {
    const struct mt_cluster *c = k->cluster;
    mt_table_columns(t, {"nodes", "nodes", MT_UNIT_COUNT}, {"name", "name", MT_UNIT_TEXT},
                     {"devices", "devices of each", MT_UNIT_TEXT}, {"inside", "link inside", MT_UNIT_TEXT},
                     {"inside_Bps", "of a pair", MT_UNIT_BPS}, {"egress_Bps", "sends at most", MT_UNIT_BPS},
                     {"ingress_Bps", "receives at most", MT_UNIT_BPS});
    for (int i = 0; i < k->count; i++) {
        const struct kind *kind = &k->items[i];
        const char *devices = "";
        for (int d = 0; d < kind->box.ndevices; d++)
            devices = mt_arena_printf(&k->page->arena, "%s%s%d %s", devices, d ? ", " : "", kind->counts[d],
                                      c->classes[kind->classes[d]].name);
        int inside = c->nodes[kind->first].inside;
        mt_table_row(t);
        mt_cell_int(t, kind->box.count);
        mt_cell_text(t, "%s", kind->box.name);
        mt_cell_text(t, "%s", devices);
        mt_cell_text(t, "%s", inside >= 0 ? c->links[inside].name : "-");
        mt_cell_positive(t, kind->box.inside_Bps);
        mt_cell_real(t, c->network >= 0 ? kind->box.egress_Bps : NAN);
        mt_cell_real(t, c->network >= 0 ? kind->box.ingress_Bps : NAN);
    }
}

void mt_report_topology(struct mt_page *page, const struct mt_cluster *c) {
    struct kinds k = {.cluster = c, .page = page};
    k.items = mt_new(&page->arena, struct kind, c->nnodes + 1);
    k.of_node = mt_new(&page->arena, int, c->nnodes + 1);
    find(&k, true);
    if (k.count > MOST_BOXES) find(&k, false);
    struct mt_network_node *boxes = mt_new(&page->arena, struct mt_network_node, k.count + 1);
    for (int i = 0; i < k.count; i++) fill_box(&k, &k.items[i]), boxes[i] = k.items[i].box;
    struct mt_network network = {.name = "", .nnodes = k.count > MOST_BOXES ? MOST_BOXES : k.count, .nodes = boxes};
    if (c->network >= 0 && c->nnodes > 1)
        network.name = mt_arena_printf(&page->arena, "%s: %s a pair", c->links[c->network].name,
                                       mt_page_quantity(page, MT_UNIT_BPS, c->links[c->network].bandwidth_Bps));
    mt_page_heading(page, "Topology");
    if (k.count > MOST_BOXES)
        mt_page_say(page, "Of %d kinds of nodes the first %d are drawn; all are in the table.", k.count, MOST_BOXES);
    struct mt_table *t =
        mt_page_table(page, "topology", "Nodes, their devices, and links by bandwidth and direction", "");
    tabulate(&k, t);
    mt_page_picture(page, mt_arena_printf(&page->arena, "Topology of %d nodes with %d devices", c->nnodes, c->ndevices),
                    "Boxes are kinds of equal nodes with their devices; lines are links, the "
                    "thicker the faster. The arrow down is what a node sends to the network, "
                    "the arrow up what it receives.",
                    mt_network_draw, &network);
    mt_cluster_tabulate_links(c, mt_page_table(page, "links", "Links", MT_CLUSTER_LINKS_NOTE));
    if (mt_cluster_any_puts(c)) mt_cluster_tabulate_puts(c, mt_page_table(page, "puts", "Puts", MT_CLUSTER_PUTS_NOTE));
}
