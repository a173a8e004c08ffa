/* Lowered programs are right in themselves: by the order that streams, waits and barriers give, every read finds what
 * its maker wrote, with nobody else's bytes in between; all pairs of instructions are tried, with two iterations of the
 * body written out, and without any of the lowering's own means. Without any one of its waits, a program is wrong.
 *
 * Longer than other files: the independent execution that every case is checked by stands with the cases. */
#include "synth/lower/lower.h"
#include "synth/ops/ops.h"
#include "tests/check.h"
#include "tests/synth/random_program.h"

/* One run of one instruction; the last event is the end of the step. */
struct event {
    int instr, copy; /* copy: the iteration of BODY that it copies, 0 or 1 */
    bool work;
};

struct trial {
    const struct mt_lowered *low;
    struct event *events;
    int nevents;
    uint64_t *before; /* [nevents][words]: the events that end before it starts */
    int words;
    int *sum_of, *base_of; /* [pvalues]: what BODY's ACCUMULATE makes of an accumulator, and the reverse; or -1 */
    bool *kept;            /* [pvalues]: there at the start, as the step before left it */
    char why[256];
};

static bool is_before(const struct trial *t, int a, int b) {
    return a < 0 || (t->before[(size_t)b * (size_t)t->words + (size_t)a / 64] >> (a % 64) & 1);
}

static void add_before(struct trial *t, int a, int b) {
    uint64_t *to = t->before + (size_t)b * (size_t)t->words, *from = t->before + (size_t)a * (size_t)t->words;
    for (int w = 0; w < t->words; w++) to[w] |= from[w];
    to[a / 64] |= (uint64_t)1 << (a % 64);
}

static enum mt_block_kind block_of(const struct mt_lowered *low, int instr) {
    int b = 0;
    while (instr >= low->block_begin[b + 1]) b++;
    return (enum mt_block_kind)b;
}

static void list_events(struct trial *t) {
    const struct mt_lowered *low = t->low;
    t->events = calloc((size_t)(2 * low->ninstrs + 1), sizeof *t->events);
    t->nevents = 0;
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int copy = 0; copy < (b == MT_BODY && low->body_count > 0 ? 2 : 1); copy++)
            for (int i = low->block_begin[b]; i < low->block_begin[b + 1]; i++)
                t->events[t->nevents++] =
                    (struct event){i, copy, (b != MT_BODY || low->body_count > 0) && !low->instrs[i].kept};
    t->events[t->nevents++] = (struct event){.instr = -1, .work = true};
    t->sum_of = malloc((size_t)low->program->nvalues * sizeof(int));
    t->base_of = malloc((size_t)low->program->nvalues * sizeof(int));
    for (int v = 0; v < low->program->nvalues; v++) t->sum_of[v] = t->base_of[v] = -1;
    for (int i = 0; i < low->program->blocks[MT_BODY].ninstrs; i++) {
        const struct mt_instr *c = &low->program->blocks[MT_BODY].instrs[i];
        if (c->kind == MT_INSTR_ACCUMULATE) t->sum_of[c->in[0]] = c->out[0], t->base_of[c->out[0]] = c->in[0];
    }
    t->kept = calloc((size_t)low->program->nvalues, sizeof *t->kept);
    for (int i = 0; i < low->ninstrs; i++)
        if (low->instrs[i].kept) t->kept[low->instrs[i].out[0]] = true;
    t->words = (t->nevents + 63) / 64;
    t->before = calloc((size_t)t->nevents * (size_t)t->words, sizeof *t->before);
}

/* Whether the barrier of BODY stands between two events. */
static bool fenced(const struct trial *t, int a, int e) {
    const struct mt_lowered *low = t->low;
    int last = low->block_begin[MT_LAST], first = t->events[a].instr, second = t->events[e].instr;
    bool next =
        second < last && second >= low->block_begin[MT_BODY] && t->events[e].copy == 1 && t->events[a].copy == 0;
    return low->body_barrier && first < last && (second >= last || next);
}

static bool waits_for(const struct mt_linstr *c, int instr) {
    bool waits = false;
    for (int w = 0; w < c->nwaits; w++) waits |= c->waits[w] == instr;
    return waits;
}

/* The three rules of lower.h, and the end of the step after everything. */
static void order_events(struct trial *t) {
    const struct mt_lowered *low = t->low;
    int end = t->nevents - 1;
    for (int e = 0; e < t->nevents; e++)
        for (int a = 0; a < e; a++) {
            const struct mt_linstr *first = &low->instrs[t->events[a].instr];
            if (e < end && first->what == MT_LOWERED_ALIAS) continue;
            if (e < end && low->instrs[t->events[e].instr].what == MT_LOWERED_ALIAS) continue;
            if (e == end || fenced(t, a, e) || waits_for(&low->instrs[t->events[e].instr], t->events[a].instr) ||
                low->instrs[t->events[e].instr].stream == first->stream)
                add_before(t, a, e);
        }
}

/* Where a program value comes from at event `e`: the event that made it, -1 for what was there at the start, -2 if it
 * was not made. Accumulators hold their sums so far. */
static int maker(const struct trial *t, int value, int e) {
    const struct mt_lowered *low = t->low;
    for (int a = e - 1; a >= 0; a--) {
        if (!t->events[a].work) continue;
        const struct mt_linstr *c = &low->instrs[t->events[a].instr];
        for (int o = 0; o < c->nout; o++)
            if (c->out[o] == value || c->out[o] == t->sum_of[value])
                return c->what == MT_LOWERED_ALIAS ? maker(t, c->in[0], a) : a;
    }
    if (t->base_of[value] >= 0) return maker(t, t->base_of[value], e);
    return low->program->values[value].input || t->kept[value] ? -1 : -2;
}

static bool overlap(const struct mt_lowered *low, int a, int b) {
    const struct mt_lvalue *x = &low->values[a], *y = &low->values[b];
    return x->size_bytes > 0 && y->size_bytes > 0 && x->offset_bytes < y->offset_bytes + y->size_bytes &&
           y->offset_bytes < x->offset_bytes + x->size_bytes;
}

/* What an instruction writes. */
static int written(const struct mt_linstr *c, int *values) {
    int n = 0;
    for (int o = 0; o < c->nout; o++) values[n++] = c->out[o];
    for (int b = 0; b < 2; b++)
        if (c->message[b] >= 0) values[n++] = c->message[b];
    if (c->scratch >= 0) values[n++] = c->scratch;
    return n;
}

/* Whether instruction c, reading its own input `in`, may write over it as `value`. */
static bool in_place(const struct mt_lowered *low, const struct mt_linstr *c, int in, int value) {
    if (low->values[in].offset_bytes != low->values[value].offset_bytes) return false;
    if (c->what == MT_LOWERED_COLLECTIVE) return true;
    for (int o = 0; o < c->nout; o++) {
        int place = c->what == MT_LOWERED_OP ? mt_op_info[c->kind].in_place[o] : -1;
        if (c->out[o] == value && (c->kind == MT_OP_fill || (place >= 0 && place < c->nin && c->in[place] == in)))
            return true;
    }
    return false;
}

static bool wrong(struct trial *t, int e, int value, const char *why) {
    const struct mt_program *p = t->low->program;
    int i = t->events[e].instr;
    snprintf(t->why, sizeof t->why, "rank %d, instruction %d (%s), %s: %s", t->low->rank, i,
             i < 0 ? "end" : t->low->instrs[i].name, p->graph->values[p->values[value].gvalue].name, why);
    return false;
}

/* Event e reads `value`: its maker is before, and all other writers of its bytes are before that or after this. */
static bool check_read(struct trial *t, int e, int value) {
    const struct mt_lowered *low = t->low;
    int by = maker(t, value, e), values[32];
    if (by == -2) return wrong(t, e, value, "is read but was not made");
    if (!is_before(t, by, e)) return wrong(t, e, value, "may be read before it is made");
    for (int w = 0; w < t->nevents - 1; w++) {
        const struct mt_linstr *c = &low->instrs[t->events[w].instr];
        if (w == by || !t->events[w].work || c->what == MT_LOWERED_ALIAS) continue;
        int n = written(c, values);
        for (int k = 0; k < n; k++) {
            if (!overlap(low, value, values[k])) continue;
            if (w == e ? in_place(low, c, value, values[k]) : is_before(t, e, w) || (by >= 0 && is_before(t, w, by)))
                continue;
            return wrong(t, e, value, "may be written over before it is read");
        }
    }
    return true;
}

static bool check_end(struct trial *t) {
    const struct mt_lowered *low = t->low;
    const struct mt_program *p = low->program;
    int end = t->nevents - 1;
    for (int v = 0; v < p->nvalues; v++) {
        if (!p->values[v].input || p->graph->values[p->values[v].gvalue].kind != MT_VALUE_STATE) continue;
        int next = p->values[v].next >= 0 ? p->values[v].next : v;
        bool there = low->values[next].offset_bytes == low->values[v].offset_bytes;
        bool copied = maker(t, v, end) >= 0; /* a copy of the next value into the state's place */
        if (!there && !copied) return wrong(t, end, v, "its next value is elsewhere");
        if (!check_read(t, end, copied ? v : next)) return false;
    }
    for (int v = 0; v < p->nvalues; v++) { /* the cast of the state's next value, by what makes that */
        if (!t->kept[v]) continue;
        int by = maker(t, v, end);
        const struct mt_linstr *update = by >= 0 ? &low->instrs[t->events[by].instr] : NULL;
        const struct mt_op *cast = &p->graph->ops[p->graph->values[p->values[v].gvalue].producer];
        if (!update || update->kind != MT_OP_adamw || update->out[0] != p->values[low->state_at[cast->in[0]]].next)
            return wrong(t, end, v, "is not the cast of the next value");
        if (!check_read(t, end, v)) return false;
    }
    for (int g = 0; g < p->graph->nvalues; g++)
        if (low->output_at[g] >= 0 && !check_read(t, end, low->output_at[g])) return false;
    return true;
}

static bool lowered_is_right(const struct mt_lowered *low, struct trial *t) {
    *t = (struct trial){.low = low};
    list_events(t);
    order_events(t);
    bool right = true;
    for (int e = 0; e < t->nevents - 1 && right; e++) {
        const struct mt_linstr *c = &low->instrs[t->events[e].instr];
        bool fill = c->what == MT_LOWERED_OP && c->kind == MT_OP_fill;
        if (!t->events[e].work || c->what == MT_LOWERED_ALIAS || fill) continue;
        for (int i = 0; i < c->nin && right; i++) right = check_read(t, e, c->in[i]);
        for (int o = 0; o < c->nout && right; o++)
            if (low->values[c->out[o]].offset_bytes + low->values[c->out[o]].size_bytes > low->arena_bytes)
                right = wrong(t, e, c->out[o], "lies outside of the arena");
    }
    right = right && check_end(t);
    free(t->events);
    free(t->before);
    free(t->sum_of);
    free(t->base_of);
    free(t->kept);
    return right;
}

static int64_t some_scratch(void *context, const struct mt_call *call) {
    (void)context;
    return 100 + 10 * (int64_t)call->kind;
}

static int copy_streams; /* 0, 1 or 3 */

static struct mt_lowered *lower(const struct mt_program *p, int rank, bool fuse) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_lowered *low;
    struct mt_lower_options options = {.fuse = fuse,
                                       .copy_streams = copy_streams,
                                       .latency_s = 1e-5,
                                       .bandwidth_Bps = 1e9,
                                       .scratch_bytes = some_scratch};
    CHECK_OK(mt_lower(p, rank, &options, &low, &err), err);
    CHECK_EQ(low->nstreams, 2 + copy_streams);
    return low;
}

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
    struct mt_lowered *low = lower(p, rank, fuse);
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

/* ---- fusion ---- */

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
    return lower(program, 0, true);
}

/* A GPT with biases has, in body and last micro-batch: a norm before everything, 2L residual norms, 4L GEMMs with
 * bias, L of them with an activation, as many with its slope, 2L with a bias's gradient, 2L + 1 gradients of norms, all
 * but the first norm's with the gradient of the bias before it, one cross entropy with its gradient; and nothing left
 * of their parts. */
static void test_fusion(void) {
    enum { LAYERS = 2 };
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
        CHECK_EQ(count_kind(low, block, MT_OP_residual_norm), 2 * LAYERS);
        CHECK_EQ(count_epilogue(low, block, MT_OP_add, false), 3 * LAYERS);
        CHECK_EQ(count_epilogue(low, block, MT_OP_gelu, false), LAYERS);
        CHECK_EQ(count_epilogue(low, block, MT_OP_gelu_grad, false), LAYERS);
        CHECK_EQ(count_epilogue(low, block, MT_OP_sum, true), 2 * LAYERS);
        CHECK_EQ(count_kind(low, block, MT_OP_layer_norm_grad), 2 * LAYERS + 1);
        CHECK_EQ(count_summed(low, block, true), 2 * LAYERS);
        CHECK_EQ(count_kind(low, block, MT_OP_cross_entropy_grad), 1);
        CHECK_EQ(count_kind(low, block, MT_OP_attention_packed), LAYERS);
        CHECK_EQ(count_kind(low, block, MT_OP_attention_packed_grad), LAYERS);
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) CHECK_EQ(count_kind(low, block, parts[k]), 0);
        /* weight gradients go straight into their accumulators */
        int adding = 0;
        for (int i = low->block_begin[b]; i < low->block_begin[b + 1]; i++)
            adding += low->instrs[i].kind == MT_OP_matmul && low->instrs[i].attr.accumulate;
        CHECK_EQ(adding, 1 + 2 * LAYERS); /* the head's, which has no bias, and those whose bias a norm sees to */
    }
    int parts_without_memory = 0;
    for (int v = 0; v < program.nvalues; v++) {
        int producer = g->values[program.values[v].gvalue].producer;
        if (producer < 0 || g->ops[producer].kind != MT_OP_separate) continue;
        CHECK_EQ(low->values[v].offset_bytes, -1);
        parts_without_memory++;
    }
    CHECK_EQ(parts_without_memory, 2 * 2 * LAYERS); /* queries, and keys with values, in BODY and LAST */
    mt_lowered_free(low);
    mt_program_release(&program);
    mt_arena_release(&arena);
    mt_graph_free(g);
}

/* A Llama has a norm before everything and 2L residual norms; its gradients of norms add those of the residual paths,
 * except the last norm's, and dgamma goes straight into its accumulator. Projections of one input add their gradients
 * to the first one's. */
static void test_rms_fusion(void) {
    enum { LAYERS = 2 };
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
        CHECK_EQ(count_kind(low, block, MT_OP_residual_rms), 2 * LAYERS);
        CHECK_EQ(count_finished(low, block, MT_OP_rms_norm_grad, 0, true), 2 * LAYERS + 1);
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) CHECK_EQ(count_kind(low, block, parts[k]), 0);
        int with_residual = 0, summed = 0;
        for (int i = low->block_begin[b]; i < low->block_begin[b + 1]; i++) {
            const struct mt_linstr *c = &low->instrs[i];
            with_residual += c->kind == MT_OP_rms_norm_grad && c->nin == 5;
            summed += c->kind == MT_OP_matmul && c->attr.accumulate && !c->attr.out_acc;
        }
        CHECK_EQ(with_residual, 2 * LAYERS);
        CHECK_EQ(summed, 3 * LAYERS); /* gradients of one input: k's and q's, added to v's; gate's, added to up's */
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
    one->plain = lower(&one->program, 0, false);
    one->fused = lower(&one->program, 0, true);
}

static void release_alone(struct alone *one) {
    mt_lowered_free(one->plain), mt_lowered_free(one->fused);
    mt_program_release(&one->program);
    mt_arena_release(&one->arena);
}

/* A norm's gradient that is dropped out is another one when a bias sees it: its sum is not the norm's; the rows' sum
 * over the batch alone, of position embeddings, is none of them either. */
static void test_unsummed(void) {
    enum { LAYERS = 2 };
    static const double dropout[2] = {0.1, 0};
    for (int k = 0; k < 2; k++) {
        struct mt_graph *g =
            training_graph("gpt2:layers=2,heads=2,embed=8,context=4,vocab=11,bias=1,tied=1", 6, dropout[k]);
        struct alone one;
        lower_alone(g, &one);
        const struct mt_lowered *plain = one.plain, *low = one.fused;
        CHECK_EQ(count_summed(low, MT_LAST, true), 0);
        CHECK_EQ(count_summed(low, MT_LAST, false), k ? 2 * LAYERS : 0);
        CHECK_EQ(count_epilogue(low, MT_LAST, MT_OP_sum, false), (k ? 2 : 4) * LAYERS);
        int before = count_kind(plain, MT_LAST, MT_OP_sum), statistics = 2 * LAYERS + 1;
        CHECK_EQ(count_kind(low, MT_LAST, MT_OP_sum), before - 4 * LAYERS - statistics);
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

/* Of the operators from `instr` on in its block: the first that yields to messages, or -1. */
static int next_giving(const struct mt_lowered *low, int instr) {
    for (int i = instr; i < low->block_begin[block_of(low, instr) + 1]; i++)
        if (low->instrs[i].what == MT_LOWERED_OP && mt_op_is_attention_grad(low->instrs[i].kind)) return i;
    return -1;
}

/* Gradients' messages start with an operator that yields to them, at the end of the one before it; the last ones,
 * behind which no such operator comes, at once. */
static void test_sets_off(void) {
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
            struct mt_lowered *low = lower(&program, 0, fuse);
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
    test_fusion();
    test_rms_fusion();
    test_unsummed();
    test_alone();
    test_sets_off();
    CHECK(waits_tried > 100, "%d", waits_tried);
    CHECK(several_waits > 5, "%d", several_waits);
    CHECK(barriers > 0, "the bodies communicate");
    CHECK(late_slices > 0, "the ends copy slices");
    printf("%d waits tried, %d programs with barriers\n", waits_tried, barriers);
    return 0;
}
