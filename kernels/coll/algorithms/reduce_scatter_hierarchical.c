/* ReduceScatter in two phases: within nodes, then across nodes by a ring (kernels/coll/node_ring.c).
 *
 * Any number of ranks on each node, in any order, any blocks. A node's block is those of its ranks; a node sends all
 * others' blocks once, spread over its ranks. Partial sums are rounded to the wire type N times, for N nodes.
 *
 *   alpha (k - 1) + (k - 1)/k beta message + (N - 1) (alpha + beta largest node's block/k) */
#include "kernels/coll/nodes.h"

static const struct mt_node_ring ring = {.reduces = true, .owned = true};

bool mt_reduce_scatter_hierarchical_applies(const struct mt_coll *problem) {
    return problem->kind == MT_REDUCE_SCATTER && mt_nodes_apply(problem);
}

void mt_reduce_scatter_hierarchical_schedule(const struct mt_coll *problem, struct mt_schedule *schedule) {
    mt_node_ring_schedule(problem, ring, schedule);
}

double mt_reduce_scatter_hierarchical_cost_s(const struct mt_coll *problem, double latency_s, double bandwidth_Bps) {
    return mt_node_ring_cost_s(problem, ring, latency_s, bandwidth_Bps);
}
