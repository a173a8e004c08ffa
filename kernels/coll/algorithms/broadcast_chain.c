/* Broadcast along a chain in segments: every rank sends a segment on while it receives the next.
 *
 * Any number of ranks, any root. For long messages on few ranks. With S segments of s bytes:
 *
 *   (n - 2 + S) (alpha + beta s)
 *
 * Barnett, Gupta, Payne, Shuler, van de Geijn, Watts, "Interprocessor collective communication library
 * (InterCom)", SHPCC 1994 (there: the pipelined broadcast). */
#include "kernels/coll/internal.h"

enum { SEGMENT_BYTES = 256 << 10 };

static int64_t segment_count(const struct mt_coll *problem) {
    return SEGMENT_BYTES / mt_type_size(problem->wire);
}

bool mt_broadcast_chain_applies(const struct mt_coll *problem) {
    return problem->kind == MT_BROADCAST;
}

void mt_broadcast_chain_schedule(const struct mt_coll *problem, struct mt_schedule *schedule) {
    int n = problem->n, me = problem->me, place = mt_wrap(me - problem->root, n);
    int64_t total = mt_coll_total(problem), segment = segment_count(problem);
    if (n == 1) return;
    if (!place) mt_round_to_wire(problem, schedule, 0, total);
    /* A round receives the segment at `at` and sends the one before it. */
    for (int64_t at = 0; at < total + segment; at += segment) {
        int64_t before = at - segment;
        if (place && at < total)
            mt_step_recv(schedule, mt_wrap(me - 1, n), at, at + segment < total ? segment : total - at);
        if (place < n - 1 && before >= 0)
            mt_step_send(schedule, mt_wrap(me + 1, n), before, at < total ? segment : total - before);
        mt_schedule_end_round(schedule);
    }
}

double mt_broadcast_chain_cost_s(const struct mt_coll *problem, double latency_s, double bandwidth_Bps) {
    int64_t total = mt_coll_total(problem), segment = segment_count(problem);
    if (!total || problem->n == 1) return 0;
    int64_t whole = total / segment, rest = total % segment;
    double rest_s = rest ? mt_coll_seconds(problem, 1, rest, latency_s, bandwidth_Bps) : 0;
    if (!whole) return (problem->n - 1) * rest_s;
    /* The last, shorter segment follows the whole ones over the last link. */
    return (double)(problem->n - 2 + whole) * mt_coll_seconds(problem, 1, segment, latency_s, bandwidth_Bps) + rest_s;
}
