/* Mutants of overlapped schedules on 2 to 8 ranks, ragged (tests/synth/check/overlap_mutants.h): the checker must
 * refuse every one that the interpreter of orders shows to be wrong.
 *
 *     build/release/tests/bench_overlap_mutants [ROUNDS [FIRST]] */
#include "tests/synth/check/overlap_mutants.h"

#include "kernels/base/wait.h"

int main(int argc, char **argv) {
    struct overlap_tally tally = {0};
    int rounds = argc > 1 ? atoi(argv[1]) : 24, first = argc > 2 ? atoi(argv[2]) : 100, wrong = 0, ranks = 0;
    double begin_s = mt_now_s();
    for (int n = 2; n <= MOST_RANKS; n++)
        for (int how = 0; how < NMUTATIONS; how++)
            for (int round = 0; round < rounds; round++) {
                struct overlap_case c;
                overlap_case_init(&c, n, overlap_case_of(how, first + how * rounds + round));
                overlap_mutant(&c, (enum mutation)how, first + round, &tally);
                overlap_case_release(&c);
            }
    printf("%-26s %6s %6s %6s %14s %10s\n", "mutation", "made", "wrong", "right", "of them refused", "undecided");
    for (int how = 0; how < NMUTATIONS; how++) {
        printf("%-26s %6d %6d %6d %15d %10d\n", mutation_names[how], tally.made[how], tally.wrong[how],
               tally.right[how], tally.refused_right[how], tally.undecided[how]);
        wrong += tally.wrong[how];
    }
    printf("wrong by ranks:");
    for (int n = 2; n <= MOST_RANKS; n++) printf(" %d: %d", n, tally.wrong_of[n]), ranks += tally.wrong_of[n] > 0;
    printf("\n%d wrong, all refused; of the undecided %d accepted; %.1f s\n", wrong, tally.accepted_undecided,
           mt_now_s() - begin_s);
    CHECK(ranks == MOST_RANKS - 1, "wrong ones on every number of ranks");
    return 0;
}
