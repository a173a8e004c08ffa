/* Charts of values over values. Names of lines stand at their right ends, moved apart; on narrow pages in a legend. */
#include "launcher/report/svg/chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"

enum { MOST_NAMES = 16, DOT = 5, PLOT_HEIGHT = 240, MOST_ABOVE = 32 };

struct range {
    double least, most;
    bool positive; /* only values above 0 count */
};

static void widen(struct range *range, const double *values, int n) {
    for (int i = 0; i < n && values; i++) {
        if (!isfinite(values[i]) || (range->positive && !(values[i] > 0))) continue;
        range->least = fmin(range->least, values[i]);
        range->most = fmax(range->most, values[i]);
    }
}

static void fit_axis(const struct mt_chart *chart, struct mt_scale *axis, bool vertical, bool zero) {
    struct range range = {INFINITY, -INFINITY, axis->log};
    if (axis->from != axis->to) return;
    for (int s = 0; s < chart->nseries; s++) {
        const struct mt_series *one = &chart->series[s];
        widen(&range, vertical ? one->y : one->x, one->n);
        widen(&range, vertical ? one->low : one->x_low, one->n);
        widen(&range, vertical ? one->high : one->x_high, one->n);
    }
    for (int m = 0; m < chart->nmarks; m++)
        if (chart->marks[m].vertical != vertical) widen(&range, &chart->marks[m].at, 1);
    if (range.least > range.most) range.least = axis->log ? 1 : 0, range.most = axis->log ? 10 : 1;
    if (zero && !axis->log) range.least = fmin(range.least, 0);
    axis->from = range.least, axis->to = range.most;
    axis->round |= vertical || axis->log;
}

void mt_chart_fit(struct mt_chart *chart, bool zero) {
    fit_axis(chart, &chart->x, false, zero);
    fit_axis(chart, &chart->y, true, zero);
}

/* ---- drawing ---- */

struct plot {
    const struct mt_chart *chart;
    struct mt_svg *svg;
    struct mt_scale x, y;
    double left, right, top, bottom;
};

static void draw_line(const struct plot *p, const struct mt_series *s, struct mt_arena *arena) {
    double *x = mt_new(arena, double, s->n + 1), *y = mt_new(arena, double, s->n + 1);
    double *low = mt_new(arena, double, s->n + 1), *high = mt_new(arena, double, s->n + 1);
    char class[32];
    for (int i = 0; i < s->n; i++) {
        x[i] = mt_scale_at(&p->x, s->x[i]), y[i] = isfinite(s->y[i]) ? mt_scale_at(&p->y, fmin(s->y[i], p->y.to)) : NAN;
        if (s->low) low[i] = mt_scale_at(&p->y, s->low[i]), high[i] = mt_scale_at(&p->y, fmin(s->high[i], p->y.to));
    }
    snprintf(class, sizeof class, "band %s", s->class);
    if (s->low) mt_svg_area(p->svg, x, low, high, s->n, class);
    snprintf(class, sizeof class, s->dashed ? "line dash %s" : "line %s", s->class);
    mt_svg_path(p->svg, x, y, s->n, s->form == MT_SERIES_STEP, class);
}

static void draw_whisker(const struct plot *p, double x1, double y1, double x2, double y2) {
    double dx = y1 == y2 ? 0 : 3, dy = y1 == y2 ? 3 : 0;
    mt_svg_line(p->svg, x1, y1, x2, y2, "whisker");
    mt_svg_line(p->svg, x1 - dx, y1 - dy, x1 + dx, y1 + dy, "whisker");
    mt_svg_line(p->svg, x2 - dx, y2 - dy, x2 + dx, y2 + dy, "whisker");
}

static void draw_dots(const struct plot *p, const struct mt_series *s) {
    for (int i = 0; i < s->n; i++) {
        if (!isfinite(s->x[i]) || !isfinite(s->y[i])) continue;
        double x = mt_scale_at(&p->x, s->x[i]), y = mt_scale_at(&p->y, s->y[i]);
        if (s->low) draw_whisker(p, x, mt_scale_at(&p->y, s->low[i]), x, mt_scale_at(&p->y, s->high[i]));
        if (s->x_low) draw_whisker(p, mt_scale_at(&p->x, s->x_low[i]), y, mt_scale_at(&p->x, s->x_high[i]), y);
        mt_svg_dot(p->svg, x, y, DOT, s->class, s->labels ? s->labels[i] : NULL);
    }
}

/* ---- labels of dots ---- */

static bool overlap(const struct mt_box2 *a, const struct mt_box2 *b) {
    return a->x < b->x + b->width && b->x < a->x + a->width && a->y < b->y + b->height && b->y < a->y + a->height;
}

/* What is taken: dots with their error bars, labels that stand already. */
struct taken {
    int n, capacity;
    struct mt_box2 *boxes;
    struct mt_arena arena;
};

static void take(struct taken *t, struct mt_box2 box) {
    mt_arena_grow(&t->arena, &t->boxes, t->n, &t->capacity, sizeof box);
    t->boxes[t->n++] = box;
}

static void take_dots(const struct plot *p, struct taken *t) {
    for (int k = 0; k < p->chart->nseries; k++) {
        const struct mt_series *s = &p->chart->series[k];
        for (int i = 0; i < s->n && s->form == MT_SERIES_DOTS; i++) {
            double x = mt_scale_at(&p->x, s->x[i]), y = mt_scale_at(&p->y, s->y[i]);
            double top = s->low ? mt_scale_at(&p->y, s->high[i]) : y,
                   bottom = s->low ? mt_scale_at(&p->y, s->low[i]) : y;
            take(t, (struct mt_box2){x - DOT, y - DOT, 2 * DOT, 2 * DOT});
            take(t, (struct mt_box2){x - 3, top, 6, bottom - top});
        }
    }
}

/* Beside its dot where there is room, else none: the table has it. */
static void put_label(const struct plot *p, struct taken *t, double x, double y, const char *label) {
    static const struct {
        double dx, dy;
        enum mt_anchor anchor;
    } places[] = {{9, -9, MT_ANCHOR_START},  {-9, 17, MT_ANCHOR_END}, {9, 17, MT_ANCHOR_START},
                  {-9, -9, MT_ANCHOR_END},   {9, 4, MT_ANCHOR_START}, {-9, 4, MT_ANCHOR_END},
                  {9, -24, MT_ANCHOR_START}, {-9, -24, MT_ANCHOR_END}};
    char text[80];
    mt_svg_cut(label, mt_svg_wide(p->svg) ? 240 : 120, text, sizeof text);
    double width = mt_svg_text_width(text);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        double left = x + places[i].dx - (places[i].anchor == MT_ANCHOR_END ? width : 0), base = y + places[i].dy;
        struct mt_box2 box = {left, base - 11, width, 14};
        bool free_place = left >= p->left && left + width <= p->right + 4 && box.y >= p->top - 4 && base <= p->bottom;
        for (int k = 0; k < t->n && free_place; k++) free_place = !overlap(&box, &t->boxes[k]);
        if (!free_place) continue;
        take(t, box);
        mt_svg_text(p->svg, x + places[i].dx, base, places[i].anchor, "halo", "%s", text);
        return;
    }
}

static void put_labels(const struct plot *p) {
    struct taken taken = {0};
    take_dots(p, &taken);
    for (int k = 0; k < p->chart->nseries; k++) {
        const struct mt_series *s = &p->chart->series[k];
        for (int i = 0; i < s->n && s->form == MT_SERIES_DOTS && s->labels; i++)
            if (s->labels[i][0] && isfinite(s->x[i]) && isfinite(s->y[i]))
                put_label(p, &taken, mt_scale_at(&p->x, s->x[i]), mt_scale_at(&p->y, s->y[i]), s->labels[i]);
    }
    mt_arena_release(&taken.arena);
}

/* Texts above the area: those of the first marks have their places first, and one that would cover another is left
 * out. */
static bool takes(double (*taken)[2], int *n, double from, double to) {
    for (int i = 0; i < *n; i++)
        if (from < taken[i][1] + 6 && taken[i][0] < to + 6) return false;
    if (*n == MOST_ABOVE) return false;
    taken[*n][0] = from, taken[*n][1] = to;
    return ++*n;
}

/* Lines across, with their texts. */
static void draw_marks(const struct plot *p) {
    double taken[MOST_ABOVE][2];
    int ntaken = 0;
    for (int m = 0; m < p->chart->nmarks; m++) {
        const struct mt_chart_mark *mark = &p->chart->marks[m];
        double width = mt_svg_text_width(mark->text), at = mt_scale_at(mark->vertical ? &p->x : &p->y, mark->at);
        if (!mark->vertical) {
            mt_svg_line(p->svg, p->left, at, p->right, at, mark->class);
            mt_svg_text(p->svg, p->right - 2, at - 5, MT_ANCHOR_END, "halo", "%s", mark->text);
            continue;
        }
        mt_svg_line(p->svg, at, p->top, at, p->bottom, mark->class);
        double middle = fmin(fmax(at, p->left + width / 2), p->right - width / 2);
        if (takes(taken, &ntaken, middle - width / 2, middle + width / 2))
            mt_svg_text(p->svg, middle, p->top - 6, MT_ANCHOR_MIDDLE, "", "%s", mark->text);
    }
}

struct name {
    const char *text;
    double y;
};
static int by_y(const void *a, const void *b) {
    double x = ((const struct name *)a)->y, y = ((const struct name *)b)->y;
    return (x > y) - (x < y);
}

/* At the right ends of the lines; no two within a line's height. */
static void draw_names(const struct plot *p) {
    struct name names[MOST_NAMES];
    int n = 0;
    for (int s = 0; s < p->chart->nseries && n < MOST_NAMES; s++) {
        const struct mt_series *one = &p->chart->series[s];
        int last = one->n - 1;
        while (last >= 0 && !isfinite(one->y[last])) last--;
        if (last >= 0 && one->form != MT_SERIES_DOTS)
            names[n++] = (struct name){one->name, mt_scale_at(&p->y, one->y[last])};
    }
    qsort(names, (size_t)n, sizeof *names, by_y);
    for (int i = 1; i < n; i++) names[i].y = fmax(names[i].y, names[i - 1].y + 14);
    double over = n ? names[n - 1].y - p->bottom : 0;
    for (int i = n - 1; i >= 0 && over > 0; i--) {
        double most = i == n - 1 ? p->bottom : names[i + 1].y - 14;
        names[i].y = fmin(names[i].y, most);
    }
    for (int i = 0; i < n; i++)
        mt_svg_text(p->svg, p->right + 6, names[i].y + 4, MT_ANCHOR_START, "", "%s", names[i].text);
}

/* Whether there are several lines, whose right ends are far enough apart for names to tell them by. */
static bool ends_apart(const struct plot *p) {
    double ends[MOST_NAMES];
    int n = 0;
    for (int s = 0; s < p->chart->nseries && n < MOST_NAMES; s++) {
        const struct mt_series *one = &p->chart->series[s];
        int last = one->n - 1;
        while (last >= 0 && !isfinite(one->y[last])) last--;
        if (last < 0 || one->form == MT_SERIES_DOTS) continue;
        ends[n] = mt_scale_at(&p->y, one->y[last]);
        for (int i = 0; i < n; i++)
            if (fabs(ends[i] - ends[n]) < 12) return false;
        n++;
    }
    return n > 1;
}

static double names_width(const struct mt_chart *chart) {
    double width = 0;
    for (int s = 0; s < chart->nseries; s++)
        if (chart->series[s].form != MT_SERIES_DOTS) width = fmax(width, mt_svg_text_width(chart->series[s].name));
    return width;
}

/* Above the area: the legend of what has no name at its end. */
static double put_legend(const struct plot *p, struct mt_svg *svg, bool direct) {
    struct mt_legend items[MOST_NAMES];
    int n = 0;
    for (int s = 0; s < p->chart->nseries && n < MOST_NAMES; s++)
        if (p->chart->series[s].name[0] && (p->chart->nseries > 1 || p->chart->series[s].low) &&
            (!direct || p->chart->series[s].form == MT_SERIES_DOTS))
            items[n++] = (struct mt_legend){p->chart->series[s].class, p->chart->series[s].name};
    return mt_svg_legend(svg, 0, items, n);
}

void mt_chart_draw(const void *data, struct mt_svg *svg) {
    const struct mt_chart *chart = data;
    struct mt_arena arena = MT_ARENA_INIT;
    struct plot p = {chart, svg, chart->x, chart->y, 0, 0, 0, 0};
    struct mt_svg measure = *svg;
    double widest = names_width(chart), height = chart->height > 0 ? chart->height : PLOT_HEIGHT;
    bool direct = mt_svg_wide(svg) && chart->nseries > 1 && widest < svg->width / 4, above = false;
    measure.file = NULL;
    for (int m = 0; m < chart->nmarks; m++) above |= chart->marks[m].vertical;
    mt_scale_fit(&p.y, 6);
    p.y.start = height, p.y.end = 0;
    direct &= ends_apart(&p);
    p.top = put_legend(&p, &measure, direct) + 2 * MT_SVG_LINE + (above ? MT_SVG_LINE : 0);
    p.bottom = p.top + height;
    p.left = mt_scale_tick_width(&p.y) + 8;
    p.right = svg->width - (direct ? widest + 10 : 8);
    p.x.start = p.left, p.x.end = p.right, p.y.start = p.bottom, p.y.end = p.top;
    mt_scale_fit(&p.x, mt_svg_wide(svg) ? 10 : 5);
    svg->height = p.bottom + MT_SCALE_X_HEIGHT;
    mt_svg_open(svg);
    put_legend(&p, svg, direct);
    mt_scale_draw_x(svg, &p.x, p.top, p.bottom);
    struct mt_scale y = p.y;
    if (above) y.end -= MT_SVG_LINE, y.title = "";
    mt_scale_draw_y(svg, &p.y, p.left, p.right);
    for (int s = 0; s < chart->nseries; s++)
        if (chart->series[s].form != MT_SERIES_DOTS) draw_line(&p, &chart->series[s], &arena);
    draw_marks(&p);
    for (int s = 0; s < chart->nseries; s++)
        if (chart->series[s].form == MT_SERIES_DOTS) draw_dots(&p, &chart->series[s]);
    put_labels(&p);
    if (direct) draw_names(&p);
    mt_svg_close(svg);
    mt_arena_release(&arena);
}
