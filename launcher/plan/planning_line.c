/* Searches report each plan that they predict; a line of progress (kernels/base/working.h) says how many. */
#include "launcher/plan/planning_line.h"

#include "kernels/base/working.h"
#include "kernels/base/text/units.h"
#include "kernels/base/wait.h"

static void predicted(void *context, double step_s) {
    struct mt_planning_line *line = context;
    char best[MT_UNITS_TEXT], left[64] = "";
    line->nplans++;
    if (step_s > 0 && (!line->best_s || step_s < line->best_s)) line->best_s = step_s;
    double left_s = line->begin_s + line->limit_s - mt_now_s();
    if (line->limit_s > 0) snprintf(left, sizeof left, ", at most %.0f s left", left_s > 0 ? left_s : 0);
    if (line->best_s > 0)
        mt_working(0, 0, "%d plan%s predicted, the shortest step is %s%s", line->nplans, line->nplans == 1 ? "" : "s",
                   mt_units_seconds(line->best_s, best), left);
    else
        mt_working(0, 0, "%d plan%s predicted%s", line->nplans, line->nplans == 1 ? "" : "s", left);
}

const struct mt_search_watch *mt_planning_line_begin(struct mt_planning_line *line, double limit_s) {
    *line = (struct mt_planning_line){.begin_s = mt_now_s(), .limit_s = limit_s};
    line->watch = (struct mt_search_watch){predicted, line};
    return &line->watch;
}
