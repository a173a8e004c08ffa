/* Ranks as classes on their hosts, and hosts as classes: how fast each sends and receives at most. */
#include <math.h>
#include <stdlib.h>

#include "planner/search/bound/internal.h"

enum { MOST_SPEEDS = 48 };
static const double speed_step = 0.002; /* of many speeds those that differ by less count as the faster one */

/* What the rows of pairs say of a device, and how many there are. */
struct reached {
    int inside, outside; /* pairs with rows */
    double out_Bps, in_Bps, host_out_Bps, host_in_Bps;
};

static void take_row(struct reached *r, bool inside, double out_Bps, double in_Bps) {
    *(inside ? &r->inside : &r->outside) += 1;
    r->out_Bps = fmax(r->out_Bps, out_Bps);
    r->in_Bps = fmax(r->in_Bps, in_Bps);
    if (inside) return;
    r->host_out_Bps = fmax(r->host_out_Bps, out_Bps);
    r->host_in_Bps = fmax(r->host_in_Bps, in_Bps);
}

/* Of each device, the fastest path to and from another rank's; pairs without rows have their link's rates. on_node: the
 * number of ranks there. */
static struct reached *reach_of(const struct bounding *b, const int *on_node) {
    const struct mt_costs *costs = b->search->costs;
    const struct mt_cluster *c = costs->cluster;
    struct reached *reached = mt_calloc((size_t)c->ndevices, sizeof *reached);
    bool *ours = mt_calloc((size_t)c->ndevices, sizeof *ours);
    for (int r = 0; r < costs->nranks; r++) ours[costs->device[r]] = true;
    for (int p = 0; p < c->npairs; p++) {
        const struct mt_cluster_pair *pair = &c->pairs[p];
        if (!ours[pair->a] || !ours[pair->b]) continue;
        bool inside = c->devices[pair->a].node == c->devices[pair->b].node;
        double there_Bps = pair->bandwidth_Bps, back_Bps = pair->reverse_Bps > 0 ? pair->reverse_Bps : there_Bps;
        take_row(&reached[pair->a], inside, there_Bps, back_Bps);
        take_row(&reached[pair->b], inside, back_Bps, there_Bps);
    }
    for (int r = 0; r < costs->nranks; r++) {
        int device = costs->device[r], node = c->devices[device].node;
        struct reached *mine = &reached[device];
        if (mine->inside < on_node[node] - 1) {
            double Bps = c->links[c->nodes[node].inside].bandwidth_Bps;
            take_row(mine, true, Bps, Bps);
        }
        if (mine->outside >= costs->nranks - on_node[node]) continue;
        double Bps = c->links[c->network].bandwidth_Bps, out_Bps = c->nodes[node].egress_Bps;
        double in_Bps = c->nodes[node].ingress_Bps;
        take_row(mine, false, out_Bps > 0 ? fmin(Bps, out_Bps) : Bps, in_Bps > 0 ? fmin(Bps, in_Bps) : Bps);
    }
    free(ours);
    return reached;
}

/* Speeds as they are, or, of many, rounded up. */
static double rounded(double speed, bool many) {
    return many ? exp(speed_step * ceil(log(speed) / speed_step - 1e-9)) : speed;
}

static bool many_speeds(const struct bounding *b) {
    double speeds[MOST_SPEEDS];
    int n = 0;
    for (int r = 0; r < b->search->costs->nranks; r++) {
        int i = 0;
        while (i < n && speeds[i] != bound_device_of(b, r)->speed) i++;
        if (i == MOST_SPEEDS) return true;
        if (i == n) speeds[n++] = bound_device_of(b, r)->speed;
    }
    return false;
}

/* A host's ranks as classes, in the order in which they come first. */
struct host {
    struct mt_subset_hosts as;
    struct mt_subset_ranks *ranks;
    int capacity;
};

static bool same_rank(const struct mt_subset_ranks *a, const struct mt_subset_ranks *b) {
    return a->curves == b->curves && a->speed == b->speed && a->out_Bps == b->out_Bps && a->in_Bps == b->in_Bps &&
           a->each_s == b->each_s;
}

static bool same_host(const struct mt_subset_hosts *a, const struct mt_subset_hosts *b) {
    bool same = a->out_Bps == b->out_Bps && a->in_Bps == b->in_Bps && a->inside_Bps == b->inside_Bps &&
                a->latency_s == b->latency_s && a->nranks == b->nranks;
    for (int r = 0; r < a->nranks && same; r++)
        same = same_rank(&a->ranks[r], &b->ranks[r]) && a->ranks[r].count == b->ranks[r].count;
    return same;
}

static void add_rank(struct bounding *b, struct host *host, int rank, const struct reached *reached, bool many) {
    const struct mt_cluster_device *device = bound_device_of(b, rank);
    const struct reached *mine = &reached[b->search->costs->device[rank]];
    host->as.out_Bps += mine->host_out_Bps;
    host->as.in_Bps += mine->host_in_Bps;
    int64_t limit = b->plan->ranks[rank].memory_bytes;
    if (limit && limit < b->held_bytes) return; /* it may hold state, but computes no sample */
    bool alone = b->search->costs->nranks == 1;
    struct mt_subset_ranks one = {mt_search_bound_curves(b, rank, limit),
                                  rounded(device->speed, many),
                                  alone ? INFINITY : mine->out_Bps,
                                  alone ? INFINITY : mine->in_Bps,
                                  b->search->costs->cluster->classes[device->class].overhead_s,
                                  1};
    for (int i = 0; i < host->as.nranks; i++)
        if (same_rank(&host->ranks[i], &one)) {
            host->ranks[i].count++;
            return;
        }
    mt_arena_grow(&b->arena, &host->ranks, host->as.nranks, &host->capacity, sizeof *host->ranks);
    host->ranks[host->as.nranks++] = one;
}

/* Between devices on a link. Fits of collectives have latencies of their own. */
static double least_latency(const struct mt_cluster *c, int link) {
    double least_s = c->ngroups ? 0 : c->links[link].latency_s;
    for (int p = 0; p < c->npairs; p++) least_s = fmin(least_s, c->pairs[p].latency_s);
    return least_s;
}

void mt_search_bound_hosts(struct bounding *b) {
    const struct mt_costs *costs = b->search->costs;
    const struct mt_cluster *c = costs->cluster;
    struct host *hosts = mt_new(&b->arena, struct host, c->nnodes);
    int *on_node = mt_new(&b->arena, int, c->nnodes);
    for (int r = 0; r < costs->nranks; r++) on_node[bound_device_of(b, r)->node]++;
    struct reached *reached = reach_of(b, on_node);
    bool many = many_speeds(b);
    for (int r = 0; r < costs->nranks; r++) add_rank(b, &hosts[bound_device_of(b, r)->node], r, reached, many);
    free(reached);
    struct mt_subset_hosts *classes = mt_new(&b->arena, struct mt_subset_hosts, c->nnodes);
    for (int h = 0; h < c->nnodes; h++) {
        struct host *host = &hosts[h];
        if (!on_node[h]) continue;
        int inside = c->nodes[h].inside, i = 0;
        host->as.count = 1;
        host->as.ranks = host->ranks;
        host->as.latency_s = inside >= 0 ? least_latency(c, inside) : 0;
        host->as.inside_Bps = inside >= 0 && c->links[inside].shared_Bps > 0 ? c->links[inside].shared_Bps : INFINITY;
        host->as.out_Bps = fmin(host->as.out_Bps, mt_cluster_node_egress(c, h));
        host->as.in_Bps = fmin(host->as.in_Bps, mt_cluster_node_ingress(c, h));
        while (i < b->subset.nhosts && !same_host(&classes[i], &host->as)) i++;
        if (i == b->subset.nhosts) classes[b->subset.nhosts++] = (struct mt_subset_hosts){0};
        int64_t count = classes[i].count + 1;
        classes[i] = host->as;
        classes[i].count = count;
    }
    b->subset.hosts = classes;
    b->subset.latency_s = c->network >= 0 ? least_latency(c, c->network) : 0;
}
