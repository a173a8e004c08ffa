/* 500 edits of clusters for the better, and 200 shuffled clusters (tests/planner/make/better.h): asked for are steps
 * that are longer by 1% at most.
 *
 *     MOTLEY_MODULES=build/release build/release/tests/bench_better [COUNT [FIRST_SEED]] */
#include "tests/planner/make/better.h"

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 500;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    double edits = better_edits(first, count, true), orders = better_orders(first + 100000, count * 2 / 5, true);
    CHECK(edits <= 1.01, "better hardware is slower: %g times", edits);
    CHECK(orders <= 1.01, "the document's order matters: %g times", orders);
    return 0;
}
