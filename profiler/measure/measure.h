/* Repeat measurements until they are certain, or until the time for them is spent.
 *
 * Cases are measured in turn, round after round, so that what drifts or disturbs for a while touches all of them, and
 * none alone. A case whose error is below the target on every rank is left out of later rounds. All ranks take the same
 * cases at the same time. */
#ifndef MT_PROFILER_MEASURE_MEASURE_H
#define MT_PROFILER_MEASURE_MEASURE_H

#include "kernels/base/number/stats.h"
#include "profiler/measure/exchange.h"

#define MT_MEASURE_TARGET 0.02

/* Samples of one figure, in the order they came. */
struct mt_samples {
    double *values;
    int count, capacity;
};
void mt_samples_add(struct mt_samples *series, double value);
void mt_samples_release(struct mt_samples *series);
struct mt_interval mt_samples_interval(const struct mt_samples *series);

struct mt_measure {
    int ncases;
    struct mt_samples *series; /* [ncases]: a rank that takes no part in a case adds nothing to it */
    /* Measure case `which` for about slot_s (at most 2), at least once, and add to its series. Called on all ranks at
     * once. */
    enum mt_status (*once)(void *context, int which, double slot_s, struct mt_err *err);
    void *context;
    const char *what; /* for lines of progress: "products and other operators" */
};

/* Collective. Each case is measured in three rounds or more, or in as many as budget_s has room for; in one at least.
 */
enum mt_status mt_measure_run(const struct mt_measure *measure, struct mt_exchange *exchange, double budget_s,
                              struct mt_err *err);

#endif
