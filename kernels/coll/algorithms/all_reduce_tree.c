/* AllReduce by a binomial tree to rank 0 and back.
 *
 * Any number of ranks. For short messages; additions are done by inner nodes only. The root rounds the sum to the
 * wire type before it is broadcast, so that all ranks have the same bits.
 *
 *   2 ceil(log2 n) (alpha + beta message)
 *
 * Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19, 2005. */
#include "kernels/coll/internal.h"

bool mt_all_reduce_tree_applies(const struct mt_coll *problem) {
    return problem->kind == MT_ALL_REDUCE;
}

void mt_binomial_reduce(const struct mt_coll *problem, int64_t count, struct mt_schedule *schedule) {
    int n = problem->n, me = problem->me;
    for (int distance = 1; distance < n && me % distance == 0; distance *= 2) {
        if (me % (2 * distance))
            mt_step_send(schedule, me - distance, 0, count);
        else if (me + distance < n)
            mt_step_reduce(schedule, me + distance, 0, count);
        mt_schedule_end_round(schedule);
    }
}

void mt_all_reduce_tree_schedule(const struct mt_coll *problem, struct mt_schedule *schedule) {
    int64_t total = mt_coll_total(problem);
    mt_binomial_reduce(problem, total, schedule);
    if (problem->me == 0 && problem->n > 1) mt_round_to_wire(problem, schedule, 0, total);
    mt_binomial_broadcast(problem, 0, total, schedule);
}

double mt_all_reduce_tree_cost_s(const struct mt_coll *problem, double latency_s, double bandwidth_Bps) {
    int64_t total = mt_coll_total(problem);
    double round_s = mt_coll_seconds(problem, 1, total, latency_s, bandwidth_Bps);
    return total ? 2 * mt_log2_ceil(problem->n) * round_s : 0;
}
