/* Collectives on a wire that queues, such as NCCL: timed by the device's clock, from the end of one to the end of the
 * next. */
#include <string.h>

#include "profiler/probes/internal.h"

enum { TAG = 4, WORD = 4 };

enum mt_status mt_probe_queue(struct mt_profile *p, const struct mt_probe_row *row, int count, double *each_s,
                              struct mt_err *err) {
    struct mt_coll_call calls[2];
    double seconds[MT_PROBE_MOST_QUEUED + 1][2];
    if (count > MT_PROBE_MOST_QUEUED) count = MT_PROBE_MOST_QUEUED;
    for (int i = 0; i < 2; i++) {
        calls[i] = (struct mt_coll_call){.problem = row->problem[i],
                                         .schedule = &row->schedule[i],
                                         .comm = p->wire,
                                         .group = row->ranks,
                                         .tag = TAG,
                                         .deadline_s = p->deadline_s,
                                         .what = row->what};
        memcpy(calls[i].message, row->buffer, sizeof calls[i].message);
    }
    for (int i = 0; i <= count; i++) mt_stream_coll(p->talk, &calls[(i + 1) % 2], seconds[i]);
    enum mt_status st = mt_stream_sync(p->talk, 1.25 * p->deadline_s + 2, err);
    *each_s = st ? 0 : (seconds[count][1] - seconds[0][1]) / count;
    return st;
}

enum mt_status mt_probe_queue_pairs(struct mt_profile *p, const int group[2], const int64_t bytes[2],
                                    void *const buffer[2], int count, double *pair_s, struct mt_err *err) {
    const int64_t counts[2][4] = {{0, bytes[0] / WORD, 0, 0}, {0, 0, bytes[1] / WORD, 0}};
    struct mt_probe_row row = {.ranks = group, .buffer = buffer, .what = "messages between two ranks"};
    for (int i = 0; i < 2; i++) {
        row.problem[i] = (struct mt_coll){MT_ALL_TO_ALL, MT_REDUCE_NONE, MT_F32, MT_F32, 2, p->rank == group[1], 0,
                                          counts[i],     false,          NULL};
        mt_coll_find(MT_ALL_TO_ALL, "direct")->schedule(&row.problem[i], &row.schedule[i]);
    }
    double each_s;
    enum mt_status st = mt_probe_queue(p, &row, 2 * count, &each_s, err);
    *pair_s = 2 * each_s;
    for (int i = 0; i < 2; i++) mt_schedule_release(&row.schedule[i]);
    return st;
}
