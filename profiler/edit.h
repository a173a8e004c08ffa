/* Changes to a cluster that somebody thinks about: `motley whatif`. Each gives a cluster that passes mt_cluster_check,
 * with source "edited" and the change added to `description`; groups that no longer exist are dropped, so that their
 * collectives are priced by links. */
#ifndef MT_PROFILER_EDIT_H
#define MT_PROFILER_EDIT_H

#include "profiler/cluster.h"

/* "2xNAME", "NAME", "2xNAME@node3": devices of a class of the cluster or of hardware.def; as a node of their own, or
 * in an existing node. */
enum mt_status mt_cluster_add(struct mt_cluster *cluster, const char *what, struct mt_err *err);
/* "rank:3", "node:NAME", "2xNAME" (the last ones of a class). */
enum mt_status mt_cluster_remove(struct mt_cluster *cluster, const char *what, struct mt_err *err);
/* "link.net=400G", "link.net.latency=5us", "class.v100.memory=32GiB", "class.v100.speed=1.2" (all its devices),
 * "rank.3.speed=0.5". */
enum mt_status mt_cluster_set(struct mt_cluster *cluster, const char *what, struct mt_err *err);

#endif
