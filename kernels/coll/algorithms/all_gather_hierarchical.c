/* AllGather in two phases: across nodes by a ring, then within nodes (kernels/coll/node_ring.c).
 *
 * Any number of ranks on each node, in any order, any blocks. Each node receives the other nodes' blocks once, spread
 * over its ranks, which gather them. Cost: as reduce_scatter_hierarchical.c. */
#include "kernels/coll/nodes.h"

static const struct mt_node_ring ring = {.gathers = true, .owned = true};

bool mt_all_gather_hierarchical_applies(const struct mt_coll *problem) {
    return problem->kind == MT_ALL_GATHER && mt_nodes_apply(problem);
}

void mt_all_gather_hierarchical_schedule(const struct mt_coll *problem, struct mt_schedule *schedule) {
    const int64_t *starts = mt_coll_starts(problem, schedule);
    mt_round_to_wire(problem, schedule, starts[problem->me], problem->counts[problem->me]);
    mt_node_ring_schedule(problem, ring, schedule);
}

double mt_all_gather_hierarchical_cost_s(const struct mt_coll *problem, double latency_s, double bandwidth_Bps) {
    return mt_node_ring_cost_s(problem, ring, latency_s, bandwidth_Bps);
}
