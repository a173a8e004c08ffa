/* Mutants: programs damaged in every way we can think of, at every instruction. The checker may accept a mutant only
 * if it still computes the same numbers, by the reference interpreter in fp64.
 *
 * Programs: data-parallel with all-reduce, ZeRO-like, micro-batches with uneven counts, tensor-parallel mixtures,
 * recomputation. */
#include "synth/check/check.h"
#include "tests/synth/programs.h"
#include "tests/synth/run_program.h"
#include "tests/synth/copy_program.h"

static struct {
    const struct mt_program *program;
    struct mt_interp *want;
    double loss;
    int made, refused, equal;
} truth;

/* A mutant that the checker accepts must compute the truth. */
static void expect_verdict(const struct mt_program *mutant, const char *what, int block, int instr) {
    struct mt_err err = MT_ERR_INIT;
    truth.made++;
    if (mt_check_program(mutant, NULL, &err)) {
        CHECK_EQ(err.status, MT_EPROOF);
        truth.refused++;
        return;
    }
    double loss = NAN;
    struct mt_interp *got = run_program(mutant, &loss, &err);
    double worst = got ? state_difference(mutant->graph, got, truth.want) : INFINITY;
    if (!(worst <= 1e-10) || !(fabs(loss - truth.loss) <= 1e-10 * fabs(truth.loss))) {
        mt_program_print(mutant, -1, stderr);
        fprintf(stderr, "accepted though wrong: %s at %s %d: states %g, loss %.17g for %.17g %s\n", what,
                mt_block_name((enum mt_block_kind)block), instr, worst, loss, truth.loss, err.text);
        abort();
    }
    truth.equal++;
    mt_interp_free(got);
}

/* ---- building mutants ---- */

static void remove_instr(struct mt_program *m, int block, int instr) {
    struct mt_block *b = &m->blocks[block];
    memmove(b->instrs + instr, b->instrs + instr + 1, (size_t)(b->ninstrs - instr - 1) * sizeof *b->instrs);
    b->ninstrs--;
}

static bool same_shape(const struct mt_program *p, int a, int b) {
    const struct mt_layout *x = &p->layouts.items[p->values[a].layout], *y = &p->layouts.items[p->values[b].layout];
    return x->naxes == y->naxes && p->values[a].type == p->values[b].type &&
           !memcmp(x->extent, y->extent, (size_t)x->naxes * sizeof *x->extent);
}

typedef void mutation(struct mt_program *m, int block, int instr, int variant);
#define MUTATE(name) static void name(struct mt_program *m, int block, int instr, int variant)

MUTATE(drop) {
    (void)variant;
    remove_instr(m, block, instr);
}

/* Dropped, and the users of its result take what went in (variant: which input). */
MUTATE(bypass) {
    struct mt_instr i = *at(m, block, instr);
    if (!i.nin) return;
    remove_instr(m, block, instr);
    for (int k = 0; k < i.nout; k++) redirect(m, i.out[k], i.in[(k + variant) % i.nin], block, instr);
}

/* The collective once more, on what it has made. */
MUTATE(twice) {
    (void)variant;
    struct mt_instr i = *at(m, block, instr);
    int in[256], out[256];
    if (i.nout > 256 || i.nin != i.nout) return;
    for (int k = 0; k < i.nout; k++) {
        const struct mt_pvalue *v = &m->values[i.out[k]];
        enum mt_covers covers = v->covers;
        in[k] = i.out[k];
        out[k] = mt_program_value(m, v->gvalue, v->layout, v->type, v->block);
        m->values[out[k]].covers = covers;
        redirect(m, in[k], out[k], block, instr + 1);
    }
    i.in = in, i.out = out;
    insert_instr(m, block, instr + 1, i);
}

MUTATE(repeat) { /* exactly the same again: makes its values twice */
    (void)variant;
    insert_instr(m, block, instr + 1, *at(m, block, instr));
}

MUTATE(other_kind) {
    struct mt_instr *i = at(m, block, instr);
    i->coll = (enum mt_coll_kind)(((int)i->coll + 1 + variant) % MT_NCOLLS);
}

MUTATE(other_reduce) {
    struct mt_instr *i = at(m, block, instr);
    i->reduce = (enum mt_reduce)(((int)i->reduce + 1 + variant) % 3);
}

MUTATE(other_wire) {
    struct mt_instr *i = at(m, block, instr);
    i->wire = variant % 2 ? MT_F32 : MT_BF16;
}

MUTATE(other_acc) {
    at(m, block, instr)->acc = variant % 2 ? MT_F32 : MT_BF16;
}

MUTATE(other_group) {
    struct mt_instr *i = at(m, block, instr);
    if (variant == 0) /* everybody alone */
        for (int r = 0; r < m->nranks; r++) i->group[r] = r;
    else /* one rank left out, or put in */
        for (int r = 0; r < m->nranks; r++) i->group[r] = r == variant % m->nranks && r ? 1 : 0;
}

/* Another layout of the same extents on one side. */
MUTATE(other_layout) {
    struct mt_instr *i = at(m, block, instr);
    int value = variant % 2 && i->nin ? i->in[0] : i->out[0], layout = m->values[value].layout, skip = variant / 2;
    const struct mt_layout *mine = &m->layouts.items[layout];
    for (int l = 0; l < m->layouts.count; l++) {
        const struct mt_layout *other = &m->layouts.items[l];
        if (l == layout || other->naxes != mine->naxes) continue;
        if (memcmp(other->extent, mine->extent, (size_t)mine->naxes * sizeof *mine->extent) || skip--) continue;
        m->values[value].layout = l;
        return;
    }
}

/* Fed another value: of the same graph value in another layout, or any of the same shape. */
MUTATE(other_input) {
    struct mt_instr *i = at(m, block, instr);
    if (!i->nin) return;
    int k = variant % i->nin, skip = variant / i->nin, old = i->in[k];
    for (int pass = 0; pass < 2; pass++)
        for (int v = 0; v < m->nvalues; v++) {
            bool fits = pass ? same_shape(m, v, old) : m->values[v].gvalue == m->values[old].gvalue;
            if (v == old || !fits || skip-- > 0) continue;
            i->in[k] = v;
            return;
        }
}

MUTATE(swap_inputs) {
    (void)variant;
    struct mt_instr *i = at(m, block, instr);
    if (i->nin < 2) return;
    int first = i->in[0];
    i->in[0] = i->in[1], i->in[1] = first;
}

MUTATE(other_operator) {
    struct mt_instr *i = at(m, block, instr);
    i->gop = (i->gop + 1 + variant) % m->graph->nops;
}

MUTATE(move) {
    struct mt_instr i = *at(m, block, instr);
    int to = variant < 4 ? variant : block;
    remove_instr(m, block, instr);
    int n = m->blocks[to].ninstrs;
    insert_instr(m, to, variant == 4 ? 0 : variant == 5 ? n : variant == 6 ? instr / 2 : n - n / 3, i);
}

MUTATE(other_type) {
    struct mt_instr *i = at(m, block, instr);
    m->values[i->out[0]].type = variant % 2 ? MT_F32 : MT_BF16;
}

MUTATE(other_covers) {
    struct mt_instr *i = at(m, block, instr);
    m->values[i->out[0]].covers = (enum mt_covers)(((int)m->values[i->out[0]].covers + 1 + variant) % 3);
}

enum { ANY = -1 };
static const struct {
    const char *name;
    mutation *apply;
    int kind; /* of instruction, or ANY */
    int variants;
} mutations[] = {
    {"dropped", drop, ANY, 1},
    {"bypassed", bypass, ANY, 3},
    {"applied twice", twice, MT_INSTR_COLLECTIVE, 1},
    {"accumulated twice", twice, MT_INSTR_SLICE, 1},
    {"repeated", repeat, ANY, 1},
    {"another collective", other_kind, MT_INSTR_COLLECTIVE, MT_NCOLLS - 1},
    {"another reduction", other_reduce, MT_INSTR_COLLECTIVE, 2},
    {"another wire type", other_wire, MT_INSTR_COLLECTIVE, 2},
    {"another accumulation type", other_acc, MT_INSTR_COLLECTIVE, 2},
    {"another group", other_group, MT_INSTR_COLLECTIVE, 4},
    {"another layout", other_layout, ANY, 4},
    {"another input", other_input, ANY, 6},
    {"inputs swapped", swap_inputs, ANY, 1},
    {"another operator", other_operator, MT_INSTR_OP, 3},
    {"moved", move, ANY, 8},
    {"another type", other_type, ANY, 2},
    {"other samples", other_covers, ANY, 2},
};

/* Kinds, reductions and algorithms that do not exist. */
static void expect_nonsense_refused(int block, int instr) {
    for (int variant = 0; variant < 6; variant++) {
        struct mt_program m;
        struct mt_err err = MT_ERR_INIT;
        copy_program(truth.program, &m);
        struct mt_instr *i = at(&m, block, instr);
        bool collective = i->kind == MT_INSTR_COLLECTIVE;
        if (variant < 2) i->kind = (enum mt_instr_kind)(variant ? 99 : -1);
        if (variant == 2 || variant == 3) i->coll = (enum mt_coll_kind)(variant == 2 ? 99 : -1);
        if (variant == 4) i->reduce = (enum mt_reduce)99;
        if (variant == 5) i->algorithm = NULL;
        if (variant < 2 || collective) CHECK_EQ(mt_check_program(&m, NULL, &err), MT_EPROOF);
        mt_program_release(&m);
    }
}

static void mutate_instr(int block, int instr) {
    expect_nonsense_refused(block, instr);
    int kind = truth.program->blocks[block].instrs[instr].kind;
    for (size_t i = 0; i < sizeof mutations / sizeof *mutations; i++) {
        if (mutations[i].kind != ANY && mutations[i].kind != kind) continue;
        for (int variant = 0; variant < mutations[i].variants; variant++) {
            struct mt_program mutant;
            copy_program(truth.program, &mutant);
            mutations[i].apply(&mutant, block, instr, variant);
            expect_verdict(&mutant, mutations[i].name, block, instr);
            mt_program_release(&mutant);
        }
    }
}

/* The bookkeeping of samples, and which values become the states. */
static void mutate_bookkeeping(void) {
    for (int r = 0; r < truth.program->nranks; r++)
        for (int variant = 0; variant < 10; variant++) {
            struct mt_program m;
            copy_program(truth.program, &m);
            int64_t *fields[] = {m.batch_size, m.batch_start, m.body_size, m.body_count, m.last_size};
            fields[variant / 2][r] += variant % 2 ? 1 : -1;
            expect_verdict(&m, "other numbers of samples", MT_LAST, r);
            mt_program_release(&m);
        }
    /* Indices on values of any kind that are out of range, or that only a state has; also where nothing uses them. */
    for (int v = 0; v < truth.program->nvalues; v += EVERY)
        for (int variant = 0; variant < 8; variant++) {
            struct mt_program m;
            copy_program(truth.program, &m);
            struct mt_pvalue *value = &m.values[v];
            if (variant == 7) { /* a new value, that nothing uses */
                int unused = mt_program_value(&m, value->gvalue, value->layout, value->type, value->block);
                value = &m.values[unused];
                value->next = v;
            } else if (variant < 4) {
                value->next = variant == 0 ? (v + 1) % m.nvalues : variant == 1 ? v : variant == 2 ? m.nvalues : -2;
            } else {
                int *fields[] = {&value->gvalue, &value->layout, &value->gvalue};
                *fields[variant - 4] = variant == 6 ? -1 : 1 << 20;
            }
            struct mt_err err = MT_ERR_INIT;
            bool right = value->next == truth.program->values[v].next && variant < 4;
            if (!right) CHECK(mt_check_program(&m, NULL, &err), "value %d, variant %d is accepted", v, variant);
            mt_program_release(&m);
        }
    for (int v = 0; v < truth.program->nvalues; v++) {
        if (truth.program->values[v].next < 0) continue;
        for (int variant = 0; variant < 3; variant++) {
            struct mt_program m;
            copy_program(truth.program, &m);
            m.values[v].next = variant == 0 ? v : variant == 1 ? -1 : m.values[v].next - 1;
            expect_verdict(&m, "another next state", MT_EPILOGUE, v);
            mt_program_release(&m);
        }
    }
}

static void test_program(const char *name, const struct mt_program *program, struct mt_interp *want, double loss) {
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_check_program(program, NULL, &err), err);
    double own;
    struct mt_interp *got = run_program(program, &own, &err);
    CHECK(got, "%s runs", name);
    CHECK(state_difference(program->graph, got, want) <= 1e-10, "%s is right", name);
    mt_interp_free(got);
    truth.program = program, truth.want = want, truth.loss = loss;
    truth.made = truth.refused = truth.equal = 0;
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = 0; i < program->blocks[b].ninstrs; i += EVERY) mutate_instr(b, i);
    mutate_bookkeeping();
    printf("%-28s %d mutants: %d refused, %d accepted and right\n", name, truth.made, truth.refused, truth.equal);
    CHECK(truth.refused > truth.made / 2, "most mutants are wrong");
}

/* Replicas of a sum that each member adds up for itself may differ in the last bits: no update may be made from them.
 */
static void test_scattered_replicas(const struct mt_program *program) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_program m;
    int scattered = 0;
    copy_program(program, &m);
    for (int i = 0; i < m.blocks[MT_LAST].ninstrs; i++)
        if (at(&m, MT_LAST, i)->kind == MT_INSTR_COLLECTIVE && at(&m, MT_LAST, i)->coll == MT_ALL_REDUCE) {
            at(&m, MT_LAST, i)->coll = MT_REDUCE_SCATTER;
            scattered++;
        }
    CHECK(scattered > 0, "the program reduces");
    CHECK_EQ(mt_check_program(&m, NULL, &err), MT_EPROOF);
    CHECK(strstr(err.text, "drift"), "%s", err.text);
    mt_program_release(&m);
}

/* Where ranks see each other's samples, they must have as many micro-batches: the builder refuses other choices, and
 * the checker what a builder without that care would make. */
static void test_mixed_micro_batches(struct mt_arena *arena, const struct mt_graph *g, struct mt_interp *want,
                                     double loss) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_choice choice;
    struct mt_program program;
    make_choice(arena, g, MICRO, &choice);
    for (int o = 0; o < g->nops; o++) choice.rules[o] = (struct mt_rule){.kind = MT_RULE_REPLICATE};
    CHECK_EQ(mt_build(g, &choice, &program, &err), MT_EINPUT);
    CHECK(strstr(err.text, "micro-batches"), "%s", err.text);
    choice.micro[2] = 2; /* ranks 0 and 2: 1 + 1 + 1 and 2 */
    choice.micro[0] = 3;
    CHECK_OK(mt_build(g, &choice, &program, &err), err);
    mt_program_release(&program);
    choice.batch->sizes[0] = choice.batch->sizes[2] = 2, choice.batch->sizes[1] = 1;
    choice.batch->starts[1] = 2, choice.batch->starts[2] = 3, choice.batch->starts[3] = 5;
    choice.micro[0] = choice.micro[2] = 1;
    CHECK_EQ(mt_build(g, &choice, &program, &err), MT_EINPUT);
    choice.batch->sizes[0] = 3, choice.batch->sizes[1] = 0;
    choice.batch->starts[1] = choice.batch->starts[2] = 3;
    choice.micro[0] = 2; /* two micro-batches each; rank 1 has none of its own */
    CHECK_OK(mt_build(g, &choice, &program, &err), err);
    CHECK_OK(mt_check_program(&program, NULL, &err), err);
    double own;
    struct mt_interp *got = run_program(&program, &own, &err);
    CHECK(got && state_difference(g, got, want) <= 1e-10, "mixed micro-batches are right");
    CHECK(fabs(own - loss) <= 1e-10 * fabs(loss), "%.17g is %.17g", own, loss);
    mt_interp_free(got);
    program.body_count[1] = 0;
    CHECK_EQ(mt_check_program(&program, NULL, &err), MT_EPROOF);
    mt_program_release(&program);
}

int main(void) {
    printf("seed %d\n", SEED);
    static const char *const names[] = {"all-reduce",      "sharded",   "micro-batches",
                                        "tensor-parallel", "any rules", "by layer"};
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_err err = MT_ERR_INIT;
    struct mt_graph *g = training_graph("gpt2:layers=1,heads=2,embed=4,context=3,vocab=5,bias=1,tied=1", 5, 0);
    struct mt_choice one = {
        .nranks = 1, .decisions.gradient_wire = MT_F64, .rules = mt_new(&arena, struct mt_rule, g->nops)};
    struct mt_program alone;
    double loss;
    CHECK_OK(mt_build(g, &one, &alone, &err), err);
    struct mt_interp *want = run_program(&alone, &loss, &err);
    CHECK(want, "one rank runs");
    for (int style = ALL_REDUCE; style <= LAYERS; style++) {
        struct mt_choice choice;
        struct mt_program program;
        make_choice(&arena, g, (enum style)style, &choice);
        CHECK_OK(mt_build(g, &choice, &program, &err), err);
        test_program(names[style], &program, want, loss);
        if (style == ALL_REDUCE) test_scattered_replicas(&program);
        if (style == SHARDED) {
            add_recomputation(&program);
            test_program("recomputation", &program, want, loss);
        }
        mt_program_release(&program);
    }
    test_mixed_micro_batches(&arena, g, want, loss);
    mt_interp_free(want);
    mt_program_release(&alone);
    mt_arena_release(&arena);
    mt_graph_free(g);
    return 0;
}
