/* How far long work is: one line on stderr, rewritten in place, from its second second on; only where people watch
 * (mt_is_terminal). It goes away before anything else is printed and when the work ends.
 *
 *     mt_working_begin("verifying");
 *     for (int r = 0; r < n; r++) {
 *         mt_working(r, n, "rank %d", r);          // "verifying: 25%, 12 s left; rank 4"
 *         ...
 *     }
 *     mt_working_end();
 *
 * Where the whole is not known, it is 0: "planning for 3 s; 120 plans". Work within work is a part of it: only the
 * outermost counts, and lines of the inner ones stand after its own. Any thread may call. */
#ifndef MT_KERNELS_BASE_WORKING_H
#define MT_KERNELS_BASE_WORKING_H

#include <stdbool.h>
#include <stdio.h>

void mt_working_begin(const char *what);
void mt_working(double done, double whole, const char *format, ...) __attribute__((format(printf, 3, 4)));
void mt_working_end(void);

/* Erase the line, if there is one, before other output; the next mt_working draws it again. */
void mt_working_clear(void);

/* Rewrite the line with the text of one who tells progress in other words, as the steps of training: this line stays,
 * and is ended before other output. All lines are cut to the terminal's width: a longer one could not be rewritten. */
void mt_working_line(const char *text);

/* For tests: another file, watched or not, and another clock; all null: as before. */
void mt_working_use(FILE *file, bool watched, double (*now_s)(void));

#endif
