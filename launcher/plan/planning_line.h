/* The progress of searches: how many plans were predicted, and the best so far.
 *
 *     struct mt_planning_line line;
 *     mt_progress_begin("planning");
 *     request.watch = mt_planning_line_begin(&line, limit_s);
 *     ... mt_plan_fastest ...
 *     mt_progress_end(); */
#ifndef MT_LAUNCHER_PLAN_PLANNING_LINE_H
#define MT_LAUNCHER_PLAN_PLANNING_LINE_H

#include "planner/search/search.h"

struct mt_planning_line {
    struct mt_search_watch watch; /* its context is the line: do not move it */
    int nplans;                   /* predicted so far */
    double begin_s, limit_s;      /* after limit_s, if above 0, the search ends with its best */
    double best_s;                /* of the search that runs, or 0 */
};

/* Returns what a search is to be given, which is in the line. limit_s: when the search ends at the latest; 0: not told,
 * as there are several. */
const struct mt_search_watch *mt_planning_line_begin(struct mt_planning_line *line, double limit_s);

#endif
