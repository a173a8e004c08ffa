/* A ring of nodes, in which each node's ranks carry a cell together.
 *
 * The message is divided into a block for each node, and each block into S cells, which are the S passes of a pipeline.
 * With N nodes a pass has N - 1 rounds in which partial sums go around the ring, as in the ring of ReduceScatter with
 * nodes for ranks, then N - 1 in which results do, as in that of AllGather. So in an AllReduce each node sends and
 * receives 2 (N - 1)/N of the message, which is the least possible, and its ranks share that evenly. Within nodes a
 * cell is reduced in the round before it is needed, and gathered in the round after it has come, both concurrently with
 * messages between nodes: only two rounds at the begin and one at the end have none. A pass is as long as another
 * within nodes too: N cells are reduced and N gathered, one or two a round.
 *
 *   round of pass s, with P = 2 (N - 1), R = 2 + s P and G = R + N - 1
 *     R - N, R - 1 ... R + N - 3      node i reduces, within, its part of cells i - 1, i - 2, ..., i
 *     R + u, u = 0 ... N - 2          sends cell i - 1 - u to node i + 1, adds cell i - 2 - u from node i - 1
 *     G + u, u = 0 ... N - 2          sends cell i - u, receives cell i - u - 1
 *     G + m, m = 0 ... N - 1          gathers, within, cell i - m
 *
 * After the hierarchical AllReduce of Jia et al., "Highly scalable deep learning training system with mixed-precision:
 * training ImageNet in four minutes", arXiv 1807.11205, 2018; there nodes have equal numbers of ranks. */
#include <math.h>
#include <stdlib.h>

#include "kernels/coll/nodes.h"

enum { CELLS = 16 }; /* of a long message, at least; each pass has one of each node */
static const int64_t least_cell_bytes = 1 << 20;

struct draft {
    struct mt_nodes nodes;
    struct mt_node_ring ring;
    int passes;
    struct mt_schedule *schedule;
};

static int passes_of(const struct mt_coll *problem, int nnodes) {
    int64_t most = CELLS / nnodes, passes = mt_coll_total(problem) * mt_type_size(problem->wire) / nnodes;
    passes /= least_cell_bytes;
    if (passes > most) passes = most;
    return passes < 1 ? 1 : (int)passes;
}

/* The cell of a node, modulo their number, in a pass. */
static struct mt_cell cell_of(const struct draft *d, int node, int pass) {
    int n = d->nodes.n, j = (node % n + n) % n;
    return d->ring.owned ? mt_cell_owned(&d->nodes, j, pass, d->passes)
                         : mt_cell_even(&d->nodes, (int64_t)n * d->passes, (int64_t)j * d->passes + pass);
}

/* Rounds, numbered as at the head of this file. An all_gather has no rounds before the first pass's messages. */
static int period(const struct draft *d) {
    return (d->ring.reduces + d->ring.gathers) * (d->nodes.n - 1);
}
static int reduce_begin(const struct draft *d, int pass) {
    return (d->ring.reduces ? 2 : 0) + pass * period(d);
}
static int gather_begin(const struct draft *d, int pass) {
    return reduce_begin(d, pass) + (d->ring.reduces ? d->nodes.n - 1 : 0);
}
/* The round in which a node reduces its m-th cell of a pass within. */
static int inside_round(const struct draft *d, int pass, int m) {
    int begin = reduce_begin(d, pass), early = begin - d->nodes.n;
    return m ? begin - 2 + m : early > 0 ? early : 0;
}
static int nrounds(const struct draft *d) {
    return gather_begin(d, d->passes - 1) + (d->ring.gathers ? d->nodes.n : 0);
}

static void add_inside_reductions(struct draft *d, int round) {
    for (int s = 0; s < d->passes && d->ring.reduces; s++) {
        int later = 1 + round - inside_round(d, s, 1); /* from the second on, one a round */
        for (int k = 0; k < 2; k++) {
            int m = k ? later : 0;
            if ((k && m < 1) || m >= d->nodes.n || inside_round(d, s, m) != round) continue;
            struct mt_cell cell = cell_of(d, d->nodes.mine - 1 - m, s);
            mt_cell_reduce(&d->nodes, &cell, d->schedule);
        }
    }
}

static void add_messages(struct draft *d, int round) {
    struct mt_nodes *nodes = &d->nodes;
    int n = nodes->n, i = nodes->mine, next = mt_wrap(i + 1, n), before = mt_wrap(i - 1, n);
    for (int s = 0; s < d->passes; s++) {
        int u = round - reduce_begin(d, s), v = round - gather_begin(d, s);
        if (d->ring.reduces && u >= 0 && u < n - 1) {
            struct mt_cell out = cell_of(d, i - 1 - u, s), in = cell_of(d, i - 2 - u, s);
            bool last = u == n - 2 && d->ring.gathers && nodes->problem->wire != nodes->problem->acc;
            mt_cell_send(nodes, &out, next, d->schedule);
            mt_cell_receive(nodes, &in, before, MT_STEP_REDUCE, last, d->schedule);
        }
        if (d->ring.gathers && v >= 0 && v < n - 1) {
            struct mt_cell out = cell_of(d, i - v, s), in = cell_of(d, i - v - 1, s);
            mt_cell_send(nodes, &out, next, d->schedule);
            mt_cell_receive(nodes, &in, before, MT_STEP_RECV, false, d->schedule);
        }
    }
}

static void add_inside_gathers(struct draft *d, int round) {
    for (int s = 0; s < d->passes && d->ring.gathers; s++) {
        int m = round - gather_begin(d, s);
        if (m < 0 || m >= d->nodes.n) continue;
        struct mt_cell cell = cell_of(d, d->nodes.mine - m, s);
        mt_cell_gather(&d->nodes, &cell, -1, d->schedule);
    }
}

static struct draft draft_of(const struct mt_coll *problem, struct mt_node_ring ring, struct mt_arena *arena) {
    struct draft d = {.nodes = mt_nodes_of(problem, arena), .ring = ring};
    d.passes = passes_of(problem, d.nodes.n);
    return d;
}

void mt_node_ring_schedule(const struct mt_coll *problem, struct mt_node_ring ring, struct mt_schedule *schedule) {
    struct draft d = draft_of(problem, ring, &schedule->arena);
    d.schedule = schedule;
    for (int round = 0; round < nrounds(&d); round++) {
        add_inside_reductions(&d, round);
        add_messages(&d, round);
        add_inside_gathers(&d, round);
        mt_schedule_end_round(schedule);
    }
}

/* ---- cost ---- */

/* Every node meets a cell of the greatest length in each round, as all cells are on their way at once. */
static void find_loads(struct draft *d, struct mt_cell_load *loads) {
    struct mt_nodes *nodes = &d->nodes;
    struct mt_cell longest = {.owner = -1};
    for (int j = 0; j < nodes->n; j++)
        for (int s = 0; s < d->passes; s++) {
            struct mt_cell cell = cell_of(d, j, s);
            if (cell.length > longest.length) longest.length = cell.length;
        }
    for (int j = 0; j < nodes->n; j++) {
        int around[2] = {mt_wrap(j + 1, nodes->n), mt_wrap(j - 1, nodes->n)};
        for (int side = 0; side < 2; side++) {
            mt_cell_load(nodes, &longest, j, around[side], &loads[j]);
            for (int s = 0; s < d->passes && d->ring.owned; s++) { /* where a node works on its own blocks */
                struct mt_cell mine = cell_of(d, j, s), theirs = cell_of(d, around[side], s);
                mt_cell_load(nodes, &mine, j, around[side], &loads[j]);
                mt_cell_load(nodes, &theirs, j, around[side], &loads[j]);
            }
        }
    }
}

/* A round in which nodes reduce or gather `cells` cells within, with or without messages between nodes. */
static double round_s(const struct draft *d, const struct mt_cell_load *loads, int cells, bool across, double latency_s,
                      double bandwidth_Bps) {
    double slowest_s = 0;
    for (int j = 0; j < d->nodes.n; j++) {
        int peers = (cells ? loads[j].inside_peers : 0) + (across ? loads[j].across_peers : 0);
        int64_t count = cells * loads[j].inside + (across ? loads[j].across : 0);
        slowest_s = fmax(slowest_s, mt_coll_seconds(d->nodes.problem, peers, count, latency_s, bandwidth_Bps));
    }
    return slowest_s;
}

double mt_node_ring_cost_s(const struct mt_coll *problem, struct mt_node_ring ring, double latency_s,
                           double bandwidth_Bps) {
    enum { MOST_CELLS = 4 };
    struct mt_arena arena = MT_ARENA_INIT;
    struct draft d = draft_of(problem, ring, &arena);
    double cost_s = 0, of[MOST_CELLS + 1][2];
    int rounds = nrounds(&d), *cells = mt_new(&arena, int, rounds);
    struct mt_cell_load *loads = mt_new(&arena, struct mt_cell_load, d.nodes.n);
    find_loads(&d, loads);
    for (int c = 0; c <= MOST_CELLS; c++)
        for (int across = 0; across < 2; across++)
            of[c][across] = round_s(&d, loads, c, across, latency_s, bandwidth_Bps);
    for (int s = 0; s < d.passes; s++)
        for (int m = 0; m < d.nodes.n; m++) {
            if (ring.reduces) cells[inside_round(&d, s, m)]++;
            if (ring.gathers) cells[gather_begin(&d, s) + m]++;
        }
    int begin = reduce_begin(&d, 0), end = begin + d.passes * period(&d);
    for (int t = 0; t < rounds && d.nodes.total; t++)
        cost_s += of[cells[t] < MOST_CELLS ? cells[t] : MOST_CELLS][t >= begin && t < end];
    mt_arena_release(&arena);
    return cost_s;
}
