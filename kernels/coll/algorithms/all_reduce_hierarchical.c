/* AllReduce in three phases: ReduceScatter within nodes, AllReduce across nodes by a ring, AllGather within nodes
 * (kernels/coll/node_ring.c).
 *
 * Any number of ranks on each node, in any order. A node sends and receives 2 (N - 1)/N of the message, for N nodes,
 * spread over its ranks. The message is divided evenly, whatever the problem's blocks. Partial sums are rounded to the
 * wire type N times. The owner of a part rounds it before it is gathered, so that all ranks have the same bits.
 *
 * The alpha-beta cost takes all paths for equal, which they are not where this is worth while. For nodes of k ranks:
 *
 *   2 alpha (k - 1) + 2 (k - 1)/k beta message + 2 (N - 1) (alpha + beta message/(N k)) */
#include "kernels/coll/nodes.h"

static const struct mt_node_ring ring = {.reduces = true, .gathers = true};

bool mt_all_reduce_hierarchical_applies(const struct mt_coll *problem) {
    return problem->kind == MT_ALL_REDUCE && mt_nodes_apply(problem);
}

void mt_all_reduce_hierarchical_schedule(const struct mt_coll *problem, struct mt_schedule *schedule) {
    mt_node_ring_schedule(problem, ring, schedule);
}

double mt_all_reduce_hierarchical_cost_s(const struct mt_coll *problem, double latency_s, double bandwidth_Bps) {
    return mt_node_ring_cost_s(problem, ring, latency_s, bandwidth_Bps);
}
