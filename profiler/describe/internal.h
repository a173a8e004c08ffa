/* What edit.c and edit_set.c share: the change to a cluster. */
#ifndef MT_PROFILER_DESCRIBE_INTERNAL_H
#define MT_PROFILER_DESCRIBE_INTERNAL_H

#include "profiler/cluster/cluster.h"

/* Apply `change`, check the cluster, add "verb what" to its description, and hash it. If `change` or the check fails,
 * the cluster is unchanged. */
typedef enum mt_status mt_edit_change(struct mt_cluster *cluster, const char *what, struct mt_err *err);
enum mt_status mt_edit(struct mt_cluster *cluster, const char *verb, const char *what, mt_edit_change *change,
                       struct mt_err *err);
void mt_edit_drop_groups(struct mt_cluster *cluster, bool dropped(const struct mt_cluster_group *group, void *context),
                         void *context);
/* Set the hint: the classes of the cluster and, if `rows`, the rows of hardware.def. */
enum mt_status mt_edit_names(const struct mt_cluster *cluster, bool rows, struct mt_err *err);

#endif
