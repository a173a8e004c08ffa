/* What a class of devices can compute with the kernels of this program, whatever its rates are.
 *
 *     char why[MT_RUNS_TEXT];
 *     if (!mt_cluster_class_runs(class, job->precision, job->tf32, why)) refuse or mark the plan with `why`. */
#ifndef MT_PROFILER_DESCRIBE_RUNS_H
#define MT_PROFILER_DESCRIBE_RUNS_H

#include "profiler/cluster/cluster.h"

enum { MT_RUNS_TEXT = 200 };

/* Compute capability of a class of GPUs, 90 is 9.0: as measured, else that of the row of hardware.def with its model or
 * name. 0: not known, or a CPU. */
int mt_cluster_class_capability(const struct mt_cluster_class *class);

/* Are there kernels for the class's architecture? GPUs: from compute capability 7.5; one whose capability is not known
 * counts as supported. CPUs: always. `why` (may be null): if not, "v100: has compute capability 7.0, and kernels need
 * 7.5 (sm_75)". */
bool mt_cluster_class_has_kernels(const struct mt_cluster_class *class, char why[MT_RUNS_TEXT]);

/* ... and do they compute in this precision? CPUs compute in all; GPUs not in f64; in bf16 and tf32 from 8.0. */
bool mt_cluster_class_runs(const struct mt_cluster_class *class, enum mt_type precision, bool tf32,
                           char why[MT_RUNS_TEXT]);

#endif
