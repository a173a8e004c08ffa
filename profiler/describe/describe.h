/* Clusters that have not been measured, described in one line:
 *
 *     a100-40:2x8 nvlink=300G net=25G + v100:1x4
 *
 * Terms NAME[:NODES[xDEVICES]] [LINK=RATE ...], joined by " + "; one node and one device unless said, and at most
 * MT_CLUSTER_MOST_DEVICES in all. NAME is a class of `measured`, which keeps its curves, or a row of hardware.def, as
 * "h100", "H100" or, of a cpu with 8 cores, "cpu-8t". LINK is a link of hardware.def: "net" between nodes, any other
 * within the term's nodes. RATE, with K, M, G or T, is in bits a second for net, and in bytes a second one way for the
 * others, unless it says (400Gbps, 50GB/s); messages reach the fraction of it given in the link's row. "net" is given
 * once for all terms, or in every term: then the fastest is the network, and nodes with a slower one send and receive
 * at most that. LINK may also be "egress" or "ingress": the most that each of the term's nodes sends, or receives, over
 * the network with all its pairs together, as a rate of net:
 *
 *     h100:2x8 net=100G + a10:1 egress=1G
 *
 * Links that are not given are those of `measured` (may be null), or else of hardware.def, marked nominal. If
 * `measured` has measured classes that are rows of hardware.def, the fraction that they reach of their public rates
 * calibrates all described classes of their kind. */
#ifndef MT_PROFILER_DESCRIBE_DESCRIBE_H
#define MT_PROFILER_DESCRIBE_DESCRIBE_H

#include "kernels/base/table/table.h"
#include "profiler/cluster/cluster.h"

/* MT_EINPUT with the column of the error, and the reason. */
enum mt_status mt_cluster_describe(const char *text, const struct mt_cluster *measured, struct mt_cluster **cluster,
                                   struct mt_err *err);

/* Read a cluster's document; if there is no such file, describe the text. */
enum mt_status mt_cluster_open(const char *file_or_text, struct mt_cluster **cluster, struct mt_err *err);

/* How a description was understood, in the arena: "2 nodes of 8 h100 (nvlink 450 GB/s); network: ...", with what is
 * assumed. "" of a cluster that was measured. */
const char *mt_cluster_understood(const struct mt_cluster *cluster, struct mt_arena *arena);

/* The rows of hardware.def, for `motley profile --hardware`: "hardware" and "links". */
void mt_hardware_tables(struct mt_tables *out);

#endif
