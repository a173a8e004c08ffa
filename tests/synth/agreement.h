/* Random training graphs under random choices on 2 to 6 ranks, in f64, against one rank: every state after 5 steps
 * differs by at most 1e-10 of its root mean square and 1e-10. By turns trees of rules over a random mesh, with samples
 * over nodes, and rules over all ranks. */
#ifndef MT_TESTS_SYNTH_AGREEMENT_H
#define MT_TESTS_SYNTH_AGREEMENT_H

#include "synth/check/check.h"
#include "tests/synth/random_graph.h"
#include "tests/synth/states_agree.h"

struct agreement {
    int tried, refused, collectives, partial, covers; /* programs that have some collective, cover, ... */
    double worst;                                     /* of the differences, as shares of what is allowed */
};

static inline void count_program(const struct mt_program *p, struct agreement *a) {
    bool collective = false, partial = false, covers = false;
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = 0; i < p->blocks[b].ninstrs; i++)
            collective = collective || p->blocks[b].instrs[i].kind == MT_INSTR_COLLECTIVE;
    for (int v = 0; v < p->nvalues; v++) {
        const struct mt_layout *l = mt_pvalue_layout(p, v);
        partial = partial || mt_layout_is_partial(l);
        covers = covers || l->ncovers > 1;
    }
    a->collectives += collective, a->partial += partial, a->covers += covers;
}

/* One graph and one choice; aborts where the program is not right. */
static inline void agree_once(struct agreement *a, bool print) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_err err = MT_ERR_INIT;
    struct mt_choice choice, one = {.nranks = 1, .decisions.gradient_wire = MT_F64};
    struct mt_program alone, program;
    char text[128];
    int64_t count = 1 + below(3);
    struct mt_graph *g = random_graph(count * (2 + below(3)), text, sizeof text);
    int nranks = 2 + (int)below(5);
    if (below(4))
        tree_choice(&arena, g, nranks, count, &choice);
    else
        choice_in_step(&arena, g, nranks, count, (int)below(3), &choice);
    one.rules = mt_new(&arena, struct mt_rule, g->nops);
    a->tried++;
    if (mt_build(g, &choice, &program, &err)) {
        CHECK_EQ(err.status, MT_EINPUT);
        CHECK(err.text[0], "a refusal says why");
        if (print) printf("refused (%s): %s\n", text, err.text);
        a->refused++;
    } else {
        double want_loss, loss;
        if (mt_check_program(&program, NULL, &err)) mt_program_print(&program, -1, stderr);
        CHECK(!err.status, "case %d (%s): %s", a->tried, text, err.text);
        CHECK_OK(mt_build(g, &one, &alone, &err), err);
        struct mt_interp *want = run_steps(&alone, &want_loss, &err), *got = run_steps(&program, &loss, &err);
        CHECK(!err.status, "case %d (%s): %s", a->tried, text, err.text);
        double worst = disagreement(g, got, want);
        if (worst > a->worst) a->worst = worst;
        CHECK(worst <= 1, "case %d (%s): %g times what is allowed", a->tried, text, worst);
        CHECK(fabs(loss - want_loss) <= 1e-10 * (fabs(want_loss) + 1), "case %d: loss %.17g, not %.17g", a->tried, loss,
              want_loss);
        count_program(&program, a);
        mt_interp_free(got), mt_interp_free(want);
        mt_program_release(&program), mt_program_release(&alone);
    }
    mt_arena_release(&arena);
    mt_graph_free(g);
}

/* `cases` of them; fewer than one in ten may be refused. */
static inline void agree(int cases, bool print) {
    struct agreement a = {0};
    for (int i = 0; i < cases; i++) agree_once(&a, print);
    printf("%d choices: %d refused (%.1f%%); of the others %d with collectives, %d with partial sums, %d with several "
           "covers; worst difference %.3g of what is allowed\n",
           a.tried, a.refused, 100.0 * a.refused / a.tried, a.collectives, a.partial, a.covers, a.worst);
    CHECK(a.refused * 10 < a.tried, "%d of %d refused", a.refused, a.tried);
    CHECK(a.covers * 5 > a.tried, "%d of %d have several covers", a.covers, a.tried);
}

#endif
