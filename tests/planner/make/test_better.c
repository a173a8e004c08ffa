/* 20 edits for the better, one that was for the worse while the choice of algorithms left their packing out (seed 383),
 * and 8 shuffled clusters (better.h); tests/bench/better.c has 500 and 200. */
#include "tests/planner/make/better.h"

#ifdef MOTLEY_SANITIZE
enum { EDITS = 6, ORDERS = 4 };
#else
enum { EDITS = 20, ORDERS = 8 };
#endif

int main(void) {
    double worst = better_edits(1, EDITS, false);
    CHECK(worst <= 1.01, "better hardware is slower: %g times", worst);
    worst = better_edits(383, 1, false);
    CHECK(worst <= 1.01, "better hardware is slower: %g times", worst);
    worst = better_orders(1000, ORDERS, false);
    CHECK(worst <= 1.01, "the document's order matters: %g times", worst);
    return 0;
}
