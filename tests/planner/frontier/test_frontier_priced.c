/* The frontier programme against branch and bound over all rules of all operators (compare_priced.h), on a tenth of the
 * graphs that tests/bench/frontier.c compares. */
#include "tests/planner/frontier/compare_priced.h"

enum { GRAPHS = 5 };

int main(void) {
    double worst = 0;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) compare_priced(seed, true, &worst);
    return 0;
}
