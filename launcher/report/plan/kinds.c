/* Ranks that a plan treats alike. */
#include <math.h>
#include <string.h>

#include "kernels/base/text/ranks.h"
#include "launcher/report/plan/internal.h"

/* The program value that a state is fed as, or -1. */
static int fed(const struct mt_program *program, int gvalue) {
    for (int v = 0; v < program->nvalues; v++)
        if (program->values[v].input && program->values[v].gvalue == gvalue) return v;
    return -1;
}

double mt_report_stored(const struct mt_report_kinds *k, int gvalue, int rank) {
    const struct mt_program *program = &k->planned->program;
    const struct mt_value *value = &k->planned->graph->values[gvalue];
    int v = fed(program, gvalue), place = k->place[rank];
    double whole = 1;
    if (v < 0 || place < 0) return 0;
    for (int a = 0; a < value->naxes; a++) whole *= (double)mt_value_extent(k->planned->graph, gvalue, a);
    return (double)mt_box_count(mt_pvalue_box(program, v, place), value->naxes) / whole;
}

/* As people see them: a storage axis that is not a multiple of the ranks gives some of them one row more. */
static bool near(double a, double b) {
    return fabs(a - b) <= 1e-3 * fmax(fabs(a), fabs(b));
}

static bool near_memory(const struct mt_plan_memory *a, const struct mt_plan_memory *b) {
    return near((double)a->state_bytes, (double)b->state_bytes) &&
           near((double)a->arena_bytes, (double)b->arena_bytes) &&
           near((double)a->communicator_bytes, (double)b->communicator_bytes);
}

static bool alike(const struct mt_report_kinds *k, int a, int b) {
    const struct mt_plan *p = k->plan;
    const struct mt_plan_rank *x = &p->ranks[a], *y = &p->ranks[b];
    if ((k->place[a] < 0) != (k->place[b] < 0) || strcmp(x->class, y->class) != 0 || x->speed != y->speed ||
        x->memory_bytes != y->memory_bytes || p->micro[a] != p->micro[b] || !near_memory(&p->memory[a], &p->memory[b]))
        return false;
    for (int s = 0; s < p->nsplits; s++) /* parameters are compared as they are stored */
        if (strncmp(p->splits[s].name, "storage:", 8) != 0 &&
            !near((double)p->splits[s].sizes[a], (double)p->splits[s].sizes[b]))
            return false;
    const struct mt_graph *graph = k->planned->graph;
    for (int v = 0; v < graph->nvalues; v++)
        if (graph->values[v].param && !near(mt_report_stored(k, v, a), mt_report_stored(k, v, b))) return false;
    return true;
}

static void name_kind(const struct mt_report_kinds *k, struct mt_report_kind *kind, struct mt_arena *arena) {
    const char *list = mt_ranks_text(kind->ranks, kind->nranks, MT_RANKS_NAME, arena);
    const char *class = k->plan->ranks[kind->ranks[0]].class;
    kind->name = mt_arena_printf(arena, "%s %s%s%s%s", kind->nranks == 1 ? "rank" : "ranks", list, class[0] ? ", " : "",
                                 class, kind->idle ? ", idle" : "");
}

void mt_report_kinds_find(const struct mt_plan *plan, const struct mt_planned *planned, struct mt_arena *arena,
                          struct mt_report_kinds *k) {
    *k = (struct mt_report_kinds){.plan = plan, .planned = planned, .place = mt_plan_places(plan, arena)};
    k->items = mt_new(arena, struct mt_report_kind, plan->nranks);
    int *kind_of = mt_new(arena, int, plan->nranks);
    for (int r = 0; r < plan->nranks; r++) {
        int i = 0;
        while (i < k->n && !alike(k, k->items[i].ranks[0], r)) i++;
        if (i == k->n) {
            k->items[k->n++] = (struct mt_report_kind){.idle = k->place[r] < 0, .ranks = mt_new(arena, int, 1)};
            k->items[i].ranks[0] = r;
        }
        kind_of[r] = i;
        k->items[i].nranks++;
    }
    for (int i = 0; i < k->n; i++) {
        k->items[i].ranks = mt_new(arena, int, k->items[i].nranks);
        k->items[i].nranks = 0;
    }
    for (int r = 0; r < plan->nranks; r++) {
        struct mt_report_kind *kind = &k->items[kind_of[r]];
        kind->ranks[kind->nranks++] = r;
    }
    for (int i = 0; i < k->n; i++) name_kind(k, &k->items[i], arena);
}

void mt_report_kind_columns(struct mt_table *table) {
    mt_table_column(table, "who", "ranks", MT_UNIT_TEXT);
    mt_table_column(table, "ranks", "ranks", MT_UNIT_RANKS)->machines_only = true;
}

void mt_report_kind_cells(const struct mt_report_kind *kind, struct mt_table *table) {
    mt_cell_text(table, "%s", kind->name);
    mt_cell_ranks(table, kind->ranks, kind->nranks);
}
