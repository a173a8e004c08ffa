/* The canonical order of ranks: node by node, the largest nodes first, equal devices together.
 *
 * Devices and nodes get colours from what they are: class, speed, memory, what a person has fixed of a rank; a node's
 * network rates and devices. Where pairs were measured, colours are refined by those of the other device of each pair,
 * its link and rates, as in the Weisfeiler-Lehman test of graph isomorphism. Ranks of equal colours are taken for
 * equal; the order of the document decides among them only. O(n log n + ROUNDS pairs). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/number/hash.h"
#include "planner/search/internal.h"

enum { ROUNDS = 3 };

struct place {
    int rank, node; /* node: of the cluster */
    uint64_t colour;
    double strength; /* about its operations a second */
};
struct host {
    int first, count; /* places, before they are sorted */
    uint64_t colour;
    double strength;
};

static uint64_t hash_text(const char *text, uint64_t seed) {
    return mt_hash64(text, strlen(text), seed);
}

static double strength_of(const struct mt_cluster *cluster, const struct mt_cluster_device *device) {
    const struct mt_cluster_class *class = &cluster->classes[device->class];
    double most = 0;
    for (int t = 0; t < MT_NTYPES; t++) most = fmax(most, class->flops[t]);
    return most * class->calibration * device->speed;
}

static uint64_t colour_of(const struct mt_search *search, const struct mt_plan *plan, int rank) {
    const struct mt_cluster *cluster = search->costs->cluster;
    const struct mt_cluster_device *device = &cluster->devices[search->costs->device[rank]];
    const struct mt_plan_fixed *fixed = &search->fixed;
    double figures[] = {device->speed, device->speed_error, device->emulated};
    int64_t counts[] = {plan->ranks[rank].memory_bytes, fixed->shares ? fixed->shares[rank] : 0,
                        fixed->micro ? fixed->micro[rank] : 0};
    uint64_t colour = mt_hash64(counts, sizeof counts, hash_text(cluster->classes[device->class].name, 1));
    for (int i = 0; i < fixed->nstorage_shares; i++)
        colour = mt_hash64(&fixed->storage_shares[i].sizes[rank], sizeof(int64_t), colour);
    return mt_hash64(figures, sizeof figures, colour);
}

/* Sums do not depend on the order of what is added. */
static void colour_nodes(const struct mt_cluster *cluster, struct place *places, int n, struct host *hosts) {
    for (int i = 0; i < cluster->nnodes; i++) {
        const struct mt_cluster_node *node = &cluster->nodes[i];
        double rates[] = {mt_cluster_node_egress(cluster, i), mt_cluster_node_ingress(cluster, i)};
        hosts[i] = (struct host){.colour = mt_hash64(rates, sizeof rates, 2)};
        if (node->inside >= 0) hosts[i].colour = hash_text(cluster->links[node->inside].name, hosts[i].colour);
    }
    for (int i = 0; i < n; i++) {
        struct host *host = &hosts[places[i].node];
        host->count++;
        host->strength += places[i].strength;
        host->colour += mt_hash64(&places[i].colour, sizeof places[i].colour, 3);
    }
    for (int i = 0; i < n; i++)
        places[i].colour = mt_hash64(&hosts[places[i].node].colour, sizeof(uint64_t), places[i].colour);
}

static uint64_t colour_of_pair(const struct mt_cluster *cluster, const struct mt_cluster_pair *pair, bool from_a,
                               uint64_t other) {
    double back = pair->reverse_Bps > 0 ? pair->reverse_Bps : pair->bandwidth_Bps;
    double figures[] = {pair->latency_s, from_a ? pair->bandwidth_Bps : back, from_a ? back : pair->bandwidth_Bps};
    uint64_t colour = hash_text(pair->link >= 0 ? cluster->links[pair->link].name : "", other);
    return mt_hash64(figures, sizeof figures, colour);
}

static void refine(const struct mt_costs *costs, struct place *places, int n) {
    const struct mt_cluster *cluster = costs->cluster;
    int *place_of = mt_calloc((size_t)cluster->ndevices, sizeof *place_of); /* + 1 */
    uint64_t *sum = mt_calloc((size_t)n, sizeof *sum);
    for (int i = 0; i < n; i++) place_of[costs->device[places[i].rank]] = i + 1;
    for (int round = 0; round < ROUNDS && cluster->npairs; round++) {
        memset(sum, 0, (size_t)n * sizeof *sum);
        for (int p = 0; p < cluster->npairs; p++) {
            const struct mt_cluster_pair *pair = &cluster->pairs[p];
            int a = place_of[pair->a] - 1, b = place_of[pair->b] - 1;
            if (a < 0 || b < 0) continue;
            sum[a] += colour_of_pair(cluster, pair, true, places[b].colour);
            sum[b] += colour_of_pair(cluster, pair, false, places[a].colour);
        }
        for (int i = 0; i < n; i++) places[i].colour = mt_hash64(&sum[i], sizeof sum[i], places[i].colour);
    }
    free(place_of);
    free(sum);
}

static int by_strength(const void *a, const void *b) {
    const struct place *x = a, *y = b;
    if (x->node != y->node) return x->node - y->node; /* by then the rank of the node in the order of nodes */
    if (x->strength != y->strength) return x->strength > y->strength ? -1 : 1;
    if (x->colour != y->colour) return x->colour < y->colour ? -1 : 1;
    return x->rank - y->rank;
}

static int by_size(const void *a, const void *b) {
    const struct host *x = *(struct host *const *)a, *y = *(struct host *const *)b;
    if (x->count != y->count) return y->count - x->count;
    if (x->strength != y->strength) return x->strength > y->strength ? -1 : 1;
    if (x->colour != y->colour) return x->colour < y->colour ? -1 : 1;
    return x->first - y->first;
}

/* Equal numbers for equal colours, in order of first place. */
static int number(struct mt_arena *arena, const uint64_t *colour, int n, int *out) {
    int *slots = mt_calloc((size_t)n * 2 + 1, sizeof *slots), count = 0;
    uint64_t *known = mt_new(arena, uint64_t, n);
    for (int i = 0; i < n; i++) {
        size_t at = colour[i] % (2 * (size_t)n + 1);
        while (slots[at] && known[slots[at] - 1] != colour[i]) at = (at + 1) % (2 * (size_t)n + 1);
        if (!slots[at]) known[count] = colour[i], slots[at] = ++count;
        out[i] = slots[at] - 1;
    }
    free(slots);
    return count;
}

/* Cells, and the numbers of kinds and types. places: sorted. */
static void list_cells(struct search_places *p, const struct place *places, const struct host *const *hosts,
                       struct mt_arena *arena) {
    uint64_t *colour = mt_new(arena, uint64_t, p->n);
    for (int i = 0; i < p->n; i++) colour[i] = places[i].colour;
    p->kind = mt_new(arena, int, p->n);
    p->nkinds = number(arena, colour, p->n, p->kind);
    p->cells = mt_new(arena, struct search_cell, p->n);
    p->node_cell = mt_new(arena, int, p->n + 1);
    for (int i = 0; i < p->n; i++) {
        bool new_node = !i || places[i].node != places[i - 1].node;
        if (new_node) colour[p->nnodes] = hosts[places[i].node]->colour, p->node_cell[p->nnodes++] = p->ncells;
        if (new_node || p->kind[i] != p->kind[i - 1])
            p->cells[p->ncells++] = (struct search_cell){.kind = p->kind[i], .node = p->nnodes - 1, .first = i};
        p->cells[p->ncells - 1].count++;
    }
    p->node_cell[p->nnodes] = p->ncells;
    for (int i = 0; i < p->nnodes; i++) /* with the colours of pairs, which nodes did not have */
        for (int c = p->node_cell[i]; c < p->node_cell[i + 1]; c++)
            colour[i] = mt_hash64(&p->cells[c].kind, sizeof p->cells[c].kind, colour[i]);
    p->type = mt_new(arena, int, p->nnodes);
    p->ntypes = number(arena, colour, p->nnodes, p->type);
}

void mt_search_places(const struct mt_search *search, const struct mt_plan *plan, const bool *allowed,
                      struct search_places *p, struct mt_arena *arena) {
    const struct mt_costs *costs = search->costs;
    const struct mt_cluster *cluster = costs->cluster;
    int n = 0;
    struct place *places = mt_new(arena, struct place, costs->nranks);
    struct host *hosts = mt_new(arena, struct host, cluster->nnodes), **sorted;
    for (int r = 0; r < costs->nranks; r++) {
        const struct mt_cluster_device *device = &cluster->devices[costs->device[r]];
        if (!allowed || allowed[r])
            places[n++] = (struct place){r, device->node, colour_of(search, plan, r), strength_of(cluster, device)};
    }
    colour_nodes(cluster, places, n, hosts);
    refine(costs, places, n);
    for (int i = n - 1; i >= 0; i--) hosts[places[i].node].first = i;
    sorted = mt_new(arena, struct host *, cluster->nnodes);
    for (int i = 0; i < cluster->nnodes; i++) sorted[i] = &hosts[i];
    qsort(sorted, (size_t)cluster->nnodes, sizeof(struct host *), by_size);
    int *order = mt_new(arena, int, cluster->nnodes);
    for (int i = 0; i < cluster->nnodes; i++) order[sorted[i] - hosts] = i;
    for (int i = 0; i < n; i++) places[i].node = order[places[i].node];
    qsort(places, (size_t)n, sizeof *places, by_strength);
    *p = (struct search_places){.n = n, .rank = mt_new(arena, int, n)};
    for (int i = 0; i < n; i++) p->rank[i] = places[i].rank;
    list_cells(p, places, (const struct host *const *)sorted, arena);
}
