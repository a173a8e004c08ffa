/* 2000 random graphs under random choices against one rank in f64 (tests/synth/agreement.h), with the share of choices
 * that the builder refuses.
 *
 *     build/release/tests/bench_agreement [COUNT [FIRST_DRAW]] */
#include "tests/synth/agreement.h"

int main(int argc, char **argv) {
    draws = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000000;
    agree(argc > 1 ? atoi(argv[1]) : 2000, true);
    return 0;
}
