/* Lowered programs are right in themselves (trial.h); without any one of its waits, a program is wrong. Every
 * instruction is lowered, and messages start where they should. */
#include "synth/ops/ops.h"
#include "tests/synth/lower/trial.h"

/* Every instruction of the program is there once, in its block; one that makes a value's parts may be there twice, in
 * packed attention and its gradient. */
static void check_sources(const struct mt_lowered *low) {
    for (int b = 0; b < MT_NBLOCKS; b++) {
        int n = low->program->blocks[b].ninstrs, *times = calloc((size_t)n + 1, sizeof *times);
        for (int i = low->block_begin[b]; i < low->block_begin[b + 1]; i++)
            for (int s = 0; s < low->instrs[i].nsources; s++) times[low->instrs[i].sources[s]]++;
        for (int i = 0; i < n; i++) {
            const struct mt_instr *instr = &low->program->blocks[b].instrs[i];
            bool parts = instr->kind == MT_INSTR_OP && low->program->graph->ops[instr->gop].kind == MT_OP_separate;
            CHECK(times[i] == 1 || (parts && times[i] == 2), "instruction %d is lowered %d times", i, times[i]);
        }
        free(times);
    }
}

static int copy_streams; /* of the present program: 0, 1 or 3 */

static int waits_tried, several_waits, barriers, late_slices;

/* In the end a slice's copy overlaps messages and does not wait for the last of them. */
static void check_slices(const struct mt_lowered *low) {
    for (int i = low->block_begin[MT_EPILOGUE]; i < low->block_begin[MT_EPILOGUE + 1]; i++) {
        if (low->instrs[i].what != MT_LOWERED_COPY) continue;
        CHECK_EQ(low->instrs[i].stream > MT_STREAM_COMM, copy_streams > 0);
        if (!copy_streams) CHECK_EQ(low->instrs[i].stream, MT_STREAM_COMPUTE);
        late_slices += low->instrs[i].nsources > 0;
    }
}

/* A collective of weights that waits so that they take memory no earlier, whether that is shared or not. */
static bool moves_weights(const struct mt_lowered *low, int i) {
    bool moves = low->instrs[i].what == MT_LOWERED_COLLECTIVE && block_of(low, i) != MT_EPILOGUE;
    for (int k = 0; k < low->instrs[i].nin; k++)
        moves &= low->program->values[low->instrs[i].in[k]].block == MT_PROLOGUE;
    return moves;
}

static void check_rank(const struct mt_program *p, int rank, bool fuse, bool mutate) {
    struct mt_lowered *low = lower(p, rank, fuse, copy_streams);
    struct trial t;
    CHECK(lowered_is_right(low, &t), "%s", t.why);
    check_sources(low);
    check_slices(low);
    barriers += low->body_barrier;
    for (int i = 0; i < low->ninstrs && mutate; i++) {
        bool idle = block_of(low, i) == MT_BODY && low->body_count == 0;
        for (int w = 0; w < low->instrs[i].nwaits && !idle && !moves_weights(low, i); w++) {
            int wait = low->instrs[i].waits[w];
            low->instrs[i].waits[w] = -1;
            CHECK(!lowered_is_right(low, &t), "rank %d: instruction %d (%s) does not need its wait for %d", rank, i,
                  low->instrs[i].name, wait);
            low->instrs[i].waits[w] = wait;
            waits_tried++;
        }
        several_waits += low->instrs[i].nwaits > 1;
    }
    mt_lowered_free(low);
}

static void test_model(const char *text, enum mt_type type, int64_t batch, double dropout, bool in_step, int rounds) {
    struct mt_graph *g = training_graph_of(text, type, batch, dropout);
    for (int round = 0; round < rounds; round++) {
        copy_streams = round % 3 == 1 ? 1 : round % 3 == 2 ? 3 : 0;
        struct mt_err err = MT_ERR_INIT;
        struct mt_arena arena = MT_ARENA_INIT;
        struct mt_choice choice;
        struct mt_program program;
        choice_of_round(&arena, g, round, in_step, &choice);
        CHECK_OK(mt_build(g, &choice, &program, &err), err);
        for (int r = 0; r < choice.nranks; r++)
            for (int fuse = 0; fuse < 2; fuse++) check_rank(&program, r, fuse, round < 2 && r == choice.nranks - 1);
        mt_program_release(&program);
        mt_arena_release(&arena);
    }
    mt_graph_free(g);
}

/* ---- what every iteration needs ---- */

static int run_op(struct mt_program *p, enum mt_block_kind block, int op, int in) {
    const struct mt_op *o = &p->graph->ops[op];
    int out = mt_program_value(p, o->out[0], p->values[in].layout, MT_F64, block);
    struct mt_instr instr = {.kind = MT_INSTR_OP, .gop = op, .nin = 1, .nout = 1, .in = &in, .out = &out};
    mt_program_add(p, block, &instr);
    return out;
}

/* Values of the prologue that nobody reads after BODY: their memory is needed again in the next iteration, so neither
 * later values of BODY nor operators in place may take it. */
static void test_kept_for_iterations(enum mt_op_kind kind) {
    struct mt_graph *g = mt_graph_new(MT_F64);
    struct mt_err err = MT_ERR_INIT;
    struct mt_program p;
    int label, chain = 5;
    CHECK_OK(mt_graph_label(g, "a", 8, 1, &label, &err), err);
    int x = mt_graph_param(g, "x", "a", MT_INIT_ONE, 0), value = x;
    for (int i = 0; i < chain; i++) value = kind == MT_OP_relu ? mt_op_relu(g, "y", value) : mt_op_gelu(g, "y", value);
    mt_program_init(&p, g, 1);
    int64_t extent = 8;
    int at = mt_program_value(&p, x, mt_layout_replicated(&p.layouts, 1, &extent), MT_F64, MT_PROLOGUE);
    p.values[at].input = true;
    p.body_count[0] = 2;
    for (int o = 0; o < chain; o++) at = run_op(&p, o == 0 ? MT_PROLOGUE : MT_BODY, o, at);
    check_rank(&p, 0, false, false);
    mt_program_release(&p);
    mt_graph_free(g);
}

/* Of the operators from `instr` on in its block: the first that yields to messages, or -1. */
static int next_giving(const struct mt_lowered *low, int instr) {
    for (int i = instr; i < low->block_begin[block_of(low, instr) + 1]; i++)
        if (low->instrs[i].what == MT_LOWERED_OP && mt_op_is_attention_grad(low->instrs[i].kind)) return i;
    return -1;
}

/* Gradients' messages start with an operator that yields to them, at the end of the one before it; the last ones,
 * behind which no such operator comes, at once. */
static void test_message_starts(void) {
    enum { LAYERS = 5 };
    struct mt_graph *g = training_graph("gpt2:layers=5,heads=2,embed=8,context=4,vocab=300,bias=1,tied=1", 6, 0);
    struct mt_err err = MT_ERR_INIT;
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_choice choice;
    for (int overlap = 0; overlap < 2; overlap++) {
        struct mt_program program;
        random_choice(&arena, g, 2, false, &choice);
        for (int o = 0; o < g->nops; o++)
            if (g->ops[o].role == MT_ROLE_UPDATE) choice.rules[o] = (struct mt_rule){.kind = MT_RULE_REPLICATE};
        choice.decisions.bucket_bytes = 2048;
        choice.decisions.start = overlap ? MT_START_ATTENTION : MT_START_FULL;
        CHECK_OK(mt_build(g, &choice, &program, &err), err);
        for (int fuse = 0; fuse < 2; fuse++) {
            struct mt_lowered *low = lower(&program, 0, fuse, copy_streams);
            int overlap_one = 0, elsewhere = 0, late = 0;
            for (int i = low->block_begin[MT_LAST]; i < low->block_begin[MT_EPILOGUE]; i++) {
                const struct mt_linstr *c = &low->instrs[i];
                if (c->what != MT_LOWERED_COLLECTIVE || c->problem.kind != MT_ALL_REDUCE || c->nin < 3) continue;
                int next = next_giving(low, i);
                if (next < 0)
                    late++;
                else if (next == i + 1)
                    overlap_one += waits_for(c, i - 1);
                else
                    elsewhere++;
            }
            CHECK(late > 0, "the table's gradient comes last");
            CHECK(overlap ? overlap_one >= 2 && elsewhere == 0 : elsewhere > 0, "%d of %d: %d, %d", overlap, fuse,
                  overlap_one, elsewhere);
            check_rank(&program, 0, fuse, false);
            mt_lowered_free(low);
        }
        mt_program_release(&program);
    }
    mt_arena_release(&arena);
    mt_graph_free(g);
}

int main(void) {
    printf("seed %d\n", SEED);
    test_model("gpt2:layers=2,heads=3,embed=6,context=4,vocab=11,bias=1,tied=1", MT_F64, 5, 0.1, false, 8);
    test_model("gpt2:layers=1,heads=2,embed=8,context=5,vocab=7,bias=0,tied=0", MT_F64, 8, 0.1, false, 8);
    test_model("gpt2:layers=1,heads=2,embed=8,context=3,vocab=7,bias=1,tied=1", MT_F64, 6, 0, true, 6);
    test_model("mlp:context=3,embed=4,hidden=7,layers=2,vocab=9", MT_F64, 9, 0, false, 8);
    test_model("llama:layers=1,heads=4,kv_heads=2,embed=8,ffn=16,context=4,vocab=11", MT_BF16, 8, 0, false, 8);
    test_kept_for_iterations(MT_OP_gelu);
    test_kept_for_iterations(MT_OP_relu);
    test_message_starts();
    CHECK(waits_tried > 100, "%d", waits_tried);
    CHECK(several_waits > 5, "%d", several_waits);
    CHECK(barriers > 0, "the bodies communicate");
    CHECK(late_slices > 0, "the ends copy slices");
    printf("%d waits tried, %d programs with barriers\n", waits_tried, barriers);
    return 0;
}
