/* Overlapped schedules: the generators' are right in all orders and accepted; mutants that are wrong are refused; and
 * the interpreter that says so agrees with going through every order of small cases. All mutants: tests/bench. */
#include "tests/synth/check/overlap_mutants.h"

enum { CASES = 12, ROUNDS = 11, FIRST = 100, LEAST_WRONG = 1000 };

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
        for (int number = 0; number < (form == MT_OVERLAP_GATHER ? 100 : 60); number++) {
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
            if (form == MT_OVERLAP_GATHER && number / 2 >= SLAB_WAIT_DROPPED) c.problem.slabs = 2;
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
                overlap_case_init(&c, n, overlap_case_of(how, FIRST + how * ROUNDS + round));
                overlap_mutant(&c, (enum mutation)how, FIRST + round, &tally);
                overlap_case_release(&c);
            }
    for (int how = 0; how < NMUTATIONS; how++) {
        CHECK(tally.wrong[how] || how == ORDER, "%s: none is wrong", mutation_names[how]);
        wrong += tally.wrong[how];
    }
    printf("%d wrong mutants refused\n", wrong);
    CHECK(wrong >= LEAST_WRONG, "%d", wrong);
}

/* Joint tiles, which read what all ranks put, their own rank too: three ranks, one of which has no rows and one no
 * columns. Each put that is dropped or swapped, each wait that is dropped, and each box that is another, of each rank,
 * is refused where it is wrong; most are. */
static void test_joint(void) {
    static const enum mutation kinds[] = {PUT_DROPPED, PUTS_SWAPPED, PUT_REPEATED, WAIT_DROPPED, FLAG, BOX, ORDER};
    struct overlap_tally tally = {0};
    for (int number = 0; number < 72; number++) {
        struct overlap_case c = {.rows = {number % 4 ? 2 : 3, number % 3, 2}, .shares = {3, 2, number % 2}};
        struct mt_overlap *p = &c.problem;
        *p = (struct mt_overlap){.form = MT_OVERLAP_GATHER,
                                 .n = 3,
                                 .k = 2,
                                 .type = MT_F32,
                                 .out = MT_F32,
                                 .wire = MT_F32,
                                 .tile = {number % 2 ? 16 : 3, 2},
                                 .chunk = 1 + number % 3,
                                 .keep = number / 6 % 2,
                                 .joint = true};
        for (int r = 0; r < 3; r++) p->m += c.rows[r], p->cols += c.shares[r];
        p->rows = c.rows, p->shares = c.shares;
        for (int r = 0; r < 3; r++) mt_overlap_schedule(p, r, &c.schedules[r]);
        CHECK(overlap_judge(p, c.schedules) == RIGHT, "joint %d", number);
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) overlap_mutant(&c, kinds[k], number, &tally);
        overlap_case_release(&c);
    }
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        CHECK(kinds[k] == ORDER || tally.wrong[kinds[k]] >= 10, "%s: %d wrong, %d right", mutation_names[kinds[k]],
              tally.wrong[kinds[k]], tally.right[kinds[k]]);
}

/* A schedule of two ranks, changed by the caller; whether it is refused, and for what. */
static struct overlap_case form_case(struct mt_overlap_schedule *changed) {
    struct overlap_case c;
    overlap_case_init(&c, 2, 1);
    *changed = overlap_copy(&c.schedules[0], 4);
    CHECK(changed->nwaits && changed->ntiles && changed->nputs, "%d waits", changed->nwaits);
    return c;
}

static void refused(struct overlap_case *c, struct mt_overlap_schedule *changed, const char *why) {
    struct mt_overlap_schedule schedules[2] = {*changed, c->schedules[1]};
    struct mt_err err = MT_ERR_INIT;
    c->problem.rows = c->rows, c->problem.shares = c->shares;
    CHECK_EQ(mt_check_overlap(&c->problem, schedules, "form", &err), MT_EPROOF);
    CHECK(strstr(err.text, why), "%s, not: %s", err.text, why);
    mt_overlap_schedule_release(changed);
    overlap_case_release(c);
}

/* Tables that nobody may index with. */
static void test_form(void) {
    static const struct mt_overlap_wait bad[] = {
        {100000000, 0, 1, 0, 0}, {-1, 0, 1, 0, 0}, {0, 0, 0, 0, 0}, {0, 0, 1, 2, 0}, {0, 0, 1, -1, 0}};
    struct mt_overlap_schedule s;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct overlap_case c = form_case(&s);
        s.waits[s.nwaits++] = bad[i]; /* of no tile and no put */
        refused(&c, &s, "epochs before");
    }
    struct overlap_case c = form_case(&s);
    s.tiles[0].first_wait = s.nwaits, s.tiles[0].nwaits = 1;
    refused(&c, &s, "waits are not in the table");
    c = form_case(&s);
    s.puts[0].first_wait = -1, s.puts[0].nwaits = 1;
    refused(&c, &s, "waits are not in the table");
    c = form_case(&s);
    s.puts[0].first_wait = 0, s.puts[0].nwaits = 1, s.waits[0].k = 1;
    refused(&c, &s, "at column 1 of the 0 of A");
    c = form_case(&s);
    s.tiles[0].kind = MT_TILE_MATMUL, s.tiles[0].first_wait = 0, s.tiles[0].nwaits = 1, s.waits[0].k = -1;
    refused(&c, &s, "at column -1 of");
    c = form_case(&s);
    s.tiles[0].kind = MT_TILE_MATMUL, s.tiles[0].first_wait = 0, s.tiles[0].nwaits = 1, s.waits[0].k = 1000;
    refused(&c, &s, "at column 1000 of");
    c = form_case(&s);
    s.tiles[0].kind = MT_TILE_MATMUL, s.tiles[0].k = 1;
    refused(&c, &s, "begins at column 1 of A");
    c = form_case(&s);
    s.puts[0].peer = 2;
    refused(&c, &s, "of rank 2");
    c = form_case(&s);
    s.puts[s.nputs - 1].tile = s.ntiles;
    refused(&c, &s, "out of order");
    c = form_case(&s);
    c.problem.tile[0] = 1, s.tiles[0].rows = 2;
    refused(&c, &s, "tiles are at most 1 by");
    for (int number = 1;; number += MT_OVERLAP_NFORMS) { /* of several columns */
        overlap_case_init(&c, 2, number);
        s = overlap_copy(&c.schedules[0], 0);
        if (s.ntiles && s.tiles[0].kind == MT_TILE_MATMUL && s.tiles[0].cols > 1) break;
        mt_overlap_schedule_release(&s);
        overlap_case_release(&c);
    }
    c.problem.tile[1] = 3, s.tiles[0].cols = 1;
    refused(&c, &s, "blocks of 3");
    overlap_case_init(&c, 2, MT_OVERLAP_NFORMS); /* a gather that keeps its operand */
    CHECK(c.problem.keep && c.schedules[0].ntiles, "%d tiles", c.schedules[0].ntiles);
    s = overlap_copy(&c.schedules[0], 0);
    s.tiles[0].from = MT_OVERLAP_WHOLE, s.tiles[0].from_row = s.tiles[0].row;
    refused(&c, &s, "reads a result");
}

/* Problems without schedules. */
static void test_problems(void) {
    struct overlap_case c;
    struct mt_err err = MT_ERR_INIT;
    overlap_case_init(&c, 3, 0);
    c.problem.rows = c.rows, c.problem.shares = c.shares;
    CHECK_OK(mt_overlap_check(&c.problem, &err), err);
    c.problem.k = 0;
    CHECK_EQ(mt_overlap_check(&c.problem, &err), MT_EINPUT);
    CHECK(strstr(err.text, "k is 0"), "%s", err.text);
    CHECK_EQ(mt_check_overlap(&c.problem, c.schedules, "no k", &err), MT_EINPUT);
    c.problem.k = 1, c.problem.form = MT_OVERLAP_NFORMS;
    CHECK_EQ(mt_overlap_check(&c.problem, &err), MT_EINPUT);
    CHECK(strstr(err.text, "no form"), "%s", err.text);
    c.problem.form = MT_OVERLAP_GATHER, c.problem.ngroups = -1;
    CHECK_EQ(mt_overlap_check(&c.problem, &err), MT_EINPUT);
    CHECK(strstr(err.text, "-1 groups"), "%s", err.text);
    c.problem.ngroups = 0;
    c.problem.slabs = -1;
    CHECK_EQ(mt_overlap_check(&c.problem, &err), MT_EINPUT);
    c.problem.slabs = MT_OVERLAP_MOST_SLABS + 1;
    CHECK_EQ(mt_overlap_check(&c.problem, &err), MT_EINPUT);
    CHECK(strstr(err.text, "K in 257 slabs"), "%s", err.text);
    overlap_case_release(&c);
    overlap_case_init(&c, 3, MT_OVERLAP_SCATTER);
    c.problem.rows = c.rows, c.problem.shares = c.shares;
    CHECK_OK(mt_overlap_check(&c.problem, &err), err);
    c.problem.slabs = 2;
    CHECK_EQ(mt_overlap_check(&c.problem, &err), MT_EINPUT);
    CHECK(strstr(err.text, "only AllGather+GEMM"), "%s", err.text);
    overlap_case_release(&c);
    /* More flags than an int counts: of slots, of results, of chunks. */
    const int64_t many[2] = {1ll << 31, 1ll << 31}, few[2] = {1, 1};
    struct mt_overlap large = {.form = MT_OVERLAP_SCATTER,
                               .n = 2,
                               .m = 1ll << 32,
                               .cols = 1,
                               .k = 2,
                               .rows = many,
                               .shares = few,
                               .type = MT_F32,
                               .out = MT_F32,
                               .wire = MT_F32,
                               .tile = {4, 1},
                               .chunk = 2};
    for (int form = 0; form < MT_OVERLAP_NFORMS; form++) {
        large.form = (enum mt_overlap_form)form;
        if (form == MT_OVERLAP_GATHER)
            large.cols = 2, large.k = 1;
        else
            large.cols = 1, large.k = 2;
        large.tile[0] = form == MT_OVERLAP_GATHER ? 2 : form == MT_OVERLAP_SCATTER ? 2 : 3;
        CHECK_EQ(mt_overlap_check(&large, &err), MT_EINPUT);
        CHECK(strstr(err.text, "flags"), "%s", err.text);
        large.tile[0] = large.chunk = 8;
        CHECK_OK(mt_overlap_check(&large, &err), err);
        large.chunk = 2;
    }
}

int main(void) {
    test_form();
    test_problems();
    test_generators();
    test_judge();
    test_mutants();
    test_joint();
    return 0;
}
