/* The resources of a cluster: their list, and more of one. */
#include <string.h>

#include "kernels/base/text/ranks.h"
#include "planner/review/bottleneck.h"

const char *mt_rank_list(const bool *chosen, int n, struct mt_arena *arena) {
    enum { MOST_RANGES = 6 };
    int *ranks = mt_new(arena, int, n), count = 0;
    for (int r = 0; r < n; r++)
        if (chosen[r]) ranks[count++] = r;
    return mt_arena_printf(arena, "rank%s %s", count == 1 ? "" : "s", mt_ranks_text(ranks, count, MOST_RANGES, arena));
}

/* ---- the list ---- */

struct listing {
    const struct mt_cluster *cluster;
    const struct mt_plan *plan;
    struct mt_arena *arena;
    struct mt_resource *items;
    int count, capacity;
    double exposed_s, compute_s; /* of the step: the most of a rank */
};

static struct mt_resource *add(struct listing *l, enum mt_resource_kind kind, int which, const char *what,
                               double estimate_s) {
    mt_arena_grow(l->arena, &l->items, l->count, &l->capacity, sizeof *l->items);
    struct mt_resource *one = &l->items[l->count++];
    *one = (struct mt_resource){.kind = kind, .which = which, .what = what, .estimate_s = estimate_s};
    return one;
}

/* Samples move away from a class that is slow: it limits as far as it has samples. */
static void add_class(struct listing *l, int class) {
    const struct mt_cluster *c = l->cluster;
    const struct mt_plan_split *batch = mt_plan_split_named(l->plan, "batch");
    bool *mine = mt_new(l->arena, bool, c->ndevices), any = false, limited = false;
    double samples = 0, all = 0; /* of ranks: those of a host may have the same */
    for (int d = 0; d < c->ndevices; d++) {
        mine[d] = c->devices[d].class == class;
        any |= mine[d];
        limited |= mine[d] && l->plan->ranks[d].memory_bytes > 0;
        samples += mine[d] ? (double)batch->sizes[d] : 0;
        all += (double)batch->sizes[d];
    }
    const char *ranks = mt_rank_list(mine, c->ndevices, l->arena), *name = c->classes[class].name;
    double part = samples / all;
    if (any)
        add(l, MT_RESOURCE_COMPUTE, class, mt_arena_printf(l->arena, "compute of %s (%s)", name, ranks),
            part * l->compute_s);
    if (limited) add(l, MT_RESOURCE_MEMORY, class, mt_arena_printf(l->arena, "memory of %s (%s)", name, ranks), 0);
}

/* Whether two ranks that take part may talk over it. */
static bool link_is_used(const struct listing *l, int link) {
    const struct mt_cluster *c = l->cluster;
    int *on_node = mt_new(l->arena, int, c->nnodes), nodes = 0;
    const int *place = mt_plan_places(l->plan, l->arena);
    bool inside = false;
    for (int i = 0; i < l->plan->nplaces; i++) {
        int node = c->devices[l->plan->order[i]].node;
        if (!on_node[node]++) nodes++;
        inside |= on_node[node] > 1 && c->nodes[node].inside == link;
    }
    bool used = inside || (link == c->network && nodes > 1);
    for (int p = 0; p < c->npairs && !used; p++)
        used = c->pairs[p].link == link && place[c->pairs[p].a] >= 0 && place[c->pairs[p].b] >= 0;
    return used;
}

static void add_link(struct listing *l, int link) {
    const struct mt_cluster *c = l->cluster;
    double part = link == c->network || c->network < 0 ? 1 : 0.5;
    if (!link_is_used(l, link)) return;
    add(l, MT_RESOURCE_BANDWIDTH, link, mt_arena_printf(l->arena, "link %s", c->links[link].name), part * l->exposed_s);
    add(l, MT_RESOURCE_LATENCY, link, mt_arena_printf(l->arena, "latency of link %s", c->links[link].name),
        0.3 * part * l->exposed_s);
}

/* Whether a direction of a host has a figure of its own: its own, or rows of its devices' pairs. */
static bool has_rate(const struct mt_cluster *c, int node, bool egress) {
    if ((egress ? c->nodes[node].egress_Bps : c->nodes[node].ingress_Bps) > 0) return true;
    for (int p = 0; p < c->npairs; p++) {
        int a = c->devices[c->pairs[p].a].node, b = c->devices[c->pairs[p].b].node;
        if (a != b && (a == node || b == node)) return true;
    }
    return false;
}

/* Hosts are equal that have the same figure of their own, the same number of devices, and the class of the first. */
static bool equal_hosts(const struct mt_cluster *c, const int *first, const int *count, int a, int b, bool egress) {
    const struct mt_cluster_node *x = &c->nodes[a], *y = &c->nodes[b];
    return !c->npairs && (egress ? x->egress_Bps == y->egress_Bps : x->ingress_Bps == y->ingress_Bps) &&
           count[a] == count[b] && c->devices[first[a]].class == c->devices[first[b]].class;
}

static void add_hosts(struct listing *l, bool egress) {
    const struct mt_cluster *c = l->cluster;
    bool *done = mt_new(l->arena, bool, c->nnodes);
    int *first = mt_new(l->arena, int, c->nnodes), *count = mt_new(l->arena, int, c->nnodes);
    for (int d = c->ndevices - 1; d >= 0; d--) first[c->devices[d].node] = d, count[c->devices[d].node]++;
    for (int n = 0; n < c->nnodes; n++) {
        if (done[n] || !count[n] || !has_rate(c, n, egress)) continue;
        bool *hosts = mt_new(l->arena, bool, c->nnodes), takes_part = false;
        int nhosts = 0;
        for (int m = n; m < c->nnodes; m++) {
            if (m != n && (done[m] || !count[m] || !equal_hosts(c, first, count, n, m, egress))) continue;
            hosts[m] = done[m] = true;
            nhosts++;
        }
        for (int i = 0; i < l->plan->nplaces; i++) takes_part |= hosts[c->devices[l->plan->order[i]].node];
        if (!takes_part) continue;
        const char *what = mt_arena_printf(l->arena, "%s of host %s", egress ? "egress" : "ingress", c->nodes[n].name);
        if (nhosts > 1) what = mt_arena_printf(l->arena, "%s and %d more", what, nhosts - 1);
        add(l, egress ? MT_RESOURCE_EGRESS : MT_RESOURCE_INGRESS, n, what, 0.9 * l->exposed_s)->hosts = hosts;
    }
}

int mt_resources(const struct mt_cluster *cluster, const struct mt_plan *plan, struct mt_arena *arena,
                 struct mt_resource **resources) {
    struct listing l = {.cluster = cluster, .plan = plan, .arena = arena};
    for (int r = 0; r < plan->nranks && plan->prediction; r++) {
        const struct mt_plan_time *t = &plan->prediction->times[r];
        if (t->exposed_s > l.exposed_s) l.exposed_s = t->exposed_s;
        if (t->compute_s > l.compute_s) l.compute_s = t->compute_s;
    }
    for (int k = 0; k < cluster->nclasses; k++) add_class(&l, k);
    for (int i = 0; i < cluster->nlinks; i++) add_link(&l, i);
    for (int egress = 1; egress >= 0 && cluster->network >= 0; egress--) add_hosts(&l, egress);
    *resources = l.items;
    return l.count;
}

/* ---- more of one ---- */

static void scale_class(struct mt_cluster *cluster, int class, double factor) {
    for (int d = 0; d < cluster->ndevices; d++)
        if (cluster->devices[d].class == class) cluster->devices[d].speed *= factor;
}

static void scale_memory(struct mt_plan *plan, const struct mt_cluster *cluster, int class, double factor) {
    for (int r = 0; r < plan->nranks; r++)
        if (cluster->devices[r].class == class)
            plan->ranks[r].memory_bytes = (int64_t)((double)plan->ranks[r].memory_bytes * factor);
}

/* bandwidth: else latency, which becomes so many times shorter. */
static void scale_link(struct mt_cluster *c, int link, bool bandwidth, double factor) {
    double rate = bandwidth ? factor : 1, latency = bandwidth ? 1 : 1 / factor;
    struct mt_cluster_link *l = &c->links[link];
    l->bandwidth_Bps *= rate, l->shared_Bps *= rate, l->copy_Bps *= rate, l->latency_s *= latency;
    l->puts.blocks_Bps *= rate, l->puts.copy_s *= latency, l->puts.signal_s *= latency;
    for (int p = 0; p < c->npairs; p++) {
        struct mt_cluster_pair *pair = &c->pairs[p];
        if (pair->link != link) continue;
        pair->bandwidth_Bps *= rate, pair->reverse_Bps *= rate, pair->latency_s *= latency;
    }
    for (int g = 0; g < c->ngroups; g++)
        for (int f = 0; f < c->groups[g].nfits && c->groups[g].link == link; f++)
            c->groups[g].fits[f].bandwidth_Bps *= rate, c->groups[g].fits[f].latency_s *= latency;
}

static void scale_hosts(struct mt_cluster *c, const bool *hosts, bool egress, double factor) {
    for (int n = 0; n < c->nnodes; n++)
        if (hosts[n]) *(egress ? &c->nodes[n].egress_Bps : &c->nodes[n].ingress_Bps) *= factor;
    for (int p = 0; p < c->npairs; p++) {
        struct mt_cluster_pair *pair = &c->pairs[p];
        int a = c->devices[pair->a].node, b = c->devices[pair->b].node;
        if (a == b) continue;
        if (pair->reverse_Bps == 0) pair->reverse_Bps = pair->bandwidth_Bps;
        if (hosts[egress ? a : b]) pair->bandwidth_Bps *= factor;
        if (hosts[egress ? b : a]) pair->reverse_Bps *= factor;
    }
}

void mt_resource_scale(const struct mt_resource *resource, double factor, struct mt_cluster *cluster,
                       struct mt_plan *plan) {
    enum mt_resource_kind kind = resource->kind;
    if (kind == MT_RESOURCE_COMPUTE) scale_class(cluster, resource->which, factor);
    if (kind == MT_RESOURCE_MEMORY) scale_memory(plan, cluster, resource->which, factor);
    if (kind == MT_RESOURCE_BANDWIDTH || kind == MT_RESOURCE_LATENCY)
        scale_link(cluster, resource->which, kind == MT_RESOURCE_BANDWIDTH, factor);
    if (kind == MT_RESOURCE_EGRESS || kind == MT_RESOURCE_INGRESS)
        scale_hosts(cluster, resource->hosts, kind == MT_RESOURCE_EGRESS, factor);
}
