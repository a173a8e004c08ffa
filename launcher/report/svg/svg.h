/* Pictures as SVG inside of an HTML page: elements (svg.h), scales and axes (axis.h), and a file for each kind of
 * picture (chart.h, bars.h, lanes.h, matrix.h, network.h).
 *
 *     struct mt_svg svg = {file, "memory-wide", "Memory over time", "The live bytes of each class ...", 900, 300};
 *     mt_svg_open(&svg);
 *     mt_svg_rect(&svg, (struct mt_box2){0, 0, 10, 20}, "s1", "h.0.mlp: 1.2 ms");
 *     mt_svg_close(&svg);
 *
 * A picture has role="img", a title and a description, which name it for those who do not see it. Colours are classes
 * of the page's style (page/style.h): s0 to s5 are series, q0 to q4 steps of a quantity. All text is escaped. Lengths
 * are pixels of the picture as it is at its own width; it is drawn twice, for wide and for narrow pages. */
#ifndef MT_LAUNCHER_REPORT_SVG_SVG_H
#define MT_LAUNCHER_REPORT_SVG_SVG_H

#include <stdbool.h>
#include <stdio.h>

#define MT_SVG_SERIES 6
#define MT_SVG_STEPS 5
#define MT_SVG_LINE 16 /* between lines of text */

struct mt_svg {
    FILE *file;
    const char *id; /* unique in the page */
    const char *title, *description;
    double width, height;
};
struct mt_box2 {
    double x, y, width, height;
};
enum mt_anchor { MT_ANCHOR_START, MT_ANCHOR_MIDDLE, MT_ANCHOR_END };

/* A text in HTML or SVG, as content or attribute: & < > " ' are escaped; control characters and bytes that are no UTF-8
 * become U+FFFD. */
void mt_html_text(FILE *file, const char *text);

void mt_svg_open(const struct mt_svg *svg);
void mt_svg_close(const struct mt_svg *svg);

/* `class` may be null; `tip` (what a pointer that rests there shows), too. */
void mt_svg_rect(const struct mt_svg *svg, struct mt_box2 box, const char *class, const char *tip);
void mt_svg_line(const struct mt_svg *svg, double x1, double y1, double x2, double y2, const char *class);
void mt_svg_dot(const struct mt_svg *svg, double x, double y, double radius, const char *class, const char *tip);
/* Through n points; NaN in y begins anew. `step`: horizontal, then vertical. */
void mt_svg_path(const struct mt_svg *svg, const double *x, const double *y, int n, bool step, const char *class);
/* The area between two lines over x. */
void mt_svg_area(const struct mt_svg *svg, const double *x, const double *low, const double *high, int n,
                 const char *class);
/* Of class "halo" it covers what is behind it. */
void mt_svg_text(const struct mt_svg *svg, double x, double y, enum mt_anchor anchor, const char *class,
                 const char *format, ...) __attribute__((format(printf, 6, 7)));

/* How wide a text is, about, in the pictures' font; and the text cut to a width, with an ellipsis, in `out`. */
double mt_svg_text_width(const char *text);
char *mt_svg_cut(const char *text, double width, char *out, size_t size);

/* Whether it is drawn for a wide page: labels have room beside what they name. */
static inline bool mt_svg_wide(const struct mt_svg *svg) {
    return svg->width > 600;
}

/* Names of series, in a row that is broken where it ends; returns the height that it takes. With a null svg->file
 * nothing is drawn. */
struct mt_legend {
    const char *class, *name;
};
double mt_svg_legend(const struct mt_svg *svg, double y, const struct mt_legend *items, int count);

#endif
