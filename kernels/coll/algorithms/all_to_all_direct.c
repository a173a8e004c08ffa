/* AllToAll in one round: all messages are sent at once.
 *
 * Any matrix; a Send/Recv is a matrix with few entries.
 *
 *   max over r of alpha (peers of r) + beta max(row r, column r), the diagonal not counted
 *
 * The linear algorithm, as in Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in
 * MPICH", IJHPCA 19, 2005. */
#include "kernels/coll/internal.h"

static int64_t cell(const struct mt_coll *problem, int from, int to) {
    return problem->counts[(int64_t)from * problem->n + to];
}

struct mt_matrix_starts mt_matrix_starts(const struct mt_coll *problem, struct mt_schedule *schedule) {
    int n = problem->n, me = problem->me;
    struct mt_matrix_starts at = {mt_new(&schedule->arena, int64_t, n + 1), mt_new(&schedule->arena, int64_t, n + 1)};
    for (int p = 0; p < n; p++) {
        at.row[p + 1] = at.row[p] + cell(problem, me, p);
        at.column[p + 1] = at.column[p] + cell(problem, p, me);
    }
    return at;
}

void mt_matrix_send(const struct mt_coll *problem, const struct mt_matrix_starts *at, int peer,
                    struct mt_schedule *schedule) {
    mt_step_send(schedule, peer, at->row[peer], cell(problem, problem->me, peer));
}

void mt_matrix_recv(const struct mt_coll *problem, const struct mt_matrix_starts *at, int peer,
                    struct mt_schedule *schedule) {
    int64_t count = cell(problem, peer, problem->me);
    struct mt_step step = {MT_STEP_RECV, .peer = peer, .buffer = 1, .offset = at->column[peer], .count = count};
    mt_schedule_add(schedule, step);
}

void mt_matrix_keep(const struct mt_coll *problem, const struct mt_matrix_starts *at, struct mt_schedule *schedule) {
    int me = problem->me;
    int64_t count = cell(problem, me, me), to = at->column[me];
    mt_schedule_add(schedule,
                    (struct mt_step){MT_STEP_COPY, .offset = at->row[me], .count = count, .to_buffer = 1, .to = to});
    if (problem->wire != problem->acc) /* as a message would be */
        mt_schedule_add(schedule, (struct mt_step){MT_STEP_ROUND, .buffer = 1, .offset = to, .count = count});
}

bool mt_all_to_all_direct_applies(const struct mt_coll *problem) {
    return problem->kind == MT_ALL_TO_ALL;
}

void mt_all_to_all_direct_schedule(const struct mt_coll *problem, struct mt_schedule *schedule) {
    int n = problem->n, me = problem->me;
    struct mt_matrix_starts at = mt_matrix_starts(problem, schedule);
    for (int k = 1; k < n; k++) mt_matrix_send(problem, &at, mt_wrap(me + k, n), schedule);
    mt_matrix_keep(problem, &at, schedule);
    for (int k = 1; k < n; k++) mt_matrix_recv(problem, &at, mt_wrap(me - k, n), schedule);
    mt_schedule_end_round(schedule);
}

double mt_all_to_all_direct_cost_s(const struct mt_coll *problem, double latency_s, double bandwidth_Bps) {
    int n = problem->n;
    double slowest_s = 0;
    for (int r = 0; r < n; r++) {
        int to = 0, from = 0;
        int64_t out = 0, in = 0;
        for (int p = 0; p < n; p++) {
            if (p == r) continue;
            int64_t sent = problem->counts[r * n + p], received = problem->counts[p * n + r];
            to += sent > 0, out += sent, from += received > 0, in += received;
        }
        double rank_s = mt_coll_seconds(problem, to > from ? to : from, out > in ? out : in, latency_s, bandwidth_Bps);
        if (rank_s > slowest_s) slowest_s = rank_s;
    }
    return slowest_s;
}
