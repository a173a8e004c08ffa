/* Ties: whether one time that is predicted may as well be shorter than another.
 *
 * Predictions share most of their errors (the same devices, the same links), so the difference of two is known better
 * than either: A and B tie if
 *     |log(A / B)| <= sqrt(sum over sources (A.error - B.error)^2 + A.own^2 + B.own^2). */
#ifndef MT_PLANNER_REVIEW_TIE_H
#define MT_PLANNER_REVIEW_TIE_H

#include "planner/plan/plan.h"

#define MT_TIE_OWN_ERROR 0.01 /* of a prediction that no other shares */

/* Errors of a time, relative to it, by their sources. Zero: none yet. */
struct mt_errors {
    int count, capacity;
    struct mt_plan_error *parts; /* time_s: the part of the time */
    double own2;                 /* own^2 */
};
/* A step with this prediction is the part `weight` of the time. Sources are not copied; memory is the arena's. */
void mt_errors_add(struct mt_errors *errors, const struct mt_plan_prediction *prediction, double weight,
                   struct mt_arena *arena);

/* ratio: A / B. */
bool mt_errors_tie(const struct mt_errors *a, const struct mt_errors *b, double ratio);

#endif
