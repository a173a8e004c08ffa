/* AllGather by a ring: in each of n - 1 rounds a rank sends the block that it received last to the next rank.
 *
 * Any number of ranks, any blocks. Every rank talks to its two neighbours only.
 *
 *   (n - 1) (alpha + beta max block)
 *
 * Chan, Heimlich, Purkayastha, van de Geijn, "Collective communication: theory, practice, and experience",
 * CCPE 19, 2007. */
#include "kernels/coll/internal.h"

bool mt_all_gather_ring_applies(const struct mt_coll *problem) {
    return problem->kind == MT_ALL_GATHER;
}

void mt_ring_all_gather(const struct mt_coll *problem, int first, const int64_t *starts, struct mt_schedule *schedule) {
    int n = problem->n, me = problem->me, place = mt_wrap(me - first, n);
    for (int k = 0; k < n - 1; k++) {
        int out = mt_wrap(place - k, n), in = mt_wrap(place - k - 1, n);
        mt_step_send(schedule, mt_wrap(me + 1, n), starts[out], starts[out + 1] - starts[out]);
        mt_step_recv(schedule, mt_wrap(me - 1, n), starts[in], starts[in + 1] - starts[in]);
        mt_schedule_end_round(schedule);
    }
}

void mt_all_gather_ring_schedule(const struct mt_coll *problem, struct mt_schedule *schedule) {
    const int64_t *starts = mt_coll_starts(problem, schedule);
    if (problem->n > 1) mt_round_to_wire(problem, schedule, starts[problem->me], problem->counts[problem->me]);
    mt_ring_all_gather(problem, 0, starts, schedule);
}

double mt_all_gather_ring_cost_s(const struct mt_coll *problem, double latency_s, double bandwidth_Bps) {
    int64_t largest = mt_coll_largest(problem);
    return largest ? (problem->n - 1) * mt_coll_seconds(problem, 1, largest, latency_s, bandwidth_Bps) : 0;
}
