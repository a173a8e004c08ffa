/* Scales, ticks and axes. */
#include "launcher/report/svg/axis.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The smallest of 1, 2, 2.5 and 5 times a power of `base` that is at least `least`. */
static double nice_step(double least, double base) {
    double power = pow(base, floor(log(least) / log(base) + 1e-9));
    static const double tens[] = {1, 2, 2.5, 5, 10}, twos[] = {1, 2};
    const double *of = base == 10 ? tens : twos;
    for (int i = 0; i < (base == 10 ? 5 : 2); i++)
        if (of[i] * power >= least * (1 - 1e-9)) return of[i] * power;
    return base * power;
}

static void fit_linear(struct mt_scale *a, int most) {
    double from = a->from / a->factor, to = a->to / a->factor;
    double step = nice_step(fmax((to - from) / most, 1e-12), 10);
    if (a->unit == MT_UNIT_BYTES && a->factor >= 1 && (to - from) / most > 4) step = nice_step((to - from) / most, 2);
    if (a->unit == MT_UNIT_COUNT && a->factor == 1 && step < 1 && to - from > 1) step = 1;
    if (a->round) {
        from = floor(from / step + 1e-9) * step, to = ceil(to / step - 1e-9) * step;
        a->from = from * a->factor, a->to = to * a->factor;
    }
    a->decimals = 0;
    for (double s = step; a->decimals < 6 && fabs(s - nearbyint(s)) > 1e-6 * s; s *= 10) a->decimals++;
    a->nticks = 0;
    for (double k = ceil(from / step - 1e-9); k * step <= to * (1 + 1e-12) + 1e-9 * step && a->nticks < MT_SCALE_TICKS;
         k++)
        a->ticks[a->nticks++] = k * step * a->factor;
}

/* In the unit of the axis, so that times of hours are round in hours. */
static void fit_log(struct mt_scale *a, int most) {
    static const double of[] = {1, 2, 5};
    double from = a->from / a->factor, to = a->to / a->factor, decades = log10(to / from);
    int many = decades * 3 <= most ? 3 : 1, skip = (int)fmax(1, ceil(decades / most));
    if (a->round) {
        from = pow(10, floor(log10(from) + 1e-9)), to = pow(10, ceil(log10(to) - 1e-9));
        if (to <= from) to = 10 * from;
        a->from = from * a->factor, a->to = to * a->factor;
    }
    a->nticks = 0;
    for (int e = (int)floor(log10(from) - 1e-9); e <= (int)ceil(log10(to)); e++)
        for (int i = 0; i < many; i++) {
            double tick = of[i] * pow(10, e);
            if (e % skip || tick < from * (1 - 1e-9) || tick > to * (1 + 1e-9) || a->nticks == MT_SCALE_TICKS) continue;
            a->ticks[a->nticks++] = tick * a->factor;
        }
}

/* What numbers on the axis are of: "ms", "GiB", "%", "Gflop/s". */
static void find_prefix(struct mt_scale *a) {
    double most = fmax(fabs(a->from), fabs(a->to));
    struct mt_prefix prefix = mt_unit_prefix(a->unit, most, most);
    const char *unit = a->unit == MT_UNIT_BYTES ? "B" : a->unit == MT_UNIT_SECONDS ? "" : mt_unit_name(a->unit);
    a->factor = a->unit == MT_UNIT_MONEY ? 1 : prefix.factor, a->prefix[0] = 0;
    switch (a->unit) {
    case MT_UNIT_FRACTION:
    case MT_UNIT_CHANGE: a->factor = 0.01, strcpy(a->prefix, "%"); break;
    case MT_UNIT_BYTES:
    case MT_UNIT_SECONDS:
    case MT_UNIT_BPS:
    case MT_UNIT_FLOPS:
    case MT_UNIT_WATTS: snprintf(a->prefix, sizeof a->prefix, "%s%s", prefix.name, unit); break;
    case MT_UNIT_MONEY:
        if (most < 1e5) break;
        prefix = mt_unit_prefix(MT_UNIT_QUANTITY, most, most);
        a->factor = prefix.factor;
        snprintf(a->prefix, sizeof a->prefix, "%s", prefix.name);
        break;
    case MT_UNIT_QUANTITY: snprintf(a->prefix, sizeof a->prefix, "%s", prefix.name); break;
    default: a->factor = 1;
    }
}

void mt_scale_fit(struct mt_scale *a, int most) {
    if (!(a->to > a->from)) a->to = a->from + (a->from != 0 ? fabs(a->from) : 1);
    find_prefix(a);
    if (a->log && a->unit != MT_UNIT_SECONDS) a->factor = 1, a->prefix[0] = 0;
    if (a->log)
        fit_log(a, most);
    else
        fit_linear(a, most);
}

double mt_scale_at(const struct mt_scale *a, double value) {
    double part =
        a->log ? log(fmax(value, a->from) / a->from) / log(a->to / a->from) : (value - a->from) / (a->to - a->from);
    return a->start + part * (a->end - a->start);
}

/* Of a logarithmic axis, where each tick has one digit that is not 0: as many decimals as show it. */
static int decimals_of(enum mt_unit unit, struct mt_prefix prefix, double value) {
    double number = (unit == MT_UNIT_FRACTION || unit == MT_UNIT_CHANGE ? 100 : 1) * value / prefix.factor;
    return number < 1 ? (int)ceil(-log10(number) - 1e-9) : 0;
}

char *mt_scale_tick_text(const struct mt_scale *a, double value, char out[32]) {
    char text[MT_UNIT_TEXT_BYTES];
    struct mt_prefix prefix = mt_unit_prefix(a->unit, value, value);
    if (a->log && a->unit == MT_UNIT_SECONDS)
        snprintf(out, 32, "%.10g", value / a->factor);
    else if (a->log)
        snprintf(out, 32, "%s", mt_unit_text(a->unit, prefix, decimals_of(a->unit, prefix, value), value, text));
    else
        snprintf(out, 32, "%.*f", a->decimals, value / a->factor);
    if (!a->log && !strtod(out, NULL)) snprintf(out, 32, "0");
    return out;
}

double mt_scale_tick_width(const struct mt_scale *a) {
    char text[32];
    double width = 0;
    for (int i = 0; i < a->nticks; i++)
        width = fmax(width, mt_svg_text_width(mt_scale_tick_text(a, a->ticks[i], text)));
    return width;
}

/* "time (ms)" */
static void put_title(const struct mt_svg *svg, const struct mt_scale *a, double x, double y, enum mt_anchor anchor) {
    if (a->prefix[0])
        mt_svg_text(svg, x, y, anchor, "soft", "%s (%s)", a->title, a->prefix);
    else
        mt_svg_text(svg, x, y, anchor, "soft", "%s", a->title);
}

void mt_scale_draw_x(const struct mt_svg *svg, const struct mt_scale *a, double top, double bottom) {
    char text[32];
    double last = -1e9;
    for (int i = 0; i < a->nticks; i++) {
        double x = mt_scale_at(a, a->ticks[i]);
        mt_svg_line(svg, x, top, x, bottom, a->ticks[i] == 0 && !a->log ? "axis" : "grid");
        mt_scale_tick_text(a, a->ticks[i], text);
        double half = mt_svg_text_width(text) / 2, at = fmin(fmax(x, half), svg->width - half);
        if (at - half < last + 4) continue;
        last = at + half;
        mt_svg_text(svg, at, bottom + 15, MT_ANCHOR_MIDDLE, "tick", "%s", text);
    }
    put_title(svg, a, fmax(a->start, a->end), bottom + 32, MT_ANCHOR_END);
}

void mt_scale_draw_y(const struct mt_svg *svg, const struct mt_scale *a, double left, double right) {
    char text[32];
    for (int i = 0; i < a->nticks; i++) {
        double y = mt_scale_at(a, a->ticks[i]);
        mt_svg_line(svg, left, y, right, y, a->ticks[i] == 0 && !a->log ? "axis" : "grid");
        mt_svg_text(svg, left - 6, y + 4, MT_ANCHOR_END, "tick", "%s", mt_scale_tick_text(a, a->ticks[i], text));
    }
    put_title(svg, a, 0, fmin(a->start, a->end) - 10, MT_ANCHOR_START);
}
