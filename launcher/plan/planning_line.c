/* The line that says how far a search is. */
#include "launcher/plan/planning_line.h"

#include "kernels/base/text/units.h"
#include "kernels/base/wait.h"

static const double quiet_s = 1, pause_s = 0.2;

static void predicted(void *context, double step_s) {
    mt_planning_line_step(context, step_s, mt_now_s());
}

const struct mt_search_watch *mt_planning_line_begin(struct mt_planning_line *line, FILE *file, bool terminal,
                                                     double now_s) {
    *line = (struct mt_planning_line){.file = file, .terminal = terminal, .begin_s = now_s};
    line->watch = (struct mt_search_watch){predicted, line};
    return &line->watch;
}

void mt_planning_line_step(struct mt_planning_line *line, double step_s, double now_s) {
    char step[MT_UNITS_TEXT];
    line->nplans++;
    if (step_s > 0 && (!line->best_s || step_s < line->best_s)) line->best_s = step_s;
    if (!line->terminal || now_s - line->begin_s < quiet_s || (line->shown_s && now_s - line->shown_s < pause_s))
        return;
    fprintf(line->file, "\r\033[Kplanning for %.0f s: %d plans predicted", now_s - line->begin_s, line->nplans);
    if (line->best_s > 0) fprintf(line->file, ", the shortest step is %s", mt_units_seconds(line->best_s, step));
    fflush(line->file);
    line->shown_s = now_s;
}

void mt_planning_line_end(struct mt_planning_line *line) {
    if (line->shown_s) fprintf(line->file, "\r\033[K");
    if (line->shown_s) fflush(line->file);
    line->shown_s = 0;
}
