/* The frontier programme against an integer programme solved by GLPK, on five graphs of twelve forward operators
 * (compare_integer.h); tests/bench/frontier.c compares thirty. The limit is of nodes; that of time is for what hangs.
 */
#include "tests/planner/frontier/compare_integer.h"

enum { FIRST = 1, GRAPHS = 5, MOST_NODES = 10000, LIMIT_S = 3600 };

int main(void) {
    int solved = 0;
    for (int seed = FIRST; seed < FIRST + GRAPHS; seed++)
        solved += compare_integer((uint64_t)seed, MOST_NODES, LIMIT_S, true);
    CHECK_EQ(solved, GRAPHS);
    return 0;
}
