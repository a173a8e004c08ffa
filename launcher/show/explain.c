/* A plan explained: sentences, what its program does, the classics beside it, bottlenecks. */
#include <math.h>

#include "kernels/base/text/units.h"
#include "launcher/show/show.h"
#include "planner/review/explain.h"

enum { SHOWN_BOTTLENECKS = 6 };

static void say_step(const struct mt_explained *e, FILE *file) {
    const struct mt_plan *p = e->plan;
    const struct mt_plan_prediction *f = p->prediction;
    char step[MT_UNITS_TEXT], rate[MT_UNITS_TEXT], bound[MT_UNITS_TEXT];
    fprintf(file, "A step is predicted to take %s (-%.0f%% +%.0f%%), which is %s tokens a second.",
            mt_units_seconds(f->step_s, step), 100 * f->error_below, 100 * f->error,
            mt_units_count((double)(p->job.batch * p->job.seq) / f->step_s, rate));
    if (f->nominal) fprintf(file, " Some figures are public, not measured.");
    fputc('\n', file);
    if (f->bound_s > 0)
        fprintf(file, "The lower bound is %s, so that the gap is at most %.1f%%: %s is faster.\n",
                mt_units_seconds(f->bound_s, bound), 100 * (f->step_s / f->bound_s - 1), mt_plan_bound_space(p));
    else
        fprintf(file, "There is no lower bound: the devices' rates are not known, and the shares "
                      "stay as they are.\n");
}

static void say_longest(const struct mt_explained *e, FILE *file) {
    const struct mt_plan *p = e->plan;
    const struct mt_plan_time *t = &p->prediction->times[e->longest];
    char compute[MT_UNITS_TEXT], exposed[MT_UNITS_TEXT];
    double idle = 0, step_s = p->prediction->step_s;
    for (int i = 0; i < p->nplaces; i++) idle += p->prediction->times[p->order[i]].idle_s;
    fprintf(file, "Rank %d (%s on %s) %s: it computes for %s (%.0f%%)", e->longest, p->ranks[e->longest].class,
            p->ranks[e->longest].host, p->nplaces > 1 ? "is the one that the others wait for" : "takes part alone",
            mt_units_seconds(t->compute_s, compute), 100 * t->compute_s / step_s);
    if (p->nplaces == 1) {
        fprintf(file, ".\n");
        return;
    }
    fprintf(file, " and communicates for %s (%.0f%%) that computation does not hide.",
            mt_units_seconds(t->exposed_s, exposed), 100 * t->exposed_s / step_s);
    fprintf(file, " On average ranks idle %.0f%% of the step.\n", 100 * idle / p->nplaces / step_s);
}

static void say_bottleneck(const struct mt_explained *e, FILE *file) {
    char text[MT_BOTTLENECK_TEXT];
    const struct mt_bottlenecks *b = &e->bottlenecks;
    fprintf(file, "The bottleneck is %s.\n", mt_bottlenecks_text(b, text));
}

static void say_best(const struct mt_explained *e, FILE *file) {
    char step[MT_UNITS_TEXT];
    double own_s = e->plan->prediction->step_s;
    if (e->base_s < own_s * 0.995)
        fprintf(file, "Other shares alone would gain %.1f%% (%s): make the plan again with `motley plan`.\n",
                100 * (own_s / e->base_s - 1), mt_units_seconds(e->base_s, step));
    if (!e->nrows) return;
    const struct mt_explained_row *best = &e->rows[0];
    if (best->step_s < e->base_s * 0.999)
        fprintf(file, "Of all that was tried, %s helps most: %s a step, %.1f%% faster.\n", best->what,
                mt_units_seconds(best->step_s, step), 100 * (e->base_s / best->step_s - 1));
    else
        fprintf(file, "Nothing that was tried helps on its own.\n");
}

/* "zero1: 12.0% slower (3.15 ms): sums of gradients over net take 1.20 ms more". */
static void say_classic(const struct mt_explained *e, const struct mt_classic *c, FILE *file) {
    double own_s = e->plan->prediction->step_s, factor = c->step_s / own_s;
    char step[MT_UNITS_TEXT];
    if (!c->fits) {
        fprintf(file, "%s: does not fit: %s", c->name, c->why);
        return;
    }
    fprintf(file, "%s: ", c->name);
    if (c->same)
        fprintf(file, "is this program");
    else if (fabs(factor - 1) < 5e-4)
        fprintf(file, "as fast (%s)", mt_units_seconds(c->step_s, step));
    else if (factor < 1.995)
        fprintf(file, "%.1f%% %s (%s): %s", 100 * fabs(factor - 1), factor > 1 ? "slower" : "faster",
                mt_units_seconds(c->step_s, step), c->why);
    else
        fprintf(file, "%.1f times as long (%s): %s", factor, mt_units_seconds(c->step_s, step), c->why);
}

static void add_classics(const struct mt_explained *e, struct mt_tables *out) {
    const struct mt_classics *all = &e->classics;
    if (!all->count) return;
    mt_tables_say(out, "%s", "");
    mt_tables_say_styled(out, MT_STYLE_HEADING, "beside the classics among these ranks, with the same buckets");
    FILE *file = mt_tables_say_begin(out);
    for (int i = 0; i < all->count; i++) {
        fprintf(file, "  ");
        say_classic(e, &all->items[i], file);
        fputc('\n', file);
    }
    mt_tables_say_end(out);
    struct mt_table *t = mt_tables_add(out, "classics", "classics among these ranks, with the same buckets", "");
    t->machines_only = true;
    mt_table_columns(t, {"strategy", "strategy", MT_UNIT_TEXT}, {"step_s", "step", MT_UNIT_SECONDS},
                     {"against", "against this", MT_UNIT_CHANGE}, {"same", "", MT_UNIT_TEXT},
                     {"why", "why", MT_UNIT_TEXT});
    for (int i = 0; i < all->count; i++) {
        const struct mt_classic *c = &all->items[i];
        mt_table_row(t);
        mt_cell_text(t, "%s", c->name);
        mt_cell_real(t, c->fits ? c->step_s : NAN);
        mt_cell_real(t, c->fits ? c->step_s / e->plan->prediction->step_s - 1 : NAN);
        mt_cell_text(t, "%s", c->fits && c->same ? "this program" : "");
        mt_cell_text(t, "%s", c->why ? c->why : "");
    }
}

static void add_bottlenecks(const struct mt_explained *e, struct mt_tables *out) {
    const struct mt_bottlenecks *b = &e->bottlenecks;
    int saving = 0;
    while (saving < b->ntried && b->items[saving].saves_s > 0) saving++;
    if (!saving) return;
    struct mt_table *t = mt_tables_add(out, "bottlenecks", "bottlenecks",
                                       mt_arena_printf(&out->arena,
                                                       "time saved by one percent more of each, shares solved again; "
                                                       "of %d resources, %d were tried",
                                                       b->count, b->ntried));
    t->bare = true;
    t->shown = SHOWN_BOTTLENECKS;
    mt_table_column(t, "what", "what", MT_UNIT_TEXT);
    mt_table_column(t, "saves_s", "saves", MT_UNIT_SECONDS);
    mt_table_column(t, "saves_part", "of the step", MT_UNIT_FRACTION)->decimals = 2;
    for (int i = 0; i < saving; i++) {
        mt_table_row(t);
        mt_cell_text(t, "%s", b->items[i].what);
        mt_cell_real(t, b->items[i].saves_s);
        mt_cell_real(t, b->items[i].saves_s / b->base_s);
    }
}

static void add_rows(const struct mt_explained *e, struct mt_tables *out) {
    struct mt_table *t = mt_tables_add(out, "relaxed", "solved again with more of one resource", "");
    mt_table_columns(t, {"what", "", MT_UNIT_TEXT}, {"step_s", "step", MT_UNIT_SECONDS},
                     {"gain", "gain", MT_UNIT_FRACTION});
    mt_table_row(t);
    mt_cell_text(t, "nothing more, shares solved again");
    mt_cell_real(t, e->base_s);
    for (int i = 0; i < e->nrows; i++) {
        mt_table_row(t);
        mt_cell_text(t, "%s", e->rows[i].what);
        mt_cell_real(t, e->rows[i].step_s);
        mt_cell_real(t, e->base_s / e->rows[i].step_s - 1);
        if (e->rows[i].step_s < 0.995 * e->base_s) mt_cell_style(t, MT_STYLE_BETTER);
    }
}

void mt_explained_tables(const struct mt_explained *explained, const struct mt_planned *planned,
                         struct mt_tables *out) {
    static void (*const sentences[])(const struct mt_explained *, FILE *) = {say_step, say_longest, say_bottleneck,
                                                                             say_best};
    static void (*const tables[])(const struct mt_explained *, struct mt_tables *) = {add_classics, add_bottlenecks,
                                                                                      add_rows};
    FILE *file = mt_tables_say_begin(out);
    for (size_t i = 0; i < sizeof sentences / sizeof *sentences; i++) sentences[i](explained, file);
    mt_tables_say_end(out);
    mt_told_tables(planned, out);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) tables[i](explained, out);
}
