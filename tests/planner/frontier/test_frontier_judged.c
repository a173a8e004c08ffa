/* What the frontier programme finds against all programs of a job, judged by their predictions (compare_judged.h): a
 * few jobs at few shares; tests/bench/frontier.c compares twenty at all shares. */
#include "tests/planner/frontier/compare_judged.h"

enum { UNITS = 2 };

int main(void) {
    static const int seeds[] = {5, 6, 7, 12, 16, 18};
    struct judged_totals totals = {0};
    compare_hidden(false, &totals);
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
        compare_judged((uint64_t)seeds[i], UNITS, false, &totals);
    judged_print(&totals);
    judged_check(&totals);
    return 0;
}
