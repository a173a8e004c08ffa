/* ReduceScatter in one round: every rank sends each block to its owner, which adds in the order of ranks.
 *
 * Any number of ranks, any blocks. Each summand is rounded to the wire type once. With wire equal to acc a sum has the
 * same bits whichever rank owns its block: the owner keeps its own part in scratch and adds it in its turn. Ranks 0 and
 * 1 need no scratch, since a + b = b + a.
 *
 *   alpha (n - 1) + beta max over r of max(message - block r, (n - 1) block r)
 *
 * Pairwise exchange of Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH",
 * IJHPCA 19, 2005, with all pairs at once. */
#include "kernels/coll/internal.h"

bool mt_reduce_scatter_direct_applies(const struct mt_coll *problem) {
    return problem->kind == MT_REDUCE_SCATTER;
}

void mt_direct_reduce_scatter(const struct mt_coll *problem, const int64_t *starts, struct mt_schedule *schedule) {
    int n = problem->n, me = problem->me;
    int64_t own = starts[me], count = problem->counts[me];
    bool aside = me > 1;
    if (aside) {
        if (count > schedule->scratch_count) schedule->scratch_count = count;
        mt_schedule_add(schedule, (struct mt_step){MT_STEP_COPY, .offset = own, .count = count, .to_buffer = 2});
        mt_schedule_end_round(schedule);
    }
    for (int k = 1; k < n; k++) {
        int peer = mt_wrap(me + k, n);
        mt_step_send(schedule, peer, starts[peer], problem->counts[peer]);
    }
    for (int r = 0; r < n; r++) {
        if (r == me && aside)
            mt_schedule_add(schedule, (struct mt_step){MT_STEP_ADD, .buffer = 2, .count = count, .to = own});
        else if (r == 0 && aside)
            mt_step_recv(schedule, r, own, count);
        else if (r != me)
            mt_step_reduce(schedule, r, own, count);
    }
    mt_schedule_end_round(schedule);
}

void mt_reduce_scatter_direct_schedule(const struct mt_coll *problem, struct mt_schedule *schedule) {
    mt_direct_reduce_scatter(problem, mt_coll_starts(problem, schedule), schedule);
}

double mt_reduce_scatter_direct_cost_s(const struct mt_coll *problem, double latency_s, double bandwidth_Bps) {
    int n = problem->n, nonzero = mt_coll_nonzero(problem);
    int64_t total = mt_coll_total(problem);
    double slowest_s = 0;
    for (int r = 0; r < n; r++) {
        int64_t count = problem->counts[r], out = total - count, in = (n - 1) * count;
        int peers = count ? n - 1 : nonzero;
        double rank_s = mt_coll_seconds(problem, peers, out > in ? out : in, latency_s, bandwidth_Bps);
        if (rank_s > slowest_s) slowest_s = rank_s;
    }
    return slowest_s;
}
