/* The bottlenecks of a plan, as sentences and tables. */

#include "kernels/base/text/table.h"
#include "kernels/base/text/units.h"
#include "launcher/show/show.h"
#include "planner/review/explain.h"

enum { SHOWN_BOTTLENECKS = 6 };

static void say_step(const struct mt_explained *e, FILE *file) {
    const struct mt_plan *p = e->plan;
    const struct mt_plan_prediction *f = p->prediction;
    char step[MT_UNITS_TEXT], rate[MT_UNITS_TEXT], bound[MT_UNITS_TEXT];
    fprintf(file, "A step is predicted to take %s (give or take %.0f%%), which is %s tokens a second.",
            mt_units_seconds(f->step_s, step), 100 * f->error,
            mt_units_count((double)(p->job.batch * p->job.seq) / f->step_s, rate));
    if (f->nominal) fprintf(file, " Some figures are public, not measured.");
    fputc('\n', file);
    if (f->bound_s > f->step_s / 2)
        fprintf(file,
                "With the same sharding and collectives, no shares can be faster than %s: the optimality gap is at "
                "most %.1f%%.\n",
                mt_units_seconds(f->bound_s, bound), 100 * (f->step_s / f->bound_s - 1));
    else if (f->bound_s == 0)
        fprintf(file,
                "There is no lower bound: rules split operators by splits other than \"batch\", and the shares stay as "
                "they are.\n");
    else
        fprintf(file, "The lower bound for all shares, %s, is too low to tell the optimality gap.\n",
                mt_units_seconds(f->bound_s, bound));
}

static void say_longest(const struct mt_explained *e, FILE *file) {
    const struct mt_plan *p = e->plan;
    const struct mt_plan_time *t = &p->prediction->times[e->longest];
    char compute[MT_UNITS_TEXT], exposed[MT_UNITS_TEXT];
    double idle = 0, step_s = p->prediction->step_s;
    for (int r = 0; r < p->nranks; r++) idle += p->prediction->times[r].idle_s;
    fprintf(file, "Rank %d (%s on %s) is the one that the others wait for: it computes for %s (%.0f%%)", e->longest,
            p->ranks[e->longest].class, p->ranks[e->longest].host, mt_units_seconds(t->compute_s, compute),
            100 * t->compute_s / step_s);
    fprintf(file, " and communicates for %s (%.0f%%) that computation does not hide.",
            mt_units_seconds(t->exposed_s, exposed), 100 * t->exposed_s / step_s);
    fprintf(file, " On average ranks idle %.0f%% of the step.\n", 100 * idle / p->nplaces / step_s);
}

static void say_bottleneck(const struct mt_explained *e, FILE *file) {
    char saves[MT_UNITS_TEXT];
    if (!e->report.nbindings && e->plan->prediction->bound_s == 0) return;
    if (!e->report.nbindings) {
        fprintf(file, "No single resource is the bottleneck: a little more of any one does not shorten the step.\n");
        return;
    }
    const struct mt_search_binding *b = &e->report.bindings[0];
    fprintf(file, "The bottleneck is %s: one percent more of it saves %s a step.\n", b->what,
            mt_units_seconds(b->saves_s, saves));
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

static void print_bottlenecks(const struct mt_explained *e, FILE *file) {
    static const char *const kinds[] = {
        [MT_BINDS_COMPUTE] = "computing", [MT_BINDS_COMM] = "communication", [MT_BINDS_MEMORY] = "memory"};
    struct mt_table table = MT_TABLE_INIT;
    char saves[MT_UNITS_TEXT];
    if (!e->report.nbindings) return;
    fprintf(file, "\nbottlenecks (time saved by one percent more of each)\n");
    for (int i = 0; i < e->report.nbindings && i < SHOWN_BOTTLENECKS; i++) {
        const struct mt_search_binding *b = &e->report.bindings[i];
        mt_table_row(&table);
        mt_table_cell(&table, "%s", kinds[b->kind]);
        mt_table_cell(&table, "%s", b->what);
        mt_table_cell(&table, "%s", mt_units_seconds(b->saves_s, saves));
    }
    mt_table_print(&table, 2, file);
}

static void print_rows(const struct mt_explained *e, FILE *file) {
    struct mt_table table = MT_TABLE_INIT;
    char step[MT_UNITS_TEXT];
    fprintf(file, "\nsolved again with more of one resource\n");
    mt_table_header(&table, "", ">step", ">gain", NULL);
    mt_table_row(&table);
    mt_table_cell(&table, "nothing more, shares solved again");
    mt_table_cell(&table, "%s", mt_units_seconds(e->base_s, step));
    for (int i = 0; i < e->nrows; i++) {
        mt_table_row(&table);
        mt_table_cell(&table, "%s", e->rows[i].what);
        mt_table_cell(&table, "%s", mt_units_seconds(e->rows[i].step_s, step));
        mt_table_cell(&table, "%.1f%%", 100 * (e->base_s / e->rows[i].step_s - 1));
    }
    mt_table_print(&table, 2, file);
}

void mt_explained_print(const struct mt_explained *explained, FILE *file) {
    static void (*const sections[])(const struct mt_explained *, FILE *) = {say_step, say_longest,       say_bottleneck,
                                                                            say_best, print_bottlenecks, print_rows};
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) sections[i](explained, file);
}
