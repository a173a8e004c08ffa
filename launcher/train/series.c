/* When the vector is full, every second value is dropped, and from then on only every second is kept. */
#include "launcher/train/series.h"

#include "kernels/base/number/stats.h"

void mt_series_add(struct mt_series *series, double value) {
    if (!series->every) series->every = 1;
    if (series->seen++ % series->every) return;
    if (series->count == MT_SERIES_MOST) {
        for (int i = 0; i < MT_SERIES_MOST / 2; i++) series->kept[i] = series->kept[2 * i];
        series->count = MT_SERIES_MOST / 2;
        series->every *= 2;
    }
    series->kept[series->count++] = value;
}

double mt_series_median(const struct mt_series *series) {
    return series->count ? mt_median(series->kept, (size_t)series->count) : 0;
}
