/* A plan for people and for machines: sentences and typed tables.
 *
 *     struct mt_tables doc = MT_TABLES_INIT;
 *     mt_plan_tables(plan, &doc);
 *     mt_tables_write(&doc, MT_TABLES_TEXT, stdout);
 *     mt_tables_release(&doc);
 *
 * Tables: "plan" and "prediction" (one row of figures each), "ranks", "idle", "times", "splits" (several, if there are
 * many splits), "rows", "collectives", "overlapped", "rejected". What a plan does not have is left out. */
#ifndef MT_PLANNER_PLAN_TABLES_H
#define MT_PLANNER_PLAN_TABLES_H

#include "kernels/base/table/table.h"
#include "planner/plan/plan.h"

void mt_plan_tables(const struct mt_plan *plan, struct mt_tables *out);

/* The predicted step, rate and bound, and who is idle; nothing without a prediction. */
void mt_plan_summary(const struct mt_plan *plan, struct mt_tables *out);

/* Only what follows the sentences. */
void mt_plan_add_tables(const struct mt_plan *plan, struct mt_tables *out);

#endif
