/* Nodes that nobody has yet, joined to a cluster that is there, or to nothing:
 *
 *     struct mt_joining eight = {.row = row, .nodes = 2, .devices = 8, .link_Bps = 450e9, .net_bps = 400e9};
 *     if ((st = mt_cluster_join(NULL, &eight, 1, &cluster, err))) return st;     // as "h100:2x8 nvlink=450G net=400G"
 *
 * Unlike a description's, rates need not be those of hardware.def. */
#ifndef MT_PROFILER_DESCRIBE_JOIN_H
#define MT_PROFILER_DESCRIBE_JOIN_H

#include "profiler/describe/hardware.h"

struct mt_joining {
    struct mt_hardware row; /* of its devices; its name is their class's, which is that of `owned` if it has one */
    int nodes, devices;     /* devices of a node */
    double link_Bps;        /* rate of row.link within a node; messages reach the fraction in hardware.def */
    double net_bps;         /* of a node's network, bits a second */
};

/* The network is that of `owned` (may be null), or where it has none, the fastest net of those that join; nodes with a
 * slower one send and receive at most that. What joins of 0 nodes is nothing. The caller frees the cluster: source
 * "described", or "edited" where what is owned was measured. MT_EINPUT for more than MT_CLUSTER_MOST_DEVICES, and for
 * what mt_cluster_check refuses. */
enum mt_status mt_cluster_join(const struct mt_cluster *owned, const struct mt_joining *joining, int count,
                               struct mt_cluster **cluster, struct mt_err *err);

#endif
