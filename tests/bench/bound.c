/* The lower bound of plans that divide samples alone, against 10,000 random plans on at least 250 random clusters of 2
 * to 5 ranks (tests/planner/search/bound_cases.h): how many are below it (none should be), and how far the search's
 * plan is above it.
 *
 *     MOTLEY_MODULES=build/release build/release/tests/bench_bound [clusters [plans of each]] */
#include <stdlib.h>

#include "tests/planner/search/bound_cases.h"

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The step of the plan that is searched among those that divide samples alone, as the bound's space is; infinite where
 * none fits. */
static double searched(struct bound_case *c) {
    struct mt_plan *p = bound_new_plan(c, c->costs.nranks, c->device);
    struct mt_err err = MT_ERR_INIT;
    c->search.by_samples = true;
    enum mt_status st = mt_search(&c->search, p, NULL, &err);
    CHECK(!st || (st == MT_EINPUT && c->tight), "seed %d: %s", (int)c->seed, err.text);
    double step_s = st ? INFINITY : p->prediction->step_s;
    mt_plan_free(p);
    return step_s;
}

int main(int argc, char **argv) {
    int nclusters = argc > 1 ? atoi(argv[1]) : 250, nplans = argc > 2 ? atoi(argv[2]) : 40, n = 0, refused = 0;
    struct bound_tally tally = {0};
    int most = 2 * nclusters, wanted = nclusters * nplans, i = 0; /* where memory is tight, fewer plans fit */
    double *gap = mt_calloc((size_t)most, sizeof *gap);
    for (; i < most && (i < nclusters || tally.plans < wanted); i++) {
        struct bound_case c;
        bound_set_up(&c, (uint64_t)i + 1);
        bound_try(&c, nplans, &tally);
        double step_s = searched(&c);
        if (isinf(step_s) && isfinite(c.best_s))
            printf("seed %d: refused, though a random plan fits that takes %g s\n", i + 1, c.best_s);
        refused += isinf(step_s);
        if (isfinite(step_s)) tally.below += step_s < c.bound_s || bound_says_none(&c);
        if (isfinite(step_s)) gap[n++] = step_s / c.bound_s - 1;
        bound_tear_down(&c);
    }
    qsort(gap, (size_t)n, sizeof *gap, by_size);
    printf("%d plans on %d clusters (%d with fits; %d more do not fit): %d below the bound; the searched plan is above "
           "it by %.1f%% in the median, %.1f%% at the 90th percentile; none fits on %d clusters\n",
           tally.plans, i, tally.fitted, tally.misfits, tally.below, 100 * gap[n / 2], 100 * gap[n * 9 / 10], refused);
    free(gap);
    return tally.below > 0;
}
