/* ReduceScatter by a ring: block r starts at rank r + 1; each rank on the ring adds its own part, rank r last.
 *
 * Any number of ranks, any blocks. Every rank talks to its two neighbours only. Partial sums are rounded to the
 * wire n - 1 times.
 *
 *   (n - 1) (alpha + beta max block)
 *
 * Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19, 2005. */
#include "kernels/coll/internal.h"

bool mt_reduce_scatter_ring_applies(const struct mt_coll *problem) {
    return problem->kind == MT_REDUCE_SCATTER;
}

void mt_ring_reduce_scatter(const struct mt_coll *problem, const int64_t *starts, struct mt_schedule *schedule) {
    int n = problem->n, me = problem->me;
    for (int k = 0; k < n - 1; k++) {
        int out = mt_wrap(me - k - 1, n), in = mt_wrap(me - k - 2, n);
        mt_step_send(schedule, mt_wrap(me + 1, n), starts[out], starts[out + 1] - starts[out]);
        mt_step_reduce(schedule, mt_wrap(me - 1, n), starts[in], starts[in + 1] - starts[in]);
        mt_schedule_end_round(schedule);
    }
}

void mt_reduce_scatter_ring_schedule(const struct mt_coll *problem, struct mt_schedule *schedule) {
    mt_ring_reduce_scatter(problem, mt_coll_starts(problem, schedule), schedule);
}

double mt_reduce_scatter_ring_cost_s(const struct mt_coll *problem, double latency_s, double bandwidth_Bps) {
    int64_t largest = mt_coll_largest(problem);
    return largest ? (problem->n - 1) * mt_coll_seconds(problem, 1, largest, latency_s, bandwidth_Bps) : 0;
}
