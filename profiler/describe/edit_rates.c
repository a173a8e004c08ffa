/* Change a link's or a node's rates, and scale in proportion what was measured over them: pairs, the rates of nodes,
 * and the fits of collectives.
 *
 * A fit's latency and bandwidth change as the largest latency and the least bandwidth (in any direction) between the
 * members of its group: a faster network helps a collective until the links within nodes are slower than it. Both are
 * monotone in every rate, so an edit that makes something faster makes no collective slower. */
#include <math.h>
#include <stdlib.h>

#include "profiler/describe/internal.h"

/* The worst path between members of a group. */
static struct mt_path worst_path(const struct mt_cluster *c, const struct mt_cluster_group *group) {
    struct mt_path worst = {-1, 0, INFINITY};
    for (int i = 0; i < group->ndevices; i++)
        for (int j = 0; j < group->ndevices; j++) {
            if (i == j) continue;
            struct mt_path path = mt_cluster_path(c, group->devices[i], group->devices[j]);
            worst.latency_s = fmax(worst.latency_s, path.latency_s);
            if (path.bandwidth_Bps < worst.bandwidth_Bps)
                worst.bandwidth_Bps = path.bandwidth_Bps, worst.link = path.link;
        }
    return worst;
}

static struct mt_path *worst_paths(const struct mt_cluster *c) {
    struct mt_path *paths = mt_malloc(((size_t)c->ngroups + 1) * sizeof *paths);
    for (int g = 0; g < c->ngroups; g++) paths[g] = worst_path(c, &c->groups[g]);
    return paths;
}

/* After a change of rates; frees `before`. */
static void scale_fits(struct mt_cluster *c, struct mt_path *before) {
    for (int g = 0; g < c->ngroups; g++) {
        struct mt_cluster_group *group = &c->groups[g];
        struct mt_path after = worst_path(c, group);
        double bandwidth = after.bandwidth_Bps / before[g].bandwidth_Bps;
        double latency = before[g].latency_s > 0 ? after.latency_s / before[g].latency_s : 1;
        group->link = after.link;
        for (int f = 0; f < group->nfits; f++) {
            group->fits[f].bandwidth_Bps *= bandwidth;
            group->fits[f].latency_s *= latency;
        }
    }
    free(before);
}

void mt_edit_link_rates(struct mt_cluster *c, int link, double bandwidth_Bps, double latency_s) {
    struct mt_cluster_link *l = &c->links[link];
    double bandwidth = bandwidth_Bps / l->bandwidth_Bps, was_s = l->latency_s;
    struct mt_path *before = worst_paths(c);
    l->nominal = true;
    l->bandwidth_Bps = bandwidth_Bps, l->latency_s = latency_s;
    l->shared_Bps *= bandwidth, l->copy_Bps *= bandwidth, l->puts.blocks_Bps *= bandwidth;
    for (int p = 0; p < c->npairs; p++) {
        struct mt_cluster_pair *pair = &c->pairs[p];
        if (pair->link != link) continue;
        pair->bandwidth_Bps *= bandwidth, pair->reverse_Bps *= bandwidth;
        pair->latency_s = was_s > 0 ? pair->latency_s * (latency_s / was_s) : latency_s;
    }
    for (int n = 0; n < c->nnodes && link == c->network; n++)
        c->nodes[n].egress_Bps *= bandwidth, c->nodes[n].ingress_Bps *= bandwidth;
    scale_fits(c, before);
}

/* The bandwidth of a measured pair after the rate of one of its nodes has changed. What becomes slower limits it. What
 * becomes faster raises it in proportion, up to what the other node, or the link, can do. */
static double pair_rate(const struct mt_cluster *c, double pair_Bps, double was_Bps, double now_Bps, double other_Bps) {
    if (now_Bps <= was_Bps || isinf(was_Bps)) return fmin(pair_Bps, now_Bps);
    double most_Bps = fmin(other_Bps, c->links[c->network].bandwidth_Bps);
    return fmax(pair_Bps, fmin(pair_Bps * (now_Bps / was_Bps), most_Bps));
}

void mt_edit_node_rate(struct mt_cluster *c, int node, bool egress, double Bps) {
    double was_Bps = egress ? mt_cluster_node_egress(c, node) : mt_cluster_node_ingress(c, node);
    struct mt_path *before = worst_paths(c);
    for (int p = 0; p < c->npairs; p++) {
        struct mt_cluster_pair *pair = &c->pairs[p];
        int a = c->devices[pair->a].node, b = c->devices[pair->b].node;
        if (a == b || (a != node && b != node)) continue;
        bool forth = (a == node) == egress; /* is it the direction from a to b that changes? */
        int other = a == node ? b : a;
        double other_Bps = egress ? mt_cluster_node_ingress(c, other) : mt_cluster_node_egress(c, other);
        bool reversed = pair->reverse_Bps > 0;
        double to_b = pair->bandwidth_Bps, to_a = reversed ? pair->reverse_Bps : to_b;
        double *changed = forth ? &to_b : &to_a;
        *changed = pair_rate(c, *changed, was_Bps, Bps, other_Bps);
        if (!reversed) pair->reverse_error = pair->bandwidth_error;
        pair->bandwidth_Bps = to_b, pair->reverse_Bps = to_a;
        if (to_a == to_b && pair->reverse_error == pair->bandwidth_error) pair->reverse_Bps = pair->reverse_error = 0;
    }
    *(egress ? &c->nodes[node].egress_Bps : &c->nodes[node].ingress_Bps) = Bps;
    scale_fits(c, before);
}
