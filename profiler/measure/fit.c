/* Iterated weighted least squares in two unknowns, by the normal equations. Weights are from the times and from the
 * last pass's model, so that errors are relative (small messages count as much as large ones) and a measured time of
 * twice the model counts as much as one of half of it. */
#include "profiler/measure/fit.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "kernels/base/number/stats.h"

#define FASTEST_BPS 1e15
enum { PASSES = 12 };
static const double least_skew = 1.1; /* less: as even */

static double line_s(const struct mt_fit_point *p, double latency_s, double bandwidth_Bps) {
    return p->messages * latency_s + p->bytes / bandwidth_Bps;
}

/* One pass; weight[i] multiplies point i's time, and so its residual. */
static void solve(const struct mt_fit_point *points, const double *weight, int npoints, double *alpha, double *beta) {
    double mm = 0, mb = 0, bb = 0, mt = 0, bt = 0;
    for (int i = 0; i < npoints; i++) {
        double x = points[i].messages * weight[i], y = points[i].bytes * weight[i], t = points[i].time_s * weight[i];
        mm += x * x, mb += x * y, bb += y * y, mt += x * t, bt += y * t;
    }
    double det = mm * bb - mb * mb;
    *alpha = *beta = -1;
    if (det > 1e-9 * mm * bb) *alpha = (mt * bb - bt * mb) / det, *beta = (bt * mm - mt * mb) / det;
    if (*alpha >= 0 && *beta >= 0) return;
    /* If one would be negative: the better of the two solutions with one of them zero. */
    double only_alpha = mm > 0 ? mt / mm : 0, only_beta = bb > 0 ? bt / bb : 0;
    bool latency = mt * only_alpha >= bt * only_beta;
    *alpha = latency ? only_alpha : 0;
    *beta = latency ? 0 : only_beta;
}

void mt_fit_line(const struct mt_fit_point *points, int npoints, double *latency_s, double *bandwidth_Bps,
                 double *residual) {
    double *weight = mt_malloc((size_t)(npoints + 1) * sizeof *weight), alpha = 0, beta = 0;
    for (int i = 0; i < npoints; i++) weight[i] = 1 / points[i].time_s;
    for (int pass = 0; pass < PASSES; pass++) {
        solve(points, weight, npoints, &alpha, &beta);
        for (int i = 0; i < npoints; i++) {
            double made_s = points[i].messages * alpha + points[i].bytes * beta;
            weight[i] = 1 / sqrt(points[i].time_s * fmax(made_s, 1e-3 * points[i].time_s));
        }
    }
    free(weight);
    *latency_s = alpha;
    *bandwidth_Bps = beta > 1 / FASTEST_BPS ? 1 / beta : FASTEST_BPS;
    if (!residual) return;
    *residual = 0;
    for (int i = 0; i < npoints; i++)
        *residual = fmax(*residual, fabs(line_s(&points[i], *latency_s, *bandwidth_Bps) / points[i].time_s - 1));
}

struct mt_fit_point mt_fit_point(const struct mt_coll_algorithm *algorithm, const struct mt_coll *problem,
                                 double time_s, double error) {
    int64_t cells = problem->kind == MT_ALL_TO_ALL ? (int64_t)problem->n * problem->n : problem->n, count = 0;
    for (int64_t i = 0; i < cells; i++) count += problem->counts[i];
    return (struct mt_fit_point){.messages = algorithm->cost_s(problem, 1, INFINITY),
                                 .bytes = algorithm->cost_s(problem, 0, 1),
                                 .time_s = time_s,
                                 .error = error,
                                 .size_bytes = count * mt_type_size(problem->wire)};
}

static int by_size(const void *left, const void *right) {
    const struct mt_fit_point *a = left, *b = right;
    return (a->size_bytes > b->size_bytes) - (a->size_bytes < b->size_bytes);
}

/* The number of points of one size, from `first` on. */
static int same_size(const struct mt_fit_point *sorted, int npoints, int first) {
    int n = 1;
    while (first + n < npoints && sorted[first + n].size_bytes == sorted[first].size_bytes) n++;
    return n;
}

/* Bytes of the point over those of even blocks, which are the least of a size. */
static double point_skew(const struct mt_fit_point *of_size, int n, int point) {
    double least = INFINITY;
    for (int k = 0; k < n; k++) least = fmin(least, of_size[k].bytes);
    return least > 0 ? of_size[point].bytes / least : 1;
}

/* The largest of all points; 0: there is none. */
static double skew_of(const struct mt_fit_point *sorted, int npoints) {
    double most = 1;
    for (int i = 0, n; i < npoints; i += n) {
        n = same_size(sorted, npoints, i);
        for (int k = 0; k < n; k++) most = fmax(most, point_skew(sorted + i, n, k));
    }
    return most > least_skew ? most : 0;
}

/* The median ratio of a size's points in even, or in uneven blocks; 0: there is none. What is left of their variance is
 * added to *variance. */
static double ratio_of(const struct mt_coll_fit *fit, const struct mt_fit_point *of_size, int n, bool uneven,
                       double *variance) {
    double *ratios = mt_malloc((size_t)n * sizeof *ratios), *errors = mt_malloc((size_t)n * sizeof *errors);
    int count = 0;
    for (int k = 0; k < n; k++) {
        if ((fit->skew > 0 && point_skew(of_size, n, k) > (1 + fit->skew) / 2) != uneven) continue;
        errors[count] = of_size[k].error;
        ratios[count++] = of_size[k].time_s / line_s(&of_size[k], fit->latency_s, fit->bandwidth_Bps);
    }
    double ratio = count ? mt_median(ratios, (size_t)count) : 0;
    for (int k = 0; k < count; k++) {
        double apart = ratios[k] / ratio - 1, deviation = errors[k] / 2;
        *variance += apart * apart + deviation * deviation;
    }
    free(ratios), free(errors);
    return ratio;
}

/* Sizes without uneven blocks (0): by the nearest size that has them. */
static void fill_skewed(struct mt_coll_fit *fit, struct mt_arena *arena) {
    const double *measured = mt_arena_memdup(arena, fit->skewed_ratio, (size_t)fit->npoints * sizeof *measured);
    for (int p = 0; p < fit->npoints; p++) {
        int nearest = -1;
        for (int q = 0; q < fit->npoints; q++)
            if (measured[q] > 0 && (nearest < 0 || abs(q - p) < abs(nearest - p))) nearest = q;
        fit->skewed_ratio[p] = measured[p] > 0 ? measured[p] : fit->ratio[p] * measured[nearest] / fit->ratio[nearest];
    }
}

void mt_fit_coll(const struct mt_fit_point *points, int npoints, struct mt_arena *arena, struct mt_coll_fit *fit) {
    struct mt_fit_point *sorted = mt_arena_memdup(arena, points, (size_t)npoints * sizeof *points);
    qsort(sorted, (size_t)npoints, sizeof *sorted, by_size);
    mt_fit_line(sorted, npoints, &fit->latency_s, &fit->bandwidth_Bps, NULL);
    if (fit->bandwidth_Bps >= FASTEST_BPS) { /* hidden by noise; but large messages must not be free */
        const struct mt_fit_point *largest = &sorted[npoints - 1];
        fit->latency_s = 0;
        fit->bandwidth_Bps = fmin(largest->bytes / largest->time_s, FASTEST_BPS);
    }
    fit->skew = skew_of(sorted, npoints);
    fit->size_bytes = mt_new(arena, int64_t, npoints);
    fit->ratio = mt_new(arena, double, npoints);
    if (fit->skew > 0) fit->skewed_ratio = mt_new(arena, double, npoints);
    fit->npoints = 0;
    double variance = 0;
    for (int i = 0, n; i < npoints; i += n) {
        n = same_size(sorted, npoints, i);
        int p = fit->npoints++;
        fit->size_bytes[p] = sorted[i].size_bytes;
        fit->ratio[p] = ratio_of(fit, sorted + i, n, false, &variance);
        if (fit->skew > 0) fit->skewed_ratio[p] = ratio_of(fit, sorted + i, n, true, &variance);
    }
    if (fit->skew > 0) fill_skewed(fit, arena);
    fit->error = 2 * sqrt(variance / npoints);
}
