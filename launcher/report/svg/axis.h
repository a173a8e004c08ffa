/* Scales and axes: a quantity along a length, with round ticks.
 *
 *     struct mt_scale axis = {.title = "time", .unit = MT_UNIT_SECONDS, .to = 0.12, .start = 60, .end = 860};
 *     mt_scale_fit(&axis, 6);                       // ticks in one prefix: 0, 20, 40, ... ms
 *     double x = mt_scale_at(&axis, 0.05);
 *     mt_scale_draw_x(&svg, &axis, top, bottom);    // grid lines, numbers, "time (ms)"
 *
 * Ticks are whole multiples of 1, 2, 2.5 or 5 times a power of ten of the prefix's unit (of bytes: of two); on a
 * logarithmic axis powers of ten, or 1, 2 and 5 times those. */
#ifndef MT_LAUNCHER_REPORT_SVG_AXIS_H
#define MT_LAUNCHER_REPORT_SVG_AXIS_H

#include "kernels/base/table/unit.h"
#include "launcher/report/svg/svg.h"

enum { MT_SCALE_TICKS = 24 };

struct mt_scale {
    const char *title;
    enum mt_unit unit;
    bool log;
    double from, to;   /* values; out: widened to ticks where `round` is set */
    double start, end; /* pixels of from and to */
    bool round;
    /* out */
    double factor;   /* of the prefix */
    char prefix[16]; /* "ms", "GiB", "%" */
    int nticks, decimals;
    double ticks[MT_SCALE_TICKS]; /* values */
};

void mt_scale_fit(struct mt_scale *axis, int most);
double mt_scale_at(const struct mt_scale *axis, double value);
/* "20"; as all ticks of the axis are written. */
char *mt_scale_tick_text(const struct mt_scale *axis, double value, char out[32]);
/* The width of its widest tick. */
double mt_scale_tick_width(const struct mt_scale *axis);

/* Below, with grid lines from top to bottom; at the left, with grid lines from left to right. The title of a vertical
 * axis is above it, at y = start or end less MT_SVG_LINE. */
void mt_scale_draw_x(const struct mt_svg *svg, const struct mt_scale *axis, double top, double bottom);
void mt_scale_draw_y(const struct mt_svg *svg, const struct mt_scale *axis, double left, double right);
#define MT_SCALE_X_HEIGHT 38 /* of numbers and title */

#endif
