/* The parts of a cluster's tables, for this folder only. Of clusters with many rows equal ones are folded into one with
 * a count. */
#ifndef MT_PROFILER_CLUSTER_PRINT_H
#define MT_PROFILER_CLUSTER_PRINT_H

#include "profiler/cluster/tables.h"

void mt_cluster_add_nodes(const struct mt_cluster *cluster, struct mt_tables *out);
void mt_cluster_add_devices(const struct mt_cluster *cluster, struct mt_tables *out);
void mt_cluster_add_gpus(const struct mt_cluster *cluster, struct mt_tables *out);
void mt_cluster_add_pairs(const struct mt_cluster *cluster, struct mt_tables *out);

const char *mt_cluster_link_name(const struct mt_cluster *cluster, int link); /* "-": none */

#endif
