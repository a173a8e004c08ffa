/* A run's course: loss, tokens a second, and the time of steps against the prediction, with events. Of many steps parts
 * are drawn, with their mean and their range. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/report/run/internal.h"
#include "launcher/report/svg/chart.h"

enum { PARTS = 200, MOST_EVENTS = 40, TABLE_ROWS = 60 };

/* ---- thinning ---- */

struct course {
    int n;
    double *x, *y, *low, *high; /* x: the last step of the part */
};

static void thin(const double *x, const double *y, int n, int most, struct mt_arena *arena, struct course *c) {
    int per = n > most ? (n + most - 1) / most : 1;
    *c = (struct course){0, mt_new(arena, double, n + 1), mt_new(arena, double, n + 1), mt_new(arena, double, n + 1),
                         mt_new(arena, double, n + 1)};
    for (int i = 0; i < n; i += per) {
        double sum = 0, low = INFINITY, high = -INFINITY;
        int count = 0, last = i + per < n ? i + per - 1 : n - 1;
        for (int k = i; k <= last; k++) {
            if (!isfinite(y[k])) continue;
            sum += y[k], count++;
            low = fmin(low, y[k]), high = fmax(high, y[k]);
        }
        c->x[c->n] = x[last], c->y[c->n] = count ? sum / count : NAN;
        c->low[c->n] = count ? low : NAN, c->high[c->n] = count ? high : NAN;
        if (count) c->n++;
    }
}

/* ---- events ---- */

static int list_events(const struct mt_report_run *run, struct mt_chart_mark *marks) {
    const struct mt_run_doc *d = &run->doc;
    int n = 0; /* faults first: their texts must be seen */
    for (int i = 0; i < run->nrestarts && n < MOST_EVENTS; i++)
        marks[n++] = (struct mt_chart_mark){true, (double)run->restarts[i].step,
                                            mt_arena_printf(&run->page->arena, "restart %d", i + 1), "limit"};
    if (strcmp(d->ended, "finished") != 0 && strcmp(d->ended, "running") != 0 && d->nlosses && n < MOST_EVENTS) {
        char text[64];
        mt_svg_cut(d->ended, 150, text, sizeof text);
        marks[n++] = (struct mt_chart_mark){true, (double)(d->first_step + d->nlosses - 1),
                                            mt_arena_strdup(&run->page->arena, text), "limit"};
    }
    for (int i = 0; i < run->ncheckpoints && n < MOST_EVENTS; i++)
        marks[n++] =
            (struct mt_chart_mark){true, run->checkpoints[i],
                                   mt_arena_printf(&run->page->arena, "checkpoint %.0f", run->checkpoints[i]), "event"};
    return n;
}

static void tabulate_events(struct mt_report_run *run) {
    const struct mt_run_doc *d = &run->doc;
    struct mt_table *t = mt_page_table(run->page, "events", "Events", "");
    mt_table_column(t, "step", "step", MT_UNIT_COUNT);
    mt_table_column(t, "what", "what", MT_UNIT_TEXT);
    for (int i = 0; i < run->ncheckpoints; i++) {
        mt_table_row(t);
        mt_cell_real(t, run->checkpoints[i]);
        mt_cell_text(t, "checkpoint");
    }
    for (int i = 0; i < run->nrestarts; i++) {
        mt_table_row(t);
        mt_cell_int(t, run->restarts[i].step);
        mt_cell_text(t, "%s", run->restarts[i].what);
        mt_cell_style(t, MT_STYLE_WARNING);
    }
    for (int v = 0; v < d->nvals; v++) {
        mt_table_row(t);
        mt_cell_int(t, d->vals[v].step);
        mt_cell_text(t, "validation: loss %.4f", d->vals[v].loss);
    }
    for (int i = 0; i < d->nlosses; i++) {
        if (isfinite(d->losses[i]) || (i && !isfinite(d->losses[i - 1]))) continue;
        mt_table_row(t);
        mt_cell_int(t, d->first_step + i);
        mt_cell_text(t, "the loss is not known, or not finite, from here");
        mt_cell_style(t, MT_STYLE_WARNING);
    }
    mt_table_row(t);
    mt_cell_int(t, d->first_step + d->nlosses - 1);
    mt_cell_text(t, "%s", d->ended);
    if (d->skipped_steps)
        mt_page_say(run->page, "%lld steps were skipped: a scaled gradient overflowed.", (long long)d->skipped_steps);
}

/* ---- charts ---- */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void tabulate(struct mt_table *t, const struct course *c, const char *key, const char *title,
                     enum mt_unit unit) {
    int every = (c->n + TABLE_ROWS - 1) / TABLE_ROWS;
    mt_table_column(t, "step", "to step", MT_UNIT_COUNT);
    mt_table_column(t, key, title, unit)->decimals = unit == MT_UNIT_NUMBER ? 4 : -1;
    for (int i = every ? every - 1 : 0; i < c->n; i += every) {
        mt_table_row(t);
        mt_cell_real(t, c->x[i]);
        mt_cell_real(t, c->y[i]);
    }
}

static void report_loss(struct mt_report_run *run) {
    const struct mt_run_doc *d = &run->doc;
    struct mt_arena *arena = &run->page->arena;
    struct mt_chart_mark marks[MOST_EVENTS];
    double *x = mt_new(arena, double, d->nlosses + 1), *vx = mt_new(arena, double, d->nvals + 1);
    double *vy = mt_new(arena, double, d->nvals + 1);
    struct course c;
    for (int i = 0; i < d->nlosses; i++) x[i] = (double)(d->first_step + i);
    for (int v = 0; v < d->nvals; v++) vx[v] = (double)d->vals[v].step, vy[v] = d->vals[v].loss;
    thin(x, d->losses, d->nlosses, PARTS, arena, &c);
    bool thinned = c.n < d->nlosses;
    struct mt_series series[] = {
        {.name = thinned ? "training, mean and range of parts" : "training",
         .form = MT_SERIES_LINE,
         .class = "s0",
         .n = c.n,
         .x = c.x,
         .y = c.y,
         .low = thinned ? c.low : NULL,
         .high = thinned ? c.high : NULL},
        {.name = "validation", .form = MT_SERIES_DOTS, .class = "s1", .n = d->nvals, .x = vx, .y = vy}};
    struct mt_chart chart = {.x = {.title = "step", .unit = MT_UNIT_COUNT},
                             .y = {.title = "loss", .unit = MT_UNIT_NUMBER},
                             .series = series,
                             .nseries = d->nvals ? 2 : 1,
                             .marks = marks,
                             .nmarks = list_events(run, marks)};
    mt_chart_fit(&chart, false);
    tabulate(mt_page_table(run->page, "loss", "Loss, with checkpoints and faults",
                           thinned ? "means of parts of the run" : ""),
             &c, "loss", "loss", MT_UNIT_NUMBER);
    mt_page_picture(run->page, "Loss",
                    "The loss over the steps of training; dots are "
                    "validations, dashed lines events.",
                    mt_chart_draw, &chart);
}

static void report_rate(struct mt_report_run *run) {
    struct course c;
    thin(run->step, run->tokens_per_s, run->nsteps, PARTS, &run->page->arena, &c);
    struct mt_series series = {.name = "tokens a second",
                               .form = MT_SERIES_LINE,
                               .class = "s0",
                               .n = c.n,
                               .x = c.x,
                               .y = c.y,
                               .low = c.n < run->nsteps ? c.low : NULL,
                               .high = c.n < run->nsteps ? c.high : NULL};
    struct mt_chart chart = {.x = {.title = "step", .unit = MT_UNIT_COUNT},
                             .y = {.title = "tokens/s", .unit = MT_UNIT_QUANTITY},
                             .series = &series,
                             .nseries = 1};
    mt_chart_fit(&chart, true);
    tabulate(mt_page_table(run->page, "tokens", "Tokens a second", ""), &c, "tokens_per_s", "tokens/s",
             MT_UNIT_QUANTITY);
    mt_page_picture(run->page, "Tokens a second", "The rate of training over its steps.", mt_chart_draw, &chart);
}

/* The first steps, which touch memory for the first time, may take so long that nothing of the others would be seen. */
static double in_sight_s(const struct mt_report_run *run, double band_s) {
    double *sorted = mt_new(&run->page->arena, double, run->nsteps + 1);
    int n = 0;
    for (int i = 0; i < run->nsteps; i++)
        if (isfinite(run->step_s[i])) sorted[n++] = run->step_s[i];
    if (!n) return INFINITY;
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    return fmax(4 * sorted[n / 2], 1.5 * band_s);
}

/* The time of steps against the plan's: drift is what moves away from its band. */
static void report_drift(struct mt_report_run *run) {
    const struct mt_run_doc *d = &run->doc;
    struct mt_arena *arena = &run->page->arena;
    struct course c;
    bool predicted = d->predicted_step_s > 0;
    thin(run->step, run->step_s, run->nsteps, PARTS, arena, &c);
    double px[2] = {c.n ? c.x[0] : 0, c.n ? c.x[c.n - 1] : 1}, py[2], low[2], high[2];
    for (int i = 0; i < 2; i++) {
        py[i] = d->predicted_step_s;
        low[i] = d->predicted_step_s * (1 - d->predicted_error_below);
        high[i] = d->predicted_step_s * (1 + d->predicted_error);
    }
    struct mt_series series[] = {
        {.name = "measured", .form = MT_SERIES_LINE, .class = "s0", .n = c.n, .x = c.x, .y = c.y},
        {.name = "predicted",
         .form = MT_SERIES_LINE,
         .class = "s1",
         .n = 2,
         .x = px,
         .y = py,
         .low = low,
         .high = high,
         .dashed = true}};
    struct mt_chart chart = {.x = {.title = "step", .unit = MT_UNIT_COUNT},
                             .y = {.title = "time of a step", .unit = MT_UNIT_SECONDS},
                             .series = series,
                             .nseries = predicted ? 2 : 1};
    double most = in_sight_s(run, predicted ? high[0] : 0), least = 0;
    for (int i = 0; i < c.n; i++) least = fmax(least, c.y[i]);
    if (least > most) chart.y.to = most, chart.y.round = true;
    mt_chart_fit(&chart, true);
    const char *note = least > most ? mt_arena_printf(arena, "steps of up to %s are beyond the picture",
                                                      mt_page_quantity(run->page, MT_UNIT_SECONDS, least))
                                    : "";
    tabulate(mt_page_table(run->page, "steps", "Drift: the time of steps against the prediction and its band", note),
             &c, "step_s", "a step", MT_UNIT_SECONDS);
    mt_page_picture(run->page, "Time of steps",
                    "The measured time of steps over the run; the dashed "
                    "line is the prediction, the area its band.",
                    mt_chart_draw, &chart);
}

void mt_report_progress(struct mt_report_run *run) {
    mt_page_heading(run->page, "Course");
    if (run->doc.nlosses) report_loss(run);
    if (run->nsteps) report_rate(run), report_drift(run);
    tabulate_events(run);
}
