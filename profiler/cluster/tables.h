/* A cluster for people and for machines: sentences and typed tables.
 *
 * Tables: "cluster" (one row), "nodes", "devices", "gpus", "classes", "links", "puts", "pairs" (of few devices: each
 * pair; for people a matrix; of many: ranges by class), "groups", "warnings". What a cluster does not have is left out.
 */
#ifndef MT_PROFILER_CLUSTER_TABLES_H
#define MT_PROFILER_CLUSTER_TABLES_H

#include "kernels/base/table/table.h"
#include "profiler/cluster/cluster.h"

enum { MT_CLUSTER_SHOWN = 16 }; /* ranks of a matrix */

void mt_cluster_tables(const struct mt_cluster *cluster, struct mt_tables *out);

/* Columns and rows of the links, for a table with this note. */
#define MT_CLUSTER_LINKS_NOTE                                                                                          \
    "of one pair, one way; shared: of a node, all its pairs together; slows computing, and is slowed by it, while "    \
    "both run"
void mt_cluster_tabulate_links(const struct mt_cluster *cluster, struct mt_table *table);

/* The same of puts, by the links that have them. */
#define MT_CLUSTER_PUTS_NOTE                                                                                           \
    "one-sided, of one pair, one way, by copy engines and by blocks of a kernel; a signal: until the peer has seen "   \
    "it; slows a GEMM, and is slowed by it, while both run"
bool mt_cluster_any_puts(const struct mt_cluster *cluster);
void mt_cluster_tabulate_puts(const struct mt_cluster *cluster, struct mt_table *table);

#endif
