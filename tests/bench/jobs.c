/* All ordinary jobs (tests/planner/make/jobs.h): 6 models, 6 clusters, 5 batches; planned, or rightly refused.
 *
 *     MOTLEY_MODULES=build/release build/release/tests/bench_jobs */
#include "tests/planner/make/jobs.h"

int main(void) {
    int planned = 0;
    for (int which = 0; which < JOBS; which++) planned += jobs_plan(which, true);
    printf("%d of %d jobs planned, the others rightly refused\n", planned, JOBS);
    return 0;
}
