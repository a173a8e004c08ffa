/* Rounds over the cases whose error is still above the target. */
#include "profiler/measure/measure.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/base/arena.h"
#include "kernels/base/log.h"
#include "kernels/base/wait.h"

enum { LEAST_ROUNDS = 3, MOST_ROUNDS = 200, LEAST_SAMPLES = 6 };
/* At any budget: between two cases ranks agree, and the watchdog gets a progress report. */
static const double longest_slot_s = 2;

void mt_samples_add(struct mt_samples *series, double value) {
    if (series->count == series->capacity) {
        series->capacity = series->capacity ? 2 * series->capacity : 16;
        series->values = mt_realloc(series->values, (size_t)series->capacity * sizeof *series->values);
    }
    series->values[series->count++] = value;
}

void mt_samples_release(struct mt_samples *series) {
    free(series->values);
    *series = (struct mt_samples){0};
}

struct mt_interval mt_samples_interval(const struct mt_samples *series) {
    return mt_median_interval(series->values, (size_t)series->count);
}

struct rounds {
    const struct mt_measure *m;
    struct mt_exchange *exchange;
    double *errors; /* [ncases]: the worst of all ranks */
    int done;
    double start_s, budget_s, slot_s;
    double spent_s; /* as all ranks agree */
};

/* A barrier on which ranks agree on failure and on the time spent. */
static enum mt_status agree(struct rounds *r, enum mt_status mine, struct mt_err *err) {
    if (mine == MT_ESTALL || mine == MT_EPEER) return mine;
    double values[2] = {mt_now_s() - r->start_s, mine != MT_OK};
    struct mt_err heard = MT_ERR_INIT;
    enum mt_status st = mt_exchange_max(r->exchange, values, 2, &heard);
    if (st) {
        *err = heard;
        return st;
    }
    r->spent_s = values[0];
    return values[1] > 0 ? mt_exchange_agree(r->exchange, mine, err) : MT_OK;
}

static enum mt_status take_round(struct rounds *r, struct mt_err *err) {
    enum mt_status st = MT_OK;
    for (int c = 0; c < r->m->ncases; c++) {
        if (r->done >= LEAST_ROUNDS && r->errors[c] < MT_MEASURE_TARGET) continue;
        if ((st = agree(r, st, err))) return st;
        if (r->done && r->spent_s > r->budget_s) return MT_OK;
        mt_exchange_progress(r->exchange, r->m->what);
        st = r->m->once(r->m->context, c, r->slot_s, err);
    }
    return agree(r, st, err);
}

static enum mt_status compare_errors(struct rounds *r, struct mt_err *err) {
    const struct mt_measure *m = r->m;
    for (int c = 0; c < m->ncases; c++) {
        const struct mt_samples *series = &m->series[c];
        r->errors[c] = series->count ? mt_interval_error(mt_samples_interval(series)) : 0;
        if (series->count && series->count < LEAST_SAMPLES) r->errors[c] = fmax(r->errors[c], 2 * MT_MEASURE_TARGET);
    }
    return mt_exchange_max(r->exchange, r->errors, m->ncases, err);
}

static int count_active(const struct rounds *r) {
    int active = 0;
    for (int c = 0; c < r->m->ncases; c++) active += r->errors[c] >= MT_MEASURE_TARGET;
    return active;
}

enum mt_status mt_measure_run(const struct mt_measure *m, struct mt_exchange *exchange, double budget_s,
                              struct mt_err *err) {
    struct rounds r = {m, exchange, mt_calloc((size_t)m->ncases + 1, sizeof *r.errors), .start_s = mt_now_s()};
    enum mt_status st = MT_OK;
    r.budget_s = budget_s, r.slot_s = fmin(budget_s / (2.0 * LEAST_ROUNDS * (m->ncases + 1)), longest_slot_s);
    for (int active = m->ncases; active && r.done < MOST_ROUNDS && !st;) {
        if ((st = take_round(&r, err)) || (st = compare_errors(&r, err))) break;
        if (r.spent_s >= budget_s) break;
        if (++r.done < LEAST_ROUNDS) continue;
        active = count_active(&r);
        r.slot_s = fmin((budget_s - r.spent_s) / (2.0 * (active ? active : 1)), longest_slot_s);
    }
    if (!st && m->ncases)
        mt_log(MT_LOG_INFO, "%-24s %5.1f s: %d of %d figures within %.0f%%", m->what, r.spent_s,
               m->ncases - count_active(&r), m->ncases, 100 * MT_MEASURE_TARGET);
    free(r.errors);
    return st;
}
