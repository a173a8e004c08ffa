/* Repeat measurements until their errors are small, or the budget is spent.
 *
 *     struct mt_measure measure = {ncases, series, once, context, "operators"};
 *     st = mt_measure_run(&measure, exchange, budget_s, err);
 *
 * Cases are measured in turn, round after round, so that drift and disturbances affect all of them equally. A case
 * whose error is below MT_MEASURE_TARGET on every rank is left out of later rounds. All ranks measure the same case at
 * the same time. */
#ifndef MT_PROFILER_MEASURE_MEASURE_H
#define MT_PROFILER_MEASURE_MEASURE_H

#include "kernels/base/number/stats.h"
#include "profiler/measure/exchange.h"

#define MT_MEASURE_TARGET 0.02

/* Samples of one figure, in the order of measurement. */
struct mt_samples {
    double *values;
    int count, capacity;
};
void mt_samples_add(struct mt_samples *series, double value);
void mt_samples_release(struct mt_samples *series);
struct mt_interval mt_samples_interval(const struct mt_samples *series);

struct mt_measure {
    int ncases;
    struct mt_samples *series; /* [ncases]; empty on ranks that take no part in a case */
    /* Measure case `which` at least once, for about slot_s (at most 2), and add to its series. Collective. */
    enum mt_status (*once)(void *context, int which, double slot_s, struct mt_err *err);
    void *context;
    const char *what; /* for progress: "operators" */
};

/* Collective. Each case is measured in at least three rounds, if budget_s allows; in any case in one. */
enum mt_status mt_measure_run(const struct mt_measure *measure, struct mt_exchange *exchange, double budget_s,
                              struct mt_err *err);

#endif
