/* `motley profile --describe`: a cluster document from one line of text. */
#ifndef MT_LAUNCHER_PROFILE_DESCRIBE_CLUSTER_H
#define MT_LAUNCHER_PROFILE_DESCRIBE_CLUSTER_H

#include "kernels/base/err.h"
#include "kernels/base/table/table.h"

/* Write the cluster document that `text` describes (profiler/describe/describe.h) to `path`, and add its tables.
 * `measured`: a cluster document for classes and calibration, or null. */
enum mt_status mt_describe_cluster(const char *text, const char *measured, const char *path, struct mt_tables *out,
                                   struct mt_err *err);

#endif
