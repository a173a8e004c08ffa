/* The frontier programme against oracles, on many random graphs; tests/planner/frontier has a tenth of each.
 *
 *     MOTLEY_MODULES=build/release build/release/tests/bench_frontier priced|judged|integer [COUNT [FIRST_SEED]]
 *
 *   priced   branch and bound over all rules of all operators: no regret
 *   judged   all programs of small jobs, at all shares, by their predictions: 2% in the mean, 10% at worst
 *   integer  an integer programme, solved by GLPK within a minute: equal, on at least 25 of 30 graphs */
#include "tests/planner/frontier/compare_integer.h"
#include "tests/planner/frontier/compare_judged.h"
#include "tests/planner/frontier/compare_priced.h"

static int priced(int count, uint64_t first) {
    struct priced_totals totals = {0};
    for (uint64_t seed = first; seed < first + (uint64_t)count; seed++) compare_priced(seed, true, &totals);
    priced_print(&totals);
    return 0;
}

static int integer(int count, uint64_t first) {
    int solved = 0;
    for (uint64_t seed = first; seed < first + (uint64_t)count; seed++) solved += compare_integer(seed, 0, 60, true);
    printf("%d graphs: GLPK solved %d\n", count, solved);
    CHECK(6 * solved >= 5 * count, "%d of %d", solved, count);
    return 0;
}

static int judged(int count, uint64_t first) {
    struct judged_totals totals = {0};
    compare_hidden(true, &totals);
    for (uint64_t seed = first; seed < first + (uint64_t)count; seed++) compare_judged(seed, 6, true, &totals);
    judged_print(&totals);
    if (count >= 20) judged_check(&totals); /* fewer have no mean */
    return 0;
}

static const struct {
    const char *name;
    int count;
    int (*run)(int count, uint64_t first);
} parts[] = {{"priced", 500, priced}, {"judged", 20, judged}, {"integer", 30, integer}};

int main(int argc, char **argv) {
    for (size_t i = 0; i < sizeof parts / sizeof *parts && argc > 1; i++)
        if (!strcmp(argv[1], parts[i].name))
            return parts[i].run(argc > 2 ? atoi(argv[2]) : parts[i].count, argc > 3 ? strtoull(argv[3], NULL, 10) : 1);
    fprintf(stderr, "usage: bench_frontier priced|judged|integer [COUNT [FIRST_SEED]]\n");
    return 2;
}
