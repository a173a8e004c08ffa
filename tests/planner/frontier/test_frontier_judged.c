/* What the frontier programme finds against all programs of a job, judged by their predictions (compare_judged.h): a
 * few jobs at few shares; tests/bench/frontier.c compares twenty at all shares. */
#include "tests/planner/frontier/compare_judged.h"

#ifdef MOTLEY_SANITIZE
enum { UNITS = 2, JOBS = 3 };
#else
enum { UNITS = 2, JOBS = 6 };
#endif

int main(void) {
    static const int seeds[6] = {5, 6, 16, 7, 12, 18};
    struct judged_totals totals = {0};
    compare_hidden(false, &totals);
    for (int i = 0; i < JOBS; i++) compare_judged((uint64_t)seeds[i], UNITS, false, &totals);
    judged_print(&totals);
    judged_check(&totals);
    return 0;
}
