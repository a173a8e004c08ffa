/* ReduceScatter by recursive halving: ranks half a range apart exchange the halves that the other side owns, add,
 * and continue within their own half.
 *
 * Powers of two only, any blocks. Few messages, and optimal bandwidth.
 *
 *   log2(n) alpha + beta sum over rounds of the largest half        evenly: (n - 1)/n beta message
 *
 * Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19, 2005. */
#include "kernels/coll/internal.h"

bool mt_reduce_scatter_halving_applies(const struct mt_coll *problem) {
    return problem->kind == MT_REDUCE_SCATTER && (problem->n & (problem->n - 1)) == 0;
}

void mt_reduce_scatter_halving_schedule(const struct mt_coll *problem, struct mt_schedule *schedule) {
    const int64_t *starts = mt_coll_starts(problem, schedule);
    int me = problem->me;
    for (int half = problem->n / 2; half >= 1; half /= 2) {
        int peer = me ^ half, mine = me / half * half, theirs = peer / half * half;
        mt_step_send(schedule, peer, starts[theirs], starts[theirs + half] - starts[theirs]);
        mt_step_reduce(schedule, peer, starts[mine], starts[mine + half] - starts[mine]);
        mt_schedule_end_round(schedule);
    }
}

double mt_reduce_scatter_halving_cost_s(const struct mt_coll *problem, double latency_s, double bandwidth_Bps) {
    double cost_s = 0;
    for (int half = problem->n / 2; half >= 1; half /= 2) {
        int64_t largest = 0;
        for (int first = 0; first < problem->n; first += half) {
            int64_t sum = 0;
            for (int r = first; r < first + half; r++) sum += problem->counts[r];
            if (sum > largest) largest = sum;
        }
        if (largest) cost_s += mt_coll_seconds(problem, 1, largest, latency_s, bandwidth_Bps);
    }
    return cost_s;
}
