/* Drift: whether other shares of the batch would make the steps shorter, by the ranks' measured compute times.
 *
 *     struct mt_drift drift;
 *     mt_drift_init(&drift, nranks, shares, align);
 *     if (mt_drift_window(&drift, now_s, compute_s, step_s)) ... drift.better, drift.gain ...
 *     mt_drift_release(&drift);
 *
 * A window is some steps: the medians of each rank's compute time and of the step's time. A rank's compute time is
 * taken to be proportional to its share, and the step to shorten by as much as its longest rank does. Better shares are
 * reported when they gain more than MT_DRIFT_GAIN in each of the last MT_DRIFT_WINDOWS windows, so that noise is not
 * reported; then not again for MT_DRIFT_PAUSE_S, and only if they differ, or the gain was gone in between. */
#ifndef MT_PLANNER_BALANCE_DRIFT_H
#define MT_PLANNER_BALANCE_DRIFT_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/arena.h"

enum { MT_DRIFT_WINDOWS = 8, MT_DRIFT_PAUSE_S = 240, MT_DRIFT_WARMUP_S = 10 };
#define MT_DRIFT_GAIN 0.05

struct mt_drift {
    struct mt_arena arena;
    int nranks;
    int64_t align;
    const int64_t *shares;               /* [nranks] as they are */
    double *compute_s[MT_DRIFT_WINDOWS]; /* [nranks] of the last windows, in a ring */
    double step_s[MT_DRIFT_WINDOWS];
    int64_t nwindows;
    double started_s, reported_s; /* of the first window, and of the last report */
    bool reported, quiet;         /* quiet: since then the gain was not gone */
    int64_t *last_report;         /* [nranks]: its shares */
    /* out */
    int64_t *better;           /* [nranks] */
    double gain, from_s, to_s; /* of the medians: from_s / to_s - 1 */
};

/* shares[nranks] are the caller's, and stay. */
void mt_drift_init(struct mt_drift *drift, int nranks, const int64_t *shares, int64_t align);
void mt_drift_release(struct mt_drift *drift);

/* How long a step of step_s would take with other shares: compute_s[nranks] of it are in proportion to the shares, and
 * the step exceeds the longest of them by as much as before. */
double mt_drift_step_after(int nranks, const int64_t *shares, const int64_t *better, const double *compute_s,
                           double step_s);

/* A window at the time now_s (of any clock): true when better shares are to be reported. */
bool mt_drift_window(struct mt_drift *drift, double now_s, const double *compute_s, double step_s);

#endif
