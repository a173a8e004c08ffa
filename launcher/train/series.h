/* The median of any number of measurements: at most MT_SERIES_MOST of them are kept, evenly spaced. */
#ifndef MT_LAUNCHER_TRAIN_SERIES_H
#define MT_LAUNCHER_TRAIN_SERIES_H

#include <stdint.h>

enum { MT_SERIES_MOST = 1024 };

struct mt_series { /* all zero: empty */
    double kept[MT_SERIES_MOST];
    int count;
    int64_t seen, every; /* one value of `every` is kept; 0: each */
};

void mt_series_add(struct mt_series *series, double value);
double mt_series_median(const struct mt_series *series); /* 0 when it is empty */

#endif
