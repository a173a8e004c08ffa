/* AllReduce in two rounds: every rank sends each block to its owner; owners add in the order of ranks and send the sum
 * to every rank.
 *
 * Any number of ranks, any blocks. Each summand is rounded to the wire type once, whatever the number of ranks; with
 * wire equal to acc the result does not depend on how the message is divided. The owner rounds its block before it
 * sends it, so that all ranks have the same bits.
 *
 *   2 ((n - 1) alpha + beta max over r of max(message - block r, (n - 1) block r))
 *
 * The "direct" or "linear" algorithms of Chan, Heimlich, Purkayastha, van de Geijn, "Collective communication:
 * theory, practice, and experience", CCPE 19, 2007. */
#include "kernels/coll/internal.h"

bool mt_all_reduce_direct_applies(const struct mt_coll *problem) {
    return problem->kind == MT_ALL_REDUCE;
}

void mt_all_reduce_direct_schedule(const struct mt_coll *problem, struct mt_schedule *schedule) {
    const int64_t *starts = mt_coll_starts(problem, schedule);
    mt_direct_reduce_scatter(problem, starts, schedule);
    mt_round_to_wire(problem, schedule, starts[problem->me], problem->counts[problem->me]);
    mt_direct_all_gather(problem, starts, schedule);
}

double mt_all_reduce_direct_cost_s(const struct mt_coll *problem, double latency_s, double bandwidth_Bps) {
    return mt_reduce_scatter_direct_cost_s(problem, latency_s, bandwidth_Bps) +
           mt_all_gather_direct_cost_s(problem, latency_s, bandwidth_Bps);
}
