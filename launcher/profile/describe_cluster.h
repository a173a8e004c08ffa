/* `motley profile --describe`: a cluster document from one line of text. */
#ifndef MT_LAUNCHER_PROFILE_DESCRIBE_CLUSTER_H
#define MT_LAUNCHER_PROFILE_DESCRIBE_CLUSTER_H

#include <stdio.h>

#include "kernels/base/err.h"

/* Write the cluster document that `text` describes (profiler/describe/describe.h) to `out`, and print it as tables.
 * `measured`: a cluster document for classes and calibration, or null. */
enum mt_status mt_describe_cluster(const char *text, const char *measured, const char *out, FILE *file,
                                   struct mt_err *err);

#endif
