/* AllGather in one round: every rank sends its block to every other.
 *
 * Any number of ranks, any blocks.
 *
 *   alpha (n - 1) + beta max over r of max((n - 1) block r, message - block r)
 *
 * Chan, Heimlich, Purkayastha, van de Geijn, "Collective communication: theory, practice, and experience",
 * CCPE 19, 2007. */
#include "kernels/coll/internal.h"

bool mt_all_gather_direct_applies(const struct mt_coll *problem) {
    return problem->kind == MT_ALL_GATHER;
}

void mt_direct_all_gather(const struct mt_coll *problem, const int64_t *starts, struct mt_schedule *schedule) {
    int n = problem->n, me = problem->me;
    for (int k = 1; k < n; k++) mt_step_send(schedule, mt_wrap(me + k, n), starts[me], problem->counts[me]);
    for (int k = 1; k < n; k++) {
        int peer = mt_wrap(me - k, n);
        mt_step_recv(schedule, peer, starts[peer], problem->counts[peer]);
    }
    mt_schedule_end_round(schedule);
}

void mt_all_gather_direct_schedule(const struct mt_coll *problem, struct mt_schedule *schedule) {
    const int64_t *starts = mt_coll_starts(problem, schedule);
    if (problem->n > 1) mt_round_to_wire(problem, schedule, starts[problem->me], problem->counts[problem->me]);
    mt_direct_all_gather(problem, starts, schedule);
}

double mt_all_gather_direct_cost_s(const struct mt_coll *problem, double latency_s, double bandwidth_Bps) {
    /* The direct ReduceScatter with the directions of all messages reversed. */
    return mt_reduce_scatter_direct_cost_s(problem, latency_s, bandwidth_Bps);
}
