/* Clusters that nobody has measured, from one line:
 *
 *     a100-40:2x8 nvlink=300G net=25G + v100:1x4
 *
 * Terms NAME[:NODES[xDEVICES]] [LINK=RATE ...], joined by " + "; one node and one device unless said. NAME is a class
 * of `measured`, which keeps its curves, or a row of hardware.def, as "h100" or, of a cpu with 8 cores, "cpu-8t". LINK
 * is a link of hardware.def: "net" between nodes, any other within the term's nodes. RATE, with K, M, G or T, is in
 * bits a second for net and in bytes, one way, for the others; messages reach the part of it that the link's row says.
 * "net" is said once for all, or in every term: then between two terms the slower end counts.
 *
 * What is not said comes from `measured` (may be null), where it has such a link, and from hardware.def, marked
 * nominal. Where `measured` has measured classes that are rows of hardware.def, what they reach of their rates
 * calibrates all described classes of their kind. */
#ifndef MT_PROFILER_DESCRIBE_DESCRIBE_H
#define MT_PROFILER_DESCRIBE_DESCRIBE_H

#include "profiler/cluster/cluster.h"

/* MT_EINPUT with the column of the text that is wrong, and why. */
enum mt_status mt_cluster_describe(const char *text, const struct mt_cluster *measured, struct mt_cluster **cluster,
                                   struct mt_err *err);

/* A cluster's document, or, where there is no such file, what the text describes. */
enum mt_status mt_cluster_open(const char *file_or_text, struct mt_cluster **cluster, struct mt_err *err);

/* The table's rows, for `motley profile --hardware`. */
void mt_hardware_help(FILE *file);

#endif
