/* The memory that is live while a step is simulated, against the limits of the ranks. */
#include <math.h>

#include "launcher/report/plan/internal.h"
#include "launcher/report/svg/chart.h"

enum { MEMORY_POINTS = 120 };
static const double limit_in_sight = 2.5; /* times the most live bytes: a limit above that is told, not drawn */

struct curve {
    int n;
    double x[MEMORY_POINTS + 2], y[MEMORY_POINTS + 2];
};
struct live {
    struct mt_page *page;
    const struct mt_report_kinds *kinds;
    const struct mt_timeline *timeline;
    const char *const *names;
    int n, nmarks;
    struct mt_series series[MT_SPANS_CLASSES];
    struct mt_chart_mark marks[MT_SPANS_CLASSES];
    struct curve curves[MT_SPANS_CLASSES];
    const char *note;
};

/* At most MEMORY_POINTS steps, each the most of its part of the time. */
static void thin(const struct mt_timeline *t, const struct mt_timeline_class *c, struct curve *curve) {
    double from = t->first_s, part = (t->step_s - from) / MEMORY_POINTS;
    int at = -1;
    curve->n = 0;
    for (int b = 0; b < MEMORY_POINTS; b++) {
        double end = from + (b + 1) * part, most = at >= 0 ? (double)c->memory[at].bytes : NAN;
        for (; at + 1 < c->nmemory && c->memory[at + 1].at_s < end; at++)
            most = isnan(most) ? (double)c->memory[at + 1].bytes : fmax(most, (double)c->memory[at + 1].bytes);
        if (isnan(most) || (curve->n && curve->y[curve->n - 1] == most)) continue;
        curve->x[curve->n] = curve->n ? from + b * part : from, curve->y[curve->n++] = most;
    }
    if (!curve->n) return;
    curve->x[curve->n] = t->step_s, curve->y[curve->n] = curve->y[curve->n - 1];
    curve->n++;
}

static double limit_of(const struct live *l, int class) {
    const struct mt_plan *p = l->kinds->plan;
    return (double)p->ranks[p->order[l->timeline->classes[class].ranks[0]]].memory_bytes;
}

/* Equal limits are one mark, named by those who have it, unless all have. */
static void mark_limits(struct live *l) {
    double most = 0;
    bool one = true;
    for (int c = 0; c < l->n; c++) {
        most = fmax(most, (double)l->timeline->classes[c].arena_bytes);
        one &= limit_of(l, c) == limit_of(l, 0);
    }
    for (int c = 0; c < l->n; c++) {
        double limit = limit_of(l, c);
        bool said = false;
        for (int k = 0; k < c; k++) said |= limit_of(l, k) == limit;
        if (said || !(limit > 0)) continue;
        const char *bytes = mt_page_quantity(l->page, MT_UNIT_BYTES, limit);
        const char *text = one ? mt_arena_printf(&l->page->arena, "limit %s", bytes)
                               : mt_arena_printf(&l->page->arena, "limit %s: %s", bytes, l->names[c]);
        if (limit > limit_in_sight * most)
            l->note = mt_arena_printf(&l->page->arena, "%s; above the picture: %s", l->note, text);
        else
            l->marks[l->nmarks++] = (struct mt_chart_mark){false, limit, text, "limit"};
    }
}

static void tabulate(const struct live *l) {
    struct mt_table *table =
        mt_page_table(l->page, "memory-over-time", "Memory over a step, against the limit", l->note);
    mt_table_column(table, "who", "ranks", MT_UNIT_TEXT)->once = true;
    mt_table_column(table, "from_s", "from", MT_UNIT_SECONDS);
    mt_table_column(table, "live_bytes", "live", MT_UNIT_BYTES);
    for (int c = 0; c < l->n; c++)
        for (int i = 0; i + 1 < l->curves[c].n; i++) {
            mt_table_row(table);
            mt_cell_text(table, "%s", l->names[c]);
            mt_cell_real(table, l->curves[c].x[i]);
            mt_cell_real(table, l->curves[c].y[i]);
        }
}

void mt_report_live(struct mt_page *page, const struct mt_report_kinds *kinds, const struct mt_timeline *t,
                    const char *const *names) {
    static const char *const colors[MT_SPANS_CLASSES] = {"s0", "s1", "s2", "s3", "s4", "s5"};
    struct live *l = mt_new(&page->arena, struct live, 1);
    *l = (struct live){
        .page = page, .kinds = kinds, .timeline = t, .names = names, .note = "the most of each part of the step"};
    l->n = t->nclasses < MT_SPANS_CLASSES ? t->nclasses : MT_SPANS_CLASSES;
    for (int c = 0; c < l->n; c++) {
        thin(t, &t->classes[c], &l->curves[c]);
        l->series[c] = (struct mt_series){.name = names[c],
                                          .form = MT_SERIES_STEP,
                                          .class = colors[c],
                                          .n = l->curves[c].n,
                                          .x = l->curves[c].x,
                                          .y = l->curves[c].y};
    }
    mark_limits(l);
    struct mt_chart chart = {
        .x = {.title = "time of a step", .unit = MT_UNIT_SECONDS, .from = t->first_s, .to = t->step_s},
        .y = {.title = "live bytes", .unit = MT_UNIT_BYTES},
        .series = l->series,
        .nseries = l->n,
        .marks = l->marks,
        .nmarks = l->nmarks};
    mt_chart_fit(&chart, true);
    tabulate(l);
    mt_page_picture(page, "Memory over a simulated step",
                    "A line for each class of ranks: the bytes of its arena that are in use. "
                    "Dashed lines are limits.",
                    mt_chart_draw, &chart);
}
