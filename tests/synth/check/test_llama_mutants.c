/* 70 wrong mutants of each class of Llamas (tests/synth/check/llama_mutants.h), 560 in all; under sanitizers three of
 * each.
 */
#include "tests/synth/check/llama_mutants.h"

#ifdef MOTLEY_SANITIZE
enum { EACH = 3 };
#else
enum { EACH = 70 };
#endif

int main(int argc, char **argv) {
    printf("seed %d\n", SEED);
    make_mutants_of(&llamas, argc > 1 ? atoi(argv[1]) : EACH);
    return 0;
}
