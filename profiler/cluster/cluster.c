/* The cluster in memory: creation, copy, look-up. */
#include "profiler/cluster/cluster.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct mt_cluster *mt_cluster_new(void) {
    struct mt_cluster *c = mt_calloc(1, sizeof *c);
    c->made_by = c->description = "";
    c->source = "measured";
    c->network = -1;
    return c;
}

#define FIGURE(name)                                                                                                   \
    { #name, offsetof(struct mt_cluster_gpu, name) }
const struct mt_cluster_gpu_figure mt_cluster_gpu_figures[MT_CLUSTER_GPU_FIGURES] = {
    FIGURE(from_host_Bps),    FIGURE(to_host_Bps),     FIGURE(sm_clock_Hz),
    FIGURE(sm_clock_most_Hz), FIGURE(memory_clock_Hz), FIGURE(memory_clock_most_Hz),
    FIGURE(power_W),          FIGURE(power_limit_W),   FIGURE(temperature_C)};
#undef FIGURE

double mt_cluster_gpu_figure(const struct mt_cluster_gpu *gpu, int figure) {
    return *(const double *)((const char *)gpu + mt_cluster_gpu_figures[figure].offset);
}

#define FIGURE(name)                                                                                                   \
    { #name, offsetof(struct mt_cluster_puts, name) }
const struct mt_cluster_puts_figure mt_cluster_puts_figures[MT_CLUSTER_PUTS_FIGURES] = {
    FIGURE(copy_s), FIGURE(blocks_Bps), FIGURE(signal_s), FIGURE(compute_slowdown), FIGURE(put_slowdown)};
#undef FIGURE

double mt_cluster_puts_figure(const struct mt_cluster_puts *puts, int figure) {
    return *(const double *)((const char *)puts + mt_cluster_puts_figures[figure].offset);
}

void mt_cluster_free(struct mt_cluster *cluster) {
    if (!cluster) return;
    mt_arena_release(&cluster->arena);
    free(cluster);
}

/* A vector of `count` items in the arena; null stays null. */
#define COPY(arena, items, count) ((items) = mt_arena_memdup((arena), (items), (size_t)(count) * sizeof *(items)))

static void copy_class(struct mt_arena *arena, struct mt_cluster_class *class) {
    class->name = mt_arena_strdup(arena, class->name);
    class->kind = mt_arena_strdup(arena, class->kind);
    class->model = mt_arena_strdup(arena, class->model);
    COPY(arena, class->curves, class->ncurves);
    for (int i = 0; i < class->ncurves; i++) {
        struct mt_curve *curve = &class->curves[i];
        curve->op = mt_arena_strdup(arena, curve->op);
        curve->variant = mt_arena_strdup(arena, curve->variant);
        COPY(arena, curve->rows, curve->npoints);
        COPY(arena, curve->time_s, curve->npoints);
        COPY(arena, curve->error, curve->npoints);
    }
}

struct mt_cluster_class mt_cluster_class_copy(const struct mt_cluster_class *class, struct mt_arena *arena) {
    struct mt_cluster_class copy = *class;
    copy_class(arena, &copy);
    return copy;
}

static void copy_group(struct mt_arena *arena, struct mt_cluster_group *group) {
    group->name = mt_arena_strdup(arena, group->name);
    COPY(arena, group->devices, group->ndevices);
    COPY(arena, group->fits, group->nfits);
    for (int i = 0; i < group->nfits; i++) {
        struct mt_coll_fit *fit = &group->fits[i];
        fit->algorithm = mt_arena_strdup(arena, fit->algorithm);
        COPY(arena, fit->size_bytes, fit->npoints);
        COPY(arena, fit->ratio, fit->npoints);
        if (fit->skew > 0) COPY(arena, fit->skewed_ratio, fit->npoints);
    }
}

static void copy_node(struct mt_arena *arena, struct mt_cluster_node *node) {
    node->name = mt_arena_strdup(arena, node->name);
    if (node->driver) node->driver = mt_arena_strdup(arena, node->driver);
    if (node->nics) node->nics = mt_arena_strdup(arena, node->nics);
}

static void copy_device(struct mt_arena *arena, struct mt_cluster_device *device) {
    device->mask = mt_arena_strdup(arena, device->mask);
    if (!device->gpu) return;
    COPY(arena, device->gpu, 1);
    device->gpu->bus = mt_arena_strdup(arena, device->gpu->bus);
}

struct mt_cluster *mt_cluster_copy(const struct mt_cluster *cluster) {
    struct mt_cluster *c = mt_malloc(sizeof *c);
    *c = *cluster;
    c->arena = (struct mt_arena)MT_ARENA_INIT;
    c->made_by = mt_arena_strdup(&c->arena, c->made_by);
    c->source = mt_arena_strdup(&c->arena, c->source);
    c->description = mt_arena_strdup(&c->arena, c->description);
    COPY(&c->arena, c->classes, c->nclasses);
    for (int i = 0; i < c->nclasses; i++) copy_class(&c->arena, &c->classes[i]);
    if (c->nccl) c->nccl = mt_arena_strdup(&c->arena, c->nccl);
    COPY(&c->arena, c->nodes, c->nnodes);
    for (int i = 0; i < c->nnodes; i++) copy_node(&c->arena, &c->nodes[i]);
    COPY(&c->arena, c->devices, c->ndevices);
    for (int i = 0; i < c->ndevices; i++) copy_device(&c->arena, &c->devices[i]);
    COPY(&c->arena, c->links, c->nlinks);
    for (int i = 0; i < c->nlinks; i++) c->links[i].name = mt_arena_strdup(&c->arena, c->links[i].name);
    COPY(&c->arena, c->pairs, c->npairs);
    COPY(&c->arena, c->groups, c->ngroups);
    for (int i = 0; i < c->ngroups; i++) copy_group(&c->arena, &c->groups[i]);
    COPY(&c->arena, c->warnings, c->nwarnings);
    for (int i = 0; i < c->nwarnings; i++) c->warnings[i] = mt_arena_strdup(&c->arena, c->warnings[i]);
    return c;
}

int mt_cluster_class_named(const struct mt_cluster *cluster, const char *name) {
    for (int i = 0; i < cluster->nclasses; i++)
        if (!strcmp(cluster->classes[i].name, name)) return i;
    return -1;
}

int mt_cluster_node_named(const struct mt_cluster *cluster, const char *name) {
    for (int i = 0; i < cluster->nnodes; i++)
        if (!strcmp(cluster->nodes[i].name, name)) return i;
    return -1;
}

int mt_cluster_link_named(const struct mt_cluster *cluster, const char *name) {
    for (int i = 0; i < cluster->nlinks; i++)
        if (!strcmp(cluster->links[i].name, name)) return i;
    return -1;
}

const char *mt_cluster_kind(const struct mt_cluster *cluster) {
    return cluster->classes[cluster->devices[0].class].kind;
}

static int by_place(const void *left, const void *right) {
    const struct mt_cluster_pair *l = left, *r = right;
    return l->a != r->a ? (l->a > r->a) - (l->a < r->a) : (l->b > r->b) - (l->b < r->b);
}

struct mt_path mt_cluster_path(const struct mt_cluster *cluster, int a, int b) {
    if (a == b) return (struct mt_path){-1, 0, INFINITY};
    struct mt_cluster_pair key = {.a = a < b ? a : b, .b = a < b ? b : a};
    const struct mt_cluster_pair *pair = NULL;
    if (cluster->npairs) pair = bsearch(&key, cluster->pairs, (size_t)cluster->npairs, sizeof key, by_place);
    if (pair) {
        bool reverse = a > b && pair->reverse_Bps > 0;
        return (struct mt_path){pair->link, pair->latency_s, reverse ? pair->reverse_Bps : pair->bandwidth_Bps};
    }
    const struct mt_cluster_node *from = &cluster->nodes[cluster->devices[a].node],
                                 *to = &cluster->nodes[cluster->devices[b].node];
    const struct mt_cluster_link *link = &cluster->links[from == to ? from->inside : cluster->network];
    struct mt_path path = {(int)(link - cluster->links), link->latency_s, link->bandwidth_Bps};
    if (from != to && from->egress_Bps > 0) path.bandwidth_Bps = fmin(path.bandwidth_Bps, from->egress_Bps);
    if (from != to && to->ingress_Bps > 0) path.bandwidth_Bps = fmin(path.bandwidth_Bps, to->ingress_Bps);
    return path;
}

static double node_rate(const struct mt_cluster *cluster, double own_Bps) {
    if (own_Bps > 0) return own_Bps;
    double shared_Bps = cluster->network < 0 ? 0 : cluster->links[cluster->network].shared_Bps;
    return shared_Bps > 0 ? shared_Bps : INFINITY;
}

double mt_cluster_node_egress(const struct mt_cluster *cluster, int node) {
    return node_rate(cluster, cluster->nodes[node].egress_Bps);
}

double mt_cluster_node_ingress(const struct mt_cluster *cluster, int node) {
    return node_rate(cluster, cluster->nodes[node].ingress_Bps);
}
