/* 100 wrong mutants of each class (tests/synth/check/mutants.h); under sanitizers a tenth. */
#include "tests/synth/check/mutants.h"

#ifdef MOTLEY_SANITIZE
enum { EACH = 10 };
#else
enum { EACH = 100 };
#endif

int main(void) {
    printf("seed %d\n", SEED);
    make_mutants(EACH);
    return 0;
}
