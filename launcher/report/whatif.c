/* The report of a what-if: alternatives to a cluster by what they make of a job, and by cost. */
#include <math.h>
#include <string.h>

#include "kernels/base/text/json.h"
#include "launcher/report/internal.h"
#include "launcher/report/svg/bars.h"
#include "launcher/report/svg/chart.h"
#include "launcher/show/show.h"

enum { MOST_MODELS = 64, MOST_ROWS = 4096, MOST_BARS = 40 };

struct row {
    const char *what, *refused, *cannot_run, *figures, *waits_for, *band;
    int64_t devices, idle, tie, headroom_bytes; /* tie: the number of a row, 0: none */
    double step_s, error, error_below, tokens_per_s, time_s, cost_per_hour, cost; /* NaN: not known */
};
struct answer {
    const char *model;
    int n;
    struct row *rows;
};
struct whatif {
    struct mt_page *page;
    int n;
    struct answer *answers;
    double tokens;
};

/* ---- reading ---- */

static enum mt_status real_or_nan(struct mt_json row, const char *key, double *value, struct mt_err *err) {
    *value = NAN;
    return mt_json_has(row, key) ? mt_json_real(row, key, 0, 1e300, value, err) : MT_OK;
}

static enum mt_status text_or_null(struct mt_json row, const char *key, struct mt_arena *arena, const char **value,
                                   struct mt_err *err) {
    *value = NULL;
    return mt_json_has(row, key) ? mt_json_text(row, key, arena, value, err) : MT_OK;
}

static enum mt_status int_or_zero(struct mt_json row, const char *key, int64_t least, int64_t *value,
                                  struct mt_err *err) {
    *value = 0;
    return mt_json_has(row, key) ? mt_json_int(row, key, least, INT64_MAX, value, err) : MT_OK;
}

static enum mt_status read_row(void *context, struct mt_json json, int index, struct mt_err *err) {
    struct whatif *w = context;
    struct row *r = &w->answers[w->n - 1].rows[index];
    struct mt_arena *arena = &w->page->arena;
    enum mt_status st;
    if ((st = mt_json_text(json, "what", arena, &r->what, err)) ||
        (st = mt_json_int(json, "devices", 1, INT32_MAX, &r->devices, err)) ||
        (st = text_or_null(json, "refused", arena, &r->refused, err)))
        return st;
    r->step_s = r->tokens_per_s = r->time_s = r->cost_per_hour = r->cost = NAN;
    if (r->refused) return MT_OK;
    if ((st = mt_json_real(json, "step_s", 0, 1e300, &r->step_s, err)) ||
        (st = mt_json_real(json, "error", 0, 1e9, &r->error, err)) ||
        (st = real_or_nan(json, "error_below", &r->error_below, err)) ||
        (st = int_or_zero(json, "tie", 1, &r->tie, err)) ||
        (st = mt_json_real(json, "tokens_per_s", 0, 1e300, &r->tokens_per_s, err)) ||
        (st = mt_json_text(json, "figures", arena, &r->figures, err)) ||
        (st = text_or_null(json, "cannot_run", arena, &r->cannot_run, err)) ||
        (st = int_or_zero(json, "idle", 0, &r->idle, err)) ||
        (st = int_or_zero(json, "headroom_bytes", INT64_MIN, &r->headroom_bytes, err)) ||
        (st = real_or_nan(json, "time_s", &r->time_s, err)) ||
        (st = real_or_nan(json, "cost_per_hour", &r->cost_per_hour, err)) ||
        (st = real_or_nan(json, "cost", &r->cost, err)) ||
        (st = text_or_null(json, "waits_for", arena, &r->waits_for, err)))
        return st;
    if (isnan(r->error_below)) r->error_below = r->error;
    if (r->tie > index)
        return mt_json_fail(json, err, "tie: is %lld, not the number of an earlier row", (long long)r->tie);
    return MT_OK;
}

static enum mt_status read_answer(void *context, struct mt_json json, int index, struct mt_err *err) {
    struct whatif *w = context;
    struct answer *a = &w->answers[index];
    const struct mt_json_rows rows = {"rows", MOST_ROWS, sizeof *a->rows, read_row};
    w->n = index + 1;
    enum mt_status st = mt_json_text(json, "model", &w->page->arena, &a->model, err);
    return st ? st : mt_json_list(json, &rows, w, &w->page->arena, &a->rows, &a->n, err);
}

static enum mt_status read_whatif(const char *path, struct whatif *w, struct mt_err *err) {
    struct mt_json_doc doc;
    const struct mt_json_rows models = {"models", MOST_MODELS, sizeof *w->answers, read_answer};
    enum mt_status st = mt_json_load(path, &doc, err);
    if (st) return st;
    if (!(st = mt_json_format(doc.root, MT_WHATIF_FORMAT, 1, err)) &&
        !(st = real_or_nan(doc.root, "tokens", &w->tokens, err)))
        st = mt_json_list(doc.root, &models, w, &w->page->arena, &w->answers, &w->n, err);
    mt_json_release(&doc);
    return st;
}

/* ---- pictures ---- */

static void tabulate(struct mt_table *t, const struct answer *a, double tokens) {
    mt_table_columns(t, {"row", "row", MT_UNIT_COUNT}, {"what", "what", MT_UNIT_TEXT},
                     {"devices", "devices", MT_UNIT_COUNT}, {"idle", "idle", MT_UNIT_COUNT},
                     {"step_s", "step", MT_UNIT_SECONDS}, {"tokens_per_s", "tokens/s", MT_UNIT_QUANTITY},
                     {"least_tokens_per_s", "band from", MT_UNIT_QUANTITY},
                     {"most_tokens_per_s", "to", MT_UNIT_QUANTITY}, {"ratio", "of row 1", MT_UNIT_RATIO},
                     {"tie", "tie with row", MT_UNIT_COUNT}, {"headroom_bytes", "least memory left", MT_UNIT_BYTES});
    if (isfinite(tokens)) mt_table_column(t, "time_s", "time for the tokens", MT_UNIT_SECONDS);
    mt_table_columns(t, {"cost_per_hour", "cost an hour", MT_UNIT_MONEY}, {"cost", "cost", MT_UNIT_MONEY},
                     {"figures", "figures", MT_UNIT_TEXT}, {"waits_for", "waits for, or why not", MT_UNIT_TEXT});
    for (int i = 0; i < a->n; i++) {
        const struct row *r = &a->rows[i];
        mt_table_row(t);
        mt_cell_int(t, i + 1);
        mt_cell_text(t, "%s", r->what);
        mt_cell_int(t, r->devices);
        mt_cell_positive(t, (double)r->idle);
        mt_cell_real(t, r->step_s);
        mt_cell_real(t, r->tokens_per_s);
        mt_cell_real(t, r->tokens_per_s / (1 + r->error));
        mt_cell_real(t, r->error_below < 1 ? r->tokens_per_s / (1 - r->error_below) : NAN);
        mt_cell_real(t, r->tokens_per_s / a->rows[0].tokens_per_s);
        mt_cell_positive(t, (double)r->tie);
        mt_cell_positive(t, (double)r->headroom_bytes);
        if (isfinite(tokens)) mt_cell_real(t, r->time_s);
        mt_cell_real(t, r->cost_per_hour);
        mt_cell_real(t, r->cost);
        mt_cell_text(t, "%s", r->refused ? "-" : r->figures);
        mt_cell_text(t, "%s",
                     r->refused      ? r->refused
                     : r->cannot_run ? r->cannot_run
                     : r->waits_for  ? r->waits_for
                                     : "");
    }
}

static void report_rates(struct whatif *w, const struct answer *a) {
    struct mt_arena *arena = &w->page->arena;
    struct mt_bar *rows = mt_new(arena, struct mt_bar, MOST_BARS);
    int n = a->n < MOST_BARS ? a->n : MOST_BARS;
    for (int i = 0; i < n; i++) {
        const struct row *r = &a->rows[i];
        rows[i] = (struct mt_bar){.label = r->what, .text = "no plan", .chosen = i == 0};
        if (r->refused) continue;
        const char *rate = mt_page_quantity(w->page, MT_UNIT_QUANTITY, r->tokens_per_s);
        double ratio = r->tokens_per_s / a->rows[0].tokens_per_s;
        rows[i].text = r->tie                 ? mt_arena_printf(arena, "%s, tie with row %lld", rate, (long long)r->tie)
                       : isfinite(ratio) && i ? mt_arena_printf(arena, "%s, x %.2f", rate, ratio)
                                              : rate;
        rows[i].nparts = 1, rows[i].parts[0] = r->tokens_per_s;
        rows[i].low = r->tokens_per_s / (1 + r->error);
        rows[i].high = r->tokens_per_s / (r->error_below < 0.9 ? 1 - r->error_below : 0.1);
    }
    struct mt_bars bars = {.axis = {.title = "tokens a second", .unit = MT_UNIT_QUANTITY},
                           .dots = true,
                           .zero = true,
                           .nrows = n,
                           .rows = rows,
                           .mark = NAN};
    tabulate(mt_page_table(w->page, "alternatives-rates", "Tokens a second of each alternative", ""), a, w->tokens);
    mt_page_picture(w->page, "Alternatives by tokens a second",
                    "A dot with its band for the cluster as it is and for "
                    "each alternative to it; ties are named.",
                    mt_bars_draw, &bars);
}

/* Cost an hour against the rate, where there are prices. */
static void report_costs(struct whatif *w, const struct answer *a) {
    struct mt_arena *arena = &w->page->arena;
    double *x = mt_new(arena, double, a->n), *y = mt_new(arena, double, a->n);
    double *low = mt_new(arena, double, a->n), *high = mt_new(arena, double, a->n);
    const char **labels = mt_new(arena, const char *, a->n);
    int n = 0;
    bool whole = isfinite(w->tokens);
    for (int i = 0; i < a->n; i++) {
        const struct row *r = &a->rows[i];
        double cost = whole ? r->cost : r->cost_per_hour;
        if (r->refused || !isfinite(cost)) continue;
        x[n] = cost, y[n] = r->tokens_per_s;
        low[n] = r->tokens_per_s / (1 + r->error);
        high[n] = r->tokens_per_s / (r->error_below < 0.9 ? 1 - r->error_below : 0.1);
        labels[n++] = r->what;
    }
    if (n < 2) return;
    struct mt_series series = {.name = "alternatives",
                               .form = MT_SERIES_DOTS,
                               .class = "s0",
                               .n = n,
                               .x = x,
                               .y = y,
                               .low = low,
                               .high = high,
                               .labels = labels};
    struct mt_chart chart = {.x = {.title = whole ? "cost of the tokens" : "cost an hour", .unit = MT_UNIT_MONEY},
                             .y = {.title = "tokens/s", .unit = MT_UNIT_QUANTITY},
                             .series = &series,
                             .nseries = 1,
                             .height = 320};
    mt_chart_fit(&chart, true);
    chart.x.from = 0, chart.x.round = true;
    struct mt_table *t = mt_page_table(
        w->page, "costs",
        whole ? "Tokens a second against the cost of the tokens" : "Tokens a second against the cost an hour", "");
    mt_table_columns(t, {"what", "what", MT_UNIT_TEXT}, {"cost", "cost", MT_UNIT_MONEY},
                     {"tokens_per_s", "tokens/s", MT_UNIT_QUANTITY});
    for (int i = 0; i < n; i++) {
        mt_table_row(t);
        mt_cell_text(t, "%s", labels[i]);
        mt_cell_real(t, x[i]);
        mt_cell_real(t, y[i]);
    }
    mt_page_picture(w->page, "Rate against cost",
                    "A dot for each alternative: what it costs, and how fast "
                    "it trains, with its band. Up and to the left is better.",
                    mt_chart_draw, &chart);
}

enum mt_status mt_report_whatif(struct mt_reporting *reporting, const char *path, struct mt_err *err) {
    struct whatif w = {.page = &reporting->page, .tokens = NAN};
    mt_page_section(w.page, "What if: %s", path);
    enum mt_status st = read_whatif(path, &w, err);
    for (int i = 0; i < w.n && !st; i++) {
        if (!w.answers[i].n) continue;
        mt_page_heading(w.page, "%s", w.answers[i].model);
        if (isfinite(w.tokens))
            mt_page_say(w.page, "Times and costs are of %s tokens.",
                        mt_page_quantity(w.page, MT_UNIT_QUANTITY, w.tokens));
        report_rates(&w, &w.answers[i]);
        report_costs(&w, &w.answers[i]);
    }
    return st;
}
