/* The simulated step as a trace: waits are spans, too, and say what for. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/file.h"
#include "launcher/run/internal.h"
#include "planner/plan/plan.h"
#include "planner/predict/timeline.h"

enum { EACH_RANK = 16 }; /* of more, one for each class */

static void put_rank(struct mt_json_out *out, const struct mt_trace_predicted *p, int place, double start_s,
                     int64_t step) {
    struct mt_arena arena = MT_ARENA_INIT;
    const struct mt_timeline_class *class = &p->timeline->classes[p->timeline->class_of[place]];
    int rank = p->plan->order[place], process = MT_TRACE_PREDICTED + rank;
    const char *host = p->plan->ranks[rank].host[0] ? mt_arena_printf(&arena, " on %s", p->plan->ranks[rank].host) : "";
    const char *name = mt_arena_printf(&arena, "rank %d%s, predicted", rank, host);
    if (p->timeline->nranks > EACH_RANK && class->nranks > 1)
        name = mt_arena_printf(&arena, "%s, as %d more", name, class->nranks - 1);
    mt_trace_put_name(out, "process_name", process, -1, name);
    for (int s = 0; s < p->timeline->nstreams; s++)
        mt_trace_put_name(out, "thread_name", process, s, mt_lowered_stream_name(s));
    for (int i = 0; i < class->nspans; i++) {
        const struct mt_span *span = &class->spans[i];
        const char *text = class->names[span->instr];
        if (span->kind == MT_SPAN_WAIT && span->other >= 0)
            text = mt_arena_printf(&arena, "waiting for %s", class->names[span->other]);
        else if (span->kind != MT_SPAN_COMPUTE && span->kind != MT_SPAN_TRANSFER)
            text = mt_arena_printf(&arena, "%s: %s", text, mt_span_names[span->kind]);
        struct mt_trace_event event = {.name = text,
                                       .stream = span->stream,
                                       .step = step,
                                       .start_s = span->start_s - p->timeline->first_s,
                                       .end_s = span->end_s - p->timeline->first_s};
        mt_trace_put_event(out, process, &event, start_s);
    }
    mt_arena_release(&arena);
}

char *mt_trace_predicted_text(const struct mt_trace_predicted *p, double start_s, int64_t step) {
    struct mt_json_out out;
    mt_json_out_init(&out);
    mt_json_open(&out, NULL, '[');
    for (int place = 0; place < p->timeline->nranks; place++)
        if (p->timeline->nranks <= EACH_RANK || p->timeline->classes[p->timeline->class_of[place]].ranks[0] == place)
            put_rank(&out, p, place, start_s, step);
    mt_json_close(&out);
    return out.text;
}

enum mt_status mt_trace_predicted_write(const struct mt_trace_predicted *p, const char *path, struct mt_err *err) {
    char *text = mt_trace_predicted_text(p, 0, 1);
    enum mt_status st = mt_file_replace(path, text, strlen(text), err);
    free(text);
    return st;
}
