/* The progress line of rank 0: rewritten in place on a terminal, else a line every so many steps. */
#ifndef MT_LAUNCHER_TRAIN_PROGRESS_H
#define MT_LAUNCHER_TRAIN_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct mt_progress {
    bool quiet, terminal, open; /* open: a line without its end stands on the terminal */
    int64_t every, last_step;
    double shown_s; /* when a line was last written */
    int64_t steps;  /* since then */
    double busy_s;
    double all_s; /* in all steps so far */
    int64_t all_steps;
    double predicted_s; /* of a step, by the plan; 0: not said. To be set after mt_progress_init */
};

/* quiet: nothing is ever written (ranks but 0). */
void mt_progress_init(struct mt_progress *progress, bool quiet, int64_t every, int64_t last_step);
/* After a step that took step_s. */
void mt_progress_step(struct mt_progress *progress, int64_t step, double loss, double lr, int64_t tokens,
                      double step_s);
/* A line of its own, above the progress line. */
void mt_progress_say(struct mt_progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mt_progress_end(struct mt_progress *progress);

#endif
