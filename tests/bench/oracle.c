/* The search against brute force on 200 random clusters of two to four ranks (tests/planner/search/oracle.h): all
 * subsets, all shares. Asked for: regret of 1% in the mean, of 5% at worst.
 *
 *     MOTLEY_MODULES=build/release build/release/tests/bench_oracle [COUNT [FIRST_SEED]] */
#include "tests/planner/search/oracle.h"

int main(int argc, char **argv) {
    double mean, worst;
    oracle_compare(argc > 2 ? strtoull(argv[2], NULL, 10) : 1, argc > 1 ? atoi(argv[1]) : 200, true, &mean, &worst);
    CHECK(mean <= 0.01, "mean regret %g", mean);
    CHECK(worst <= 0.05, "worst regret %g", worst);
    return 0;
}
