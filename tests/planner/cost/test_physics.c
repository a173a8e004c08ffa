/* No collective is predicted faster than the rates of its cuts allow, nor slower for a faster network; a tenth of
 * tests/bench/physics.c. */
#include "tests/planner/cost/physics.h"

int main(void) {
    printf("seed %d\n", PHYSICS_SEED);
    check_bounds(100);
    check_many_hosts(40);
    check_monotone(200);
    check_edits(100);
    return 0;
}
