/* Broadcast down a binomial tree: in each round every rank that has the message sends it to one more.
 *
 * Any number of ranks, any root. For short messages.
 *
 *   ceil(log2 n) (alpha + beta message)
 *
 * Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19, 2005. */
#include "kernels/coll/internal.h"

bool mt_broadcast_binomial_applies(const struct mt_coll *problem) {
    return problem->kind == MT_BROADCAST;
}

void mt_binomial_broadcast(const struct mt_coll *problem, int root, int64_t count, struct mt_schedule *schedule) {
    int n = problem->n, place = mt_wrap(problem->me - root, n);
    for (int distance = (1 << mt_log2_ceil(n)) / 2; distance >= 1; distance /= 2) {
        if (place % distance) continue; /* has nothing yet */
        if (place % (2 * distance))
            mt_step_recv(schedule, mt_wrap(place - distance + root, n), 0, count);
        else if (place + distance < n)
            mt_step_send(schedule, mt_wrap(place + distance + root, n), 0, count);
        mt_schedule_end_round(schedule);
    }
}

void mt_broadcast_binomial_schedule(const struct mt_coll *problem, struct mt_schedule *schedule) {
    int64_t total = mt_coll_total(problem);
    if (problem->me == problem->root && problem->n > 1) mt_round_to_wire(problem, schedule, 0, total);
    mt_binomial_broadcast(problem, problem->root, total, schedule);
}

double mt_broadcast_binomial_cost_s(const struct mt_coll *problem, double latency_s, double bandwidth_Bps) {
    int64_t total = mt_coll_total(problem);
    return total ? mt_log2_ceil(problem->n) * mt_coll_seconds(problem, 1, total, latency_s, bandwidth_Bps) : 0;
}
