/* Broadcast down a binomial tree of nodes, then down one within each node.
 *
 * Any number of ranks on each node, in any order, any root. For short messages. For N nodes of at most k ranks, over
 * one path:
 *
 *   (ceil(log2 N) + ceil(log2 k)) (alpha + beta message) */
#include "kernels/coll/nodes.h"

bool mt_broadcast_hierarchical_tree_applies(const struct mt_coll *problem) {
    return problem->kind == MT_BROADCAST && mt_nodes_apply(problem);
}

void mt_broadcast_hierarchical_tree_schedule(const struct mt_coll *problem, struct mt_schedule *schedule) {
    schedule->by_node = true;
    struct mt_nodes nodes = mt_nodes_of(problem, &schedule->arena);
    struct mt_coll within = mt_nodes_within(&nodes), among = *problem;
    int *head = mt_new(&schedule->arena, int, nodes.n), of_root = problem->node[problem->root], at = 0;
    for (int j = 0; j < nodes.n; j++) head[j] = j == of_root ? problem->root : nodes.places[nodes.first[j]];
    while (nodes.places[nodes.first[nodes.mine] + at] != head[nodes.mine]) at++;
    if (problem->me == problem->root) mt_round_to_wire(problem, schedule, 0, nodes.total);
    int from = schedule->nsteps;
    among.n = nodes.n, among.me = nodes.mine;
    if (nodes.at == at) mt_binomial_broadcast(&among, of_root, nodes.total, schedule);
    mt_rename_peers(schedule, from, head);
    from = schedule->nsteps;
    mt_binomial_broadcast(&within, at, nodes.total, schedule);
    mt_rename_peers(schedule, from, &nodes.places[nodes.first[nodes.mine]]);
}

double mt_broadcast_hierarchical_tree_cost_s(const struct mt_coll *problem, double latency_s, double bandwidth_Bps) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_nodes nodes = mt_nodes_of(problem, &arena);
    int rounds = mt_log2_ceil(nodes.n) + mt_log2_ceil(nodes.largest);
    double cost_s = nodes.total ? rounds * mt_coll_seconds(problem, 1, nodes.total, latency_s, bandwidth_Bps) : 0;
    mt_arena_release(&arena);
    return cost_s;
}
