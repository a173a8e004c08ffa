/* A group of ranks, by their devices: hosts, paths, the slowest path. Rows of pairs are looked up by pair where the
 * group has fewer pairs than the cluster has rows, so that small groups of a large cluster are cheap. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/number/hash.h"
#include "planner/cost/internal.h"

/* ---- hosts ---- */

static double limit_of(double Bps) {
    return Bps > 0 ? Bps : INFINITY;
}

static void list_hosts(struct cost_group *g) {
    const struct mt_cluster *cluster = g->cluster;
    int *host_of = mt_malloc((size_t)cluster->nnodes * sizeof *host_of);
    for (int i = 0; i < cluster->nnodes; i++) host_of[i] = -1;
    double part = 1.0 / g->concurrent;
    g->hosts = mt_calloc((size_t)(g->n < cluster->nnodes ? g->n : cluster->nnodes) + 1, sizeof *g->hosts);
    for (int i = 0; i < g->n; i++) {
        int node = cluster->devices[g->device[i]].node, inside = cluster->nodes[node].inside;
        if (host_of[node] < 0) {
            host_of[node] = g->nhosts++;
            g->hosts[host_of[node]] =
                (struct cost_host){.node = node,
                                   .egress_Bps = part * mt_cluster_node_egress(cluster, node),
                                   .ingress_Bps = part * mt_cluster_node_ingress(cluster, node),
                                   .inside_Bps = part * limit_of(inside < 0 ? 0 : cluster->links[inside].shared_Bps)};
        }
        g->host[i] = host_of[node];
        g->hosts[g->host[i]].nplaces++;
    }
    free(host_of);
}

/* ---- paths ---- */

struct mt_path mt_cost_group_path(const struct cost_group *g, int from, int to) {
    return g->paths ? g->paths[from * g->n + to] : mt_cluster_path(g->cluster, g->device[from], g->device[to]);
}

void mt_cost_group_list_paths(struct cost_group *g) {
    if (g->paths || g->n > COST_MOST_PATHS) return;
    struct mt_path *paths = mt_calloc((size_t)g->n * (size_t)g->n, sizeof *paths);
    for (int i = 0; i < g->n; i++)
        for (int j = 0; j < g->n; j++) paths[i * g->n + j] = mt_cost_group_path(g, i, j);
    g->paths = paths;
}

static void take_path(struct mt_path *slowest, struct mt_path path) {
    slowest->latency_s = fmax(slowest->latency_s, path.latency_s);
    if (path.bandwidth_Bps >= slowest->bandwidth_Bps) return;
    slowest->bandwidth_Bps = path.bandwidth_Bps;
    slowest->link = path.link;
}

static void take_slower(struct cost_group *g, bool between_hosts, struct mt_path path) {
    take_path(&g->slowest, path);
    if (between_hosts) take_path(&g->between, path);
}

/* The path between two nodes of the group without a row; it is the slowest such path. */
static struct mt_path slowest_network(const struct cost_group *g) {
    const struct mt_cluster_link *l = &g->cluster->links[g->cluster->network];
    struct mt_path path = {g->cluster->network, l->latency_s, l->bandwidth_Bps};
    for (int h = 0; h < g->nhosts; h++) {
        const struct mt_cluster_node *node = &g->cluster->nodes[g->hosts[h].node];
        path.bandwidth_Bps = fmin(path.bandwidth_Bps, fmin(limit_of(node->egress_Bps), limit_of(node->ingress_Bps)));
    }
    return path;
}

/* By links and by rows of pairs. Rows of single pairs hide their link's figures only where all pairs have rows. */
static void find_slowest_by_rows(struct cost_group *g) {
    const struct mt_cluster *cluster = g->cluster;
    int64_t rows = 0;
    bool *member = mt_calloc((size_t)cluster->ndevices, sizeof *member);
    for (int i = 0; i < g->n; i++) member[g->device[i]] = true;
    for (int p = 0; p < cluster->npairs; p++) {
        const struct mt_cluster_pair *pair = &cluster->pairs[p];
        if (!member[pair->a] || !member[pair->b]) continue;
        rows++;
        bool between = cluster->devices[pair->a].node != cluster->devices[pair->b].node;
        take_slower(g, between, (struct mt_path){pair->link, pair->latency_s, pair->bandwidth_Bps});
        if (pair->reverse_Bps > 0)
            take_slower(g, between, (struct mt_path){pair->link, pair->latency_s, pair->reverse_Bps});
    }
    free(member);
    if (rows == (int64_t)g->n * (g->n - 1) / 2) return;
    for (int h = 0; h < g->nhosts; h++) {
        int inside = cluster->nodes[g->hosts[h].node].inside;
        if (g->hosts[h].nplaces < 2 || inside < 0) continue;
        const struct mt_cluster_link *l = &cluster->links[inside];
        take_slower(g, false, (struct mt_path){inside, l->latency_s, l->bandwidth_Bps});
    }
    if (g->nhosts > 1) take_slower(g, true, slowest_network(g));
}

static void find_slowest(struct cost_group *g) {
    g->slowest = g->between = (struct mt_path){-1, 0, INFINITY};
    if (g->n < 2) return;
    if ((int64_t)g->n * (g->n - 1) >= g->cluster->npairs) {
        find_slowest_by_rows(g);
        return;
    }
    for (int i = 0; i < g->n; i++)
        for (int j = 0; j < g->n; j++)
            if (i != j) take_slower(g, g->host[i] != g->host[j], mt_cost_group_path(g, i, j));
}

/* Whether a link between neighbours of the group, or between its first rank and another, was never measured. */
static bool any_nominal(const struct cost_group *g) {
    for (int i = 1; i < g->n; i++) {
        int before = mt_cost_group_path(g, i - 1, i).link, first = mt_cost_group_path(g, 0, i).link;
        if (g->cluster->links[before].nominal || g->cluster->links[first].nominal) return true;
    }
    return false;
}

static bool any_measured_gpu(const struct cost_group *g) {
    for (int i = 0; i < g->n; i++) {
        const struct mt_cluster_class *class = &g->cluster->classes[g->cluster->devices[g->device[i]].class];
        if (!class->nominal && !strcmp(class->kind, "cuda")) return true;
    }
    return false;
}

/* ---- the group ---- */

static int by_number(const void *a, const void *b) {
    return *(const int *)a - *(const int *)b;
}

/* The cluster's group of exactly these devices, or null. */
static const struct mt_cluster_group *fitted_group(const struct cost_group *g) {
    const struct mt_cluster *cluster = g->cluster;
    const struct mt_cluster_group *found = NULL;
    if (!cluster->ngroups || g->n < 2) return NULL;
    size_t bytes = (size_t)g->n * sizeof *g->device;
    int *devices = mt_malloc(bytes);
    memcpy(devices, g->device, bytes);
    qsort(devices, (size_t)g->n, sizeof *devices, by_number);
    for (int i = 0; i < cluster->ngroups && !found; i++)
        if (cluster->groups[i].ndevices == g->n && !memcmp(devices, cluster->groups[i].devices, bytes))
            found = &cluster->groups[i];
    free(devices);
    return found;
}

struct cost_group *mt_cost_group_new(const struct mt_cluster *cluster, const int *devices, int n, int concurrent) {
    struct cost_group *g = mt_calloc(1, sizeof *g);
    *g = (struct cost_group){.cluster = cluster, .n = n, .concurrent = concurrent};
    g->device = mt_calloc((size_t)n + 1, sizeof *g->device);
    g->host = mt_calloc((size_t)n + 1, sizeof *g->host);
    memcpy(g->device, devices, (size_t)n * sizeof *devices);
    list_hosts(g);
    find_slowest(g);
    g->nominal = any_nominal(g);
    g->nccl = any_measured_gpu(g);
    g->fitted = fitted_group(g);
    return g;
}

void mt_cost_group_free(struct cost_group *g) {
    if (!g) return;
    mt_cost_cuts_free(g->cuts);
    free(g->device);
    free(g->host);
    free(g->hosts);
    free(g->paths);
    free(g);
}

struct cost_group *mt_cost_group_find(struct mt_cost_memo *memo, const struct mt_cluster *cluster, const int *devices,
                                      int n, int concurrent) {
    static const uint64_t salt = 0x67726f7570; /* apart from the keys of costs */
    bool known;
    uint64_t key = mt_hash64(devices, (size_t)n * sizeof *devices, salt + (uint64_t)concurrent);
    struct cost_entry *entry = mt_cost_memo_entry(memo, key, &known);
    if (!known) entry->group = mt_cost_group_new(cluster, devices, n, concurrent);
    return entry->group;
}

struct cost_group *mt_cost_group_of(const struct mt_costs *costs, const int *group, int n) {
    int *devices = mt_malloc((size_t)n * sizeof *devices);
    for (int i = 0; i < n; i++) devices[i] = costs->device[group[i]];
    int concurrent = costs->concurrent > 1 ? costs->concurrent : 1;
    struct cost_group *g = mt_cost_group_find(costs->memo, costs->cluster, devices, n, concurrent);
    free(devices);
    return g;
}

int mt_cost_link(const struct mt_costs *costs, const int *group, int n) {
    struct mt_costs own = mt_cost_memo_borrow(costs);
    int link = mt_cost_group_of(&own, group, n)->slowest.link;
    mt_cost_memo_return(costs, &own);
    return link;
}
