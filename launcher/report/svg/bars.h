/* Horizontal bars, or dots with error bands, one a row: what is compared stands at the left (on narrow pages above),
 * its value at the right. */
#ifndef MT_LAUNCHER_REPORT_SVG_BARS_H
#define MT_LAUNCHER_REPORT_SVG_BARS_H

#include "launcher/report/svg/axis.h"

enum { MT_BARS_PARTS = 4 };

struct mt_bar {
    const char *label;
    const char *text;            /* at the right: "121 ms, +8.5%" */
    int nparts;                  /* 0: nothing is drawn, as where nothing is known */
    double parts[MT_BARS_PARTS]; /* one after another; of a dot the first */
    double low, high;            /* of an error band; equal: none */
    bool chosen;                 /* it stands out */
};
struct mt_bars {
    struct mt_scale axis; /* from and to are found */
    bool dots;
    bool zero;   /* the axis has 0; bars always do */
    double most; /* of dots: those beyond it are arrows at the edge; 0: none is */
    int nrows;
    const struct mt_bar *rows;
    const char *names[MT_BARS_PARTS]; /* of parts; null: no legend */
    const char *classes[MT_BARS_PARTS];
    double mark; /* a line across at a value; NaN: none */
    const char *mark_text;
};

void mt_bars_draw(const void *bars, struct mt_svg *svg);

/* Small bars, a panel for each thing that is divided, a bar for each who has a part of it: as wide as its part. */
struct mt_share_panel {
    const char *title, *note;
    const double *parts;      /* [nrows], of 1 */
    double whole;             /* the part that an outline stands for: 1, or less where all parts are small */
    const char *const *texts; /* [nrows] */
    const char *class;
};
struct mt_shares {
    int nrows, npanels;
    const char *const *rows; /* who */
    const struct mt_share_panel *panels;
};
void mt_shares_draw(const void *shares, struct mt_svg *svg);

#endif
