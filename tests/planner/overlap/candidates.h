/* The best candidate of what a problem leaves open, by prediction. */
#ifndef MT_TESTS_PLANNER_OVERLAP_CANDIDATES_H
#define MT_TESTS_PLANNER_OVERLAP_CANDIDATES_H

#include "planner/overlap/predict.h"
#include "tests/check.h"

static inline struct mt_overlap best_candidate(const struct mt_overlap *open, const struct mt_overlap_rates *rates,
                                               const struct mt_overlap_links *links, double *best_s) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_overlap best = *open, tried;
    *best_s = INFINITY;
    for (int i = 0; mt_overlap_candidate(open, i, &tried); i++) {
        struct mt_overlap_prediction now;
        CHECK_OK(mt_overlap_check(&tried, &err), err);
        CHECK_OK(mt_overlap_predict_problem(&tried, rates, links, &now, &err), err);
        if (now.s < *best_s) best = tried, *best_s = now.s;
    }
    return best;
}

#endif
