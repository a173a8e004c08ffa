/* An AllToAll among many ranks, priced from what ranks send and receive. The list of its transfers has n^2 entries;
 * here the ranks of a few hosts stand for all: those that are first and last, those with the least rates, those of the
 * largest boxes, and some between. For each of their ranks it is counted exactly what it exchanges with every other,
 * and a rank takes, as in the direct algorithm,
 *
 *     sum of the latencies of its peers + max(bytes sent / rate, bytes received / rate, those of its host / its rates)
 *
 * O(ranks on the sampled hosts x n). Of several covers that overlap each gives an equal part, which is a guess. */
#include "planner/frontier/exchange.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "synth/layout/number.h"
#include "synth/program/message.h"

enum { SAMPLED_RANKS = 64, SPREAD_HOSTS = 3 };
enum { MOST_PEERS = 2048 }; /* a message has as many counts as pairs of ranks */

struct exchange {
    const struct mt_pricing *pricing;
    const struct mt_layout *from, *to;
    int n;
    double element_bytes, times; /* times: messages that are sent as one */
    int *box;                    /* [n]: number of the old box and part, -1: empty */
    bool *first;                 /* [n]: no earlier rank has the same */
    double weight;               /* of what a cover gives: covers that overlap share */
    int **to_part;               /* [to->ncovers]: mt_layout_part_map, when asked for */
    int *node;                   /* [n]: of the cluster */
};

/* Of a rank, or of the ranks of a host together; [0] what is sent, [1] what is received. */
struct load {
    double latency_s[2], transfer_s[2];
    double out_bytes[2], inside_bytes[2]; /* to (from) other hosts; within the host */
    double bytes[2];                      /* what is packed (unpacked), its own included */
    int pieces[2];
    bool is_tensor[2]; /* the pieces are the tensor's memory, in order */
};

/* ---- who sends what ---- */

/* Whether an old part goes to the new part of a rank. */
static bool goes(struct exchange *x, int part, int receiver) {
    int new = x->to->part[receiver], cover = x->to->cover[new];
    if (x->to->cover_parts[cover] == 1) return true;
    if (!x->to_part[cover]) {
        x->to_part[cover] = mt_calloc((size_t)x->from->nparts, sizeof(int));
        mt_layout_part_map(x->from, x->to, x->n, cover, x->to_part[cover]);
    }
    return x->to_part[cover][part] == new;
}

/* The box that one rank sends to another, or keeps; false: nothing. */
static bool sends(struct exchange *x, int sender, int receiver, struct mt_box *box) {
    if (x->box[sender] < 0 || (sender != receiver && (!x->first[sender] || x->box[sender] == x->box[receiver])))
        return false;
    return mt_box_intersect(&x->from->box[sender], &x->to->box[receiver], x->from->naxes, box) &&
           goes(x, x->from->part[sender], receiver);
}

/* Covers have all elements; where they overlap, together more than all. */
static double weight_of(const struct exchange *x) {
    bool *seen = mt_calloc((size_t)x->n + 1, sizeof *seen);
    int *part_of_cover = mt_malloc((size_t)x->from->ncovers * sizeof *part_of_cover);
    double held = 0, all = 1;
    for (int c = 0; c < x->from->ncovers; c++) part_of_cover[c] = -1;
    for (int p = x->from->nparts - 1; p >= 0; p--) part_of_cover[x->from->cover[p]] = p;
    for (int a = 0; a < x->from->naxes; a++) all *= (double)x->from->extent[a];
    for (int r = 0; r < x->n; r++) {
        int part = x->from->part[r];
        if (x->box[r] < 0 || !x->first[r] || part_of_cover[x->from->cover[part]] != part) continue;
        held += (double)mt_box_count(&x->from->box[r], x->from->naxes);
    }
    free(seen), free(part_of_cover);
    return held > all ? all / held : 1;
}

/* ---- loads ---- */

static int device_of(const struct exchange *x, int rank) {
    return x->pricing->costs->device[rank];
}

static void add_message(struct exchange *x, struct load *load, int side, int rank, int peer, const struct mt_box *box) {
    const struct mt_layout *layout = side ? x->to : x->from;
    double bytes = (double)mt_box_count(box, layout->naxes) * x->element_bytes * x->weight;
    int64_t start;
    load->is_tensor[side] &= mt_box_run(box, &layout->box[rank], layout->naxes, &start) &&
                             fabs((double)start * x->element_bytes - load->bytes[side]) < 0.5;
    load->bytes[side] += bytes;
    load->pieces[side]++;
    if (rank == peer) return;
    int sender = side ? peer : rank, receiver = side ? rank : peer;
    struct mt_path path = mt_cluster_path(x->pricing->costs->cluster, device_of(x, sender), device_of(x, receiver));
    load->latency_s[side] += path.latency_s / x->times;
    load->transfer_s[side] += bytes / path.bandwidth_Bps;
    *(x->node[rank] == x->node[peer] ? &load->inside_bytes[side] : &load->out_bytes[side]) += bytes;
}

static struct load load_of(struct exchange *x, int rank) {
    struct load load = {.is_tensor = {true, true}};
    struct mt_box box;
    for (int peer = 0; peer < x->n; peer++) {
        if (sends(x, rank, peer, &box)) add_message(x, &load, 0, rank, peer, &box);
        if (sends(x, peer, rank, &box)) add_message(x, &load, 1, rank, peer, &box);
    }
    return load;
}

static double copies_s(const struct exchange *x, int rank, const struct load *load) {
    double s = 0;
    for (int side = 0; side < 2; side++)
        if (!load->is_tensor[side])
            s += mt_cost_copy_s(x->pricing->costs, rank, (int64_t)load->bytes[side], load->pieces[side]);
    return s;
}

/* The ranks of a host: the seconds of the slowest. */
static double host_s(struct exchange *x, const int *ranks, int n) {
    const struct mt_cluster *cluster = x->pricing->costs->cluster;
    int node = x->node[ranks[0]], inside = cluster->nodes[node].inside;
    struct load *loads = mt_calloc((size_t)n, sizeof *loads), host = {.pieces = {0}};
    double slowest_s = 0;
    for (int i = 0; i < n; i++) {
        loads[i] = load_of(x, ranks[i]);
        if (loads[i].pieces[0] > MOST_PEERS || loads[i].pieces[1] > MOST_PEERS) slowest_s = INFINITY;
        for (int side = 0; side < 2; side++)
            host.out_bytes[side] += loads[i].out_bytes[side], host.inside_bytes[side] += loads[i].inside_bytes[side];
    }
    double shared_s = fmax(host.out_bytes[0] / mt_cluster_node_egress(cluster, node),
                           host.out_bytes[1] / mt_cluster_node_ingress(cluster, node));
    if (inside >= 0 && cluster->links[inside].shared_Bps > 0)
        shared_s = fmax(shared_s, host.inside_bytes[0] / cluster->links[inside].shared_Bps);
    for (int i = 0; i < n; i++) {
        double latency_s = fmax(loads[i].latency_s[0], loads[i].latency_s[1]);
        double transfer_s = fmax(loads[i].transfer_s[0], loads[i].transfer_s[1]);
        slowest_s = fmax(slowest_s, latency_s + fmax(transfer_s, shared_s) + copies_s(x, ranks[i], &loads[i]));
    }
    free(loads);
    return slowest_s;
}

/* ---- samples ---- */

/* The ranks by host: those of host h are ranks[begin[h] .. begin[h + 1]). */
struct hosts {
    int n, *ranks, *begin;
};

static struct hosts hosts_of(const struct exchange *x) {
    const struct mt_cluster *cluster = x->pricing->costs->cluster;
    struct hosts h = {.ranks = mt_calloc((size_t)x->n, sizeof(int)),
                      .begin = mt_calloc((size_t)cluster->nnodes + 1, sizeof(int))};
    int *next = mt_calloc((size_t)cluster->nnodes + 1, sizeof *next),
        *of = mt_malloc((size_t)cluster->nnodes * sizeof *of);
    for (int i = 0; i < cluster->nnodes; i++) of[i] = -1;
    for (int r = 0; r < x->n; r++) {
        if (of[x->node[r]] < 0) of[x->node[r]] = h.n++;
        h.begin[of[x->node[r]] + 1]++;
    }
    for (int i = 0; i < h.n; i++) h.begin[i + 1] += h.begin[i], next[i] = h.begin[i];
    for (int r = 0; r < x->n; r++) h.ranks[next[of[x->node[r]]]++] = r;
    free(next), free(of);
    return h;
}

/* By one criterion; more is worse. */
static double rank_host(const struct exchange *x, const struct hosts *h, int host, int criterion) {
    const struct mt_cluster *cluster = x->pricing->costs->cluster;
    int node = x->node[h->ranks[h->begin[host]]], inside = cluster->nodes[node].inside;
    double sum = 0;
    switch (criterion) {
    case 0: return -mt_cluster_node_egress(cluster, node);
    case 1: return -mt_cluster_node_ingress(cluster, node);
    case 2: return inside < 0 ? -INFINITY : -cluster->links[inside].bandwidth_Bps;
    }
    const struct mt_layout *layout = criterion == 3 ? x->from : x->to;
    for (int i = h->begin[host]; i < h->begin[host + 1]; i++)
        sum += (double)mt_box_count(&layout->box[h->ranks[i]], layout->naxes);
    return sum;
}

static double slowest_s(struct exchange *x) {
    enum { CRITERIA = 5 };
    struct hosts h = hosts_of(x);
    bool *done = mt_calloc((size_t)h.n, sizeof *done), all = x->n <= SAMPLED_RANKS;
    double s = 0;
    done[0] = done[h.n - 1] = true;
    for (int c = 0; c < CRITERIA; c++) {
        int worst = 0;
        for (int i = 1; i < h.n; i++)
            if (rank_host(x, &h, i, c) > rank_host(x, &h, worst, c)) worst = i;
        done[worst] = true;
    }
    for (int i = 1; i <= SPREAD_HOSTS; i++) done[(int64_t)i * h.n / (SPREAD_HOSTS + 1)] = true;
    for (int i = 0; i < h.n; i++)
        if (all || done[i]) s = fmax(s, host_s(x, h.ranks + h.begin[i], h.begin[i + 1] - h.begin[i]));
    free(done), free(h.ranks), free(h.begin);
    return s;
}

double mt_price_exchange(const struct mt_pricing *pricing, int gvalue, int from, int to, int64_t times) {
    const struct mt_costs *costs = pricing->costs;
    int n = costs->nranks;
    struct exchange x = {.pricing = pricing,
                         .from = &pricing->layouts->items[from],
                         .to = &pricing->layouts->items[to],
                         .n = n,
                         .element_bytes = (double)mt_type_size(pricing->graph->values[gvalue].type),
                         .times = (double)times};
    x.box = mt_malloc((size_t)n * sizeof *x.box);
    x.node = mt_malloc((size_t)n * sizeof *x.node);
    x.first = mt_calloc((size_t)n, sizeof *x.first);
    x.to_part = mt_calloc((size_t)x.to->ncovers, sizeof *x.to_part);
    mt_number_boxes(x.from, n, x.from->part, x.box);
    for (int r = 0, seen = 0; r < n; r++) { /* numbers are in the order of first ranks */
        x.first[r] = x.box[r] == seen;
        seen += x.first[r];
        x.node[r] = costs->cluster->devices[costs->device[r]].node;
    }
    x.weight = weight_of(&x);
    double s = slowest_s(&x);
    for (int c = 0; c < x.to->ncovers; c++) free(x.to_part[c]);
    free(x.to_part), free(x.first), free(x.node), free(x.box);
    return s;
}
