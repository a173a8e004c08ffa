/* AllGather by doubling distances d = 1, 2, 4, ...: a rank that has blocks me .. me + d - 1 sends them to rank me - d
 * and receives the next d blocks from rank me + d.
 *
 * Any number of ranks, any blocks. For short messages. Blocks stay in place, so nothing is rotated at the
 * end; a run of blocks that wraps around is sent as two messages.
 *
 *   ceil(log2 n) alpha + beta sum over rounds of the longest run        evenly: (n - 1)/n beta message
 *
 * Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient algorithms for all-to-all communications in multiport
 * message-passing systems", IEEE TPDS 8, 1997. */
#include "kernels/coll/internal.h"

bool mt_all_gather_bruck_applies(const struct mt_coll *problem) {
    return problem->kind == MT_ALL_GATHER;
}

/* The steps for `blocks` blocks from `first` on, modulo n. */
static void run_of_blocks(struct mt_schedule *schedule, enum mt_step_kind kind, int peer, const int64_t *starts, int n,
                          int first, int blocks) {
    int before = first + blocks <= n ? blocks : n - first;
    struct mt_step step = {kind, .peer = peer, .offset = starts[first],
                           .count = starts[first + before] - starts[first]};
    mt_schedule_add(schedule, step);
    step.offset = 0, step.count = starts[blocks - before];
    mt_schedule_add(schedule, step);
}

void mt_all_gather_bruck_schedule(const struct mt_coll *problem, struct mt_schedule *schedule) {
    const int64_t *starts = mt_coll_starts(problem, schedule);
    int n = problem->n, me = problem->me;
    if (n > 1) mt_round_to_wire(problem, schedule, starts[me], problem->counts[me]);
    for (int distance = 1; distance < n; distance *= 2) {
        int blocks = distance < n - distance ? distance : n - distance;
        int to = mt_wrap(me - distance, n), from = mt_wrap(me + distance, n);
        run_of_blocks(schedule, MT_STEP_SEND, to, starts, n, me, blocks);
        run_of_blocks(schedule, MT_STEP_RECV, from, starts, n, from, blocks);
        mt_schedule_end_round(schedule);
    }
}

double mt_all_gather_bruck_cost_s(const struct mt_coll *problem, double latency_s, double bandwidth_Bps) {
    int n = problem->n;
    double cost_s = 0;
    for (int distance = 1; distance < n; distance *= 2) {
        int blocks = distance < n - distance ? distance : n - distance;
        int64_t run = 0, longest;
        for (int r = 0; r < blocks; r++) run += problem->counts[r];
        longest = run;
        for (int r = 1; r < n; r++) {
            run += problem->counts[mt_wrap(r + blocks - 1, n)] - problem->counts[r - 1];
            if (run > longest) longest = run;
        }
        if (longest) cost_s += mt_coll_seconds(problem, 1, longest, latency_s, bandwidth_Bps);
    }
    return cost_s;
}
