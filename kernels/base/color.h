/* Colours on terminals: sparing, for headings, warnings, errors and improvements.
 *
 *     mt_color_choose(MT_COLOR_AUTO);
 *     fprintf(stdout, "%s%s%s", mt_color_begin(stdout, MT_STYLE_WARNING), text, mt_color_end(stdout,
 * MT_STYLE_WARNING));
 *
 * AUTO: where the file is a terminal, NO_COLOR is not set or empty (no-color.org) and TERM is not "dumb". Standard
 * output of a rank under mpirun is a pseudo-terminal whatever mpirun's own output is: there AUTO means none. */
#ifndef MT_KERNELS_BASE_COLOR_H
#define MT_KERNELS_BASE_COLOR_H

#include <stdbool.h>
#include <stdio.h>

enum mt_color { MT_COLOR_AUTO, MT_COLOR_ALWAYS, MT_COLOR_NEVER };
extern const char *const mt_color_names[]; /* ends with null */

enum mt_style { MT_STYLE_PLAIN, MT_STYLE_HEADING, MT_STYLE_WARNING, MT_STYLE_ERROR, MT_STYLE_BETTER };

void mt_color_choose(enum mt_color color); /* for all files of the process */
bool mt_color_is_on(FILE *file);

/* Whether people watch the file as it is written: a terminal, which mpirun does not only feign. */
bool mt_is_terminal(FILE *file);

/* Columns of the terminal; 0 where the file is none, or it does not say. */
int mt_terminal_columns(FILE *file);

/* Escape sequences around a text; "" where colours are off or the style is plain. */
const char *mt_color_begin(FILE *file, enum mt_style style);
const char *mt_color_end(FILE *file, enum mt_style style);

#endif
