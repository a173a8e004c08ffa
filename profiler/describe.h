/* Clusters that nobody has measured, from one line:
 *
 *     a100-40:2x8 nvlink=300G net=25G + v100:1x4
 *
 * NAME[:NODES[xDEVICES]] [LINK=RATE ...] terms joined by " + ". NAME is a row of hardware.def or a class of
 * `measured`. RATE is in bits a second for net, in bytes for
 * links within a node, with K, M, G, T; "net" is set once or per term (the slower end counts between two terms).
 * Figures come from hardware.def and are marked nominal; where `measured` (may be null) has a class with a row in
 * hardware.def, its measured over nominal rate calibrates all described classes of the same kind. */
#ifndef MT_PROFILER_DESCRIBE_H
#define MT_PROFILER_DESCRIBE_H

#include "profiler/cluster.h"

enum mt_status mt_cluster_describe(const char *text, const struct mt_cluster *measured, struct mt_cluster **cluster,
                                   struct mt_err *err);
/* The table's rows, for `motley profile --hardware`. */
void mt_hardware_help(FILE *file);

#endif
