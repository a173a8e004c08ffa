/* A ring of nodes, in which each node's ranks carry a cell together; in phases, or as a pipeline.
 *
 * The message is divided into a block for each node, and in a pipeline each block into S cells, which are its passes.
 * With N nodes a pass has N - 1 rounds in which partial sums go around the ring, as in the ring of ReduceScatter with
 * nodes for ranks, then N - 1 in which results do, as in that of AllGather. So in an AllReduce each node sends and
 * receives 2 (N - 1)/N of the message, which is the least possible, and its ranks share that evenly.
 *
 * In phases, all cells are reduced within nodes, by recursive halving where a node has a power of two of ranks, the
 * ring follows, and all cells are gathered within nodes. In a pipeline a cell is reduced in the round before it is
 * needed, and gathered in the round after it has come, both concurrently with messages between nodes: only two rounds
 * at the begin and one at the end have none. That costs latency: it pays for long messages, and where paths within
 * nodes are not much faster. A pass reduces and gathers N cells within nodes, one or two a round.
 *
 *   round of pass s, with P = 2 (N - 1), R = s P and G = R + N - 1
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

enum { CELLS = 16 }; /* of a long message, about; each pass has one of each node */
static const int64_t cell_bytes = 4 << 20;

struct draft {
    struct mt_nodes nodes;
    struct mt_node_ring ring;
    int passes;
    struct mt_schedule *schedule;
};

/* A pass costs latency, and takes its part of the time within nodes, which otherwise nothing hides at the begin and the
 * end: both together are least where passes rise with the root of the message's length. */
static void set_passes(struct draft *d) {
    int64_t bytes = d->nodes.total * mt_type_size(d->nodes.problem->wire);
    double passes = sqrt((double)bytes / (double)(d->nodes.n * cell_bytes));
    passes = fmin(passes, CELLS / d->nodes.n);
    d->passes = passes < 1 || !d->ring.pipeline ? 1 : (int)passes;
}

/* The cell of a node, modulo their number, in a pass. */
static struct mt_cell cell_of(struct draft *d, int node, int pass) {
    int n = d->nodes.n, j = (node % n + n) % n;
    return d->ring.owned ? mt_cell_owned(&d->nodes, j, pass, d->passes)
                         : mt_cell_even(&d->nodes, (int64_t)n * d->passes, (int64_t)j * d->passes + pass);
}

static struct draft draft_of(const struct mt_coll *problem, struct mt_node_ring ring, struct mt_arena *arena) {
    struct draft d = {.nodes = mt_nodes_of(problem, arena), .ring = ring};
    set_passes(&d);
    return d;
}

/* ---- messages between nodes ---- */

/* Rounds, numbered from the first that has messages between nodes. */
static int period(const struct draft *d) {
    return (d->ring.reduces + d->ring.gathers) * (d->nodes.n - 1);
}
static int reduce_begin(const struct draft *d, int pass) {
    return pass * period(d);
}
static int gather_begin(const struct draft *d, int pass) {
    return reduce_begin(d, pass) + (d->ring.reduces ? d->nodes.n - 1 : 0);
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

/* ---- in phases ---- */

static bool halves(int members) {
    return (members & (members - 1)) == 0;
}

/* Reduce or gather all cells within this rank's node: by halving (doubling), else directly. */
static void add_phase(struct draft *d, bool gathers) {
    int members = mt_nodes_members(&d->nodes, d->nodes.mine), rounds = halves(members) ? mt_log2_ceil(members) : 1;
    for (int k = 0; k < rounds; k++) {
        int distance = 1 << (gathers ? k : rounds - 1 - k);
        for (int j = 0; j < d->nodes.n; j++) {
            struct mt_cell cell = cell_of(d, j, 0);
            if (halves(members))
                mt_cell_exchange(&d->nodes, &cell, distance, gathers, d->schedule);
            else if (gathers)
                mt_cell_gather(&d->nodes, &cell, -1, d->schedule);
            else
                mt_cell_reduce(&d->nodes, &cell, d->schedule);
        }
        mt_schedule_end_round(d->schedule);
    }
}

static void add_phases(struct draft *d) {
    if (d->ring.reduces) add_phase(d, false);
    for (int round = 0; round < period(d); round++) {
        add_messages(d, round);
        mt_schedule_end_round(d->schedule);
    }
    if (d->ring.gathers) add_phase(d, true);
}

/* ---- in a pipeline ---- */

/* The rounds in which a node reduces, and gathers, its m-th cell of a pass within. */
static int inside_reduction(const struct draft *d, int pass, int m) {
    int begin = reduce_begin(d, pass), early = begin - d->nodes.n;
    return m ? begin - 2 + m : early > -2 ? early : -2;
}
static int inside_gather(const struct draft *d, int pass, int m) {
    return gather_begin(d, pass) + m;
}
static int first_round(const struct draft *d) {
    return d->ring.reduces ? -2 : 0;
}
static int end_round(const struct draft *d) {
    return reduce_begin(d, d->passes) + d->ring.gathers;
}

/* Of a pass, the first cell and one other may have this round. */
static void add_inside(struct draft *d, int round, bool gathers) {
    int n = d->nodes.n;
    for (int s = 0; s < d->passes; s++) {
        int others = round - (gathers ? inside_gather(d, s, 1) : inside_reduction(d, s, 1)) + 1, of_first = others;
        if (!gathers && round == inside_reduction(d, s, 0)) of_first = 0;
        for (int k = 0; k < 2; k++) {
            int m = k ? others : of_first;
            if (m < 0 || m >= n || (k && m == of_first)) continue;
            if ((gathers ? inside_gather(d, s, m) : inside_reduction(d, s, m)) != round) continue;
            struct mt_cell cell = cell_of(d, d->nodes.mine - (gathers ? 0 : 1) - m, s);
            if (gathers)
                mt_cell_gather(&d->nodes, &cell, -1, d->schedule);
            else
                mt_cell_reduce(&d->nodes, &cell, d->schedule);
        }
    }
}

static void add_pipeline(struct draft *d) {
    for (int round = first_round(d); round < end_round(d); round++) {
        if (d->ring.reduces) add_inside(d, round, false);
        add_messages(d, round);
        if (d->ring.gathers) add_inside(d, round, true);
        mt_schedule_end_round(d->schedule);
    }
}

void mt_node_ring_schedule(const struct mt_coll *problem, struct mt_node_ring ring, struct mt_schedule *schedule) {
    struct draft d = draft_of(problem, ring, &schedule->arena);
    d.schedule = schedule;
    schedule->by_node = true;
    if (ring.pipeline)
        add_pipeline(&d);
    else
        add_phases(&d);
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

static double pipeline_s(const struct draft *d, const struct mt_cell_load *loads, struct mt_arena *arena,
                         double latency_s, double bandwidth_Bps) {
    int first = first_round(d), end = end_round(d), *cells = mt_new(arena, int, end - first);
    double cost_s = 0, like_s = 0; /* like_s: of the round before, which most rounds repeat */
    for (int s = 0; s < d->passes; s++)
        for (int m = 0; m < d->nodes.n; m++) {
            if (d->ring.reduces) cells[inside_reduction(d, s, m) - first]++;
            if (d->ring.gathers) cells[inside_gather(d, s, m) - first]++;
        }
    for (int t = first; t < end; t++) {
        bool across = t >= 0 && t < reduce_begin(d, d->passes), new = t == first || !t || t == end - 1;
        if (new || cells[t - first] != cells[t - first - 1])
            like_s = round_s(d, loads, cells[t - first], across, latency_s, bandwidth_Bps);
        cost_s += like_s;
    }
    return cost_s;
}

static double phases_s(const struct draft *d, const struct mt_cell_load *loads, double latency_s,
                       double bandwidth_Bps) {
    double within_s = 0, across_s = round_s(d, loads, 0, true, latency_s, bandwidth_Bps);
    for (int j = 0; j < d->nodes.n; j++) {
        int members = mt_nodes_members(&d->nodes, j), peers = halves(members) ? mt_log2_ceil(members) : members - 1;
        int64_t count = d->nodes.n * loads[j].inside;
        within_s = fmax(within_s, mt_coll_seconds(d->nodes.problem, peers, count, latency_s, bandwidth_Bps));
    }
    return (d->ring.reduces + d->ring.gathers) * (within_s + (d->nodes.n - 1) * across_s);
}

double mt_node_ring_cost_s(const struct mt_coll *problem, struct mt_node_ring ring, double latency_s,
                           double bandwidth_Bps) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct draft d = draft_of(problem, ring, &arena);
    struct mt_cell_load *loads = mt_new(&arena, struct mt_cell_load, d.nodes.n);
    find_loads(&d, loads);
    double cost_s = 0;
    if (d.nodes.total && ring.pipeline)
        cost_s = pipeline_s(&d, loads, &arena, latency_s, bandwidth_Bps);
    else if (d.nodes.total)
        cost_s = phases_s(&d, loads, latency_s, bandwidth_Bps);
    mt_arena_release(&arena);
    return cost_s;
}
