/* The bound on all programs against 10,000 random ones on 250 random clusters (tests/planner/divide/bound_cases.h), and
 * against the plan that is searched: how many are below it (none should be), and how far the fastest is above it.
 *
 *     MOTLEY_MODULES=build/release build/release/tests/bench_divide_bound [clusters [programs of each [first]]] */
#include <stdlib.h>

#include "tests/planner/divide/bound_cases.h"

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double searched(struct bound_case *c) {
    struct mt_plan *p = bound_new_plan(c, c->costs.nranks, c->device);
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_search(&c->search, p, NULL, &err), err);
    double step_s = p->prediction->step_s;
    mt_plan_free(p);
    return step_s;
}

int main(int argc, char **argv) {
    int nclusters = argc > 1 ? atoi(argv[1]) : 250, nprograms = argc > 2 ? atoi(argv[2]) : 40;
    uint64_t first = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    struct bound_tally tally = {0};
    double *gap = mt_calloc((size_t)nclusters + 1, sizeof *gap);
    for (int i = 0; i < nclusters; i++) {
        struct bound_case c;
        all_set_up(&c, first + (uint64_t)i);
        all_try(&c, nprograms, &tally);
        double step_s = searched(&c);
        if (step_s < c.bound_s) printf("seed %d: searched %g s, the bound is %g s\n", i, step_s, c.bound_s);
        tally.below += step_s < c.bound_s;
        gap[i] = fmin(c.best_s, step_s) / c.bound_s - 1;
        bound_tear_down(&c);
    }
    qsort(gap, (size_t)nclusters, sizeof *gap, by_size);
    printf("%d programs on %d clusters (%d with fits; %d more are not built): %d below the bound; the fastest of each "
           "cluster is above it by %.1f%% at least, %.1f%% in the median\n",
           tally.plans, nclusters, tally.fitted, tally.misfits, tally.below, 100 * gap[0], 100 * gap[nclusters / 2]);
    free(gap);
    return tally.below > 0;
}
