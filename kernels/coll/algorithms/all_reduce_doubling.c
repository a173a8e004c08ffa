/* AllReduce by recursive doubling: in round k, ranks that differ in bit k exchange everything they have and add.
 *
 * Any number of ranks: with p the largest power of two in n, each of the first n - p even ranks sends its message to
 * the next odd rank and receives the result at the end. For short messages. Two ranks that exchange must end with the
 * same bits, so both round their own part to the wire type before they add (a + b = b + a).
 *
 *   (log2(p) + (n is a power of two ? 0 : 2)) (alpha + beta message)
 *
 * Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19, 2005. */
#include "kernels/coll/internal.h"

static int largest_power(int n) {
    int power = 1;
    while (2 * power <= n) power *= 2;
    return power;
}

bool mt_all_reduce_doubling_applies(const struct mt_coll *problem) {
    return problem->kind == MT_ALL_REDUCE;
}

void mt_all_reduce_doubling_schedule(const struct mt_coll *problem, struct mt_schedule *schedule) {
    int n = problem->n, me = problem->me, power = largest_power(n), folded = n - power;
    int64_t total = mt_coll_total(problem);
    bool gives = me < 2 * folded && me % 2 == 0, takes = me < 2 * folded && me % 2;
    if (gives) {
        mt_step_send(schedule, me + 1, 0, total);
        mt_schedule_end_round(schedule);
        mt_step_recv(schedule, me + 1, 0, total);
        mt_schedule_end_round(schedule);
        return;
    }
    if (takes) mt_step_reduce(schedule, me - 1, 0, total);
    mt_schedule_end_round(schedule);
    int place = takes ? me / 2 : me - folded;
    for (int bit = 1; bit < power; bit *= 2) {
        int other = place ^ bit, peer = other < folded ? 2 * other + 1 : other + folded;
        mt_round_to_wire(problem, schedule, 0, total);
        mt_step_send(schedule, peer, 0, total);
        mt_step_reduce(schedule, peer, 0, total);
        mt_schedule_end_round(schedule);
    }
    if (n > 1) mt_round_to_wire(problem, schedule, 0, total);
    if (takes) mt_step_send(schedule, me - 1, 0, total);
    mt_schedule_end_round(schedule);
}

double mt_all_reduce_doubling_cost_s(const struct mt_coll *problem, double latency_s, double bandwidth_Bps) {
    int power = largest_power(problem->n), rounds = mt_log2_ceil(power) + (power < problem->n ? 2 : 0);
    int64_t total = mt_coll_total(problem);
    return total ? rounds * mt_coll_seconds(problem, 1, total, latency_s, bandwidth_Bps) : 0;
}
