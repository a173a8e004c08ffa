/* The frontier programme against oracles, on many random graphs; tests/planner/frontier has a tenth of each.
 *
 *     MOTLEY_MODULES=build/release build/release/tests/bench_frontier priced [COUNT [FIRST_SEED]]
 *
 *   priced   branch and bound over all rules of all operators: no regret */
#include "tests/planner/frontier/compare_priced.h"

static int priced(int count, uint64_t first) {
    double worst = 0;
    for (uint64_t seed = first; seed < first + (uint64_t)count; seed++) compare_priced(seed, true, &worst);
    printf("%d graphs: worst regret %g\n", count, worst);
    return 0;
}

static const struct {
    const char *name;
    int count;
    int (*run)(int count, uint64_t first);
} parts[] = {{"priced", 50, priced}};

int main(int argc, char **argv) {
    for (size_t i = 0; i < sizeof parts / sizeof *parts && argc > 1; i++)
        if (!strcmp(argv[1], parts[i].name))
            return parts[i].run(argc > 2 ? atoi(argv[2]) : parts[i].count,
                                argc > 3 ? strtoull(argv[3], NULL, 10) : 1);
    fprintf(stderr, "usage: bench_frontier priced [COUNT [FIRST_SEED]]\n");
    return 2;
}
