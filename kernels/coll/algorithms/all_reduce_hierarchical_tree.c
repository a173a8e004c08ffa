/* AllReduce by trees within nodes to one rank of each, recursive doubling among these, and trees back.
 *
 * Any number of ranks on each node, in any order. For short messages: of the rounds only those of recursive doubling
 * are between nodes, ceil(log2 N) for a power of two, and then each node sends one message. For N nodes of at most k
 * ranks, over one path:
 *
 *   2 ceil(log2 k) (alpha + beta message) + recursive doubling among N (all_reduce_doubling.c) */
#include "kernels/coll/nodes.h"

bool mt_all_reduce_hierarchical_tree_applies(const struct mt_coll *problem) {
    return problem->kind == MT_ALL_REDUCE && mt_nodes_apply(problem);
}

/* The problem among one rank of each node. */
static struct mt_coll among_nodes(const struct mt_coll *problem, const struct mt_nodes *nodes, struct mt_arena *arena) {
    int64_t *counts = mt_new(arena, int64_t, nodes->n);
    struct mt_coll among = *problem;
    counts[0] = nodes->total;
    among.n = nodes->n, among.me = nodes->mine, among.counts = counts, among.node = NULL;
    return among;
}

void mt_all_reduce_hierarchical_tree_schedule(const struct mt_coll *problem, struct mt_schedule *schedule) {
    schedule->by_node = true;
    struct mt_nodes nodes = mt_nodes_of(problem, &schedule->arena);
    struct mt_coll within = mt_nodes_within(&nodes), among = among_nodes(problem, &nodes, &schedule->arena);
    int *first = mt_new(&schedule->arena, int, nodes.n), from = schedule->nsteps;
    for (int j = 0; j < nodes.n; j++) first[j] = nodes.places[nodes.first[j]];
    mt_binomial_reduce(&within, nodes.total, schedule);
    mt_rename_peers(schedule, from, &nodes.places[nodes.first[nodes.mine]]);
    from = schedule->nsteps;
    if (nodes.at == 0) mt_all_reduce_doubling_schedule(&among, schedule);
    mt_rename_peers(schedule, from, first);
    from = schedule->nsteps;
    mt_binomial_broadcast(&within, 0, nodes.total, schedule);
    mt_rename_peers(schedule, from, &nodes.places[nodes.first[nodes.mine]]);
}

double mt_all_reduce_hierarchical_tree_cost_s(const struct mt_coll *problem, double latency_s, double bandwidth_Bps) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_nodes nodes = mt_nodes_of(problem, &arena);
    struct mt_coll among = among_nodes(problem, &nodes, &arena);
    double round_s = mt_coll_seconds(problem, 1, nodes.total, latency_s, bandwidth_Bps), cost_s = 0;
    if (nodes.total)
        cost_s =
            2 * mt_log2_ceil(nodes.largest) * round_s + mt_all_reduce_doubling_cost_s(&among, latency_s, bandwidth_Bps);
    mt_arena_release(&arena);
    return cost_s;
}
