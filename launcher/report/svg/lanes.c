/* Timelines. */
#include "launcher/report/svg/lanes.h"

#include <math.h>

enum { LANE = 22, LANE_GAP = 3, GROUP = 24, MOST_CUT = 200, LEAST_TEXT = 54 };

static void draw_span(const struct mt_svg *svg, const struct mt_scale *axis, const struct mt_lane_span *span,
                      double y) {
    char text[MOST_CUT];
    double x = mt_scale_at(axis, span->start), width = mt_scale_at(axis, span->end) - x;
    mt_svg_rect(svg, (struct mt_box2){x, y, width, LANE}, span->class, span->text);
    if (width < LEAST_TEXT) return;
    mt_svg_cut(span->text, width - 6, text, sizeof text);
    if (mt_svg_text_width(text) <= width - 4)
        mt_svg_text(svg, x + 4, y + LANE / 2.0 + 4, MT_ANCHOR_START, span->open ? "in" : "in inv", "%s", text);
}

static double lanes_height(const struct mt_lanes *lanes) {
    double height = 0;
    for (int i = 0; i < lanes->nlanes; i++) height += LANE + LANE_GAP + (lanes->lanes[i].group ? GROUP : 0);
    return height;
}

void mt_lanes_draw(const void *data, struct mt_svg *svg) {
    const struct mt_lanes *lanes = data;
    struct mt_scale axis = lanes->axis;
    struct mt_svg measure = *svg;
    char text[MOST_CUT];
    double left = 0, marked = isfinite(lanes->mark) ? MT_SVG_LINE + 2 : 0;
    measure.file = NULL;
    for (int i = 0; i < lanes->nlanes; i++) left = fmax(left, mt_svg_text_width(lanes->lanes[i].name) + 8);
    axis.start = left, axis.end = svg->width - 8;
    mt_scale_fit(&axis, mt_svg_wide(svg) ? 10 : 5);
    double top = mt_svg_legend(&measure, 0, lanes->legend, lanes->nlegend) + marked;
    double bottom = top + lanes_height(lanes) + 4, y = top;
    svg->height = bottom + MT_SCALE_X_HEIGHT;
    mt_svg_open(svg);
    mt_svg_legend(svg, 0, lanes->legend, lanes->nlegend);
    mt_scale_draw_x(svg, &axis, top, bottom);
    for (int i = 0; i < lanes->nlanes; i++) {
        const struct mt_lane *lane = &lanes->lanes[i];
        if (lane->group) {
            mt_svg_text(svg, 0, y + GROUP - 8, MT_ANCHOR_START, "strong halo", "%s",
                        mt_svg_cut(lane->group, svg->width - 8, text, sizeof text));
            y += GROUP;
        }
        mt_svg_text(svg, 0, y + LANE / 2.0 + 4, MT_ANCHOR_START, "", "%s", lane->name);
        for (int s = 0; s < lane->nspans; s++) draw_span(svg, &axis, &lane->spans[s], y);
        y += LANE + LANE_GAP;
    }
    if (marked > 0) {
        double x = mt_scale_at(&axis, lanes->mark), half = mt_svg_text_width(lanes->mark_text) / 2;
        mt_svg_line(svg, x, top - 2, x, bottom, "limit");
        mt_svg_text(svg, fmin(fmax(x, half), svg->width - half), top - 6, MT_ANCHOR_MIDDLE, "", "%s", lanes->mark_text);
    }
    mt_svg_close(svg);
}
