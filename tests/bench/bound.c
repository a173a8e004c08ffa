/* The lower bound against 10,000 random plans on 250 random clusters of 2 to 5 ranks
 * (tests/planner/search/bound_cases.h): how many are below it (none should be), and how far the search's plan is above
 * it.
 *
 *     MOTLEY_MODULES=build/release build/release/tests/bench_bound [clusters [plans of each]] */
#include <stdlib.h>

#include "tests/planner/search/bound_cases.h"

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The searched plan's step. */
static double searched(struct bound_case *c) {
    struct mt_plan *p = bound_new_plan(c, c->costs.nranks, c->device);
    CHECK_OK(mt_search(&c->search, p, NULL, &bound_err), bound_err);
    double step_s = p->prediction->step_s;
    mt_plan_free(p);
    return step_s;
}

int main(int argc, char **argv) {
    int nclusters = argc > 1 ? atoi(argv[1]) : 250, nplans = argc > 2 ? atoi(argv[2]) : 40, below = 0;
    double *gap = mt_calloc((size_t)nclusters, sizeof *gap);
    for (int i = 0; i < nclusters; i++) {
        struct bound_case c;
        bound_set_up(&c, (uint64_t)i + 1);
        below += bound_try(&c, nplans);
        gap[i] = searched(&c) / c.bound_s - 1;
        below += gap[i] < 0;
        bound_tear_down(&c);
    }
    qsort(gap, (size_t)nclusters, sizeof *gap, by_size);
    printf("%d plans on %d clusters: %d below the bound; the searched plan is above it by %.1f%% in the median, "
           "%.1f%% at the 90th percentile\n",
           nclusters * nplans, nclusters, below, 100 * gap[nclusters / 2], 100 * gap[nclusters * 9 / 10]);
    free(gap);
    return below > 0;
}
