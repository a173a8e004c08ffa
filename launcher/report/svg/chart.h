/* Charts of values over values: lines, steps, bands, dots with error bars, marks.
 *
 *     struct mt_series series[] = {{.name = "loss", .n = n, .x = step, .y = loss}};
 *     struct mt_chart chart = {.x = {.title = "step", .unit = MT_UNIT_COUNT}, .y = {...}, .series = series, .nseries =
 * 1}; mt_chart_fit(&chart);                   // axes from the values, unless from and to are given
 *     mt_chart_draw(&chart, &svg); */
#ifndef MT_LAUNCHER_REPORT_SVG_CHART_H
#define MT_LAUNCHER_REPORT_SVG_CHART_H

#include "launcher/report/svg/axis.h"

enum mt_series_form { MT_SERIES_LINE, MT_SERIES_STEP, MT_SERIES_DOTS };
struct mt_series {
    const char *name;
    enum mt_series_form form;
    const char *class; /* "s0"; lines take its colour as stroke */
    int n;
    const double *x, *y;
    const double *low, *high;     /* of y, or null: a band of lines, error bars of dots */
    const double *x_low, *x_high; /* of dots, or null */
    const char *const *labels;    /* of dots, beside them; or null */
    bool dashed;                  /* of lines */
};
struct mt_chart_mark {
    bool vertical; /* at a value of x; else of y */
    double at;
    const char *text;
    const char *class; /* "limit", "event" */
};
struct mt_chart {
    struct mt_scale x, y;
    int nseries, nmarks;
    const struct mt_series *series;
    const struct mt_chart_mark *marks;
    double height; /* of the area; 0: 240 */
};

/* Where from and to of an axis are equal, they become those of the values, marks included, and 0 if `zero`; then
 * rounded. */
void mt_chart_fit(struct mt_chart *chart, bool zero);
/* Sets the picture's height. What is beyond the end of a vertical axis is drawn at its end. */
void mt_chart_draw(const void *chart, struct mt_svg *svg);

#endif
