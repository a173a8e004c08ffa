/* Times of operators by a class's rates, where it has no curve that helps. */
#ifndef MT_PROFILER_CLUSTER_NOMINAL_H
#define MT_PROFILER_CLUSTER_NOMINAL_H

#include "profiler/cluster/shape.h"

/* Seconds of a shape that is not empty, on a device of speed 1. GPUs with public rates: by the rows of calibration.def;
 * others: overhead + max(flops / rate, bytes / memory_Bps). *error: relative half-width of its band. */
double mt_class_rates_s(const struct mt_cluster_class *class, const struct mt_op_shape *shape, double *error);

/* Seconds of a GEMM that computes and moves bytes at the class's rates, one after the other: what its efficiency is
 * relative to; without rates, in units of work. */
double mt_class_gemm_ideal_s(const struct mt_cluster_class *class, enum mt_type type, const char *variant, double rows,
                             const int64_t dim[2]);

/* The type by whose curves and rates a shape of `type` is timed: tensor cores are as fast in f16 as in bf16, and f16 is
 * not always measured. */
enum mt_type mt_class_measured_type(const struct mt_cluster_class *class, enum mt_type type);

#endif
