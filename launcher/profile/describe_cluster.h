/* `motley profile --describe`: a cluster's document from a line of text. */
#ifndef MT_LAUNCHER_PROFILE_DESCRIBE_CLUSTER_H
#define MT_LAUNCHER_PROFILE_DESCRIBE_CLUSTER_H

#include <stdio.h>

#include "kernels/base/err.h"

/* Write the document that `text` describes (profiler/describe/describe.h) to `out`, with classes and calibration from
 * the cluster document `measured`, if that is not null, and print it as tables. */
enum mt_status mt_describe_cluster(const char *text, const char *measured, const char *out, FILE *file,
                                   struct mt_err *err);

#endif
