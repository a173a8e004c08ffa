/* Gradients of weights from gathered factors: states after five steps in f64 are those of one rank, whole on every rank
 * or in the shares that are stored, on ragged shares and in several micro-batches; nothing but small sums is reduced,
 * and nothing broadcast; factors share messages, and other operators are computed between a message and the products
 * that wait for it. On devices that are not known to be alike it is proven no more; on others that differ it is
 * refused. */
#include "tests/synth/agreement.h"
#include "tests/synth/find_op.h"

enum { RANKS = 4 };
static const char *const model = "mlp:context=4,embed=8,hidden=24,layers=3,vocab=64";
static const int64_t shares[RANKS] = {6, 0, 3, 3}; /* of 12 samples */

enum form { WHOLE, SHARES }; /* what each rank computes of a gradient, and stores */

static bool is_product(const struct mt_graph *g, const struct mt_op *op) {
    bool gradient = op->role == MT_ROLE_BACKWARD && (op->kind == MT_OP_matmul || op->kind == MT_OP_embedding_grad);
    return gradient && g->values[op->out[0]].label[0] != g->batch;
}

/* Samples by ragged shares; products and updates whole, or by the last axis of the weight. */
static void factors(struct mt_arena *arena, const struct mt_graph *g, enum form form, struct mt_choice *c) {
    random_choice(arena, g, RANKS, false, c);
    for (int r = 0, start = 0; r < RANKS; r++) {
        c->batch->sizes[r] = c->micro[r] = shares[r];
        c->batch->starts[r] = start;
        c->batch->starts[r + 1] = start += (int)shares[r];
    }
    c->alike = mt_new(arena, int, RANKS);
    c->decisions.bucket_bytes = 4000;
    c->decisions.sync = MT_SYNC_REDUCE_SCATTER;
    for (int o = 0; o < g->nops; o++) {
        const struct mt_op *op = &g->ops[o];
        bool update = op->role == MT_ROLE_UPDATE;
        if (!update && !is_product(g, op)) continue;
        int value = update ? op->in[0] : op->out[0], axis = g->values[value].naxes - 1;
        c->rules[o] = (struct mt_rule){.kind = MT_RULE_REPLICATE};
        if (axis < 0 || (form == WHOLE && op->kind != MT_OP_sq_norm)) continue;
        int index = update ? op->in_index[0][axis] : op->out_index[0][axis];
        c->rules[o] =
            (struct mt_rule){.kind = MT_RULE_SPLIT, .index = index, .split = &c->splits[g->values[value].label[axis]]};
    }
}

static int count_of(const struct mt_program *p, enum mt_coll_kind kind, bool weights) {
    int n = 0;
    for (int b = MT_BODY; b < MT_NBLOCKS; b++)
        for (int i = 0; i < p->blocks[b].ninstrs; i++) {
            const struct mt_instr *instr = &p->blocks[b].instrs[i];
            bool some = false;
            for (int k = 0; k < instr->nin; k++) some |= p->graph->values[p->values[instr->in[k]].gvalue].naxes > 1;
            n += instr->kind == MT_INSTR_COLLECTIVE && instr->coll == kind && some == weights;
        }
    return n;
}

/* Products in LAST between which and the message of their last factor there is some other operator. */
static int count_overlapped(const struct mt_program *p, int *products, int *messages) {
    const struct mt_block *last = &p->blocks[MT_LAST];
    int overlapped = 0;
    *products = *messages = 0;
    for (int i = 0; i < last->ninstrs; i++) {
        const struct mt_instr *instr = &last->instrs[i];
        int sent = -1, others = 0;
        *messages +=
            instr->kind == MT_INSTR_COLLECTIVE && (instr->coll == MT_ALL_GATHER || instr->coll == MT_ALL_TO_ALL);
        if (instr->kind != MT_INSTR_OP || !is_product(p->graph, &p->graph->ops[instr->gop])) continue;
        for (int j = 0; j < i; j++)
            for (int k = 0; k < last->instrs[j].nout && last->instrs[j].kind == MT_INSTR_COLLECTIVE; k++)
                for (int n = 0; n < instr->nin; n++)
                    if (last->instrs[j].out[k] == instr->in[n]) sent = j;
        CHECK(sent >= 0, "%s: its factors are gathered", p->graph->ops[instr->gop].name);
        for (int j = sent + 1; j < i; j++)
            others += last->instrs[j].kind == MT_INSTR_OP && !is_product(p->graph, &p->graph->ops[last->instrs[j].gop]);
        overlapped += others > 0;
        ++*products;
    }
    return overlapped;
}

/* `reduced`: where weights' gradients are accumulated. */
static void test_agrees(const struct mt_graph *g, enum form form, int64_t micro, enum mt_reduced reduced) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_err err = MT_ERR_INIT;
    struct mt_choice choice, one = {.nranks = 1, .decisions.gradient_wire = MT_F64};
    struct mt_program alone, program;
    double loss, want_loss;
    int products, messages;
    factors(&arena, g, form, &choice);
    choice.decisions.reduced = reduced;
    for (int r = 0; r < RANKS && micro; r++) choice.micro[r] = (shares[r] + micro - 1) / micro; /* as many on each */
    one.rules = mt_new(&arena, struct mt_rule, g->nops);
    CHECK_OK(mt_build(g, &choice, &program, &err), err);
    CHECK_OK(mt_check_program(&program, NULL, &err), err);
    CHECK_OK(mt_build(g, &one, &alone, &err), err);
    struct mt_interp *want = run_steps(&alone, &want_loss, &err), *got = run_steps(&program, &loss, &err);
    CHECK(!err.status, "%s", err.text);
    double worst = disagreement(g, got, want);
    int overlapped = count_overlapped(&program, &products, &messages);
    printf("%s, %lld micro-batches: %.3g of what is allowed; %d products, %d overlapped, factors in %d messages\n",
           form == WHOLE ? "whole" : "shares", (long long)(micro ? micro : 1), worst, products, overlapped, messages);
    CHECK(worst <= 1, "%g times what is allowed", worst);
    CHECK(fabs(loss - want_loss) <= 1e-10 * fabs(want_loss), "loss %.17g, not %.17g", loss, want_loss);
    CHECK_EQ(count_of(&program, MT_BROADCAST, true), 0);
    CHECK_EQ(count_of(&program, MT_ALL_REDUCE, true), 0);
    CHECK_EQ(count_of(&program, MT_REDUCE_SCATTER, true), 0);
    CHECK_EQ(program.needs_alike, form == WHOLE);
    CHECK(overlapped > 0, "a product overlaps the message of the next");
    CHECK(messages < 2 * products, "%d messages", messages); /* a product has two factors */
    mt_interp_free(got), mt_interp_free(want);
    mt_program_release(&program), mt_program_release(&alone);
    mt_arena_release(&arena);
}

/* Ranks 0 to 2 are of one class and rank 3 of another; or nobody knows. */
static void test_devices(const struct mt_graph *g) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_err err = MT_ERR_INIT;
    struct mt_choice choice;
    struct mt_program program;
    int differ[RANKS] = {0, 0, 0, 1}, *alike;
    factors(&arena, g, WHOLE, &choice);
    CHECK_OK(mt_build(g, &choice, &program, &err), err);
    alike = program.alike;
    program.alike = differ;
    CHECK_EQ(mt_check_program(&program, NULL, &err), MT_EPROOF);
    CHECK(strstr(err.text, "may drift"), "%s", err.text);
    program.alike = NULL;
    err = (struct mt_err)MT_ERR_INIT;
    CHECK_EQ(mt_check_program(&program, NULL, &err), MT_EPROOF);
    program.alike = alike;
    CHECK_OK(mt_check_program(&program, NULL, &err), err);
    mt_program_release(&program);

    choice.alike = differ;
    err = (struct mt_err)MT_ERR_INIT;
    CHECK_EQ(mt_build(g, &choice, &program, &err), MT_EINPUT);
    CHECK(strstr(err.text, "head/grad_w") && strstr(err.text, "head.weight") && strstr(err.text, "ranks 0 and 3"), "%s",
          err.text);
    CHECK(strstr(err.hint, "in shares") && strstr(err.hint, "\"batch\""), "%s", err.hint);

    choice.alike = NULL;
    CHECK_OK(mt_build(g, &choice, &program, &err), err);
    CHECK_OK(mt_check_program(&program, NULL, &err), err);
    CHECK(count_of(&program, MT_BROADCAST, true) > 0,
          "of devices that nobody knows, the first one's gradient is taken");
    mt_program_release(&program);

    factors(&arena, g, SHARES, &choice); /* no two ranks compute one element */
    choice.alike = differ;
    CHECK_OK(mt_build(g, &choice, &program, &err), err);
    CHECK_OK(mt_check_program(&program, NULL, &err), err);
    mt_program_release(&program);
    mt_arena_release(&arena);
}

/* A rank that has other operands does not repeat what others compute, alike or not. */
static void test_operands(const struct mt_graph *g) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_err err = MT_ERR_INIT;
    struct mt_choice choice;
    struct mt_program program;
    factors(&arena, g, WHOLE, &choice);
    int op = find_op(g, "head/grad_w");
    for (int i = 0; i < g->ops[op].nindices; i++) /* sums of which the ranks have other parts */
        if (g->ops[op].index_label[i] == g->batch)
            choice.rules[op] = (struct mt_rule){.kind = MT_RULE_SPLIT, .index = i, .split = choice.batch};
    CHECK_OK(mt_build(g, &choice, &program, &err), err);
    CHECK_OK(mt_check_program(&program, NULL, &err), err);
    CHECK_EQ(count_of(&program, MT_ALL_REDUCE, true), 1); /* that one is reduced */
    mt_program_release(&program);
    mt_arena_release(&arena);
}

int main(void) {
    struct mt_graph *g = training_graph(model, 12, 0);
    for (int form = WHOLE; form <= SHARES; form++) {
        test_agrees(g, (enum form)form, 0, MT_REDUCED_STEP);
        test_agrees(g, (enum form)form, 3, MT_REDUCED_STEP);
        test_agrees(g, (enum form)form, 3, MT_REDUCED_MICRO_BATCH);
    }
    test_devices(g);
    test_operands(g);
    mt_graph_free(g);
    return 0;
}
