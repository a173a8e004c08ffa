/* The line that says how far a search is: on a terminal, from its second second on, rewritten in place on stderr.
 *
 *     struct mt_planning_line line;
 *     request.watch = mt_planning_line_begin(&line, stderr, isatty(STDERR_FILENO), mt_now_s());
 *     ... mt_plan_fastest ...
 *     mt_planning_line_end(&line); */
#ifndef MT_LAUNCHER_PLAN_PLANNING_LINE_H
#define MT_LAUNCHER_PLAN_PLANNING_LINE_H

#include <stdio.h>

#include "planner/search/search.h"

struct mt_planning_line {
    struct mt_search_watch watch; /* its context is the line: do not move it */
    FILE *file;
    bool terminal;
    double begin_s, shown_s; /* of mt_now_s; shown_s: 0 if nothing was */
    int nplans;              /* predicted so far */
    double best_s;           /* of the search that runs, or 0 */
};

/* Begins at now_s. Returns what a search is to be given, which is in the line. */
const struct mt_search_watch *mt_planning_line_begin(struct mt_planning_line *line, FILE *file, bool terminal,
                                                     double now_s);
/* A plan has been predicted; its step, 0: it does not fit. Called by the search. */
void mt_planning_line_step(struct mt_planning_line *line, double step_s, double now_s);
/* Remove the line. */
void mt_planning_line_end(struct mt_planning_line *line);

#endif
