/* Add and remove devices. */
#include "profiler/describe/edit.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/units.h"
#include "profiler/describe/internal.h"
#include "profiler/describe/hardware.h"

enum mt_status mt_edit(struct mt_cluster *c, const char *verb, const char *what, mt_edit_change *change,
                       struct mt_err *err) {
    struct mt_cluster *before = mt_cluster_copy(c);
    enum mt_status st = change(c, what, err);
    if (!st) st = mt_cluster_check(c, err);
    if (st) {
        struct mt_cluster changed = *c;
        *c = *before;
        *before = changed;
        mt_err_context(err, "%s \"%.100s\"", verb, what);
    } else {
        const char *was = c->description[0] ? c->description : c->hash;
        c->description = mt_arena_printf(&c->arena, "%s; %s %s", was, verb, what);
        c->source = "edited";
        mt_cluster_hash(c, c->hash);
    }
    mt_cluster_free(before);
    return st;
}

/* "2xNAME" or "NAME": the count, and the name, in the arena. */
static enum mt_status take_count(struct mt_cluster *c, const char *what, int64_t *count, const char **name,
                                 struct mt_err *err) {
    size_t digits = strspn(what, "0123456789");
    *count = 1;
    *name = what;
    if (!digits || what[digits] != 'x') return MT_OK;
    *name = what + digits + 1;
    if (mt_units_parse_int(mt_arena_printf(&c->arena, "%.*s", (int)digits, what), count) && *count >= 1) return MT_OK;
    return mt_fail(err, MT_EINPUT, "the number of devices must be at least 1");
}

enum mt_status mt_edit_names(const struct mt_cluster *c, const char *name, bool rows, struct mt_err *err) {
    struct mt_nearest classes = mt_nearest_to(name), hardware = classes, near;
    for (int i = 0; i < c->nclasses; i++) mt_nearest_add(&classes, c->classes[i].name);
    if (rows) mt_hardware_names(&hardware);
    near = hardware.best[0] && (!classes.best[0] || hardware.cost < classes.cost) ? hardware : classes;
    return mt_nearest_hint(&near, err, "classes: %s%s%s", classes.list, rows ? "; hardware: " : "", hardware.list);
}

enum mt_status mt_edit_no_node(const struct mt_cluster *c, const char *name, struct mt_err *err) {
    struct mt_nearest near = mt_nearest_to(name);
    for (int i = 0; i < c->nnodes; i++) mt_nearest_add(&near, c->nodes[i].name);
    mt_fail(err, MT_EINPUT, "there is no node \"%.60s\"", name);
    return mt_nearest_hint(&near, err, "nodes: %s", near.list);
}

static void *grown(struct mt_cluster *c, const void *rows, int count, int more, size_t row_bytes) {
    char *fresh = mt_arena_alloc(&c->arena, (size_t)(count + more) * row_bytes);
    if (count) memcpy(fresh, rows, (size_t)count * row_bytes);
    return fresh;
}

/* The link of that name, or a new nominal one with this rate (0: its row's default). */
static int default_link(struct mt_cluster *c, const char *name, double rate) {
    int link = mt_cluster_link_named(c, name);
    if (link >= 0) return link;
    const struct mt_hardware_link *row = mt_hardware_link_find(name);
    c->links = grown(c, c->links, c->nlinks, 1, sizeof *c->links);
    c->links[c->nlinks] = mt_hardware_link(row, rate > 0 ? rate : row->rate);
    return c->nlinks++;
}

/* The link within a node of a class: that of its other nodes, else that of hardware.def. */
static int inside_of(struct mt_cluster *c, int class) {
    struct mt_hardware row;
    for (int d = 0; d < c->ndevices; d++) {
        int inside = c->nodes[c->devices[d].node].inside;
        if (c->devices[d].class == class && inside >= 0) return inside;
    }
    if (mt_hardware_find(c->classes[class].name, &row)) return default_link(c, row.link, row.link_GBps * 1e9);
    return default_link(c, strcmp(c->classes[class].kind, "cuda") ? "memory" : "pcie", 0);
}

static int add_node(struct mt_cluster *c, int inside) {
    const char *name = NULL;
    for (int i = c->nnodes; !name || mt_cluster_node_named(c, name) >= 0; i++)
        name = mt_arena_printf(&c->arena, "node%d", i);
    c->nodes = grown(c, c->nodes, c->nnodes, 1, sizeof *c->nodes);
    c->nodes[c->nnodes] = (struct mt_cluster_node){.name = name, .inside = inside};
    if (c->network < 0) c->network = default_link(c, "net", 0);
    return c->nnodes++;
}

/* The group "all" stays valid for its members, but they are no longer all ranks. */
static void rename_all(struct mt_cluster *c) {
    for (int g = 0; g < c->ngroups; g++)
        if (!strcmp(c->groups[g].name, "all"))
            c->groups[g].name = mt_arena_printf(&c->arena, "ranks:0-%d", c->ndevices - 1);
}

static enum mt_status find_class(struct mt_cluster *c, const char *name, int *class, struct mt_err *err) {
    struct mt_hardware row;
    *class = mt_cluster_class_named(c, name);
    if (*class >= 0) return MT_OK;
    char *lower = mt_arena_strdup(&c->arena, name); /* as hardware.def has names */
    for (char *at = lower; *at; at++) *at = (char)tolower((unsigned char)*at);
    *class = mt_cluster_class_named(c, lower);
    if (*class >= 0) return MT_OK;
    if (!mt_hardware_find(lower, &row)) {
        mt_fail(err, MT_EINPUT, "\"%.60s\" is neither a class of the cluster nor known hardware", name);
        return mt_edit_names(c, name, true, err);
    }
    c->classes = grown(c, c->classes, c->nclasses, 1, sizeof *c->classes);
    c->classes[c->nclasses] = mt_hardware_class(&row, lower, c, &c->arena);
    *class = c->nclasses++;
    return MT_OK;
}

static enum mt_status add(struct mt_cluster *c, const char *what, struct mt_err *err) {
    int64_t count;
    int class, node = -1;
    const char *name;
    enum mt_status st = take_count(c, what, &count, &name, err);
    if (st) return st;
    const char *at = strchr(name, '@');
    if (at) {
        name = mt_arena_printf(&c->arena, "%.*s", (int)(at - name), name);
        node = mt_cluster_node_named(c, at + 1);
        if (node < 0) return mt_edit_no_node(c, at + 1, err);
    }
    if (count > MT_CLUSTER_MOST_DEVICES - c->ndevices)
        return mt_fail(err, MT_EINPUT, "that would be more than %d devices", MT_CLUSTER_MOST_DEVICES);
    if ((st = find_class(c, name, &class, err))) return st;
    int inside = inside_of(c, class);
    if (node < 0) node = add_node(c, inside);
    if (c->nodes[node].inside < 0) c->nodes[node].inside = inside;
    rename_all(c);
    const struct mt_cluster_class *of = &c->classes[class];
    c->devices = grown(c, c->devices, c->ndevices, (int)count, sizeof *c->devices);
    for (int i = 0; i < count; i++)
        c->devices[c->ndevices++] = (struct mt_cluster_device){
            .node = node, .class = class, .speed = 1, .emulated = 1, .memory_bytes = of->memory_bytes, .mask = ""};
    return MT_OK;
}

enum mt_status mt_cluster_add(struct mt_cluster *cluster, const char *what, struct mt_err *err) {
    return mt_edit(cluster, "add", what, add, err);
}

/* Drop the groups that have lost a member. */
static void drop_groups(struct mt_cluster *c, const int *moved) {
    int kept = 0;
    for (int g = 0; g < c->ngroups; g++) {
        int d = 0;
        while (d < c->groups[g].ndevices && moved[c->groups[g].devices[d]] >= 0) d++;
        if (d == c->groups[g].ndevices) c->groups[kept++] = c->groups[g];
    }
    c->ngroups = kept;
}

/* Remove the marked devices, and renumber the others. */
static void take_out(struct mt_cluster *c, const bool *gone) {
    int *moved = mt_calloc((size_t)c->ndevices, sizeof *moved), *on = mt_calloc((size_t)c->nnodes, sizeof *on);
    int kept = 0, nodes = 0, pairs = 0;
    for (int d = 0; d < c->ndevices; d++) {
        moved[d] = gone[d] ? -1 : kept;
        if (gone[d]) continue;
        on[c->devices[d].node] = 1;
        c->devices[kept++] = c->devices[d];
    }
    drop_groups(c, moved);
    c->ndevices = kept;
    for (int n = 0; n < c->nnodes; n++) {
        if (!on[n]) continue;
        c->nodes[nodes] = c->nodes[n];
        on[n] = nodes++;
    }
    c->nnodes = nodes;
    for (int d = 0; d < c->ndevices; d++) c->devices[d].node = on[c->devices[d].node];
    for (int p = 0; p < c->npairs; p++) {
        struct mt_cluster_pair pair = c->pairs[p];
        pair.a = moved[pair.a], pair.b = moved[pair.b];
        if (pair.a >= 0 && pair.b >= 0) c->pairs[pairs++] = pair;
    }
    c->npairs = pairs;
    for (int g = 0; g < c->ngroups; g++)
        for (int d = 0; d < c->groups[g].ndevices; d++) c->groups[g].devices[d] = moved[c->groups[g].devices[d]];
    free(moved);
    free(on);
}

static enum mt_status mark_rank(const struct mt_cluster *c, const char *text, bool *gone, struct mt_err *err) {
    int64_t rank;
    if (!mt_units_parse_int(text, &rank) || rank < 0 || rank >= c->ndevices)
        return mt_fail(err, MT_EINPUT, "\"%.60s\" must be a rank, from 0 to %d", text, c->ndevices - 1);
    gone[rank] = true;
    return MT_OK;
}

static enum mt_status mark_node(const struct mt_cluster *c, const char *name, bool *gone, struct mt_err *err) {
    int node = mt_cluster_node_named(c, name);
    if (node < 0) return mt_edit_no_node(c, name, err);
    for (int d = 0; d < c->ndevices; d++) gone[d] = c->devices[d].node == node;
    return MT_OK;
}

static enum mt_status mark_class(struct mt_cluster *c, const char *what, bool *gone, struct mt_err *err) {
    int64_t count, marked = 0;
    const char *name;
    enum mt_status st = take_count(c, what, &count, &name, err);
    if (st) return st;
    int class = mt_cluster_class_named(c, name);
    if (class < 0) {
        mt_fail(err, MT_EINPUT, "must be rank:R, node:NAME or [Nx]CLASS, and \"%.60s\" is no class", name);
        return mt_edit_names(c, name, false, err);
    }
    for (int d = c->ndevices - 1; d >= 0 && marked < count; d--)
        if (c->devices[d].class == class) gone[d] = true, marked++;
    if (marked == count) return MT_OK;
    return mt_fail(err, MT_EINPUT, "there are only %lld of class %s", (long long)marked, name);
}

static enum mt_status take_away(struct mt_cluster *c, const char *what, struct mt_err *err) {
    bool *gone = mt_calloc((size_t)c->ndevices, sizeof *gone);
    int left = 0;
    enum mt_status st;
    if (!strncmp(what, "rank:", 5))
        st = mark_rank(c, what + 5, gone, err);
    else if (!strncmp(what, "node:", 5))
        st = mark_node(c, what + 5, gone, err);
    else
        st = mark_class(c, what, gone, err);
    for (int d = 0; d < c->ndevices; d++) left += !gone[d];
    if (!st && !left) st = mt_fail(err, MT_EINPUT, "no device would be left");
    if (!st) take_out(c, gone);
    free(gone);
    return st;
}

enum mt_status mt_cluster_remove(struct mt_cluster *cluster, const char *what, struct mt_err *err) {
    return mt_edit(cluster, "remove", what, take_away, err);
}
