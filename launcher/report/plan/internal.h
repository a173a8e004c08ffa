/* The parts of a plan's report. */
#ifndef MT_LAUNCHER_REPORT_PLAN_INTERNAL_H
#define MT_LAUNCHER_REPORT_PLAN_INTERNAL_H

#include "launcher/report/internal.h"
#include "launcher/report/plan/spans.h"
#include "planner/plan/planned.h"

/* Ranks that a plan treats alike: of one class, with equal shares, parts of parameters and memory. */
struct mt_report_kind {
    int nranks, *ranks;
    bool idle;
    const char *name; /* "ranks 0-1, a100-40" */
};
struct mt_report_kinds {
    const struct mt_plan *plan;
    const struct mt_planned *planned;
    const int *place; /* [nranks] */
    int n;
    struct mt_report_kind *items;
};
void mt_report_kinds_find(const struct mt_plan *plan, const struct mt_planned *planned, struct mt_arena *arena,
                          struct mt_report_kinds *kinds);
/* Columns and cells of a table that name a kind: in words for people, as a list for machines. */
void mt_report_kind_columns(struct mt_table *table);
void mt_report_kind_cells(const struct mt_report_kind *kind, struct mt_table *table);
/* The part of a parameter that a rank stores; an idle one nothing. */
double mt_report_stored(const struct mt_report_kinds *kinds, int gvalue, int rank);

void mt_report_holders(struct mt_page *page, const struct mt_report_kinds *kinds);
void mt_report_memory(struct mt_page *page, const struct mt_report_kinds *kinds);
/* The timeline of a step and its memory. */
void mt_report_timeline(struct mt_page *page, const struct mt_report_kinds *kinds, const struct mt_timeline *timeline);
void mt_report_live(struct mt_page *page, const struct mt_report_kinds *kinds, const struct mt_timeline *timeline,
                    const char *const *names);
/* What was rejected, what the classics take, and, on the cluster, what binds. */
enum mt_status mt_report_alternatives(struct mt_page *page, const struct mt_plan *plan,
                                      const struct mt_cluster *cluster, struct mt_err *err);

#endif
