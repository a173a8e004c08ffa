/* What the edits share: the change to a cluster. */
#ifndef MT_PROFILER_DESCRIBE_INTERNAL_H
#define MT_PROFILER_DESCRIBE_INTERNAL_H

#include "profiler/cluster/cluster.h"

/* Apply `change`, check the cluster, add "verb what" to its description, and hash it. If `change` or the check fails,
 * the cluster is unchanged. */
typedef enum mt_status mt_edit_change(struct mt_cluster *cluster, const char *what, struct mt_err *err);
enum mt_status mt_edit(struct mt_cluster *cluster, const char *verb, const char *what, mt_edit_change *change,
                       struct mt_err *err);
/* Give a link this bandwidth and latency; it is nominal from now on. What was measured over it changes in proportion.
 */
void mt_edit_link_rates(struct mt_cluster *cluster, int link, double bandwidth_Bps, double latency_s);
/* Give a node this egress, or ingress; pairs and fits that it limits change in proportion. There must be a network. */
void mt_edit_node_rate(struct mt_cluster *cluster, int node, bool egress, double Bps);
/* Set the hint about a name that is none: the classes of the cluster and, if `rows`, the rows of hardware.def; its
 * nodes. */
enum mt_status mt_edit_names(const struct mt_cluster *cluster, const char *name, bool rows, struct mt_err *err);
enum mt_status mt_edit_no_node(const struct mt_cluster *cluster, const char *name, struct mt_err *err);

#endif
