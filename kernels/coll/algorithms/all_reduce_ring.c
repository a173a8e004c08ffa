/* AllReduce by a ring: ReduceScatter by a ring, then AllGather by a ring.
 *
 * Any number of ranks, any blocks. Partial sums are rounded to the wire type n - 1 times, so a narrow wire type loses
 * more precision than with `direct`. The owner rounds its block before the AllGather, so that all ranks have the same
 * bits.
 *
 *   2 (n - 1) (alpha + beta max block)        with even blocks 2 (n - 1) alpha + 2 (n - 1)/n beta message
 *
 * Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 69, 2009. */
#include "kernels/coll/internal.h"

bool mt_all_reduce_ring_applies(const struct mt_coll *problem) {
    return problem->kind == MT_ALL_REDUCE;
}

void mt_all_reduce_ring_schedule(const struct mt_coll *problem, struct mt_schedule *schedule) {
    const int64_t *starts = mt_coll_starts(problem, schedule);
    mt_ring_reduce_scatter(problem, starts, schedule);
    mt_round_to_wire(problem, schedule, starts[problem->me], problem->counts[problem->me]);
    mt_ring_all_gather(problem, 0, starts, schedule);
}

double mt_all_reduce_ring_cost_s(const struct mt_coll *problem, double latency_s, double bandwidth_Bps) {
    return mt_reduce_scatter_ring_cost_s(problem, latency_s, bandwidth_Bps) +
           mt_all_gather_ring_cost_s(problem, latency_s, bandwidth_Bps);
}
