/* 1,000 random collectives on random directed networks against bounds computed here: see tests/planner/cost/physics.h.
 *
 *     build/release/tests/bench_physics [ROUNDS] */
#include "tests/planner/cost/physics.h"

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 1000;
    CHECK(rounds > 0, "usage: bench_physics [ROUNDS]");
    printf("seed %d\n", PHYSICS_SEED);
    check_bounds(rounds);
    check_many_hosts(rounds / 2);
    check_monotone(rounds);
    check_edits(rounds);
    return 0;
}
