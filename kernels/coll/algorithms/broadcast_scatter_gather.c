/* Broadcast as a scatter down a binomial tree, then AllGather by a ring.
 *
 * Any number of ranks, any root; the message is divided evenly, whatever the problem's blocks. For long messages on
 * many ranks.
 *
 *   (ceil(log2 n) + n - 1) alpha + 2 (n - 1)/n beta message
 *
 * Barnett, Gupta, Payne, Shuler, van de Geijn, Watts, "Interprocessor collective communication library
 * (InterCom)", SHPCC 1994. */
#include "kernels/coll/internal.h"

bool mt_broadcast_scatter_gather_applies(const struct mt_coll *problem) {
    return problem->kind == MT_BROADCAST;
}

static int64_t even_start(int64_t total, int n, int b) {
    return total / n * b + (b < total % n ? b : total % n);
}

void mt_broadcast_scatter_gather_schedule(const struct mt_coll *problem, struct mt_schedule *schedule) {
    int n = problem->n, root = problem->root, place = mt_wrap(problem->me - root, n);
    int64_t total = mt_coll_total(problem), *starts = mt_new(&schedule->arena, int64_t, n + 1);
    for (int b = 0; b <= n; b++) starts[b] = even_start(total, n, b);
    if (!place && n > 1) mt_round_to_wire(problem, schedule, 0, total);
    for (int low = 0, high = n; high - low > 1;) { /* `low` has the blocks of [low, high) and sends the upper half */
        int middle = low + (high - low + 1) / 2;
        int64_t count = starts[high] - starts[middle];
        if (place == low) mt_step_send(schedule, mt_wrap(middle + root, n), starts[middle], count);
        if (place == middle) mt_step_recv(schedule, mt_wrap(low + root, n), starts[middle], count);
        mt_schedule_end_round(schedule);
        if (place < middle)
            high = middle;
        else
            low = middle;
    }
    mt_ring_all_gather(problem, root, starts, schedule);
}

double mt_broadcast_scatter_gather_cost_s(const struct mt_coll *problem, double latency_s, double bandwidth_Bps) {
    int n = problem->n;
    int64_t total = mt_coll_total(problem);
    if (!total) return 0;
    double cost_s = (n - 1) * mt_coll_seconds(problem, 1, even_start(total, n, 1), latency_s, bandwidth_Bps);
    for (int have = n; have > 1; have = (have + 1) / 2) { /* the root's sends are the largest of their rounds */
        int64_t count = even_start(total, n, have) - even_start(total, n, (have + 1) / 2);
        if (count) cost_s += mt_coll_seconds(problem, 1, count, latency_s, bandwidth_Bps);
    }
    return cost_s;
}
