/* Fits of measured times by the alpha-beta model: latency and bandwidth of a link, and of a collective's algorithm.
 *
 *     points[i] = mt_fit_point(algorithm, &problem, time_s, error);
 *     mt_fit_coll(points, npoints, arena, &fit); */
#ifndef MT_PROFILER_MEASURE_FIT_H
#define MT_PROFILER_MEASURE_FIT_H

#include "profiler/cluster/cluster.h"

/* A measured time, modelled as messages * latency_s + bytes / bandwidth_Bps. */
struct mt_fit_point {
    double messages, bytes; /* coefficients */
    double time_s, error;   /* error: of the median, relative */
    int64_t size_bytes;     /* of the problem; points of one size share a ratio */
};

/* The non-negative latency and bandwidth with the least sum of squares of relative errors, where a factor too much
 * counts as the same factor too little. *residual (may be null): the largest relative error left. If the times do not
 * depend on bytes, the bandwidth is 1e15 bytes a second. */
void mt_fit_line(const struct mt_fit_point *points, int npoints, double *latency_s, double *bandwidth_Bps,
                 double *residual);

/* The point of a collective: coefficients from the algorithm's cost_s, which is linear in latency and in one over the
 * bandwidth. */
struct mt_fit_point mt_fit_point(const struct mt_coll_algorithm *algorithm, const struct mt_coll *problem,
                                 double time_s, double error);

/* Fill in latency_s, bandwidth_Bps, ratios by size (in `arena`) and error of *fit, whose names are already there. If
 * the times show no bandwidth, it is bytes / time of the largest message. The error is twice the standard deviation
 * that is left after the ratios: between divisions of one size, and of the measurements. */
void mt_fit_coll(const struct mt_fit_point *points, int npoints, struct mt_arena *arena, struct mt_coll_fit *fit);

#endif
