/* The search against brute force on 10 random clusters (oracle.h); tests/bench/oracle.c compares 200. */
#include "tests/planner/search/oracle.h"

#ifdef MOTLEY_SANITIZE
enum { CLUSTERS = 1 };
#else
enum { CLUSTERS = 10 };
#endif

int main(void) {
    double mean, worst;
    oracle_compare(1, CLUSTERS, false, &mean, &worst);
    CHECK(mean <= 0.01, "mean regret %g", mean);
    CHECK(worst <= 0.05, "worst regret %g", worst);
    return 0;
}
