/* Outliers: devices slower than their class, nodes that send or receive less than others, and pairs worse than others
 * on their link, to be inspected before planning.
 *
 *     struct mt_arena arena = MT_ARENA_INIT;
 *     struct mt_outlier *outliers;
 *     int n = mt_cluster_outliers(cluster, &arena, &outliers);
 *     for (int i = 0; i < n; i++) printf("%s\n", outliers[i].text);
 *     mt_arena_release(&arena);
 *
 * A figure is compared with the median of its kind (of an even number the better of the two middle values, so that of
 * two devices the slower is reported). It is an outlier if the difference exceeds the limits below, its error, and
 * three standard deviations of the others (estimated from the median absolute deviation). Emulated devices are compared
 * by speed / emulated. Nodes are compared by direction, where the network was measured; of two nodes, either of which
 * may be the cause, the slower direction is named. What a slow node explains is not reported for its pairs again. */
#ifndef MT_PROFILER_CLUSTER_OUTLIER_H
#define MT_PROFILER_CLUSTER_OUTLIER_H

#include "profiler/cluster/cluster.h"

#define MT_OUTLIER_SPEED 0.95    /* of its class; slower is reported */
#define MT_OUTLIER_BANDWIDTH 0.8 /* of other pairs on the link; less is reported */
#define MT_OUTLIER_NODE 0.4      /* of what nodes send or receive; less is reported whatever the errors are */
#define MT_OUTLIER_LATENCY 2     /* times that of other pairs on the link; more is reported */
#define MT_OUTLIER_STOLEN 0.05   /* fraction of time used by others; more is reported */

enum mt_outlier_kind { MT_SLOW_DEVICE, MT_STOLEN_TIME, MT_SLOW_NODE, MT_BAD_LINK };

struct mt_outlier {
    enum mt_outlier_kind kind;
    int device, other; /* other: of a pair; -1: a device, or all of its pairs. MT_SLOW_NODE: the first of the node; and
                          of the node that it sends to, if one direction of two nodes is slow, else -1 */
    bool egress;       /* MT_SLOW_NODE: it sends slowly; else it receives slowly */
    double ratio;      /* to the median; MT_STOLEN_TIME: the fraction */
    const char *text;  /* "rank 1 (a): at 0.52 of the speed of its class, xeon"; "node c sends at 11.7 MB/s, others at
                          117  MB/s" */
};

/* In order of kind and rank; `outliers` and their texts are in the arena. Returns their number. */
int mt_cluster_outliers(const struct mt_cluster *cluster, struct mt_arena *arena, struct mt_outlier **outliers);

#endif
