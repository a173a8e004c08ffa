/* A description read back: its nodes, their links and the network, as the cluster has them. Equal nodes that follow
 * each other are one entry. */
#include <string.h>

#include "kernels/base/text/units.h"
#include "profiler/describe/describe.h"
#include "profiler/describe/hardware.h"

enum { MOST_ENTRIES = 12 };

static bool same_nodes(const struct mt_cluster *c, int a, int b, const int *first, const int *count) {
    const struct mt_cluster_node *x = &c->nodes[a], *y = &c->nodes[b];
    return count[a] == count[b] && c->devices[first[a]].class == c->devices[first[b]].class && x->inside == y->inside &&
           x->egress_Bps == y->egress_Bps && x->ingress_Bps == y->ingress_Bps;
}

static const char *rates_of(const struct mt_cluster_node *node, struct mt_arena *arena) {
    char egress[MT_UNITS_TEXT], ingress[MT_UNITS_TEXT];
    const char *text = "";
    if (node->egress_Bps > 0) text = mt_arena_printf(arena, ", egress %s", mt_units_Bps(node->egress_Bps, egress));
    if (node->ingress_Bps > 0)
        text = mt_arena_printf(arena, "%s, ingress %s", text, mt_units_Bps(node->ingress_Bps, ingress));
    return text;
}

static const char *entry(const struct mt_cluster *c, int node, int nodes, int device, int devices,
                         struct mt_arena *arena) {
    char rate[MT_UNITS_TEXT];
    const struct mt_cluster_node *n = &c->nodes[node];
    const char *class = c->classes[c->devices[device].class].name, *link = "";
    if (devices > 1)
        link = mt_arena_printf(arena, ", %s %s", c->links[n->inside].name,
                               mt_units_Bps(c->links[n->inside].bandwidth_Bps, rate));
    return mt_arena_printf(arena, "%d node%s of %d %s%s%s", nodes, nodes == 1 ? "" : "s", devices, class, link,
                           rates_of(n, arena));
}

static const char *network(const struct mt_cluster *c, struct mt_arena *arena) {
    char rate[MT_UNITS_TEXT], assumed[MT_UNITS_TEXT];
    if (c->network < 0) return "no network";
    const struct mt_cluster_link *link = &c->links[c->network];
    const struct mt_hardware_link *net = mt_hardware_link_find("net");
    const char *from =
        !link->nominal                   ? ", measured"
        : strstr(c->description, "net=") ? ""
        : mt_hardware_link_Bps(net, net->rate) != link->bandwidth_Bps
            ? ""
            : mt_arena_printf(arena, ", of net=%sbit/s, as nothing else is given", mt_units_count(net->rate, assumed));
    return mt_arena_printf(arena, "messages between nodes reach %s%s", mt_units_Bps(link->bandwidth_Bps, rate), from);
}

const char *mt_cluster_understood(const struct mt_cluster *c, struct mt_arena *arena) {
    if (strcmp(c->source, "described")) return "";
    int *first = mt_new(arena, int, c->nnodes), *count = mt_new(arena, int, c->nnodes), entries = 0;
    for (int d = c->ndevices - 1; d >= 0; d--) first[c->devices[d].node] = d, count[c->devices[d].node]++;
    const char *text = "";
    for (int n = 0, nodes; n < c->nnodes; n += nodes) {
        for (nodes = 1; n + nodes < c->nnodes && same_nodes(c, n, n + nodes, first, count);) nodes++;
        if (entries++ >= MOST_ENTRIES) continue;
        text =
            mt_arena_printf(arena, "%s%s%s", text, *text ? " + " : "", entry(c, n, nodes, first[n], count[n], arena));
    }
    if (entries > MOST_ENTRIES)
        text = mt_arena_printf(arena, "%s + %d more kinds of nodes", text, entries - MOST_ENTRIES);
    return mt_arena_printf(arena, "%s; %s", text, network(c, arena));
}
