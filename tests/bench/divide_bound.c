/* The bound on all programs against 10,000 random ones on 250 random clusters (tests/planner/divide/bound_cases.h): how
 * many are below it (none should be), and how far the fastest of each cluster is above it.
 *
 *     MOTLEY_MODULES=build/release build/release/tests/bench_divide_bound [clusters [programs of each [first]]] */
#include <stdlib.h>

#include "tests/planner/divide/bound_cases.h"

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
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
        gap[i] = c.best_s / c.bound_s - 1;
        bound_tear_down(&c);
    }
    qsort(gap, (size_t)nclusters, sizeof *gap, by_size);
    printf("%d programs on %d clusters (%d with fits; %d more are not built): %d below the bound; the fastest of each "
           "cluster is above it by %.1f%% at least, %.1f%% in the median\n",
           tally.plans, nclusters, tally.fitted, tally.misfits, tally.below, 100 * gap[0], 100 * gap[nclusters / 2]);
    free(gap);
    return tally.below > 0;
}
