/* Changes to a cluster for `motley whatif`:
 *
 *     st = mt_cluster_add(cluster, "2xv100", &err);
 *     st = mt_cluster_set(cluster, "link.net=400G", &err);
 *
 * Each gives a cluster that passes mt_cluster_check, with source "edited", the change added to `description`, and a new
 * hash. On failure the cluster is unchanged.
 *
 * What was measured is scaled, not dropped: pairs and the rates of nodes change in proportion to their link, the fits
 * of a group as the worst path between its members. Only a group that has lost a member is dropped: its collectives are
 * then priced by links. */
#ifndef MT_PROFILER_DESCRIBE_EDIT_H
#define MT_PROFILER_DESCRIBE_EDIT_H

#include "profiler/cluster/cluster.h"

/* "2xNAME", "NAME", "2xNAME@node3": devices of a class of the cluster, with speed 1, or of a row of hardware.def; in a
 * new node, whose link is that of the class's other nodes or the row's, or in an existing node. They are the last
 * ranks. If there was one node, the network is hardware.def's. */
enum mt_status mt_cluster_add(struct mt_cluster *cluster, const char *what, struct mt_err *err);

/* "rank:3", "node:NAME", "NAME", "2xNAME" (the last ones of a class). Later ranks are renumbered; empty nodes are
 * removed. */
enum mt_status mt_cluster_remove(struct mt_cluster *cluster, const char *what, struct mt_err *err);

/* "link.net=400G" (as in describe.h: bits a second between nodes, bytes within; messages reach the fraction given
 * in hardware.def), "link.net.latency=5us": the link is nominal from now on. "node.NAME.egress=100M",
 * "node.NAME.ingress=1G": what the node sends (receives) over the network with all its pairs together, as a rate of
 * net. "class.v100.memory=32GiB", "class.v100.speed=1.2" (all its devices), "rank.3.memory=8GiB", "rank.3.speed=0.5".
 */
enum mt_status mt_cluster_set(struct mt_cluster *cluster, const char *what, struct mt_err *err);

#endif
