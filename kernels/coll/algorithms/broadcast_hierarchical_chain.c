/* Broadcast along a chain of nodes in segments, each of which a node's ranks carry together.
 *
 * Any number of ranks on each node, in any order, any root. In round m the root sends the other ranks of its node their
 * slices of segment m; in round m + 1 + q the q-th node of the chain sends it to the next, slice by slice, and in round
 * m + 1 + q its ranks gather it. So each node receives the message once, and sends it at most once. With N nodes of k
 * ranks and S segments of s bytes, over one path:
 *
 *   (N + S) (alpha k + beta s (2 (k - 1)/k + 1/k)) at most; fewer nodes work in the first and last rounds
 *
 * The pipelined broadcast of Barnett et al. (broadcast_chain.c), among nodes. */
#include <math.h>

#include "kernels/coll/nodes.h"

enum { MOST_SEGMENTS = 64, SEGMENTS_A_NODE = 4 };
static const int64_t least_segment_bytes = 1 << 20;

/* As passes of the ring (node_ring.c), but for the length of the chain, which segments make up for. */
static int segments_of(const struct mt_coll *problem, int nnodes) {
    double bytes = (double)(mt_coll_total(problem) * mt_type_size(problem->wire));
    double segments = sqrt(bytes / (double)least_segment_bytes * nnodes);
    double most = SEGMENTS_A_NODE * nnodes < MOST_SEGMENTS ? SEGMENTS_A_NODE * nnodes : MOST_SEGMENTS;
    return segments > most ? (int)most : segments < 1 ? 1 : (int)segments;
}

bool mt_broadcast_hierarchical_chain_applies(const struct mt_coll *problem) {
    return problem->kind == MT_BROADCAST && mt_nodes_apply(problem);
}

void mt_broadcast_hierarchical_chain_schedule(const struct mt_coll *problem, struct mt_schedule *schedule) {
    schedule->by_node = true;
    struct mt_nodes nodes = mt_nodes_of(problem, &schedule->arena);
    int n = nodes.n, segments = segments_of(problem, n), of_root = problem->node[problem->root], root = 0;
    while (nodes.places[nodes.first[of_root] + root] != problem->root) root++;
    int q = mt_wrap(nodes.mine - of_root, n);
    if (problem->me == problem->root) mt_round_to_wire(problem, schedule, 0, nodes.total);
    for (int round = 0; round < segments + n; round++) {
        int in = round - q, on = in - 1; /* a round scatters or receives segment `in`, sends and gathers segment `on` */
        if (in >= 0 && in < segments) {
            struct mt_cell cell = mt_cell_even(&nodes, segments, in);
            if (!q)
                mt_cell_scatter(&nodes, &cell, root, schedule);
            else
                mt_cell_receive(&nodes, &cell, mt_wrap(nodes.mine - 1, n), MT_STEP_RECV, false, schedule);
        }
        if (on >= 0 && on < segments) {
            struct mt_cell cell = mt_cell_even(&nodes, segments, on);
            if (q < n - 1) mt_cell_send(&nodes, &cell, mt_wrap(nodes.mine + 1, n), schedule);
            mt_cell_gather(&nodes, &cell, q ? -1 : root, schedule);
        }
        mt_schedule_end_round(schedule);
    }
}

struct loads { /* of the q-th node, with the one before and with the next */
    struct mt_cell_load before, next;
};

/* A round in which the q-th node works on a segment that comes in (q = 0: is scattered), and on one that goes on. */
static double node_s(const struct mt_coll *problem, const struct loads *l, bool root, bool in, bool on,
                     double latency_s, double bandwidth_Bps) {
    int received = in && !root ? l->before.across_peers : 0, sent = on ? l->next.across_peers : 0;
    int peers = on || (in && root) ? l->next.inside_peers : 0, cells = on + (in && root);
    int64_t from = in && !root ? l->before.across : 0, to = on ? l->next.across : 0;
    return mt_coll_seconds(problem, peers + (received > sent ? received : sent),
                           cells * l->next.inside + (from > to ? from : to), latency_s, bandwidth_Bps);
}

double mt_broadcast_hierarchical_chain_cost_s(const struct mt_coll *problem, double latency_s, double bandwidth_Bps) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_nodes nodes = mt_nodes_of(problem, &arena);
    int n = nodes.n, segments = segments_of(problem, n), root = problem->node ? problem->node[problem->root] : 0;
    struct mt_cell longest = {.owner = -1, .length = (nodes.total + segments - 1) / segments};
    struct loads *loads = mt_new(&arena, struct loads, n);
    double cost_s = 0;
    for (int q = 0; q < n; q++) {
        int node = mt_wrap(root + q, n);
        mt_cell_load(&nodes, &longest, node, mt_wrap(node - 1, n), &loads[q].before);
        mt_cell_load(&nodes, &longest, node, mt_wrap(node + 1, n), &loads[q].next);
    }
    loads[n - 1].next.across_peers = 0, loads[n - 1].next.across = 0;
    for (int round = 0; round < segments + n && nodes.total; round++) {
        double slowest_s = 0;
        for (int q = round - segments < 0 ? 0 : round - segments; q < n && q <= round; q++)
            slowest_s = fmax(
                slowest_s, node_s(problem, &loads[q], q == 0, round - q<segments, round> q, latency_s, bandwidth_Bps));
        cost_s += slowest_s;
    }
    mt_arena_release(&arena);
    return cost_s;
}
