/* Which operators are fused: of transformers all that the patterns are for, and nothing that only resembles them. */
#include "synth/check/check.h"
#include "tests/synth/lower/trial.h"
#include "tests/synth/programs.h"

static int count_kind(const struct mt_lowered *low, enum mt_block_kind block, enum mt_op_kind kind) {
    int n = 0;
    for (int i = low->block_begin[block]; i < low->block_begin[block + 1]; i++)
        n += low->instrs[i].what == MT_LOWERED_OP && low->instrs[i].kind == kind;
    return n;
}

/* How many operators of a kind have an epilogue, and add to what is there. */
static int count_finished(const struct mt_lowered *low, enum mt_block_kind block, enum mt_op_kind kind,
                          enum mt_op_kind epilogue, bool add) {
    int n = 0;
    for (int i = low->block_begin[block]; i < low->block_begin[block + 1]; i++) {
        const struct mt_linstr *c = &low->instrs[i];
        n += c->what == MT_LOWERED_OP && c->kind == kind && c->attr.epilogue == epilogue && c->attr.accumulate == add;
    }
    return n;
}

/* Fused GEMMs; gradients of norms that sum what they make. */
static int count_epilogue(const struct mt_lowered *low, enum mt_block_kind block, enum mt_op_kind epilogue, bool add) {
    return count_finished(low, block, MT_OP_fused_matmul, epilogue, add);
}
static int count_summed(const struct mt_lowered *low, enum mt_block_kind block, bool add) {
    return count_finished(low, block, MT_OP_layer_norm_grad, MT_OP_sum, add);
}

/* A graph on two ranks, one sample at a time, lowered for the first. */
static struct mt_lowered *lower_for_two(const struct mt_graph *g, struct mt_arena *arena, struct mt_program *program) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_choice choice;
    random_choice(arena, g, 2, false, &choice);
    for (int r = 0; r < 2; r++) choice.micro[r] = 1;
    CHECK_OK(mt_build(g, &choice, program, &err), err);
    return lower(program, 0, true, 0);
}

/* A GPT with biases has, in body and last micro-batch: a norm before everything, 2L residual norms, 4L GEMMs with
 * bias, L of them with an activation, as many with its slope, 2L with a bias's gradient, 2L + 1 gradients of norms, all
 * but the first norm's with the gradient of the bias before it, one cross entropy with its gradient; and nothing left
 * of their parts. */
static void test_fusion(void) {
    enum { NLAYERS = 2 };
    static const enum mt_op_kind parts[] = {
        MT_OP_norm_sqdev,      MT_OP_norm_apply,    MT_OP_norm_dots, MT_OP_norm_grad, MT_OP_gelu,
        MT_OP_norm_param_grad, MT_OP_row_max,       MT_OP_exp_sum,   MT_OP_pick,      MT_OP_nll,
        MT_OP_cross_entropy,   MT_OP_nll_grad,      MT_OP_gelu_grad, MT_OP_separate,  MT_OP_join,
        MT_OP_attention,       MT_OP_attention_grad};
    struct mt_graph *g = training_graph("gpt2:layers=2,heads=2,embed=8,context=4,vocab=11,bias=1,tied=1", 6, 0);
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_program program;
    struct mt_lowered *low = lower_for_two(g, &arena, &program);
    for (int b = MT_BODY; b <= MT_LAST; b++) {
        enum mt_block_kind block = (enum mt_block_kind)b;
        CHECK_EQ(count_kind(low, block, MT_OP_layer_norm), 1);
        CHECK_EQ(count_kind(low, block, MT_OP_residual_norm), 2 * NLAYERS);
        CHECK_EQ(count_epilogue(low, block, MT_OP_add, false), 3 * NLAYERS);
        CHECK_EQ(count_epilogue(low, block, MT_OP_gelu, false), NLAYERS);
        CHECK_EQ(count_epilogue(low, block, MT_OP_gelu_grad, false), NLAYERS);
        CHECK_EQ(count_epilogue(low, block, MT_OP_sum, true), 2 * NLAYERS);
        CHECK_EQ(count_kind(low, block, MT_OP_layer_norm_grad), 2 * NLAYERS + 1);
        CHECK_EQ(count_summed(low, block, true), 2 * NLAYERS);
        CHECK_EQ(count_kind(low, block, MT_OP_cross_entropy_grad), 1);
        CHECK_EQ(count_kind(low, block, MT_OP_attention_packed), NLAYERS);
        CHECK_EQ(count_kind(low, block, MT_OP_attention_packed_grad), NLAYERS);
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) CHECK_EQ(count_kind(low, block, parts[k]), 0);
        /* weight gradients go straight into their accumulators */
        int adding = 0;
        for (int i = low->block_begin[b]; i < low->block_begin[b + 1]; i++)
            adding += low->instrs[i].kind == MT_OP_matmul && low->instrs[i].attr.accumulate;
        CHECK_EQ(adding, 1 + 2 * NLAYERS); /* the head's, which has no bias, and those whose bias a norm sees to */
    }
    int parts_without_memory = 0;
    for (int v = 0; v < program.nvalues; v++) {
        int producer = g->values[program.values[v].gvalue].producer;
        if (producer < 0 || g->ops[producer].kind != MT_OP_separate) continue;
        CHECK_EQ(low->values[v].offset_bytes, -1);
        parts_without_memory++;
    }
    CHECK_EQ(parts_without_memory, 2 * 2 * NLAYERS); /* queries, and keys with values, in BODY and LAST */
    mt_lowered_free(low);
    mt_program_release(&program);
    mt_arena_release(&arena);
    mt_graph_free(g);
}

/* A Llama has a norm before everything and 2L residual norms; its gradients of norms add those of the residual paths,
 * except the last norm's, and dgamma goes straight into its accumulator. Projections of one input add their gradients
 * to the first one's. */
static void test_rms_fusion(void) {
    enum { NLAYERS = 2 };
    static const enum mt_op_kind parts[] = {MT_OP_rms_sq, MT_OP_rms_apply, MT_OP_rms_dot, MT_OP_rms_grad,
                                            MT_OP_rms_param_grad};
    struct mt_graph *g =
        training_graph("llama:layers=2,heads=2,kv_heads=1,embed=8,ffn=16,context=4,vocab=11,window=3", 6, 0);
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_program program;
    struct mt_lowered *low = lower_for_two(g, &arena, &program);
    for (int b = MT_BODY; b <= MT_LAST; b++) {
        enum mt_block_kind block = (enum mt_block_kind)b;
        CHECK_EQ(count_kind(low, block, MT_OP_rms_norm), 1);
        CHECK_EQ(count_kind(low, block, MT_OP_residual_rms), 2 * NLAYERS);
        CHECK_EQ(count_finished(low, block, MT_OP_rms_norm_grad, 0, true), 2 * NLAYERS + 1);
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) CHECK_EQ(count_kind(low, block, parts[k]), 0);
        int with_residual = 0, summed = 0;
        for (int i = low->block_begin[b]; i < low->block_begin[b + 1]; i++) {
            const struct mt_linstr *c = &low->instrs[i];
            with_residual += c->kind == MT_OP_rms_norm_grad && c->nin == 5;
            summed += c->kind == MT_OP_matmul && c->attr.accumulate && !c->attr.out_acc;
        }
        CHECK_EQ(with_residual, 2 * NLAYERS);
        CHECK_EQ(summed, 3 * NLAYERS); /* gradients of one input: k's and q's, added to v's; gate's, added to up's */
    }
    mt_lowered_free(low);
    mt_program_release(&program);
    mt_arena_release(&arena);
    mt_graph_free(g);
}

/* A graph's program of one rank without micro-batches, lowered plain and fused. */
struct alone {
    struct mt_arena arena;
    struct mt_program program;
    struct mt_lowered *plain, *fused;
};

static void lower_alone(const struct mt_graph *g, struct alone *one) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_choice choice;
    one->arena = (struct mt_arena)MT_ARENA_INIT;
    random_choice(&one->arena, g, 1, false, &choice);
    CHECK_OK(mt_build(g, &choice, &one->program, &err), err);
    one->plain = lower(&one->program, 0, false, 0);
    one->fused = lower(&one->program, 0, true, 0);
}

static void release_alone(struct alone *one) {
    mt_lowered_free(one->plain), mt_lowered_free(one->fused);
    mt_program_release(&one->program);
    mt_arena_release(&one->arena);
}

/* A norm's gradient that is dropped out is another one when a bias sees it: its sum is not the norm's; the rows' sum
 * over the batch alone, of position embeddings, is none of them either. */
static void test_unsummed(void) {
    enum { NLAYERS = 2 };
    static const double dropout[2] = {0.1, 0};
    for (int k = 0; k < 2; k++) {
        struct mt_graph *g =
            training_graph("gpt2:layers=2,heads=2,embed=8,context=4,vocab=11,bias=1,tied=1", 6, dropout[k]);
        struct alone one;
        lower_alone(g, &one);
        const struct mt_lowered *plain = one.plain, *low = one.fused;
        CHECK_EQ(count_summed(low, MT_LAST, true), 0);
        CHECK_EQ(count_summed(low, MT_LAST, false), k ? 2 * NLAYERS : 0);
        CHECK_EQ(count_epilogue(low, MT_LAST, MT_OP_sum, false), (k ? 2 : 4) * NLAYERS);
        int before = count_kind(plain, MT_LAST, MT_OP_sum), statistics = 2 * NLAYERS + 1;
        CHECK_EQ(count_kind(low, MT_LAST, MT_OP_sum), before - 4 * NLAYERS - statistics);
        release_alone(&one);
        mt_graph_free(g);
    }
}

static int count_adding(const struct mt_lowered *low, enum mt_op_kind kind) {
    int n = 0;
    for (int i = 0; i < low->ninstrs; i++) n += low->instrs[i].kind == kind && low->instrs[i].attr.accumulate;
    return n;
}

/* One rank without micro-batches. A tied table's gradient is one buffer: the embedding's part is added to the head's.
 * The squares of all gradients are added up by what makes them. */
static void test_alone(void) {
    struct mt_graph *g = training_graph("gpt2:layers=1,heads=2,embed=8,context=4,vocab=11,bias=1,tied=1", 6, 0);
    struct alone one;
    lower_alone(g, &one);
    const struct mt_lowered *plain = one.plain, *low = one.fused;
    CHECK_EQ(count_adding(plain, MT_OP_embedding_grad), 0);
    CHECK_EQ(count_adding(low, MT_OP_embedding_grad), 1);
    int norms = count_kind(plain, MT_EPILOGUE, MT_OP_sq_norm);
    CHECK(norms > 10, "%d", norms);
    CHECK_EQ(count_kind(plain, MT_EPILOGUE, MT_OP_add), norms - 1);
    CHECK_EQ(count_kind(low, MT_EPILOGUE, MT_OP_sq_norm), 1);
    CHECK_EQ(count_kind(low, MT_EPILOGUE, MT_OP_sq_norm_add), norms - 1);
    CHECK_EQ(count_kind(low, MT_EPILOGUE, MT_OP_add), 0);
    release_alone(&one);
    mt_graph_free(g);
}

/* ---- with collectives ---- */

/* A GPT on three ranks, its layers divided, whose GEMMs run together with their collectives; in `style` the rest is
 * divided by samples, or not at all. */
struct overlapped {
    struct mt_graph *g;
    struct mt_arena arena;
    struct mt_program program;
    struct mt_lowered *low[3];
};

static void lower_overlapped(struct overlapped *t, enum style style, bool relu) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_choice choice;
    *t =
        (struct overlapped){.g = training_graph("gpt2:layers=1,heads=2,embed=4,context=3,vocab=5,bias=1,tied=1", 5, 0)};
    for (int o = 0; o < t->g->nops && relu; o++) {
        enum mt_op_kind *kind = &t->g->ops[o].kind;
        *kind = *kind == MT_OP_gelu ? MT_OP_relu : *kind == MT_OP_gelu_grad ? MT_OP_relu_grad : *kind;
    }
    make_choice(&t->arena, t->g, style, &choice);
    CHECK_OK(mt_build(t->g, &choice, &t->program, &err), err);
    for (int r = 0; r < 3; r++) t->low[r] = lower(&t->program, r, true, 0);
    struct mt_lower_options options = {.scratch_bytes = some_scratch};
    CHECK_OK(mt_check_lowered(&t->program, (const struct mt_lowered *const *)t->low, &options, NULL, &err), err);
}

static void release_overlapped(struct overlapped *t) {
    for (int r = 0; r < 3; r++) mt_lowered_free(t->low[r]);
    mt_program_release(&t->program);
    mt_arena_release(&t->arena);
    mt_graph_free(t->g);
}

static int count_overlapped(const struct mt_lowered *low, enum mt_overlap_form form, enum mt_op_kind epilogue) {
    int n = 0;
    for (int i = 0; i < low->ninstrs; i++) {
        const struct mt_linstr *c = &low->instrs[i];
        n += c->what == MT_LOWERED_OVERLAP && c->overlap->problem.form == form && c->attr.epilogue == epilogue;
    }
    return n;
}

/* Biases that are no epilogue. */
static int count_biases(const struct mt_lowered *low) {
    int n = 0;
    for (int i = 0; i < low->ninstrs; i++) {
        const struct mt_linstr *c = &low->instrs[i];
        n += c->what == MT_LOWERED_OP && c->kind == MT_OP_add && c->tensor[1].naxes == 1;
    }
    return n;
}

/* The three gathers of a layer end with its biases, its activation and the activation's slope. */
static void test_gathers(void) {
    for (int relu = 0; relu < 2; relu++) {
        enum mt_op_kind activation = relu ? MT_OP_relu : MT_OP_gelu, slope = relu ? MT_OP_relu_grad : MT_OP_gelu_grad;
        struct overlapped gathers;
        lower_overlapped(&gathers, OVERLAPPED, relu);
        for (int r = 0; r < 3; r++) {
            const struct mt_lowered *low = gathers.low[r];
            CHECK_EQ(count_overlapped(low, MT_OVERLAP_GATHER, MT_OP_add), 1);
            CHECK_EQ(count_overlapped(low, MT_OVERLAP_GATHER, activation), 1);
            CHECK_EQ(count_overlapped(low, MT_OVERLAP_GATHER, slope), 1);
            CHECK_EQ(count_kind(low, MT_LAST, activation) + count_kind(low, MT_LAST, slope), 0);
        }
        release_overlapped(&gathers);
    }
}

/* One rank adds the biases after its sums. Of a scatter that is the same; of a reduce others' rows would lack them, and
 * its own have them for others. */
static void check_unlike(struct overlapped *t, enum mt_overlap_form form) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_lower_options options = {.scratch_bytes = some_scratch};
    struct mt_lowered *alike = t->low[1];
    t->low[1] = lower(&t->program, 1, false, 0);
    CHECK_EQ(count_overlapped(t->low[1], form, MT_OP_add), 0);
    enum mt_status st = mt_check_lowered(&t->program, (const struct mt_lowered *const *)t->low, &options, NULL, &err);
    CHECK_EQ(st, form == MT_OVERLAP_REDUCE ? MT_EPROOF : MT_OK);
    if (st) CHECK(strstr(err.text, "another bias to the sum, or none"), "%s", err.text);
    mt_lowered_free(t->low[1]);
    t->low[1] = alike;
}

/* Both projections of a layer end in sums, which take the biases after them: scattered along samples, or for all. */
static void test_sums(void) {
    static const struct {
        enum style style;
        enum mt_overlap_form form;
    } rows[] = {{OVERLAPPED, MT_OVERLAP_SCATTER}, {OVERLAPPED_REPLICAS, MT_OVERLAP_REDUCE}};
    for (int k = 0; k < 2; k++) {
        struct overlapped sums;
        lower_overlapped(&sums, rows[k].style, false);
        for (int r = 0; r < 3; r++) {
            const struct mt_lowered *low = sums.low[r];
            CHECK_EQ(count_overlapped(low, rows[k].form, MT_OP_add), 2);
            CHECK_EQ(count_biases(low), 0);
        }
        check_unlike(&sums, rows[k].form);
        release_overlapped(&sums);
    }
}

int main(void) {
    printf("seed %d\n", SEED);
    test_gathers();
    test_sums();
    test_fusion();
    test_rms_fusion();
    test_unsummed();
    test_alone();
    return 0;
}
