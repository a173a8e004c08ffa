/* The frontier programme against branch and bound over all rules of all operators (compare_priced.h);
 * tests/bench/frontier.c compares ten times as many graphs. */
#include "tests/planner/frontier/compare_priced.h"

enum { FIRST = 1, GRAPHS = 50 };

int main(void) {
    struct priced_totals totals = {0};
    printf("seeds %d to %d\n", FIRST, FIRST + GRAPHS - 1);
    for (int seed = FIRST; seed < FIRST + GRAPHS; seed++) compare_priced((uint64_t)seed, false, &totals);
    priced_print(&totals);
    return 0;
}
