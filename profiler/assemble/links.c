/* Nodes, links and pairs; groups with the fits of their collectives. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/assemble/assemble.h"
#include "profiler/measure/fit.h"

/* Whether two nodes have the same number of devices of each class; then they share one link row. */
static bool nodes_alike(const struct mt_profile *p, int a, int b) {
    for (int class = 0; class < p->nclasses; class ++) {
        int count = 0;
        for (int r = 0; r < p->nranks; r++)
            if (p->places[r].class == class) count += (p->places[r].node == a) - (p->places[r].node == b);
        if (count) return false;
    }
    return true;
}

/* The median of the figure at `offset`, over the pairs of a link whose figure at offset `has` is above 0; 0: there are
 * none. */
static double median_of(const struct mt_profile *p, int l, const struct mt_cluster *cluster, size_t offset,
                        size_t has) {
    double *values = mt_malloc((size_t)(p->npairs + 1) * sizeof *values);
    size_t n = 0;
    for (int i = 0; i < p->npairs; i++) {
        const char *pair = (const char *)&p->pairs[i];
        if (cluster->pairs[i].link == l && *(const double *)(pair + has) > 0)
            values[n++] = *(const double *)(pair + offset);
    }
    double median = n ? mt_median(values, n) : 0;
    free(values);
    return median;
}

static void measure_puts(const struct mt_profile *p, int l, struct mt_cluster *cluster) {
    const size_t copy = offsetof(struct mt_pair_times, copy_Bps), puts = offsetof(struct mt_pair_times, puts);
    struct mt_cluster_link *link = &cluster->links[l];
    link->copy_Bps = median_of(p, l, cluster, copy, copy);
    for (int f = 0; f < MT_CLUSTER_PUTS_FIGURES; f++) {
        double median = median_of(p, l, cluster, puts + mt_cluster_puts_figures[f].offset,
                                  puts + offsetof(struct mt_cluster_puts, signal_s));
        *(double *)((char *)&link->puts + mt_cluster_puts_figures[f].offset) = median;
    }
}

static int ascending(const void *left, const void *right) {
    double l = *(const double *)left, r = *(const double *)right;
    return (l > r) - (l < r);
}

/* The upper median; of two values the larger. */
static double typical(double *values, size_t n) {
    if (n) qsort(values, n, sizeof *values, ascending);
    return n ? values[n / 2] : 0;
}

/* What nodes typically send: for nodes that are added to the document. */
static double typical_egress(const struct mt_profile *p) {
    double *values = mt_malloc(((size_t)p->nnodes + 1) * sizeof *values);
    memcpy(values, p->egress_Bps, (size_t)p->nnodes * sizeof *values);
    double Bps = typical(values, (size_t)p->nnodes);
    free(values);
    return Bps;
}

/* What is typical of the measured pairs of a link, in both directions: the upper median, so that of two directions the
 * slow one does not count as the link's. The error is the largest of the pairs' and, if several, their spread. */
static void measure_link(const struct mt_profile *p, int l, bool between, struct mt_cluster *cluster) {
    struct mt_cluster_link *link = &cluster->links[l];
    double *latency = mt_malloc((size_t)(p->npairs + 1) * sizeof *latency), latency_error = 0, bandwidth_error = 0;
    double *bandwidth = mt_malloc(2 * (size_t)(p->npairs + 1) * sizeof *bandwidth);
    size_t n = 0, m = 0;
    for (int i = 0; i < p->npairs; i++) {
        if (cluster->pairs[i].link != l) continue;
        latency[n++] = cluster->pairs[i].latency_s;
        bandwidth[m++] = cluster->pairs[i].bandwidth_Bps;
        bandwidth[m++] = p->pairs[i].reverse.median;
        latency_error = fmax(latency_error, cluster->pairs[i].latency_error);
        bandwidth_error = fmax(bandwidth_error, cluster->pairs[i].bandwidth_error);
    }
    link->bandwidth_Bps = typical(bandwidth, m);
    size_t kept = 0; /* pairs far from what is typical have rows of their own */
    for (size_t i = 0; i < m; i++)
        if (fabs(log2(bandwidth[i] / link->bandwidth_Bps)) < 1) bandwidth[kept++] = bandwidth[i];
    struct mt_interval all_latency = mt_median_interval(latency, n),
                       all_bandwidth = mt_median_interval(bandwidth, kept);
    link->latency_s = all_latency.median;
    link->latency_error = n > 1 ? fmax(latency_error, mt_interval_error(all_latency)) : latency_error;
    link->bandwidth_error = n > 1 ? fmax(bandwidth_error, mt_interval_error(all_bandwidth)) : bandwidth_error;
    link->shared_Bps = between ? typical_egress(p) : p->shared_Bps;
    measure_puts(p, l, cluster);
    link->compute_slowdown = fmax(p->slowdown[between][MT_SLOWED_COMPUTE], 0);
    link->comm_slowdown = fmax(p->slowdown[between][MT_SLOWED_COMM], 0);
    free(latency);
    free(bandwidth);
}

/* Both directions of a pair. If they differ by less than a tenth, they are one figure: the slower. */
static void set_bandwidths(const struct mt_pair_times *measured, struct mt_cluster_pair *pair) {
    const double alike = 0.9;
    struct mt_interval forth = measured->bandwidth, back = measured->reverse;
    bool reversed = fmin(forth.median, back.median) < alike * fmax(forth.median, back.median);
    if (!reversed && back.median < forth.median) forth = back;
    pair->bandwidth_Bps = forth.median, pair->bandwidth_error = mt_interval_error(forth);
    if (reversed) pair->reverse_Bps = back.median, pair->reverse_error = mt_interval_error(back);
}

static int add_link(struct mt_cluster *cluster, const char *name) {
    cluster->links[cluster->nlinks] = (struct mt_cluster_link){.name = mt_arena_strdup(&cluster->arena, name)};
    return cluster->nlinks++;
}

/* The link within a node: of GPUs NVLink if it connects all pairs, else PCIe. */
static const char *link_kind(const struct mt_profile *p, int node) {
    if (!p->gpu) return "memory";
    for (int a = 0; a < p->nranks; a++)
        for (int b = 0; b < p->nranks; b++)
            if (a != b && p->places[a].node == node && p->places[b].node == node &&
                !mt_profile_nvlink(&p->places[a], &p->places[b]))
                return "pcie";
    return "nvlink";
}

static void make_nodes(const struct mt_profile *p, struct mt_cluster *cluster) {
    cluster->nnodes = p->nnodes;
    cluster->nodes = mt_new(&cluster->arena, struct mt_cluster_node, p->nnodes);
    for (int node = 0; node < p->nnodes; node++) {
        int ndevices = 0, like = 0;
        const struct mt_place *place = NULL;
        for (int r = p->nranks - 1; r >= 0; r--)
            if (p->places[r].node == node) place = &p->places[r], ndevices++;
        cluster->nodes[node] = (struct mt_cluster_node){
            .name = mt_arena_strdup(&cluster->arena, place->topology.host),
            .cores = place->topology.cores,
            .memory_bytes = place->topology.memory_bytes,
            .inside = -1,
            .egress_Bps = p->egress_Bps ? p->egress_Bps[node] : 0,
            .ingress_Bps = p->ingress_Bps ? p->ingress_Bps[node] : 0,
        };
        if (place->facts.driver[0]) cluster->nodes[node].driver = mt_arena_strdup(&cluster->arena, place->facts.driver);
        if (p->gpu && place->topology.nics[0])
            cluster->nodes[node].nics = mt_arena_strdup(&cluster->arena, place->topology.nics);
        if (ndevices < 2) continue;
        while (!nodes_alike(p, like, node)) like++;
        if (like < node) {
            cluster->nodes[node].inside = cluster->nodes[like].inside;
            continue;
        }
        char name[300];
        snprintf(name, sizeof name, "%s%s%.250s", link_kind(p, node), cluster->nlinks ? "-" : "",
                 cluster->nlinks ? place->topology.host : "");
        cluster->nodes[node].inside = add_link(cluster, name);
    }
}

void mt_assemble_links(const struct mt_profile *p, struct mt_cluster *cluster) {
    cluster->links = mt_new(&cluster->arena, struct mt_cluster_link, p->nnodes + 1);
    make_nodes(p, cluster);
    int inside = cluster->nlinks;
    if (p->nnodes > 1) cluster->network = add_link(cluster, "net");
    cluster->npairs = p->npairs;
    cluster->pairs = mt_new(&cluster->arena, struct mt_cluster_pair, p->npairs);
    for (int i = 0; i < p->npairs; i++) {
        const struct mt_pair_times *pair = &p->pairs[i];
        cluster->pairs[i] = (struct mt_cluster_pair){
            .a = pair->a,
            .b = pair->b,
            .link = pair->between ? cluster->network : cluster->nodes[p->places[pair->a].node].inside,
            .latency_s = pair->latency.median,
            .latency_error = mt_interval_error(pair->latency),
        };
        set_bandwidths(pair, &cluster->pairs[i]);
    }
    for (int l = 0; l < cluster->nlinks; l++) measure_link(p, l, l >= inside, cluster);
}

/* ---- groups ---- */

static bool same_fit(const struct mt_coll_case *a, const struct mt_coll_case *b) {
    return a->group == b->group && a->algorithm == b->algorithm && a->wire == b->wire;
}

static void fit_group(const struct mt_profile *p, int g, const struct mt_interval *times, struct mt_cluster *cluster) {
    struct mt_cluster_group *group = &cluster->groups[g];
    struct mt_fit_point *points = mt_malloc((size_t)(p->ncolls + 1) * sizeof *points);
    group->fits = mt_new(&cluster->arena, struct mt_coll_fit, p->ncolls);
    for (int i = 0, n; i < p->ncolls; i += n) { /* cases of one fit are neighbours */
        const struct mt_coll_case *c = &p->colls[i];
        for (n = 0; i + n < p->ncolls && same_fit(c, c + n); n++) {
            struct mt_coll problem = {.kind = c->algorithm->kind, .wire = c->wire, .n = p->groups[c->group].n};
            problem.node = p->groups[c->group].node;
            problem.counts = c[n].counts;
            points[n] = mt_fit_point(c->algorithm, &problem, times[i + n].median, mt_interval_error(times[i + n]));
        }
        if (c->group != g) continue;
        struct mt_coll_fit *fit = &group->fits[group->nfits++];
        *fit = (struct mt_coll_fit){.kind = c->algorithm->kind,
                                    .algorithm = c->algorithm->name,
                                    .wire = c->wire,
                                    .acc = mt_coll_acc(c->algorithm->kind, c->wire, p->gpu)};
        mt_fit_coll(points, n, &cluster->arena, fit);
    }
    free(points);
}

void mt_assemble_groups(const struct mt_profile *p, const struct mt_interval *times, struct mt_cluster *cluster) {
    cluster->ngroups = p->ngroups;
    cluster->groups = mt_new(&cluster->arena, struct mt_cluster_group, p->ngroups);
    for (int g = 0; g < p->ngroups; g++) {
        const struct mt_group *from = &p->groups[g];
        bool between = false;
        for (int k = 1; k < from->n; k++)
            between = between || p->places[from->ranks[k]].node != p->places[from->ranks[0]].node;
        cluster->groups[g] = (struct mt_cluster_group){
            .name = mt_arena_strdup(&cluster->arena, from->name),
            .ndevices = from->n,
            .devices = mt_arena_memdup(&cluster->arena, from->ranks, (size_t)from->n * sizeof *from->ranks),
            .link = between ? cluster->network : cluster->nodes[p->places[from->ranks[0]].node].inside,
        };
        fit_group(p, g, times, cluster);
    }
}
