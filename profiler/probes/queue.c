/* Collectives on a wire that queues, such as NCCL: timed by the device's clock, many one after another. */
#include <string.h>

#include "profiler/probes/internal.h"

enum { TAG = 4, WORD = 4 };

/* Queue the two calls in turn. The first is calls[1] where an odd one precedes `count` that are timed. */
static void queue_all(struct mt_stream *stream, const struct mt_coll_call calls[2], int first, int count,
                      double (*seconds)[2]) {
    for (int i = 0; i < count; i++) mt_stream_coll(stream, &calls[(first + i) % 2], seconds ? seconds[i] : NULL);
}

static enum mt_status wait_for(struct mt_profile *p, struct mt_err *err) {
    return mt_stream_sync(p->talk, 1.25 * p->deadline_s + 2, err);
}

/* As they run in a training step, which is launched as a whole: the host's part of each launch would count otherwise,
 * and that is more than the collective of a small message takes. Of two launches one after the other the second counts:
 * it begins on all ranks when the first ends. */
static enum mt_status time_captured(struct mt_profile *p, const struct mt_coll_call calls[2], int count, double *each_s,
                                    struct mt_err *err) {
    const struct mt_clock clock = {0};
    struct mt_capture *capture;
    uint64_t launch;
    queue_all(p->talk, calls, 0, 2, NULL); /* connections are made by the first run */
    enum mt_status st = wait_for(p, err);
    if (!st) st = mt_capture_begin(&p->talk, 1, &capture, err);
    if (st) return st;
    queue_all(p->talk, calls, 0, count, NULL);
    if ((st = mt_capture_end(capture, err))) return st;
    for (int i = 0; i < 2 && !st; i++) st = mt_capture_launch(capture, &clock, &launch, err);
    if (!st) st = wait_for(p, err);
    if (!st) mt_capture_times(capture, launch, each_s);
    *each_s = st ? 0 : *each_s / count;
    mt_capture_free(capture);
    return st;
}

static enum mt_status time_queued(struct mt_profile *p, const struct mt_coll_call calls[2], int count, double *each_s,
                                  struct mt_err *err) {
    double seconds[MT_PROBE_MOST_QUEUED + 1][2];
    queue_all(p->talk, calls, 1, count + 1, seconds);
    enum mt_status st = wait_for(p, err);
    *each_s = st ? 0 : (seconds[count][1] - seconds[0][1]) / count;
    return st;
}

enum mt_status mt_probe_queue(struct mt_profile *p, const struct mt_probe_row *row, int count, double *each_s,
                              struct mt_err *err) {
    struct mt_coll_call calls[2];
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
    return mt_device_captures(p->device) ? time_captured(p, calls, count, each_s, err)
                                         : time_queued(p, calls, count, each_s, err);
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
