/* Spans to lanes. Spans shorter than a part of the step are gathered, while they follow each other and are together no
 * longer than that part; the whole takes the look of what takes most of it. */
#include "launcher/report/plan/spans.h"

#include <math.h>
#include <string.h>

#include "kernels/base/text/ranks.h"

enum { MOST_SPANS = 450, FINEST = 400, COARSEST = 40 };

static const char *const wait_class = "wait";

/* ---- merging ---- */

struct merging {
    struct mt_arena *arena;
    double least_s; /* what is shorter is gathered */
    struct mt_drawn_lane *lane;
    int capacity;
    const struct mt_drawn_span *first; /* of those being gathered */
    int count;
};

static void put(struct merging *m, struct mt_drawn_span span) {
    mt_arena_grow(m->arena, &m->lane->spans, m->lane->n, &m->capacity, sizeof span);
    m->lane->spans[m->lane->n++] = span;
}

/* The span among those gathered whose look takes most time. */
static const struct mt_drawn_span *main_of(const struct merging *m) {
    const struct mt_drawn_span *best = m->first;
    double best_s = -1;
    for (int i = 0; i < m->count; i++) {
        double s = 0;
        for (int k = 0; k < m->count; k++)
            if (!strcmp(m->first[k].class, m->first[i].class)) s += m->first[k].end_s - m->first[k].start_s;
        if (s > best_s) best_s = s, best = &m->first[i];
    }
    return best;
}

static void put_gathered(struct merging *m) {
    if (!m->count) return;
    struct mt_drawn_span span = *main_of(m);
    const struct mt_drawn_span *last = &m->first[m->count - 1];
    span.start_s = m->first->start_s, span.end_s = last->end_s, span.count = m->count;
    if (m->count > 1) span.name = mt_arena_printf(m->arena, "%s \xe2\x80\xa6 %s", m->first->name, last->name);
    put(m, span);
    m->count = 0;
}

void mt_spans_merge(const struct mt_drawn_span *spans, int n, double whole_s, int most, struct mt_arena *arena,
                    struct mt_drawn_lane *lane) {
    struct merging m = {.arena = arena, .least_s = whole_s / most, .lane = lane};
    lane->n = 0, lane->spans = NULL;
    for (int i = 0; i < n; i++) {
        const struct mt_drawn_span *span = &spans[i];
        bool brief = span->end_s - span->start_s < m.least_s;
        if (m.count && (!brief || span->end_s - m.first->start_s > m.least_s ||
                        span->start_s - spans[i - 1].end_s > m.least_s / 4))
            put_gathered(&m);
        if (!brief)
            put(&m, *span);
        else if (!m.count++)
            m.first = span;
    }
    put_gathered(&m);
}

/* ---- from timelines ---- */

static const char *class_of(const struct mt_timeline_class *c, const struct mt_span *span) {
    static const char *const roles[] = {"s0", "s2", "s3"};
    if (mt_span_waits(span->kind)) return wait_class;
    if (span->kind == MT_SPAN_TRANSFER) return "s1";
    if (span->kind != MT_SPAN_COMPUTE || c->roles[span->instr] < 0) return "s5";
    return roles[c->roles[span->instr]];
}

static const char *name_of(const struct mt_timeline *t, const struct mt_timeline_class *c, const struct mt_span *span,
                           const char *const *names, struct mt_arena *arena) {
    const char *own = c->names[span->instr];
    if (span->kind == MT_SPAN_WAIT)
        return span->other >= 0 ? mt_arena_printf(arena, "waits for %s", c->names[span->other])
                                : mt_arena_printf(arena, "waits, then %s", own);
    if (span->kind == MT_SPAN_RENDEZVOUS)
        return names && span->other >= 0 && &t->classes[span->other] != c
                   ? mt_arena_printf(arena, "%s waits for %s", own, names[span->other])
                   : mt_arena_printf(arena, "%s waits for other ranks", own);
    if (span->kind == MT_SPAN_YIELD) return mt_arena_printf(arena, "%s waits for multiprocessors", own);
    return own;
}

/* Without names of classes, other ranks are other ranks. */
struct mt_drawn_lane mt_spans_whole_lane(const struct mt_timeline *t, const struct mt_timeline_class *c, int stream,
                                         const char *const *names, struct mt_arena *arena) {
    struct mt_drawn_lane lane = {.stream = stream == MT_STREAM_COMM ? "messages" : mt_lowered_stream_name(stream)};
    lane.spans = mt_new(arena, struct mt_drawn_span, c->nspans + 1);
    for (int i = 0; i < c->nspans; i++) {
        const struct mt_span *span = &c->spans[i];
        if (span->stream != stream) continue;
        lane.spans[lane.n++] = (struct mt_drawn_span){.start_s = span->start_s,
                                                      .end_s = span->end_s,
                                                      .class = class_of(c, span),
                                                      .what = mt_span_names[span->kind],
                                                      .name = name_of(t, c, span, names, arena),
                                                      .count = 1};
    }
    return lane;
}

/* As fine as the size of a page allows. */
void mt_spans_thin(struct mt_drawn_lane *lanes, int nlanes, double whole_s, struct mt_arena *arena) {
    struct mt_drawn_lane *all = mt_arena_memdup(arena, lanes, (size_t)nlanes * sizeof *lanes);
    for (double most = FINEST; most >= COARSEST; most *= 0.7) {
        int total = 0;
        for (int i = 0; i < nlanes; i++) {
            mt_spans_merge(all[i].spans, all[i].n, whole_s, (int)most, arena, &lanes[i]);
            total += lanes[i].n;
        }
        if (total <= MOST_SPANS) return;
    }
}

struct mt_drawn_lane *mt_spans_of_timeline(const struct mt_timeline *t, const char *const *names,
                                           struct mt_arena *arena, int *nlanes) {
    int nclasses = t->nclasses < MT_SPANS_CLASSES ? t->nclasses : MT_SPANS_CLASSES;
    struct mt_drawn_lane *lanes = mt_new(arena, struct mt_drawn_lane, nclasses * t->nstreams + 1);
    *nlanes = nclasses * t->nstreams;
    for (int i = 0; i < *nlanes; i++) {
        int class = i / t->nstreams;
        lanes[i] = mt_spans_whole_lane(t, &t->classes[class], i % t->nstreams, names, arena);
        lanes[i].who = names[class];
    }
    mt_spans_thin(lanes, *nlanes, t->step_s - t->first_s, arena);
    return lanes;
}

/* ---- drawing ---- */

struct mt_lanes mt_spans_lanes(const struct mt_drawn_lane *drawn, int nlanes, struct mt_arena *arena) {
    static const struct mt_legend legend[] = {
        {"s0", "forward"},  {"s2", "backward"},           {"s3", "update"},
        {"s1", "transfer"}, {"s5", "packing and copies"}, {wait_class, "waiting"}};
    struct mt_lane *lanes = mt_new(arena, struct mt_lane, nlanes + 1);
    for (int i = 0; i < nlanes; i++) {
        struct mt_lane_span *spans = mt_new(arena, struct mt_lane_span, drawn[i].n + 1);
        for (int s = 0; s < drawn[i].n; s++) {
            const struct mt_drawn_span *one = &drawn[i].spans[s];
            char time[MT_UNIT_TEXT_BYTES];
            double length = one->end_s - one->start_s;
            mt_unit_text(MT_UNIT_SECONDS, mt_unit_prefix(MT_UNIT_SECONDS, length, length), -1, length, time);
            spans[s] = (struct mt_lane_span){.start = one->start_s,
                                             .end = one->end_s,
                                             .class = one->class,
                                             .text = mt_arena_printf(arena, "%s: %s", one->name, time),
                                             .open = one->class == wait_class};
        }
        lanes[i] = (struct mt_lane){.group = !i || strcmp(drawn[i].who, drawn[i - 1].who) ? drawn[i].who : NULL,
                                    .name = drawn[i].stream,
                                    .nspans = drawn[i].n,
                                    .spans = spans};
    }
    return (struct mt_lanes){
        .nlanes = nlanes, .lanes = lanes, .nlegend = sizeof legend / sizeof *legend, .legend = legend, .mark = NAN};
}

void mt_spans_columns(struct mt_table *t) {
    mt_table_column(t, "who", "ranks", MT_UNIT_TEXT)->once = true;
    mt_table_column(t, "stream", "stream", MT_UNIT_TEXT)->once = true;
    mt_table_column(t, "start_s", "start", MT_UNIT_SECONDS)->decimals = 2;
    mt_table_column(t, "end_s", "end", MT_UNIT_SECONDS)->decimals = 2;
    mt_table_columns(t, {"what", "what", MT_UNIT_TEXT}, {"name", "name", MT_UNIT_TEXT},
                     {"spans", "spans", MT_UNIT_COUNT});
}

void mt_spans_rows(const struct mt_drawn_lane *lanes, int nlanes, struct mt_table *t) {
    for (int i = 0; i < nlanes; i++)
        for (int s = 0; s < lanes[i].n; s++) {
            const struct mt_drawn_span *one = &lanes[i].spans[s];
            mt_table_row(t);
            mt_cell_text(t, "%s", lanes[i].who);
            mt_cell_text(t, "%s", lanes[i].stream);
            mt_cell_real(t, one->start_s);
            mt_cell_real(t, one->end_s);
            mt_cell_text(t, "%s", one->what);
            mt_cell_text(t, "%s", one->name);
            mt_cell_int(t, one->count);
        }
}
