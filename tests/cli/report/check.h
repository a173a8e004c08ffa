/* What the checks of a report's kinds of documents share (check.c), and the checks: each compares the page's pictures
 * and tables with the document, and calls `differ` for what does not agree. */
#ifndef MT_TESTS_CLI_REPORT_CHECK_H
#define MT_TESTS_CLI_REPORT_CHECK_H

#include <jansson.h>

#include "tests/cli/report/page.h"

enum { MOST_POINTS = 512 };

extern const char *page;
extern int differences;
extern bool quiet; /* differences are counted, and not told */

void differ(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Equal within a part of the larger, or within `slack`. */
void same(const char *what, double got, double want, double part, double slack);

double real_at(const json_t *object, const char *key); /* NaN: it has none */
const char *text_at(const json_t *object, const char *key);
const json_t *named(const json_t *list, const char *name); /* the item of that name, or null */

/* The caller frees its elements; empty if there is none, which differs. */
struct picture picture_of(const char *id);
double pixel_of(const struct scale *s); /* what a pixel stands for */

/* "ranks 0-1 8, h100": the first rank, and how many. */
int first_rank(const char *label, int *count);

/* "M10 20H30V40" or "M10 20L30 40": the corners of a stair or a line. */
int read_path(const char *d, double *xs, double *ys, int most);

/* "M10 20H30V40": the points, each the mean of `per` values from `first` on, of a line through values[n]. `top`: the
 * pixel at which what is beyond the axis is drawn; NaN: nothing is. */
struct line_of {
    const char *name;
    const double *values;
    int n, per;
    double first, top;
};
void check_line(const struct element *e, const struct scale *x, const struct scale *y, const struct line_of *line);

void check_cluster(const json_t *cluster);
void check_plan(const json_t *plan);
void check_run(const json_t *run);
void check_whatif(const json_t *whatif);
void check_purchase(const json_t *purchase);

void read_trace(const json_t *trace); /* of the plan's simulated step; then it is checked too */
bool read_metrics(const char *path);  /* of the run: metrics.csv; then times of steps are checked too */

#endif
