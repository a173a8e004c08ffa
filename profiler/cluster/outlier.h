/* Devices and pairs that are not what their like are: what a person should look at before planning with them.
 *
 *     struct mt_arena arena = MT_ARENA_INIT;
 *     struct mt_outlier *outliers;
 *     int n = mt_cluster_outliers(cluster, &arena, &outliers);
 *     for (int i = 0; i < n; i++) printf("%s\n", outliers[i].text);
 *     mt_arena_release(&arena);
 *
 * Like is compared with like by medians (of an even number the better of the two in the middle, so that of two devices
 * the slower one is named), beyond what the errors and the spread of the others (three deviations, by the median of
 * absolute deviations) explain. What --emulate slowed down on purpose is compared as it would be without. */
#ifndef MT_PROFILER_CLUSTER_OUTLIER_H
#define MT_PROFILER_CLUSTER_OUTLIER_H

#include "profiler/cluster/cluster.h"

#define MT_OUTLIER_SPEED 0.95    /* of its class: slower is named */
#define MT_OUTLIER_BANDWIDTH 0.8 /* of other pairs on the same link: less is named */
#define MT_OUTLIER_LATENCY 2     /* times that of other pairs on the same link: more is named */
#define MT_OUTLIER_STOLEN 0.05   /* part of its time that others had: more is named */

enum mt_outlier_kind { MT_SLOW_DEVICE, MT_STOLEN_TIME, MT_BAD_LINK };

struct mt_outlier {
    enum mt_outlier_kind kind;
    int device, other; /* other: of a pair; -1: a device, or all of its pairs */
    double ratio;      /* to its like; stolen: the part */
    const char *text;  /* "rank 1 (a): at 0.52 of the speed of its class, xeon" */
};

/* In order of kind and rank; `outliers` and their texts are in the arena. Returns how many. */
int mt_cluster_outliers(const struct mt_cluster *cluster, struct mt_arena *arena, struct mt_outlier **outliers);

#endif
