/* 200 random graphs under random choices agree with one rank (tests/synth/agreement.h); a fifth of them under
 * sanitizers. */
#include "tests/synth/agreement.h"

#ifdef MOTLEY_SANITIZE
enum { CASES = 40 };
#else
enum { CASES = 200 };
#endif

int main(void) {
    printf("seed %d\n", SEED);
    agree(CASES, true);
    return 0;
}
