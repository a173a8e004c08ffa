/* 1000 wrong mutants of each of five classes (tests/synth/check/mutants.h), all of which the checkers must refuse.
 *
 *     build/release/tests/bench_mutants [EACH [FIRST_DRAW]] */
#include "tests/synth/check/mutants.h"

int main(int argc, char **argv) {
    draws = argc > 2 ? strtoull(argv[2], NULL, 10) : 5000000;
    make_mutants(argc > 1 ? atoi(argv[1]) : 1000);
    return 0;
}
