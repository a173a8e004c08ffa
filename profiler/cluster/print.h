/* The parts of a cluster's print-out, for this folder only. Of clusters with many rows equal ones are folded into one
 * with a count. */
#ifndef MT_PROFILER_CLUSTER_PRINT_H
#define MT_PROFILER_CLUSTER_PRINT_H

#include "kernels/base/text/plain_table.h"
#include "profiler/cluster/cluster.h"

enum { MT_CLUSTER_SHOWN = 16 }; /* rows, and ranks of a matrix; of more, equal rows are folded */

void mt_cluster_print_nodes(const struct mt_cluster *cluster, FILE *file);
void mt_cluster_print_devices(const struct mt_cluster *cluster, FILE *file);
void mt_cluster_print_pairs(const struct mt_cluster *cluster, FILE *file);

/* "5.00 GB/s", "100 Gflop/s"; "4.00 GiB"; "2.5%"; "-" for a missing figure. */
void mt_cluster_cell_rate(struct mt_plain_table *table, double value, const char *unit);
void mt_cluster_cell_bytes(struct mt_plain_table *table, int64_t bytes);
void mt_cluster_cell_part(struct mt_plain_table *table, double part);
const char *mt_cluster_link_name(const struct mt_cluster *cluster, int link);

#endif
