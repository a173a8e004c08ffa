/* Better shares from measured times. */
#include "planner/balance/drift.h"

#include <string.h>

#include "kernels/base/number/stats.h"
#include "planner/balance/split.h"

void mt_drift_init(struct mt_drift *d, int nranks, const int64_t *shares, int64_t align) {
    *d = (struct mt_drift){.nranks = nranks, .align = align, .shares = shares};
    for (int w = 0; w < MT_DRIFT_WINDOWS; w++) d->compute_s[w] = mt_new(&d->arena, double, nranks);
    d->last_report = mt_new(&d->arena, int64_t, nranks);
    d->better = mt_new(&d->arena, int64_t, nranks);
}

void mt_drift_release(struct mt_drift *drift) {
    mt_arena_release(&drift->arena);
    *drift = (struct mt_drift){0};
}

double mt_drift_step_after(int nranks, const int64_t *shares, const int64_t *better, const double *compute_s,
                           double step_s) {
    double before = 0, after = 0;
    for (int r = 0; r < nranks; r++) {
        if (!shares[r]) continue;
        double mine = compute_s[r] * (double)better[r] / (double)shares[r];
        if (compute_s[r] > before) before = compute_s[r];
        if (mine > after) after = mine;
    }
    return step_s - before + after;
}

/* Shares in proportion to samples a second, by the medians over the windows; a rank without samples has no speed and
 * stays without. */
static bool find_better(struct mt_drift *d, double *median_s) {
    struct mt_arena scratch = MT_ARENA_INIT;
    struct mt_err err = MT_ERR_INIT;
    double *speeds = mt_new(&scratch, double, d->nranks), one[MT_DRIFT_WINDOWS];
    int64_t batch = 0;
    bool known = true;
    for (int r = 0; r < d->nranks; r++) {
        for (int w = 0; w < MT_DRIFT_WINDOWS; w++) one[w] = d->compute_s[w][r];
        median_s[r] = mt_median(one, MT_DRIFT_WINDOWS);
        batch += d->shares[r];
        if (!d->shares[r]) continue;
        known &= median_s[r] > 0;
        speeds[r] = (double)d->shares[r] / median_s[r];
    }
    known = known && !mt_split_proportional(batch, d->align, speeds, d->nranks, d->better, &err);
    mt_arena_release(&scratch);
    return known;
}

bool mt_drift_window(struct mt_drift *d, double now_s, const double *compute_s, double step_s) {
    int slot = (int)(d->nwindows % MT_DRIFT_WINDOWS);
    if (!d->nwindows++) d->started_s = now_s;
    memcpy(d->compute_s[slot], compute_s, (size_t)d->nranks * sizeof *compute_s);
    d->step_s[slot] = step_s;
    if (d->nwindows < MT_DRIFT_WINDOWS || now_s - d->started_s < MT_DRIFT_WARMUP_S) return false;

    struct mt_arena scratch = MT_ARENA_INIT;
    double *median_s = mt_new(&scratch, double, d->nranks), least = 1e9;
    bool known = find_better(d, median_s);
    d->from_s = mt_median(d->step_s, MT_DRIFT_WINDOWS);
    d->to_s = mt_drift_step_after(d->nranks, d->shares, d->better, median_s, d->from_s);
    mt_arena_release(&scratch);
    if (!known || !(d->to_s > 0)) return false;
    d->gain = d->from_s / d->to_s - 1;
    for (int w = 0; w < MT_DRIFT_WINDOWS; w++) {
        double after = mt_drift_step_after(d->nranks, d->shares, d->better, d->compute_s[w], d->step_s[w]);
        double gain = after > 0 ? d->step_s[w] / after - 1 : 0;
        if (gain < least) least = gain;
    }
    if (d->gain < MT_DRIFT_GAIN / 2) d->quiet = false;
    if (least <= MT_DRIFT_GAIN || d->gain <= MT_DRIFT_GAIN) return false;
    size_t bytes = (size_t)d->nranks * sizeof *d->last_report;
    bool same = d->quiet && !memcmp(d->last_report, d->better, bytes);
    if (d->reported && (same || now_s - d->reported_s < MT_DRIFT_PAUSE_S)) return false;
    d->reported = d->quiet = true;
    d->reported_s = now_s;
    memcpy(d->last_report, d->better, bytes);
    return true;
}
