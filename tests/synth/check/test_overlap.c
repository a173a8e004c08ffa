/* Overlapped schedules: the generators' are right in all orders and accepted; mutants that are wrong are refused; and
 * the interpreter that says so agrees with going through every order of small cases. All mutants: tests/bench. */
#include "tests/synth/check/overlap_mutants.h"

enum { CASES = 12, ROUNDS = 2 };

static void test_generators(void) {
    struct mt_err err = MT_ERR_INIT;
    for (int n = 1; n <= MOST_RANKS; n++)
        for (int number = 0; number < CASES; number++) {
            struct overlap_case c;
            overlap_case_init(&c, n, number);
            CHECK_OK(mt_overlap_check(&c.problem, &err), err);
            CHECK_OK(mt_check_overlap(&c.problem, c.schedules, "a schedule", &err), err);
            CHECK(overlap_judge(&c.problem, c.schedules) == RIGHT, "case %d of %d ranks", number, n);
            overlap_case_release(&c);
        }
}

/* Of two ranks with little to do, by every order. */
static void test_judge(void) {
    int agreed[3] = {0};
    for (int form = 0; form < MT_OVERLAP_NFORMS; form++)
        for (int number = 0; number < 60; number++) {
            const int64_t one[2] = {1, 1}, lopsided[2] = {1, 0};
            struct overlap_case c = {0};
            c.problem = (struct mt_overlap){.form = (enum mt_overlap_form)form,
                                            .n = 2,
                                            .m = 2,
                                            .cols = 2,
                                            .k = 2,
                                            .rows = one,
                                            .shares = one,
                                            .type = MT_F32,
                                            .out = MT_F32,
                                            .wire = MT_F32,
                                            .tile = {1, 2},
                                            .chunk = 1,
                                            .direct = form == MT_OVERLAP_REDUCE};
            if (number % 2) {
                c.problem.shares = lopsided;
                *(form == MT_OVERLAP_GATHER ? &c.problem.cols : &c.problem.k) = 1;
            }
            for (int r = 0; r < 2; r++) mt_overlap_schedule(&c.problem, r, &c.schedules[r]);
            struct mt_overlap_schedule mutant[2];
            for (int r = 0; r < 2; r++) mutant[r] = overlap_copy(&c.schedules[r], 1);
            uint64_t random[4];
            for (int i = 0; i < 4; i++)
                random[i] = mt_random_below(overlap_seed, 77, (uint64_t)(number * 4 + i), 1u << 30);
            enum mutation how = (enum mutation)(number / 2 % (NMUTATIONS + 1));
            if (how < NMUTATIONS) overlap_mutate(mutant, 2, mt_overlap_nflags(&c.problem), how, random);
            struct orders o;
            orders_init(&o, &c.problem, mutant);
            enum verdict judged = orders_judge(&o), brute = orders_brute(&o, 60000);
            orders_release(&o);
            CHECK(brute == UNDECIDED || judged == UNDECIDED || brute == judged, "form %d, number %d, %s: %d, not %d",
                  form, number, how < NMUTATIONS ? mutation_names[how] : "unchanged", (int)judged, (int)brute);
            agreed[brute] += brute == judged;
            for (int r = 0; r < 2; r++) mt_overlap_schedule_release(&mutant[r]);
            overlap_case_release(&c);
        }
    printf("every order: %d right and %d wrong as judged\n", agreed[RIGHT], agreed[WRONG]);
    CHECK(agreed[RIGHT] >= 10 && agreed[WRONG] >= 50, "%d right, %d wrong", agreed[RIGHT], agreed[WRONG]);
}

static void test_mutants(void) {
    struct overlap_tally tally = {0};
    int wrong = 0;
    for (int n = 2; n <= MOST_RANKS; n++)
        for (int how = 0; how < NMUTATIONS; how++)
            for (int round = 0; round < ROUNDS; round++) {
                struct overlap_case c;
                int number = how * ROUNDS + round;
                overlap_case_init(&c, n, number);
                overlap_mutant(&c, (enum mutation)how, number, &tally);
                overlap_case_release(&c);
            }
    for (int how = 0; how < NMUTATIONS; how++) wrong += tally.wrong[how];
    printf("%d wrong mutants refused\n", wrong);
    CHECK(wrong >= 90, "%d", wrong);
}

int main(void) {
    test_generators();
    test_judge();
    test_mutants();
    return 0;
}
