/* Times of operators by a class's rates, where it has no curve that helps. */
#ifndef MT_PROFILER_CLUSTER_NOMINAL_H
#define MT_PROFILER_CLUSTER_NOMINAL_H

#include "profiler/cluster/shape.h"

/* Seconds of a shape that is not empty, on a device of speed 1. GPUs with public rates: by the rows of calibration.def;
 * others: overhead + max(flops / rate, bytes / memory_Bps). *error: relative half-width of its band. */
double mt_class_rates_s(const struct mt_cluster_class *class, const struct mt_op_shape *shape, double *error);

#endif
