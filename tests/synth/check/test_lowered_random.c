/* The checker accepts what the lowering makes of random programs, with all that it may do; and of their forward
 * programs. */
#include "tests/synth/check/lowered_mutants.h"

/* The forward program, whose states lie where the training program has them. */
static void test_forward(const struct mt_graph *g, const struct mt_choice *choice, int round) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_program forward;
    struct mt_lowered *lowered[8];
    CHECK_OK(mt_build_forward(g, choice, &forward, &err), err);
    if (round % 2) forward.staging_bytes = 384 + below(512);
    for (int r = 0; r < choice->nranks; r++) {
        struct mt_lower_options options = {.fuse = round % 3 > 0, .states = truth.lowered[r]};
        CHECK_OK(mt_lower(&forward, r, &options, &lowered[r], &err), err);
    }
    struct mt_lower_options none = {0};
    enum mt_status st = mt_check_lowered(&forward, (const struct mt_lowered *const *)lowered, &none, NULL, &err);
    CHECK(!st, "round %d, forward: %s", round, err.text);
    for (int r = 0; r < choice->nranks; r++) mt_lowered_free(lowered[r]);
    mt_program_release(&forward);
}

/* What the lowering makes is accepted: random rules, uneven micro-batches, shares of zero, narrow wires. */
static void test_random(const char *model, int64_t batch, double dropout, int rounds) {
    struct mt_graph *g = training_graph(model, batch, dropout);
    int accepted = 0;
    for (int round = 0; round < rounds; round++) {
        struct mt_err err = MT_ERR_INIT;
        struct mt_arena arena = MT_ARENA_INIT;
        struct mt_choice choice;
        struct mt_program p;
        bool wild = round % 2 == 0;
        random_choice(&arena, g, 1 + (int)below(5), wild, &choice);
        for (int r = 0; r < choice.nranks && !wild; r++) choice.micro[r] = 1 + below(3);
        if (below(2)) choice.decisions.gradient_wire = MT_F32;
        choice.decisions.overlapped = (enum mt_overlapped)below(MT_NOVERLAPPED);
        CHECK_OK(mt_build(g, &choice, &p, &err), err);
        if (below(2)) p.staging_bytes = 384 + below(1024); /* less than a rank's messages: they are cut */
        if (!mt_check_program(&p, NULL, &err)) {
            lower_all(&p, lower_options(below(2), 0));
            CHECK(is_accepted(&err), "round %d: %s", round, err.text);
            test_forward(g, &choice, round);
            accepted++;
            free_all();
        }
        mt_program_release(&p);
        mt_arena_release(&arena);
    }
    printf("%s: %d of %d random programs accepted\n", model, accepted, rounds);
    CHECK(accepted > rounds * 9 / 10, "the program's own checker accepts nearly all");
    mt_graph_free(g);
}

int main(void) {
    printf("seed %d\n", SEED);
    test_random("gpt2:layers=2,heads=3,embed=6,context=4,vocab=11,bias=1,tied=1", 5, 0.1, RANDOM_LOWERED);
    test_random("gpt2:layers=2,heads=3,embed=6,context=4,vocab=11,bias=1,tied=1", 5, 0, RANDOM_LOWERED / 2);
    test_random("gpt2:layers=1,heads=2,embed=8,context=5,vocab=7,bias=0,tied=0", 8, 0.1, RANDOM_LOWERED);
    test_random("mlp:context=3,embed=4,hidden=7,layers=2,vocab=9", 9, 0.1, RANDOM_LOWERED);
    return 0;
}
