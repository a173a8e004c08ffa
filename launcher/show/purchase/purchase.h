/* A purchase as tables: what may be bought, jobs, configurations, and what further sums buy. */
#ifndef MT_LAUNCHER_SHOW_PURCHASE_H
#define MT_LAUNCHER_SHOW_PURCHASE_H

#include "kernels/base/table/table.h"
#include "planner/buy/document/purchase.h"

/* Adds the tables "catalogue", "jobs", "configurations", "job_times" and "next". */
void mt_purchase_tables(const struct mt_purchase *purchase, struct mt_tables *out);

#endif
