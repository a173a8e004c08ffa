/* Whether other shares of the batch would make the steps shorter, from how long the ranks really compute.
 *
 *     struct mt_drift drift;
 *     mt_drift_init(&drift, nranks, shares, align);
 *     if (mt_drift_window(&drift, now_s, compute_s, step_s)) ... drift.better, drift.gain ...
 *     mt_drift_release(&drift);
 *
 * A window is some steps: the median time that each rank computed in one, and that a step took. What a rank computes is
 * taken to grow with its share, and a step to shorten by as much as its longest rank does. Better shares are said when
 * they gain more than MT_DRIFT_GAIN in each of the last MT_DRIFT_WINDOWS windows, so that noise does not speak; then
 * not again for MT_DRIFT_PAUSE_S, and only when they are others, or the gain was gone meanwhile. */
#ifndef MT_PLANNER_BALANCE_DRIFT_H
#define MT_PLANNER_BALANCE_DRIFT_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/arena.h"

enum { MT_DRIFT_WINDOWS = 8, MT_DRIFT_PAUSE_S = 240, MT_DRIFT_SETTLE_S = 10 };
#define MT_DRIFT_GAIN 0.05

struct mt_drift {
    struct mt_arena arena;
    int nranks;
    int64_t align;
    const int64_t *shares;               /* [nranks] as they are */
    double *compute_s[MT_DRIFT_WINDOWS]; /* [nranks] of the last windows, in a ring */
    double step_s[MT_DRIFT_WINDOWS];
    int64_t nwindows;
    double started_s, said_s; /* when the first window came, and when something was said last */
    bool said, quiet;         /* quiet: since then the gain was not gone */
    int64_t *told;            /* [nranks] what was said */
    /* out */
    int64_t *better;           /* [nranks] */
    double gain, from_s, to_s; /* of the medians: from_s / to_s - 1 */
};

/* shares[nranks] are the caller's, and stay. */
void mt_drift_init(struct mt_drift *drift, int nranks, const int64_t *shares, int64_t align);
void mt_drift_release(struct mt_drift *drift);

/* How long a step of step_s would take with other shares, when ranks compute compute_s[nranks] of it and what they
 * compute grows with their share; no more than what it takes beside its longest rank stays. */
double mt_drift_step_after(int nranks, const int64_t *shares, const int64_t *better, const double *compute_s,
                           double step_s);

/* A window at the time now_s (of any clock): true when better shares are to be said. */
bool mt_drift_window(struct mt_drift *drift, double now_s, const double *compute_s, double step_s);

#endif
