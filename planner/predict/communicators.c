/* A communicator has buffers for each of its channels and the peers of its rings and trees, so its memory is in
 * proportion to channels, whatever the number of ranks (beyond two, who have one peer). NCCL takes as many channels as
 * the links can feed. Published: on A100s joined by NVLink, which have 24 channels, 544 MB in a group of two and 688 MB
 * in larger ones (github.com/NVIDIA/nccl, issue 964). */
#include "planner/predict/communicators.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/number/hash.h"

static const double pair_bytes = 544e6 / 24, group_bytes = 688e6 / 24; /* of a channel */
static const double channel_Bps = 10e9;                                /* A100s reach some 240 GB/s */
enum { LEAST_CHANNELS = 2, MOST_CHANNELS = 32 };

/* The groups that have a communicator. */
struct groups {
    const struct mt_program *program;
    const struct mt_costs *costs;
    struct mt_communicators *of;
    struct mt_arena arena;
    uint64_t *known, *seen; /* hashes of groups, and of collectives' groupings */
    int nknown, known_capacity, nseen, seen_capacity;
};

static bool is_new(struct mt_arena *arena, uint64_t **list, int *n, int *capacity, uint64_t hash) {
    for (int i = 0; i < *n; i++)
        if ((*list)[i] == hash) return false;
    mt_arena_grow(arena, list, *n, capacity, sizeof **list);
    (*list)[(*n)++] = hash;
    return true;
}

static int64_t communicator_bytes(const struct mt_costs *costs, const int *ranks, int n) {
    int link = mt_cost_link(costs, ranks, n);
    double Bps = link >= 0 ? costs->cluster->links[link].bandwidth_Bps : 0;
    double channels = fmin(fmax(round(Bps / channel_Bps), LEAST_CHANNELS), MOST_CHANNELS);
    return llround(channels * (n == 2 ? pair_bytes : group_bytes));
}

/* Whether the profile has made it. */
static bool was_measured(const struct groups *g, const int *ranks, int n) {
    const struct mt_cluster *c = g->costs->cluster;
    if (!c->devices[g->costs->device[ranks[0]]].gpu) return false;
    if (n == g->program->nranks) return true;
    for (int i = 0; i < c->ngroups; i++) {
        bool same = c->groups[i].ndevices == n;
        for (int p = 0; p < n && same; p++) same = c->groups[i].devices[p] == g->costs->device[ranks[p]];
        if (same) return true;
    }
    return false;
}

static void add_group(struct groups *g, const int *ranks, int n) {
    uint64_t hash = mt_hash64(ranks, (size_t)n * sizeof *ranks, (uint64_t)n);
    if (n < 2 || !is_new(&g->arena, &g->known, &g->nknown, &g->known_capacity, hash)) return;
    if (was_measured(g, ranks, n)) return;
    int64_t bytes = communicator_bytes(g->costs, ranks, n);
    for (int p = 0; p < n; p++) g->of[ranks[p]].count++, g->of[ranks[p]].bytes += bytes;
}

static int node_of(const struct groups *g, int rank) {
    return g->costs->cluster->devices[g->costs->device[rank]].node;
}

/* A group's ranks by node: begin[k] to begin[k + 1] in `ranks`. Returns the number of nodes. */
static int sort_by_node(const struct groups *g, int *ranks, int n, int *begin) {
    int *sorted = mt_calloc((size_t)n, sizeof *sorted), done = 0, nnodes = 0;
    bool *taken = mt_calloc((size_t)n, sizeof *taken);
    for (int i = 0; i < n; i++) {
        if (taken[i]) continue;
        begin[nnodes++] = done;
        for (int k = i; k < n; k++)
            if (!taken[k] && node_of(g, ranks[k]) == node_of(g, ranks[i])) sorted[done++] = ranks[k], taken[k] = true;
    }
    begin[nnodes] = n;
    memcpy(ranks, sorted, (size_t)n * sizeof *ranks);
    free(sorted), free(taken);
    return nnodes;
}

/* Within each node, and across nodes for each interval of the message: node k cuts it into a slice for each of its
 * ranks (kernels/coll/nccl_nodes.h). */
static void add_by_node(struct groups *g, int *ranks, int n) {
    int *begin = mt_calloc((size_t)n + 1, sizeof *begin), *across = mt_calloc((size_t)n, sizeof *across);
    int nnodes = sort_by_node(g, ranks, n, begin);
    if (nnodes == 1 || nnodes == n) {
        add_group(g, ranks, n);
    } else {
        for (int k = 0; k < nnodes; k++) add_group(g, ranks + begin[k], begin[k + 1] - begin[k]);
        for (double at = 0, next = 1; at < 1 - 1e-9; at = next) {
            next = 1;
            for (int k = 0; k < nnodes; k++) {
                int size = begin[k + 1] - begin[k], slice = (int)(at * size + 1e-9);
                across[k] = ranks[begin[k] + slice];
                next = fmin(next, (double)(slice + 1) / size);
            }
            add_group(g, across, nnodes);
        }
    }
    free(begin), free(across);
}

static void add_collective(struct groups *g, const struct mt_instr *instr) {
    int nranks = g->program->nranks;
    const struct mt_coll_algorithm *algorithm = mt_coll_find(instr->coll, instr->algorithm);
    bool by_node = algorithm && algorithm->by_node;
    uint64_t hash = mt_hash64(instr->group, (size_t)nranks * sizeof *instr->group, by_node);
    if (instr->coll == MT_ALL_TO_ALL || !is_new(&g->arena, &g->seen, &g->nseen, &g->seen_capacity, hash)) return;
    int ngroups = 0, *ranks = mt_calloc((size_t)nranks, sizeof *ranks);
    for (int r = 0; r < nranks; r++)
        if (instr->group[r] >= ngroups) ngroups = instr->group[r] + 1;
    int *size = mt_calloc((size_t)ngroups + 1, sizeof *size); /* where each group begins in `ranks` */
    for (int r = 0; r < nranks; r++) size[instr->group[r] + 1]++;
    for (int i = 0; i < ngroups; i++) size[i + 1] += size[i];
    int *next = mt_malloc((size_t)(ngroups + 1) * sizeof *next);
    memcpy(next, size, (size_t)(ngroups + 1) * sizeof *next);
    for (int r = 0; r < nranks; r++) ranks[next[instr->group[r]]++] = r;
    for (int i = 0; i < ngroups; i++) {
        if (by_node)
            add_by_node(g, ranks + size[i], size[i + 1] - size[i]);
        else
            add_group(g, ranks + size[i], size[i + 1] - size[i]);
    }
    free(ranks), free(size), free(next);
}

void mt_communicators_of(const struct mt_program *p, const struct mt_costs *costs, struct mt_communicators *of) {
    struct groups g = {.program = p, .costs = costs, .of = of};
    memset(of, 0, (size_t)p->nranks * sizeof *of);
    if (p->nranks < 2 || strcmp(mt_cluster_kind(costs->cluster), "cuda")) return;
    int *all = mt_calloc((size_t)p->nranks, sizeof *all);
    for (int r = 0; r < p->nranks; r++) all[r] = r;
    add_group(&g, all, p->nranks);
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = 0; i < p->blocks[b].ninstrs; i++)
            if (p->blocks[b].instrs[i].kind == MT_INSTR_COLLECTIVE) add_collective(&g, &p->blocks[b].instrs[i]);
    free(all);
    mt_arena_release(&g.arena);
}
