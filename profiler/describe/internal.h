/* What edit.c and edit_set.c share. */
#ifndef MT_PROFILER_DESCRIBE_INTERNAL_H
#define MT_PROFILER_DESCRIBE_INTERNAL_H

#include "profiler/cluster/cluster.h"

/* Change the cluster, check it, say in it what was done, and hash it; refused, by `change` or by the check, it is as it
 * was. */
typedef enum mt_status mt_edit_change(struct mt_cluster *cluster, const char *what, struct mt_err *err);
enum mt_status mt_edit(struct mt_cluster *cluster, const char *verb, const char *what, mt_edit_change *change,
                       struct mt_err *err);
void mt_edit_drop_groups(struct mt_cluster *cluster, bool dropped(const struct mt_cluster_group *group, void *context),
                         void *context);
/* The hint that lists the classes and, if so wanted, the rows of hardware.def. */
enum mt_status mt_edit_names(const struct mt_cluster *cluster, bool rows, struct mt_err *err);

#endif
