/* Standard error tells whether there is a terminal: mpirun gives ranks a pseudo-terminal as standard output, wherever
 * the output goes. */
#include "launcher/train/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "kernels/base/text/units.h"
#include "kernels/base/wait.h"
#include "kernels/base/working.h"

#define REWRITE_EVERY_S 0.1
enum { UNSTEADY_STEPS = 2 };

void mt_progress_init(struct mt_progress *p, bool quiet, int64_t every, int64_t last_step) {
    *p = (struct mt_progress){
        .quiet = quiet, .terminal = isatty(STDERR_FILENO), .every = every, .last_step = last_step, .shown_s = 0};
}

static void duration(double s, char *out, size_t size) {
    long long t = (long long)(s + 0.5);
    if (t >= 3600)
        snprintf(out, size, "%lld:%02lld:%02lld", t / 3600, t / 60 % 60, t % 60);
    else
        snprintf(out, size, "%lld:%02lld", t / 60, t % 60);
}

/* "  212 ms a step, predicted 208 ms (+2%)", after the first steps, which take longer. */
static void predicted_text(const struct mt_progress *p, char *text, size_t size) {
    char measured[MT_UNITS_TEXT], predicted[MT_UNITS_TEXT];
    *text = 0;
    if (p->predicted_s <= 0 || p->all_steps - p->steps < UNSTEADY_STEPS) return;
    double step_s = p->busy_s / (double)p->steps;
    snprintf(text, size, "  %s a step, predicted %s (%+.0f%%)", mt_units_seconds(step_s, measured),
             mt_units_seconds(p->predicted_s, predicted), 100 * (step_s / p->predicted_s - 1));
}

void mt_progress_step(struct mt_progress *p, int64_t step, double loss, double lr, int64_t tokens, double step_s) {
    p->steps++, p->all_steps++;
    p->busy_s += step_s, p->all_s += step_s;
    bool last = step == p->last_step;
    bool due = p->terminal ? mt_now_s() - p->shown_s >= REWRITE_EVERY_S : step % p->every == 0;
    if (p->quiet || !(due || last)) return;
    char rate[MT_UNITS_TEXT], left[32], predicted[128], line[320];
    mt_units_count((double)(tokens * p->steps) / (p->busy_s > 0 ? p->busy_s : 1e-9), rate);
    duration((double)(p->last_step - step) * p->all_s / (double)p->all_steps, left, sizeof left);
    predicted_text(p, predicted, sizeof predicted);
    snprintf(line, sizeof line, "step %lld/%lld  loss %.4f  lr %.3g  %s tokens/s%s  ETA %s", (long long)step,
             (long long)p->last_step, loss, lr, rate, predicted, left);
    if (p->terminal)
        mt_working_line(line);
    else
        fprintf(stderr, "%s\n", line);
    p->open = p->terminal;
    p->shown_s = mt_now_s();
    p->steps = 0;
    p->busy_s = 0;
}

void mt_progress_end(struct mt_progress *p) {
    if (p->open) mt_working_clear();
    p->open = false;
}

void mt_progress_say(struct mt_progress *p, const char *format, ...) {
    if (p->quiet) return;
    mt_progress_end(p);
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}
