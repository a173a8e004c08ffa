/* The report of a purchase: what could be bought for the jobs, by cost and time. */
#include <math.h>
#include <string.h>

#include "launcher/report/internal.h"
#include "launcher/report/svg/bars.h"
#include "launcher/report/svg/chart.h"
#include "planner/buy/document/purchase.h"

enum { MOST_DOTS = 200, LABELLED = 12, MOST_BARS = 24 };

/* ---- words ---- */

static void say_limit(struct mt_page *page, const char *name, enum mt_unit unit, double value) {
    if (value > 0) mt_page_fact(page, name, "%s", mt_page_quantity(page, unit, value));
}

/* What was left out, by reason. */
static void say_excluded(struct mt_page *page, const struct mt_purchase *p) {
    for (int i = 0; i < p->nexcluded; i++) {
        const char *names = p->excluded[i].name;
        bool said = false;
        for (int k = 0; k < i; k++) said |= !strcmp(p->excluded[k].why, p->excluded[i].why);
        if (said) continue;
        for (int k = i + 1; k < p->nexcluded; k++)
            if (!strcmp(p->excluded[k].why, p->excluded[i].why))
                names = mt_arena_printf(&page->arena, "%s, %s", names, p->excluded[k].name);
        mt_page_say(page, "Left out: %s: %s.", names, p->excluded[i].why);
    }
}

static void say_head(struct mt_page *page, const struct mt_purchase *p) {
    const struct mt_purchase_limits *l = &p->limits;
    if (p->nrows) {
        mt_page_fact(page, p->objective[0] == 't' ? "fastest" : "cheapest", "%s", p->rows[0].what);
        mt_page_fact(page, "its time", "%s", mt_page_quantity(page, MT_UNIT_SECONDS, p->rows[0].time_s));
        mt_page_fact(page, "its cost", "%s", mt_page_quantity(page, MT_UNIT_MONEY, p->rows[0].cost));
    }
    say_limit(page, "budget", MT_UNIT_MONEY, l->budget);
    say_limit(page, "budget an hour", MT_UNIT_MONEY, l->budget_per_hour);
    say_limit(page, "power at most", MT_UNIT_WATTS, l->power_W);
    say_limit(page, "rack units at most", MT_UNIT_NUMBER, l->rack_units);
    mt_page_fact(page, "judged with plans", "%lld of %s", (long long)p->judged,
                 mt_page_quantity(page, MT_UNIT_QUANTITY, p->configurations));
    if (p->owned.nodes) mt_page_say(page, "Owned already: %s (%d devices).", p->owned.what, p->owned.devices);
    if (p->network[0]) mt_page_say(page, "Assumed of the network: %s", p->network);
    if (p->nominal) mt_page_say(page, "Some figures are public ones that were not measured.");
    if (p->binds[0]) mt_page_say(page, "What keeps the best from being better: %s.", p->binds);
    if (p->dual > 0)
        mt_page_say(page, "By the relaxation, one more unit of money saves %s.",
                    mt_page_quantity(page, MT_UNIT_SECONDS, p->dual));
    say_excluded(page, p);
    mt_page_say(page, "Jobs run one after another; times are until the last has ended. Purchase %s, by %s.", p->hash,
                p->made_by);
}

/* ---- cost against time ---- */

static void tabulate_rows(struct mt_table *t, const struct mt_purchase *p) {
    mt_table_columns(t, {"row", "row", MT_UNIT_COUNT}, {"what", "what", MT_UNIT_TEXT},
                     {"devices", "devices", MT_UNIT_COUNT}, {"time_s", "time", MT_UNIT_SECONDS},
                     {"least_s", "band from", MT_UNIT_SECONDS}, {"most_s", "to", MT_UNIT_SECONDS},
                     {"cost", "cost", MT_UNIT_MONEY}, {"price", "to buy", MT_UNIT_MONEY},
                     {"per_hour", "an hour", MT_UNIT_MONEY}, {"power_W", "power", MT_UNIT_WATTS},
                     {"rack_units", "rack units", MT_UNIT_NUMBER}, {"tie", "tie with row", MT_UNIT_COUNT},
                     {"frontier", "frontier", MT_UNIT_TEXT}, {"late", "deadlines", MT_UNIT_TEXT});
    for (int i = 0; i < p->nrows; i++) {
        const struct mt_purchase_row *r = &p->rows[i];
        mt_table_row(t);
        mt_cell_int(t, i + 1);
        mt_cell_text(t, "%s", r->what);
        mt_cell_int(t, r->devices);
        mt_cell_real(t, r->time_s);
        mt_cell_real(t, r->time_s * (1 - r->error_below));
        mt_cell_real(t, r->time_s * (1 + r->error));
        mt_cell_real(t, r->cost);
        mt_cell_real(t, r->price);
        mt_cell_real(t, r->per_hour);
        mt_cell_positive(t, r->power_W);
        mt_cell_positive(t, r->rack_units);
        if (r->tie >= 0)
            mt_cell_int(t, r->tie + 1);
        else
            mt_cell_none(t);
        mt_cell_text(t, "%s", r->frontier ? "yes" : "");
        mt_cell_text(t, "%s", r->late ? "missed" : "met");
    }
}

/* Of the rows, those of the frontier or the others, as dots. */
struct dots {
    int n;
    double x[MOST_DOTS], y[MOST_DOTS], low[MOST_DOTS], high[MOST_DOTS];
    const char *labels[MOST_DOTS];
};

static void collect(const struct mt_purchase *p, bool frontier, bool tie, struct mt_arena *arena, struct dots *d) {
    for (int i = 0; i < p->nrows && d->n < MOST_DOTS; i++) {
        const struct mt_purchase_row *r = &p->rows[i];
        if (r->frontier != frontier || (!frontier && (r->tie >= 0) != tie)) continue;
        d->x[d->n] = r->cost, d->y[d->n] = r->time_s;
        d->low[d->n] = r->time_s * (1 - r->error_below), d->high[d->n] = r->time_s * (1 + r->error);
        d->labels[d->n++] = i < LABELLED && frontier ? mt_arena_printf(arena, "%d: %s", i + 1, r->what) : "";
    }
}

/* Rows of the frontier in the order of cost, as a stair: no point on it is reached for less. */
static void sort_by_cost(struct dots *d) {
    for (int i = 1; i < d->n; i++)
        for (int k = i; k > 0 && d->x[k] < d->x[k - 1]; k--) {
            double *lists[] = {d->x, d->y, d->low, d->high};
            for (int l = 0; l < 4; l++) {
                double v = lists[l][k];
                lists[l][k] = lists[l][k - 1], lists[l][k - 1] = v;
            }
            const char *label = d->labels[k];
            d->labels[k] = d->labels[k - 1], d->labels[k - 1] = label;
        }
}

static void report_frontier(struct mt_page *page, const struct mt_purchase *p) {
    struct mt_arena *arena = &page->arena;
    struct dots *of = mt_new(arena, struct dots, 3);
    collect(p, true, false, arena, &of[0]);
    collect(p, false, true, arena, &of[1]);
    collect(p, false, false, arena, &of[2]);
    sort_by_cost(&of[0]);
    struct mt_series series[4] = {
        {.name = "", .form = MT_SERIES_STEP, .class = "s0", .n = of[0].n, .x = of[0].x, .y = of[0].y}};
    static const char *const names[] = {"efficient frontier", "ties with a row above", "others"};
    static const char *const classes[] = {"s0", "s1", "s5"};
    int n = 1;
    for (int i = 2; i >= 0; i--)
        if (of[i].n)
            series[n++] = (struct mt_series){.name = names[i],
                                             .form = MT_SERIES_DOTS,
                                             .class = classes[i],
                                             .n = of[i].n,
                                             .x = of[i].x,
                                             .y = of[i].y,
                                             .low = of[i].low,
                                             .high = of[i].high,
                                             .labels = of[i].labels};
    struct mt_chart chart = {.x = {.title = "cost", .unit = MT_UNIT_MONEY},
                             .y = {.title = "time until the last job ends", .unit = MT_UNIT_SECONDS},
                             .series = series,
                             .nseries = n,
                             .height = 340};
    double least = INFINITY, most = 0;
    for (int i = 0; i < p->nrows; i++) {
        least = fmin(least, p->rows[i].time_s * (1 - p->rows[i].error_below));
        most = fmax(most, p->rows[i].time_s * (1 + p->rows[i].error));
    }
    chart.y.log = least > 0 && most > 12 * least;
    chart.x.round = true;
    mt_chart_fit(&chart, true);
    mt_page_heading(page, "Cost against time");
    mt_page_say(
        page,
        "Nothing that was judged costs as little as a dot of the frontier and takes less time. Ties are rows whose "
        "time may as well be that of a row above.");
    tabulate_rows(mt_page_table(page, "purchases", "Configurations by cost and time, with bands", ""), p);
    mt_page_picture(page, "Cost against time",
                    "A dot with its band for each configuration: what it costs, "
                    "and the time until the last job has ended. The line is the "
                    "efficient frontier. Down and to the left is better.",
                    mt_chart_draw, &chart);
}

/* ---- further money, jobs, catalogue ---- */

static void report_next(struct mt_page *page, const struct mt_purchase *p) {
    if (!p->nnext || !p->nrows) return;
    struct mt_bar *rows = mt_new(&page->arena, struct mt_bar, MOST_BARS);
    mt_page_heading(page, "The next sums of money");
    struct mt_table *t = mt_page_table(page, "next", "What each next sum of money buys", "");
    mt_table_columns(t, {"money", "more money", MT_UNIT_MONEY}, {"what", "the best with it", MT_UNIT_TEXT},
                     {"time_s", "time", MT_UNIT_SECONDS}, {"saves", "against row 1", MT_UNIT_CHANGE},
                     {"estimate_s", "estimated by the dual", MT_UNIT_SECONDS}, {"tie", "", MT_UNIT_TEXT});
    int n = 0;
    for (int i = 0; i < p->nnext; i++) {
        const struct mt_purchase_next *next = &p->next[i];
        const struct mt_purchase_row *r = next->better ? &next->row : &p->rows[0];
        mt_table_row(t);
        mt_cell_real(t, next->money);
        mt_cell_text(t, "%s", next->better ? r->what : "nothing better");
        mt_cell_real(t, r->time_s);
        mt_cell_real(t, r->time_s / p->rows[0].time_s - 1);
        mt_cell_positive(t, next->estimate_s);
        mt_cell_text(t, "%s", next->better && r->tie >= 0 ? "a tie with row 1" : "");
        if (n == MOST_BARS) continue;
        rows[n++] = (struct mt_bar){
            .label = mt_arena_printf(&page->arena, "+%s", mt_page_quantity(page, MT_UNIT_MONEY, next->money)),
            .text = mt_arena_printf(&page->arena, "%s, %+.1f%%", mt_page_quantity(page, MT_UNIT_SECONDS, r->time_s),
                                    100 * (r->time_s / p->rows[0].time_s - 1)),
            .nparts = 1,
            .parts = {r->time_s},
            .low = r->time_s * (1 - r->error_below),
            .high = r->time_s * (1 + r->error)};
    }
    struct mt_bars bars = {.axis = {.title = "time until the last job ends", .unit = MT_UNIT_SECONDS},
                           .dots = true,
                           .zero = true,
                           .nrows = n,
                           .rows = rows,
                           .mark = p->rows[0].time_s,
                           .mark_text = "the best within the budget"};
    mt_page_picture(page, "The next sums of money",
                    "For each further sum the time of the best configuration "
                    "that it allows; the dashed line is the best without it.",
                    mt_bars_draw, &bars);
}

static void report_jobs(struct mt_page *page, const struct mt_purchase *p) {
    struct mt_table *t = mt_page_table(page, "jobs", "Jobs on the best configurations", "the first rows");
    mt_table_column(t, "job", "job", MT_UNIT_TEXT)->once = true;
    mt_table_columns(t, {"what", "on", MT_UNIT_TEXT}, {"step_s", "step", MT_UNIT_SECONDS},
                     {"time_s", "time", MT_UNIT_SECONDS}, {"end_s", "ends after", MT_UNIT_SECONDS},
                     {"deadline_s", "deadline", MT_UNIT_SECONDS},
                     {"headroom_bytes", "least memory left", MT_UNIT_BYTES}, {"program", "divided by", MT_UNIT_TEXT},
                     {"binds", "waits for", MT_UNIT_TEXT});
    for (int j = 0; j < p->njobs; j++)
        for (int i = 0; i < p->nrows && i < LABELLED; i++) {
            const struct mt_purchase_job_row *r = &p->rows[i].jobs[j];
            mt_table_row(t);
            mt_cell_text(t, "%s", p->jobs[j].model);
            mt_cell_text(t, "%s", p->rows[i].what);
            mt_cell_real(t, r->step_s);
            mt_cell_real(t, r->time_s);
            mt_cell_real(t, r->end_s);
            if (r->late) mt_cell_style(t, MT_STYLE_WARNING);
            mt_cell_positive(t, p->jobs[j].deadline_s);
            if (r->headroom_of[0])
                mt_cell_real(t, (double)r->headroom_bytes);
            else
                mt_cell_none(t);
            mt_cell_text(t, "%s", r->program);
            mt_cell_text(t, "%s", r->binds);
        }
}

static void report_items(struct mt_page *page, const struct mt_purchase *p) {
    struct mt_table *t = mt_page_table(page, "catalogue", "Catalogue", "of a node");
    mt_table_columns(t, {"name", "name", MT_UNIT_TEXT}, {"device", "device", MT_UNIT_TEXT},
                     {"devices", "devices", MT_UNIT_COUNT}, {"memory_bytes", "memory of each", MT_UNIT_BYTES},
                     {"price", "to buy", MT_UNIT_MONEY}, {"per_hour", "an hour", MT_UNIT_MONEY},
                     {"power_W", "power", MT_UNIT_WATTS}, {"power_source", "power is from", MT_UNIT_TEXT},
                     {"rack_units", "rack units", MT_UNIT_NUMBER});
    for (int i = 0; i < p->nitems; i++) {
        const struct mt_purchase_item *item = &p->items[i];
        mt_table_row(t);
        mt_cell_text(t, "%s", item->name);
        mt_cell_text(t, "%s", item->device);
        mt_cell_int(t, item->devices);
        mt_cell_real(t, (double)item->memory_bytes);
        mt_cell_real(t, item->price);
        mt_cell_real(t, item->per_hour);
        mt_cell_positive(t, item->power_W);
        mt_cell_text(t, "%s", item->power_source);
        mt_cell_positive(t, item->rack_units);
    }
}

enum mt_status mt_report_purchase(struct mt_reporting *reporting, const char *path, struct mt_err *err) {
    struct mt_purchase *purchase;
    struct mt_page *page = &reporting->page;
    enum mt_status st = mt_purchase_read(path, &purchase, err);
    if (st) return st;
    mt_page_section(page, "Purchase %s", path);
    say_head(page, purchase);
    report_frontier(page, purchase);
    report_next(page, purchase);
    report_jobs(page, purchase);
    report_items(page, purchase);
    mt_purchase_free(purchase);
    return MT_OK;
}
