/* The progress line of rank 0: rewritten in place on a terminal, else one line every `every` steps. */
#ifndef MT_LAUNCHER_TRAIN_PROGRESS_H
#define MT_LAUNCHER_TRAIN_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct mt_progress {
    bool quiet, terminal, open; /* open: an unfinished line is on the terminal */
    int64_t every, last_step;
    double shown_s; /* when a line was last written */
    int64_t steps;  /* since then */
    double busy_s;
    double all_s; /* in all steps so far */
    int64_t all_steps;
    double predicted_s; /* step time by the plan; 0: none. Set it after mt_progress_init */
};

/* quiet: write nothing (ranks other than 0). */
void mt_progress_init(struct mt_progress *progress, bool quiet, int64_t every, int64_t last_step);
/* After a step that took step_s. */
void mt_progress_step(struct mt_progress *progress, int64_t step, double loss, double lr, int64_t tokens,
                      double step_s);
/* Print a separate line, above the progress line. */
void mt_progress_say(struct mt_progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mt_progress_end(struct mt_progress *progress);

#endif
