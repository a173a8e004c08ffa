/* What the plan was chosen from, and what would help it: rejected candidates and classics against its own step and the
 * lower bound; one percent more of each resource. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/report/plan/internal.h"
#include "launcher/report/svg/bars.h"
#include "planner/review/explain.h"

enum { MOST_ROWS = 24, MOST_TRIED = 64 /* ranks: of larger plans the search's own figures only */ };
/* Far more than it takes, so that the page does not depend on who else uses the machine. */
static const double classics_limit_s = 15;

struct alternatives {
    struct mt_page *page;
    const struct mt_plan *plan;
    struct mt_table *table;
    struct mt_bar *rows;
    int nrows;
};

static void add(struct alternatives *a, const char *what, const char *kind, double step_s, const char *why) {
    const struct mt_plan_prediction *f = a->plan->prediction;
    bool own = !strcmp(kind, "this plan");
    mt_table_row(a->table);
    mt_cell_text(a->table, "%s", what);
    mt_cell_text(a->table, "%s", kind);
    mt_cell_positive(a->table, step_s);
    if (own || !(step_s > 0))
        mt_cell_none(a->table);
    else
        mt_cell_real(a->table, step_s / f->step_s - 1);
    mt_cell_real(a->table, step_s > 0 ? step_s * (1 - f->error_below) : NAN);
    mt_cell_real(a->table, step_s > 0 ? step_s * (1 + f->error) : NAN);
    mt_cell_text(a->table, "%s", why);
    if (a->nrows == MOST_ROWS) return;
    struct mt_bar *bar = &a->rows[a->nrows++];
    const char *label = strcmp(kind, "classic") ? what : mt_arena_printf(&a->page->arena, "classic: %s", what);
    *bar = (struct mt_bar){.label = label, .text = why, .chosen = own};
    if (!(step_s > 0)) return;
    const char *time = mt_page_quantity(a->page, MT_UNIT_SECONDS, step_s);
    bar->text = own ? time : mt_arena_printf(&a->page->arena, "%s, %+.1f%%", time, 100 * (step_s / f->step_s - 1));
    bar->nparts = 1, bar->parts[0] = step_s;
    bar->low = step_s * (1 - f->error_below), bar->high = step_s * (1 + f->error);
}

struct candidate {
    const char *what, *kind, *why;
    double step_s; /* 0: not known; those come last */
};
static int by_step(const void *x, const void *y) {
    const struct candidate *a = x, *b = y;
    double first = a->step_s > 0 ? a->step_s : INFINITY, second = b->step_s > 0 ? b->step_s : INFINITY;
    if (first != second) return first < second ? -1 : 1;
    return strcmp(a->what, b->what);
}

/* The search names candidates of whole strategies, too: those that are among the classics are not listed twice. */
static bool is_classic(const struct mt_classics *classics, const char *what) {
    for (int i = 0; i < classics->count && !strncmp(what, "strategy ", 9); i++)
        if (!strcmp(classics->items[i].name, what + 9)) return true;
    return false;
}

static void add_all(struct alternatives *a, const struct mt_classics *classics) {
    const struct mt_plan_prediction *f = a->plan->prediction;
    struct candidate *list = mt_new(&a->page->arena, struct candidate, classics->count + f->nrejected + 1);
    int n = 0;
    for (int i = 0; i < classics->count; i++) {
        const struct mt_classic *c = &classics->items[i];
        list[n++] =
            (struct candidate){c->name, "classic", c->same ? "is this program" : c->why, c->fits ? c->step_s : 0};
    }
    for (int i = 0; i < f->nrejected; i++)
        if (!is_classic(classics, f->rejected[i].what))
            list[n++] = (struct candidate){f->rejected[i].what, "rejected", f->rejected[i].why, f->rejected[i].step_s};
    qsort(list, (size_t)n, sizeof *list, by_step);
    add(a, "this plan", "this plan", f->step_s, "");
    for (int i = 0; i < n; i++) add(a, list[i].what, list[i].kind, list[i].step_s, list[i].why);
}

static void report_steps(struct mt_page *page, const struct mt_plan *plan, const struct mt_classics *classics) {
    const struct mt_plan_prediction *f = plan->prediction;
    mt_page_heading(page, "Alternatives");
    mt_page_say(page,
                "Candidates that the search rejected%s. Bands are where nine of ten steps are expected; those of "
                "alternatives are taken as wide, relative to their step, as the plan's, since they rest on the same "
                "figures: differences are known better than either.",
                classics->count ? ", and the best plan of each classic strategy among the same ranks" : "");
    struct alternatives a = {.page = page, .plan = plan};
    a.table = mt_page_table(page, "alternatives", "Steps of this plan, of rejected candidates and of classics", "");
    a.rows = mt_new(&page->arena, struct mt_bar, MOST_ROWS);
    mt_table_column(a.table, "what", "what", MT_UNIT_TEXT);
    mt_table_column(a.table, "kind", "", MT_UNIT_TEXT);
    mt_table_column(a.table, "step_s", "step", MT_UNIT_SECONDS);
    mt_table_column(a.table, "against", "against this", MT_UNIT_CHANGE);
    mt_table_column(a.table, "least_s", "band from", MT_UNIT_SECONDS);
    mt_table_column(a.table, "most_s", "to", MT_UNIT_SECONDS);
    mt_table_column(a.table, "why", "why", MT_UNIT_TEXT);
    add_all(&a, classics);
    struct mt_bars bars = {.axis = {.title = "a step", .unit = MT_UNIT_SECONDS},
                           .dots = true,
                           .zero = true,
                           .nrows = a.nrows,
                           .rows = a.rows,
                           .most = 2.5 * f->step_s,
                           .mark = f->bound_s > 0 ? f->bound_s : NAN,
                           .mark_text = mt_arena_printf(&page->arena, "lower bound %s",
                                                        mt_page_quantity(page, MT_UNIT_SECONDS, f->bound_s))};
    mt_page_picture(page, "This plan and its alternatives",
                    "A dot with its band for the step of this plan and of each alternative; the "
                    "dashed line is the lower bound, which no plan can pass.",
                    mt_bars_draw, &bars);
}

static void report_binding(struct mt_page *page, const struct mt_bottlenecks *b) {
    int shown = 0;
    char text[MT_BOTTLENECK_TEXT];
    struct mt_bar *rows = mt_new(&page->arena, struct mt_bar, MOST_ROWS);
    mt_page_heading(page, "What binds");
    mt_page_say(page, "%s.", mt_bottlenecks_text(b, text));
    struct mt_table *t =
        mt_page_table(page, "binds", "Time saved by one percent more of each resource", "shares solved again");
    mt_table_columns(t, {"resource", "resource", MT_UNIT_TEXT}, {"saves_s", "saves a step", MT_UNIT_SECONDS},
                     {"part", "of the step", MT_UNIT_FRACTION});
    for (int i = 0; i < b->ntried && shown < MOST_ROWS; i++) {
        double saves_s = fmax(b->items[i].saves_s, 0);
        mt_table_row(t);
        mt_cell_text(t, "%s", b->items[i].what);
        mt_cell_real(t, saves_s);
        mt_cell_real(t, saves_s / b->base_s);
        rows[shown++] = (struct mt_bar){.label = b->items[i].what,
                                        .text = mt_page_quantity(page, MT_UNIT_SECONDS, saves_s),
                                        .nparts = 1,
                                        .parts = {saves_s}};
    }
    struct mt_bars bars = {
        .axis = {.title = "saved of a step", .unit = MT_UNIT_SECONDS}, .nrows = shown, .rows = rows, .mark = NAN};
    if (shown)
        mt_page_picture(page, "What binds",
                        "A bar for each resource that was tried: how much "
                        "shorter a step becomes by one percent more of it.",
                        mt_bars_draw, &bars);
}

enum mt_status mt_report_alternatives(struct mt_page *page, const struct mt_plan *plan,
                                      const struct mt_cluster *cluster, struct mt_err *err) {
    struct mt_classics classics = {0};
    struct mt_bottlenecks binding = {0};
    struct mt_planning planning;
    enum mt_status st = MT_OK;
    if (cluster && plan->nplaces <= MOST_TRIED &&
        !(st = mt_planning_open(cluster, plan->model, &plan->job, &planning, err))) {
        planning.search.limit_s = classics_limit_s;
        st = mt_classics_of(plan, &planning, classics_limit_s, &classics, err);
        mt_planning_close(&planning);
    }
    if (!st && cluster)
        st = mt_bottlenecks_of(cluster, plan, NULL,
                               plan->nplaces <= MOST_TRIED ? MT_BOTTLENECKS_FEW : MT_BOTTLENECKS_GLANCE, &binding, err);
    if (!st) report_steps(page, plan, &classics);
    if (!st && cluster && binding.ntried) report_binding(page, &binding);
    mt_classics_release(&classics);
    mt_bottlenecks_release(&binding);
    return st;
}
