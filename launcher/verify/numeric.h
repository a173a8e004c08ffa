/* A numeric comparison of a plan with one rank: both are run in fp64 by the reference interpreter on the same random
 * tokens, and their parameters are compared. proxy_plan.h makes the plans that are run. */
#ifndef MT_LAUNCHER_VERIFY_NUMERIC_H
#define MT_LAUNCHER_VERIFY_NUMERIC_H

#include "planner/plan/plan.h"

struct mt_numeric {
    double difference;      /* |w - w'| / |w| over all parameters */
    double worst;           /* the largest difference of an element, over max(largest |w| of its tensor, lr steps) */
    const char *worst_name; /* the tensor; in the arena */
    double loss_difference; /* largest relative difference of a step's loss */
    double spread;          /* largest difference between replicas of a parameter: must be 0 */
    double first_loss, last_loss;
    struct mt_arena arena;
};

/* Limits of the results. */
#define MT_NUMERIC_DIFFERENCE 1e-10
#define MT_NUMERIC_WORST 1e-10
#define MT_NUMERIC_LOSS 1e-11

/* Upper estimates of the run's memory and time. */
enum mt_status mt_numeric_estimate(const struct mt_plan *plan, int64_t steps, double *memory_bytes, double *time_s,
                                   struct mt_err *err);

/* Run and compare. MT_EPROOF, with the results filled in, when a limit is exceeded. Release the arena in any case. */
enum mt_status mt_numeric_run(const struct mt_plan *plan, int64_t steps, struct mt_numeric *result, struct mt_err *err);

#endif
