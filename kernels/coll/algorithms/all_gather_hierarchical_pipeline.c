/* The hierarchical AllGather (all_gather_hierarchical.c) as a pipeline of S passes: what happens within nodes is
 * concurrent with messages between nodes (kernels/coll/node_ring.c).
 *
 * Over one path, with cells of c elements, a block of each node divided by S, its (N - 1) S rounds between nodes each
 * cost
 *
 *   alpha (k or k - 1) + beta c ((k - 1)/k (0, 1 or 2 cells within the node) + 1/k)
 *
 * and one round before and after them what is within nodes. */
#include "kernels/coll/nodes.h"

static const struct mt_node_ring ring = {.gathers = true, .owned = true, .pipeline = true};

bool mt_all_gather_hierarchical_pipeline_applies(const struct mt_coll *problem) {
    return problem->kind == MT_ALL_GATHER && mt_nodes_apply(problem);
}

void mt_all_gather_hierarchical_pipeline_schedule(const struct mt_coll *problem, struct mt_schedule *schedule) {
    const int64_t *starts = mt_coll_starts(problem, schedule);
    mt_round_to_wire(problem, schedule, starts[problem->me], problem->counts[problem->me]);
    mt_node_ring_schedule(problem, ring, schedule);
}

double mt_all_gather_hierarchical_pipeline_cost_s(const struct mt_coll *problem, double latency_s,
                                                  double bandwidth_Bps) {
    return mt_node_ring_cost_s(problem, ring, latency_s, bandwidth_Bps);
}
