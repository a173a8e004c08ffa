/* Traces of `motley train --trace`: lists of events, {"ph": "X", "pid": rank, "tid": stream, "ts", "dur": microseconds,
 * "args": {"step"}}. Of the steps that a trace has, that of median length is taken: from its first start to its last
 * end, over all ranks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/json.h"
#include "launcher/report/run/internal.h"
#include "planner/plan/plan.h"

enum { MOST_EVENTS = 50000000, MOST_STEPS = 4096 };

struct event {
    int64_t rank, stream, step;
    double start_s, end_s;
    const char *name;
};
struct events {
    int n;
    struct event *items;
    int nranks, nstreams;
};

static enum mt_status read_event(struct mt_json item, struct mt_arena *arena, struct events *to, struct mt_err *err) {
    struct event e;
    struct mt_json args;
    const char *kind;
    double ts, dur;
    enum mt_status st = mt_json_string(item, "ph", &kind, err);
    if (st || strcmp(kind, "X") != 0) return st;
    if ((st = mt_json_int(item, "pid", 0, INT32_MAX, &e.rank, err)) || e.rank >= MT_TRACE_PREDICTED) return st;
    if ((st = mt_json_int(item, "tid", 0, MT_MOST_STREAMS - 1, &e.stream, err)) ||
        (st = mt_json_real(item, "ts", 0, 1e18, &ts, err)) || (st = mt_json_real(item, "dur", 0, 1e18, &dur, err)) ||
        (st = mt_json_get(item, "args", &args, err)) || (st = mt_json_int(args, "step", 0, INT64_MAX, &e.step, err)) ||
        (st = mt_json_text(item, "name", arena, &e.name, err)))
        return st;
    if (e.rank >= MT_PLAN_MOST_RANKS)
        return mt_json_fail(item, err, "pid: is %lld, more ranks than any plan has", (long long)e.rank);
    e.start_s = 1e-6 * ts, e.end_s = 1e-6 * (ts + dur);
    to->items[to->n++] = e;
    if (e.rank >= to->nranks) to->nranks = (int)e.rank + 1;
    if (e.stream >= to->nstreams) to->nstreams = (int)e.stream + 1;
    return MT_OK;
}

static enum mt_status read_events(const char *path, struct mt_arena *arena, struct events *to, struct mt_err *err) {
    struct mt_json_doc doc;
    int length;
    enum mt_status st = mt_json_load(path, &doc, err);
    if (st) return st;
    if (!(st = mt_json_length(doc.root, MOST_EVENTS, &length, err)))
        to->items = mt_new(arena, struct event, length + 1);
    for (int i = 0; i < length && !st; i++) {
        struct mt_json item;
        if (!(st = mt_json_item(doc.root, i, &item, err))) st = read_event(item, arena, to, err);
    }
    mt_json_release(&doc);
    if (!st && !to->n)
        return mt_fail(err, MT_EINPUT, "%s: has no events: is it the trace of a run that has ended?", path);
    return st;
}

struct step {
    int64_t step;
    double start_s, end_s;
};
static int by_length(const void *a, const void *b) {
    const struct step *x = a, *y = b;
    double s = x->end_s - x->start_s, t = y->end_s - y->start_s;
    return (s > t) - (s < t);
}

static struct step median_step(const struct events *events, struct mt_arena *arena) {
    struct step *steps = mt_new(arena, struct step, MOST_STEPS);
    int n = 0;
    for (int i = 0; i < events->n; i++) {
        const struct event *e = &events->items[i];
        int s = 0;
        while (s < n && steps[s].step != e->step) s++;
        if (s == n && n == MOST_STEPS) continue;
        if (s == n) steps[n++] = (struct step){e->step, e->start_s, e->end_s};
        steps[s].start_s = fmin(steps[s].start_s, e->start_s);
        steps[s].end_s = fmax(steps[s].end_s, e->end_s);
    }
    qsort(steps, (size_t)n, sizeof *steps, by_length);
    return steps[(n - 1) / 2];
}

static int by_start(const void *a, const void *b) {
    double x = ((const struct mt_drawn_span *)a)->start_s, y = ((const struct mt_drawn_span *)b)->start_s;
    return (x > y) - (x < y);
}

/* By the executor's names of instructions. */
static const char *class_of(const struct event *e) {
    if (e->stream != MT_STREAM_COMPUTE) return "s1";
    if (strstr(e->name, "/update")) return "s3";
    return strstr(e->name, "/grad") || !strncmp(e->name, "accumulate", 10) ? "s2" : "s0";
}

static void fill_lane(const struct events *events, const struct step *step, int rank, int stream,
                      struct mt_arena *arena, struct mt_drawn_lane *lane) {
    lane->spans = mt_new(arena, struct mt_drawn_span, events->n + 1);
    lane->n = 0;
    for (int i = 0; i < events->n; i++) {
        const struct event *e = &events->items[i];
        if (e->rank != rank || e->stream != stream || e->step != step->step) continue;
        lane->spans[lane->n++] = (struct mt_drawn_span){.start_s = e->start_s - step->start_s,
                                                        .end_s = e->end_s - step->start_s,
                                                        .class = class_of(e),
                                                        .what = stream ? "message" : "computing",
                                                        .name = e->name,
                                                        .count = 1};
    }
    qsort(lane->spans, (size_t)lane->n, sizeof *lane->spans, by_start);
}

enum mt_status mt_traced_read(const char *path, struct mt_arena *arena, struct mt_traced *traced, struct mt_err *err) {
    struct events events = {0};
    enum mt_status st = read_events(path, arena, &events, err);
    if (st) return st;
    struct step step = median_step(&events, arena);
    *traced = (struct mt_traced){
        .nranks = events.nranks, .nstreams = events.nstreams, .step_s = step.end_s - step.start_s, .step = step.step};
    int drawn = traced->nranks < MT_SPANS_CLASSES ? traced->nranks : MT_SPANS_CLASSES;
    traced->lanes = mt_new(arena, struct mt_drawn_lane, drawn * events.nstreams + 1);
    for (int r = 0; r < drawn; r++)
        for (int s = 0; s < events.nstreams; s++) {
            struct mt_drawn_lane *lane = &traced->lanes[r * events.nstreams + s];
            fill_lane(&events, &step, r, s, arena, lane);
            lane->who = mt_arena_printf(arena, "rank %d, measured", r);
            lane->stream = s == MT_STREAM_COMM ? "messages" : mt_lowered_stream_name(s);
        }
    return MT_OK;
}
