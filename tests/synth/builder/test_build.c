/* Programs from random choices compute what one device computes.
 *
 * For every operator a rule is drawn from all of its rules, with random ragged splits of every label (some shares
 * zero), on 1 to 5 ranks; two steps in fp64 by the reference interpreter must give the parameters, optimizer states
 * and losses of one rank that does everything. The checker must accept every one of them. So tensor, sequence and
 * ZeRO-like parallelism, and mixtures that nobody would choose, all come from the one mechanism. */
#include "synth/check/check.h"
#include "tests/synth/run_program.h"

static struct mt_interp *run_choice(const struct mt_graph *g, const struct mt_choice *choice,
                                    struct mt_program *program, double *loss) {
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_build(g, choice, program, &err), err);
    CHECK_OK(mt_check_program(program, NULL, &err), err);
    struct mt_interp *interp = run_program(program, loss, &err);
    CHECK(interp, "%s", err.text);
    return interp;
}

static void test_model(const char *text, double dropout, int rounds) {
    struct mt_graph *g = training_graph(text, 6, dropout);
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_choice one = {.nranks = 1, .decisions.gradient_wire = MT_F64};
    struct mt_program alone;
    double want_loss, loss;
    one.rules = mt_new(&arena, struct mt_rule, g->nops);
    struct mt_interp *want = run_choice(g, &one, &alone, &want_loss);
    for (int round = 0; round < rounds; round++) {
        struct mt_choice choice;
        struct mt_program program;
        int nranks = 1 + (int)below(5);
        if (round % 4 == 3 || (round % 4 == 1 && dropout == 0)) { /* micro-batches, of one count on all ranks */
            choice_in_step(&arena, g, nranks, 2 + below(2), round % 4 == 1, &choice);
        } else {
            random_choice(&arena, g, nranks, round % 4 == 0, &choice);
            for (int r = 0; r < choice.nranks && round % 4 == 2; r++) choice.micro[r] = 1 + below(2);
            if (round % 4 == 0) random_schedule(&choice); /* else of other counts on each rank */
        }
        struct mt_interp *got = run_choice(g, &choice, &program, &loss);
        CHECK_NEAR(loss, want_loss, 1e-10 * fabs(want_loss));
        double worst = state_difference(g, got, want);
        CHECK(worst <= 1e-10, "a state differs by %g", worst);
        mt_interp_free(got);
        mt_program_release(&program);
    }
    mt_interp_free(want);
    mt_program_release(&alone);
    mt_arena_release(&arena);
    mt_graph_free(g);
}

/* Trees over meshes: some give no layout, and those are refused. */
static void test_trees(const char *text, double dropout, int rounds) {
    struct mt_graph *g = training_graph(text, 6, dropout);
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_choice one = {.nranks = 1, .decisions.gradient_wire = MT_F64};
    struct mt_program alone;
    double want_loss, loss;
    int accepted = 0;
    one.rules = mt_new(&arena, struct mt_rule, g->nops);
    struct mt_interp *want = run_choice(g, &one, &alone, &want_loss);
    for (int round = 0; round < rounds; round++) {
        struct mt_err err = MT_ERR_INIT;
        struct mt_choice choice;
        struct mt_program program;
        tree_choice(&arena, g, 2 + (int)below(5), dropout > 0 ? 1 : 1 + below(3), &choice);
        if (mt_build(g, &choice, &program, &err)) {
            CHECK_EQ(err.status, MT_EINPUT);
            printf("%s\n", err.text);
            continue;
        }
        if (mt_check_program(&program, NULL, &err)) mt_program_print(&program, -1, stderr);
        CHECK(!err.status, "round %d: %s", round, err.text);
        struct mt_interp *got = run_program(&program, &loss, &err);
        CHECK(got, "%s", err.text);
        CHECK_NEAR(loss, want_loss, 1e-10 * fabs(want_loss));
        double worst = state_difference(g, got, want);
        CHECK(worst <= 1e-10, "round %d: a state differs by %g", round, worst);
        mt_interp_free(got);
        mt_program_release(&program);
        accepted++;
    }
    printf("%d of %d trees accepted\n", accepted, rounds);
    CHECK(accepted > rounds / 2);
    mt_interp_free(want);
    mt_program_release(&alone);
    mt_arena_release(&arena);
    mt_graph_free(g);
}

int main(void) {
    setbuf(stdout, NULL);
    printf("seed %d\n", SEED);
    test_model("gpt2:layers=2,heads=3,embed=6,context=4,vocab=11,bias=1,tied=1", 0, 60);
    test_model("gpt2:layers=1,heads=2,embed=8,context=5,vocab=7,bias=0,tied=0", 0.2, 12);
    test_model("mlp:context=3,embed=4,hidden=7,layers=2,vocab=9", 0, 12);
    test_trees("gpt2:layers=1,heads=3,embed=6,context=4,vocab=11,bias=1,tied=1", 0, 60);
    test_trees("gpt2:layers=1,heads=2,embed=8,context=5,vocab=7,bias=0,tied=0", 0.2, 30);
    test_trees("mlp:context=3,embed=4,hidden=7,layers=2,vocab=9", 0, 60);
    return 0;
}
