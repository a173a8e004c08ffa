/* A plan as tables. */
#include "launcher/show/show.h"
#include "planner/plan/tables.h"

enum mt_status mt_show_plan(const char *path, struct mt_tables *out, bool *outliers, struct mt_err *err) {
    (void)outliers;
    struct mt_plan *plan;
    enum mt_status st = mt_plan_read(path, &plan, err);
    if (st) return st;
    mt_plan_tables(plan, out);
    mt_plan_free(plan);
    return MT_OK;
}
