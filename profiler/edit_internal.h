/* What edit.c and edit_set.c share. */
#ifndef MT_PROFILER_EDIT_INTERNAL_H
#define MT_PROFILER_EDIT_INTERNAL_H

#include "profiler/cluster.h"

/* Say in the document what was done to it, and hash it. */
void mt_edit_sign(struct mt_cluster *cluster, const char *verb, const char *what);
void mt_edit_drop_groups(struct mt_cluster *cluster, bool dropped(const struct mt_cluster_group *group, void *context),
                         void *context);
/* The hint that lists the classes and, if so wanted, the rows of hardware.def. */
enum mt_status mt_edit_names(const struct mt_cluster *cluster, bool rows, struct mt_err *err);

#endif
