/* A timeline: lanes with spans over a common time, in groups, as of the streams of each rank. */
#ifndef MT_LAUNCHER_REPORT_SVG_LANES_H
#define MT_LAUNCHER_REPORT_SVG_LANES_H

#include "launcher/report/svg/axis.h"

struct mt_lane_span {
    double start, end;
    const char *class;
    const char *text; /* in it, where there is room; and what a pointer shows */
    bool open;        /* text stands on the page's ground: of waits */
};
struct mt_lane {
    const char *group; /* a heading above it; null: it belongs to the group of the lane before */
    const char *name;
    int nspans;
    const struct mt_lane_span *spans;
};
struct mt_lanes {
    struct mt_scale axis;
    int nlanes;
    const struct mt_lane *lanes;
    int nlegend;
    const struct mt_legend *legend;
    double mark; /* a vertical line with a text; NaN: none */
    const char *mark_text;
};
void mt_lanes_draw(const void *lanes, struct mt_svg *svg);

#endif
