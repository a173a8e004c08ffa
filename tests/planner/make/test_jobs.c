/* A tenth of the ordinary jobs (jobs.h), every model, cluster and batch among them: planned, or rightly refused. All
 * are in tests/bench/jobs.c. */
#include "tests/planner/make/jobs.h"

#ifdef MOTLEY_SANITIZE
enum { EVERY = 53 };
#else
enum { EVERY = 11 }; /* prime to the numbers of models, clusters and batches */
#endif

/* What was refused though it fits, when memory curves mixed two kinds of programs. */
static void test_refused_before(void) {
    static const int jobs[] = {1 /* mlp, h100:1, 8 */, 11 /* mlp, h100:1x8, 8 */, 155 /* 1558m, h200:1, 2 */};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        CHECK(jobs_plan(jobs[i], true, NULL), "job %d is refused", jobs[i]);
}

/* 1558m, a100-80:1x2 net=25G + t4:1x8, 32: T4s that have no room for a second sample have it with recomputation. The
 * step was 57% above the bound without. */
static void test_recomputation(void) {
    double gap;
    CHECK(jobs_plan(177, true, &gap), "refused");
    CHECK(gap < 0.2, "%g", gap);
}

int main(void) {
    int planned = 0, count = 0;
    test_refused_before();
#ifndef MOTLEY_SANITIZE
    test_recomputation();
#endif
    for (int which = 0; which < JOBS; which += EVERY, count++) planned += jobs_plan(which, true, NULL);
    printf("%d of %d planned\n", planned, count);
    return 0;
}
