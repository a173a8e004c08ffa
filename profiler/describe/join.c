/* A cluster with further nodes: the rows of the cluster that is there come first, so that its ranks keep their numbers.
 */
#include "profiler/describe/join.h"

#include <math.h>
#include <string.h>

static void *grown(struct mt_cluster *c, const void *rows, int count, int64_t more, size_t row_bytes) {
    char *fresh = mt_arena_alloc(&c->arena, ((size_t)count + (size_t)more) * row_bytes);
    if (count) memcpy(fresh, rows, (size_t)count * row_bytes);
    return fresh;
}

static int class_of(struct mt_cluster *c, const struct mt_cluster *owned, const struct mt_hardware *row) {
    int class = mt_cluster_class_named(c, row->name);
    if (class >= 0) return class;
    c->classes = grown(c, c->classes, c->nclasses, 1, sizeof *c->classes);
    c->classes[c->nclasses] = mt_hardware_class(row, row->name, owned, &c->arena);
    c->classes[c->nclasses].model = mt_arena_strdup(&c->arena, row->model);
    return c->nclasses++;
}

/* The index of an equal nominal link, or of a new one; a second link of one name is called "nvlink2". */
static int link_of(struct mt_cluster *c, const char *name, double rate) {
    struct mt_cluster_link link = mt_hardware_link(mt_hardware_link_find(name), rate);
    for (int i = 2;; i++) {
        int row = mt_cluster_link_named(c, link.name);
        if (row < 0) break;
        if (c->links[row].bandwidth_Bps == link.bandwidth_Bps && c->links[row].nominal) return row;
        link.name = mt_arena_printf(&c->arena, "%s%d", name, i);
    }
    link.name = mt_arena_strdup(&c->arena, link.name);
    c->links = grown(c, c->links, c->nlinks, 1, sizeof *c->links);
    c->links[c->nlinks] = link;
    return c->nlinks++;
}

/* A measured class has a link that was measured, if it has one. */
static int inside_of(struct mt_cluster *c, const struct mt_joining *j, int class) {
    if (j->devices < 2) return link_of(c, j->row.link, j->link_Bps);
    for (int d = 0; d < c->ndevices && !c->classes[class].nominal; d++) {
        int inside = c->nodes[c->devices[d].node].inside;
        if (c->devices[d].class == class && inside >= 0) return inside;
    }
    return link_of(c, j->row.link, j->link_Bps);
}

static const char *node_name(struct mt_cluster *c) {
    const char *name = NULL;
    for (int i = c->nnodes; !name || mt_cluster_node_named(c, name) >= 0; i++)
        name = mt_arena_printf(&c->arena, "node%d", i);
    return name;
}

static void add_nodes(struct mt_cluster *c, const struct mt_cluster *owned, const struct mt_joining *j) {
    int class_row = class_of(c, owned, &j->row), inside = inside_of(c, j, class_row);
    const struct mt_cluster_class *class = &c->classes[class_row];
    bool cpu = !strcmp(class->kind, "cpu");
    c->nodes = grown(c, c->nodes, c->nnodes, j->nodes, sizeof *c->nodes);
    c->devices = grown(c, c->devices, c->ndevices, (int64_t)j->nodes * j->devices, sizeof *c->devices);
    for (int n = 0; n < j->nodes; n++) {
        c->nodes[c->nnodes] = (struct mt_cluster_node){.name = node_name(c),
                                                       .cores = cpu ? class->threads * j->devices : 0,
                                                       .memory_bytes = cpu ? class->memory_bytes * j->devices : 0,
                                                       .inside = inside};
        for (int i = 0; i < j->devices; i++)
            c->devices[c->ndevices++] = (struct mt_cluster_device){.node = c->nnodes,
                                                                   .class = class_row,
                                                                   .speed = 1,
                                                                   .emulated = 1,
                                                                   .memory_bytes = class->memory_bytes,
                                                                   .mask = ""};
        c->nnodes++;
    }
}

/* Nodes that join with a slower net than the network's send and receive at most that. */
static void add_network(struct mt_cluster *c, const struct mt_joining *joining, int count, int first) {
    const struct mt_hardware_link *net = mt_hardware_link_find("net");
    double fastest = 0;
    for (int i = 0; i < count; i++)
        if (joining[i].nodes) fastest = fmax(fastest, joining[i].net_bps);
    if (c->network < 0 && c->nnodes > 1) c->network = link_of(c, "net", fastest);
    for (int i = 0, n = first; i < count && c->network >= 0; i++) {
        double rate = mt_hardware_link_Bps(net, joining[i].net_bps);
        bool slower = rate < c->links[c->network].bandwidth_Bps;
        for (int k = 0; k < joining[i].nodes; k++, n++)
            if (slower) c->nodes[n].egress_Bps = c->nodes[n].ingress_Bps = rate;
    }
}

/* "h100:2x8 + what": what it is made from. */
static void describe(struct mt_cluster *c, const struct mt_cluster *owned, const struct mt_joining *joining,
                     int count) {
    const char *text = !owned ? "" : owned->description[0] ? owned->description : owned->hash;
    for (int i = 0; i < count; i++)
        if (joining[i].nodes)
            text = mt_arena_printf(&c->arena, "%s%s%s:%dx%d", text, *text ? " + " : "", joining[i].row.name,
                                   joining[i].nodes, joining[i].devices);
    c->description = mt_arena_strdup(&c->arena, text);
    c->source = owned && strcmp(owned->source, "described") ? "edited" : "described";
    c->made_by = "motley " MOTLEY_VERSION;
}

enum mt_status mt_cluster_join(const struct mt_cluster *owned, const struct mt_joining *joining, int count,
                               struct mt_cluster **cluster, struct mt_err *err) {
    int64_t devices = owned ? owned->ndevices : 0;
    for (int i = 0; i < count; i++) {
        if (joining[i].nodes < 0 || joining[i].devices < 1 || joining[i].nodes > MT_CLUSTER_MOST_DEVICES ||
            joining[i].devices > MT_CLUSTER_MOST_DEVICES)
            return mt_fail(err, MT_EINPUT, "%d nodes of %d devices: a cluster has at most %d devices", joining[i].nodes,
                           joining[i].devices, MT_CLUSTER_MOST_DEVICES);
        devices += (int64_t)joining[i].nodes * joining[i].devices;
    }
    if (devices < 1 || devices > MT_CLUSTER_MOST_DEVICES)
        return mt_fail(err, MT_EINPUT, "%lld devices: a cluster has from 1 to %d", (long long)devices,
                       MT_CLUSTER_MOST_DEVICES);
    struct mt_cluster *c = owned ? mt_cluster_copy(owned) : mt_cluster_new();
    int first = c->nnodes;
    for (int i = 0; i < count; i++)
        if (joining[i].nodes) add_nodes(c, owned, &joining[i]);
    add_network(c, joining, count, first);
    for (int g = 0; g < c->ngroups && c->nnodes > first; g++) /* its ranks are no longer all */
        if (!strcmp(c->groups[g].name, "all"))
            c->groups[g].name = mt_arena_printf(&c->arena, "ranks:0-%d", owned->ndevices - 1);
    describe(c, owned, joining, count);
    enum mt_status st = mt_cluster_check(c, err);
    if (st) {
        mt_cluster_free(c);
        return st;
    }
    mt_cluster_hash(c, c->hash);
    *cluster = c;
    return MT_OK;
}
