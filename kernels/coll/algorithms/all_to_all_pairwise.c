/* AllToAll in n - 1 rounds: in round k rank r sends to rank r + k and receives from rank r - k (mod n).
 *
 * Any matrix. No rank receives from two ranks at a time, which avoids incast congestion.
 *
 *   sum over k of (alpha + beta max over r of the message from r to r + k)
 *
 * Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19, 2005. */
#include "kernels/coll/internal.h"

bool mt_all_to_all_pairwise_applies(const struct mt_coll *problem) {
    return problem->kind == MT_ALL_TO_ALL;
}

void mt_all_to_all_pairwise_schedule(const struct mt_coll *problem, struct mt_schedule *schedule) {
    int n = problem->n, me = problem->me;
    struct mt_matrix_starts at = mt_matrix_starts(problem, schedule);
    mt_matrix_keep(problem, &at, schedule);
    mt_schedule_end_round(schedule);
    for (int k = 1; k < n; k++) {
        mt_matrix_send(problem, &at, mt_wrap(me + k, n), schedule);
        mt_matrix_recv(problem, &at, mt_wrap(me - k, n), schedule);
        mt_schedule_end_round(schedule);
    }
}

double mt_all_to_all_pairwise_cost_s(const struct mt_coll *problem, double latency_s, double bandwidth_Bps) {
    int n = problem->n;
    double cost_s = 0;
    for (int k = 1; k < n; k++) {
        int64_t largest = 0;
        for (int r = 0; r < n; r++) {
            int64_t count = problem->counts[r * n + mt_wrap(r + k, n)];
            if (count > largest) largest = count;
        }
        if (largest) cost_s += mt_coll_seconds(problem, 1, largest, latency_s, bandwidth_Bps);
    }
    return cost_s;
}
