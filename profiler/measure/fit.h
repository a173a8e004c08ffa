/* Fits of measured times: alpha-beta lines, and collectives by their algorithms' own costs. */
#ifndef MT_PROFILER_MEASURE_FIT_H
#define MT_PROFILER_MEASURE_FIT_H

#include "profiler/cluster/cluster.h"

/* A time that should be messages * latency_s + bytes / bandwidth_Bps. */
struct mt_fit_point {
    double messages, bytes; /* coefficients */
    double time_s, error;   /* error: of the median, relative */
    int64_t size_bytes;     /* of the problem; points of one size share a ratio */
};

/* The latency and bandwidth that make the sum of squares of relative errors least (too much by a factor is as bad as
 * too little by it), neither negative; *residual (may be null): the largest relative error left. A bandwidth that the
 * times do not show is 1e15 bytes a second. */
void mt_fit_line(const struct mt_fit_point *points, int npoints, double *latency_s, double *bandwidth_Bps,
                 double *residual);

/* The point of a collective: coefficients from the algorithm's cost_s, which is linear in latency and in one over the
 * bandwidth. */
struct mt_fit_point mt_fit_point(const struct mt_coll_algorithm *algorithm, const struct mt_coll *problem,
                                 double time_s, double error);

/* latency_s, bandwidth_Bps, ratios by size (in `arena`) and error of *fit, whose names are already there. Where the
 * times show no bandwidth, it is that of a largest message. The error is twice the deviation that is left when the
 * ratios have been applied: between skews of one size, and of the measurements. */
void mt_fit_coll(const struct mt_fit_point *points, int npoints, struct mt_arena *arena, struct mt_coll_fit *fit);

#endif
