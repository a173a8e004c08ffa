/* Changes to a cluster that somebody thinks about: `motley whatif`. Each gives a cluster that passes mt_cluster_check,
 * with source "edited", the change added to `description`, and a new hash; refused, the cluster is as it was.
 *
 * Measured groups are dropped where a member is gone or a link between members has changed, so that their collectives
 * are priced by links; measured pairs change with their link, in proportion. */
#ifndef MT_PROFILER_DESCRIBE_EDIT_H
#define MT_PROFILER_DESCRIBE_EDIT_H

#include "profiler/cluster/cluster.h"

/* "2xNAME", "NAME", "2xNAME@node3": devices of a class of the cluster, at its speed 1, or of a row of hardware.def; as
 * a node of their own, whose link is that of the class's other nodes or the row's, or in an existing node. They are the
 * last ranks. Where there was one node, the network is hardware.def's. */
enum mt_status mt_cluster_add(struct mt_cluster *cluster, const char *what, struct mt_err *err);

/* "rank:3", "node:NAME", "NAME", "2xNAME" (the last ones of a class). Later ranks move up; nodes without devices go. */
enum mt_status mt_cluster_remove(struct mt_cluster *cluster, const char *what, struct mt_err *err);

/* "link.net=400G" (as in describe.h: bits a second between nodes, bytes within, of which messages reach the part that
 * hardware.def says), "link.net.latency=5us": the link is nominal from now on. "class.v100.memory=32GiB",
 * "class.v100.speed=1.2" (all its devices), "rank.3.memory=8GiB", "rank.3.speed=0.5". */
enum mt_status mt_cluster_set(struct mt_cluster *cluster, const char *what, struct mt_err *err);

#endif
