/* Bars and shares. */
#include "launcher/report/svg/bars.h"

#include <math.h>

enum { BAR = 14, DOT = 5, PANEL_GAP = 24, SHARE_ROW = 16, MOST_CUT = 200 };

/* ---- bars ---- */

struct plot {
    const struct mt_bars *bars;
    struct mt_svg *svg;
    struct mt_scale axis;
    double left, right, top, row; /* row: the height of one */
    bool above;                   /* labels are above their bars */
};

static double sum_of(const struct mt_bar *bar) {
    double sum = 0;
    for (int i = 0; i < bar->nparts; i++) sum += bar->parts[i];
    return sum;
}

static void fit(const struct mt_bars *bars, struct mt_scale *axis) {
    double least = INFINITY, most = -INFINITY;
    for (int i = 0; i < bars->nrows; i++) {
        const struct mt_bar *bar = &bars->rows[i];
        if (!bar->nparts) continue;
        double from = bar->low < bar->high ? bar->low : sum_of(bar), to = fmax(sum_of(bar), bar->high);
        least = fmin(least, fmin(from, sum_of(bar))), most = fmax(most, to);
    }
    if (bars->most > 0) most = fmin(most, bars->most);
    if (isfinite(bars->mark)) least = fmin(least, bars->mark), most = fmax(most, bars->mark);
    if (!(least <= most)) least = 0, most = 1;
    if (!bars->dots || bars->zero || least < 0.4 * most) least = fmin(least, 0);
    axis->from = least, axis->to = most;
    axis->round = true;
}

static void draw_bar(const struct plot *p, const struct mt_bar *bar, double y) {
    const struct mt_svg *svg = p->svg;
    double at = 0, x = mt_scale_at(&p->axis, fmax(p->axis.from, 0));
    const char *class = p->bars->classes[0] ? p->bars->classes[0] : "s0";
    for (int i = 0; i < bar->nparts && !p->bars->dots; i++) {
        at += bar->parts[i];
        double to = mt_scale_at(&p->axis, at);
        if (p->bars->classes[i]) class = p->bars->classes[i];
        mt_svg_rect(svg, (struct mt_box2){x, y, to - x, BAR}, bar->chosen && bar->nparts == 1 ? "s1" : class,
                    bar->label);
        x = to;
    }
    double middle = y + BAR / 2.0;
    if (bar->nparts && p->bars->dots && bar->parts[0] > p->axis.to) { /* beyond the axis */
        mt_svg_text(svg, p->right, middle + 4, MT_ANCHOR_END, "strong", "\xe2\x86\x92");
        return;
    }
    if (bar->low < bar->high) {
        double low = mt_scale_at(&p->axis, bar->low), high = mt_scale_at(&p->axis, fmin(bar->high, p->axis.to));
        mt_svg_line(svg, low, middle, high, middle, "whisker");
        mt_svg_line(svg, low, middle - 4, low, middle + 4, "whisker");
        mt_svg_line(svg, high, middle - 4, high, middle + 4, "whisker");
    }
    if (p->bars->dots && bar->nparts)
        mt_svg_dot(svg, mt_scale_at(&p->axis, bar->parts[0]), middle, DOT, bar->chosen ? "s1" : class, bar->label);
}

static void draw_row(const struct plot *p, int i) {
    const struct mt_bar *bar = &p->bars->rows[i];
    const struct mt_svg *svg = p->svg;
    char text[MOST_CUT];
    double y = p->top + i * p->row, text_y = y + BAR - 3;
    const char *class = bar->chosen ? "strong halo" : "halo";
    if (p->above) {
        double room = svg->width - mt_svg_text_width(bar->text) - 8;
        mt_svg_text(svg, 0, text_y, MT_ANCHOR_START, class, "%s", mt_svg_cut(bar->label, room, text, sizeof text));
        mt_svg_text(svg, svg->width, text_y, MT_ANCHOR_END, class, "%s", bar->text);
        draw_bar(p, bar, y + MT_SVG_LINE);
    } else {
        mt_svg_text(svg, p->left - 10, text_y, MT_ANCHOR_END, class, "%s",
                    mt_svg_cut(bar->label, p->left - 12, text, sizeof text));
        mt_svg_text(svg, p->right + 10, text_y, MT_ANCHOR_START, class, "%s",
                    mt_svg_cut(bar->text, svg->width - p->right - 10, text, sizeof text));
        draw_bar(p, bar, y);
    }
}

static void find_margins(struct plot *p) {
    double label = 0, text = 0, width = p->svg->width;
    for (int i = 0; i < p->bars->nrows; i++) {
        label = fmax(label, 1.1 * mt_svg_text_width(p->bars->rows[i].label)); /* some are bold */
        text = fmax(text, mt_svg_text_width(p->bars->rows[i].text));
    }
    p->above = !mt_svg_wide(p->svg);
    p->row = p->above ? BAR + MT_SVG_LINE + 10 : BAR + 10;
    p->left = p->above ? 6 : fmin(label + 12, 0.36 * width);
    p->right = p->above ? width - 6 : width - fmin(text + 12, 0.24 * width);
}

static double put_legend(const struct mt_bars *bars, const struct mt_svg *svg) {
    struct mt_legend items[MT_BARS_PARTS];
    int n = 0;
    while (n < MT_BARS_PARTS && bars->names[n]) {
        items[n] = (struct mt_legend){bars->classes[n], bars->names[n]};
        n++;
    }
    return mt_svg_legend(svg, 0, items, n);
}

void mt_bars_draw(const void *data, struct mt_svg *svg) {
    const struct mt_bars *bars = data;
    struct plot p = {.bars = bars, .svg = svg, .axis = bars->axis};
    struct mt_svg measure = *svg;
    bool marked = isfinite(bars->mark);
    measure.file = NULL;
    find_margins(&p);
    fit(bars, &p.axis);
    p.axis.start = p.left, p.axis.end = p.right;
    mt_scale_fit(&p.axis, mt_svg_wide(svg) ? 8 : 5);
    double top = put_legend(bars, &measure) + (marked ? MT_SVG_LINE + 2 : 0);
    p.top = top + 8;
    double bottom = p.top + bars->nrows * p.row;
    svg->height = bottom + MT_SCALE_X_HEIGHT;
    mt_svg_open(svg);
    put_legend(bars, svg);
    mt_scale_draw_x(svg, &p.axis, top, bottom);
    for (int i = 0; i < bars->nrows; i++) draw_row(&p, i);
    if (marked) {
        double x = mt_scale_at(&p.axis, bars->mark), half = mt_svg_text_width(bars->mark_text) / 2;
        mt_svg_line(svg, x, top, x, bottom, "limit");
        mt_svg_text(svg, fmin(fmax(x, half), svg->width - half), top - 5, MT_ANCHOR_MIDDLE, "", "%s", bars->mark_text);
    }
    mt_svg_close(svg);
}

/* ---- shares ---- */

static void draw_panel(const struct mt_shares *shares, const struct mt_share_panel *panel, struct mt_box2 box,
                       double labels, const struct mt_svg *svg) {
    char text[MOST_CUT];
    double values = 0;
    for (int r = 0; r < shares->nrows; r++) values = fmax(values, mt_svg_text_width(panel->texts[r]));
    double left = box.x + labels, width = box.width - labels - values - 6;
    mt_svg_text(svg, box.x, box.y + 12, MT_ANCHOR_START, "strong", "%s",
                mt_svg_cut(panel->title, box.width / 1.08, text, sizeof text));
    mt_svg_text(svg, box.x, box.y + 27, MT_ANCHOR_START, "soft", "%s",
                mt_svg_cut(panel->note, box.width, text, sizeof text));
    for (int r = 0; r < shares->nrows; r++) {
        double y = box.y + 34 + r * SHARE_ROW;
        mt_svg_text(svg, box.x, y + 10, MT_ANCHOR_START, "", "%s",
                    mt_svg_cut(shares->rows[r], labels - 6, text, sizeof text));
        mt_svg_rect(svg, (struct mt_box2){left, y, width, SHARE_ROW - 4}, "track", NULL);
        if (panel->parts[r] > 0)
            mt_svg_rect(svg, (struct mt_box2){left, y, width * panel->parts[r] / panel->whole, SHARE_ROW - 4},
                        panel->class, panel->texts[r]);
        mt_svg_text(svg, left + width + 6, y + 10, MT_ANCHOR_START, "", "%s", panel->texts[r]);
    }
}

void mt_shares_draw(const void *data, struct mt_svg *svg) {
    const struct mt_shares *shares = data;
    int columns = mt_svg_wide(svg) ? 2 : 1;
    double labels = 0, width = (svg->width - (columns - 1) * PANEL_GAP) / columns;
    for (int r = 0; r < shares->nrows; r++) labels = fmax(labels, mt_svg_text_width(shares->rows[r]) + 8);
    labels = fmin(labels, 0.45 * width);
    double height = 34 + shares->nrows * SHARE_ROW + 18;
    int lines = (shares->npanels + columns - 1) / columns;
    svg->height = lines * height;
    mt_svg_open(svg);
    for (int i = 0; i < shares->npanels; i++) {
        struct mt_box2 box = {(i % columns) * (width + PANEL_GAP), i / columns * height, width, height};
        draw_panel(shares, &shares->panels[i], box, labels, svg);
    }
    mt_svg_close(svg);
}
