/* Casts that updates write for the next step: in random programs of half precision each state that is updated where it
 * is cast has one, the checker accepts it, and refuses every mutant that would leave another cast in its place. */
#include "synth/check/check.h"
#include "tests/check.h"
#include "tests/synth/check/changes.h"

enum { MOST_RANKS = 4, ROUNDS = 24 };

static const struct mt_program *program;
static struct mt_lowered *lowered[MOST_RANKS];
static struct mt_lower_options options = {.fuse = true, .latency_s = 1e-5, .bandwidth_Bps = 1e9};
static int refused[8];

static bool is_accepted(struct mt_err *err) {
    return !mt_check_lowered(program, (const struct mt_lowered *const *)lowered, &options, NULL, err);
}

static void expect_refusal(int what, const char *why) {
    struct mt_err err = MT_ERR_INIT;
    CHECK(changed() && !is_accepted(&err), "mutant %d", what);
    CHECK_EQ(err.status, MT_EPROOF);
    CHECK(!why || strstr(err.text, why), "mutant %d: %s", what, err.text);
    refused[what]++;
    take_back();
}

static struct mt_linstr *update_of(struct mt_lowered *m, const struct mt_linstr *cast) {
    for (int i = m->block_begin[MT_EPILOGUE]; i < m->ninstrs; i++)
        if (m->instrs[i].kind == MT_OP_adamw && m->instrs[i].nout > 3 && m->instrs[i].out[3] == cast->out[0])
            return &m->instrs[i];
    return NULL;
}

static bool reads(const struct mt_linstr *c, int value) {
    bool found = false;
    for (int k = 0; k < c->nin; k++) found |= c->in[k] == value;
    return found;
}

/* A value, no smaller than `value`, that the step makes before it reads `value`; or -1. */
static int made_before(const struct mt_lowered *m, int value) {
    int last = m->block_begin[MT_LAST + 1] - 1;
    while (last >= m->block_begin[MT_LAST] && !reads(&m->instrs[last], value)) last--;
    for (int i = m->block_begin[MT_LAST]; i < last; i++)
        for (int o = 0; o < m->instrs[i].nout; o++) {
            int v = m->instrs[i].out[o];
            if (has_memory(m, v) && m->values[v].size_bytes >= m->values[value].size_bytes) return v;
        }
    return -1;
}

static void mutate(struct mt_lowered *m, struct mt_linstr *cast, struct mt_linstr *other) {
    int value = cast->out[0], temporary = made_before(m, value);
    struct mt_linstr *update = update_of(m, cast);
    CHECK(update, "%s is kept, but not written", cast->name);
    if (!has_memory(m, value)) return;
    SET(cast->kept, false);
    expect_refusal(0, "not kept for the next step");
    SET(update->nout, 3);
    SET(update->attr.epilogue, (enum mt_op_kind)0);
    SET(update->attr.to, (enum mt_type)0);
    expect_refusal(1, "no update writes it");
    SET(update->attr.to, update->attr.to == MT_BF16 ? MT_F16 : MT_BF16);
    expect_refusal(2, "not kept for the next step");
    if (temporary >= 0) {
        move_value(m, value, m->values[temporary].offset_bytes);
        expect_refusal(3, NULL);
    }
    move_value(m, value, m->values[cast->in[0]].offset_bytes);
    expect_refusal(4, NULL);
    if (!other) return;
    struct mt_linstr *wrong = update_of(m, other);
    int mine = value, theirs = other->out[0];
    SET(update->out[3], theirs);
    SET(wrong->out[3], mine);
    expect_refusal(5, NULL);
}

/* Another kept cast of the same extents, or null. */
static struct mt_linstr *like(struct mt_lowered *m, const struct mt_linstr *cast) {
    for (int i = m->block_begin[MT_PROLOGUE]; i < m->block_begin[MT_PROLOGUE + 1]; i++) {
        struct mt_linstr *c = &m->instrs[i];
        if (!c->kept || c == cast || c->tensor[1].naxes != cast->tensor[1].naxes) continue;
        if (!memcmp(c->tensor[1].extent, cast->tensor[1].extent, sizeof c->tensor[1].extent)) return c;
    }
    return NULL;
}

/* How many casts are kept on the rank: all of states that AdamW updates where they are. */
static int check_rank(struct mt_lowered *m, bool mutants) {
    int kept = 0;
    for (int i = 0; i < m->ninstrs; i++) {
        struct mt_linstr *c = &m->instrs[i];
        bool state = m->program->values[c->in[0]].input && m->program->values[c->in[0]].next >= 0;
        bool cast = c->what == MT_LOWERED_OP && c->kind == MT_OP_cast && state && i < m->block_begin[MT_BODY];
        CHECK_EQ(c->kept, cast);
        if (!cast) {
            if (mutants && c->what == MT_LOWERED_OP && i % 16 == 0) {
                SET(c->kept, true);
                expect_refusal(6, NULL);
            }
            continue;
        }
        if (mutants && kept % 4 == 0) mutate(m, c, like(m, c));
        kept++;
    }
    return kept;
}

static void test(const char *model, enum mt_type type) {
    struct mt_graph *g = training_graph_of(model, type, 5, 0);
    int kept = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct mt_err err = MT_ERR_INIT;
        struct mt_arena arena = MT_ARENA_INIT;
        struct mt_choice choice;
        struct mt_program p;
        random_choice(&arena, g, 1 + (int)below(MOST_RANKS), false, &choice);
        CHECK_OK(mt_build(g, &choice, &p, &err), err);
        program = &p;
        for (int r = 0; r < p.nranks; r++) CHECK_OK(mt_lower(&p, r, &options, &lowered[r], &err), err);
        CHECK(is_accepted(&err), "%s, round %d: %s", model, round, err.text);
        for (int r = 0; r < p.nranks; r++) kept += check_rank(lowered[r], round < 4);
        for (int r = 0; r < p.nranks; r++) mt_lowered_free(lowered[r]);
        mt_program_release(&p);
        mt_arena_release(&arena);
    }
    CHECK(kept >= ROUNDS * 10, "%s: %d", model, kept);
    mt_graph_free(g);
}

int main(void) {
    test("llama:layers=1,heads=4,kv_heads=2,embed=8,ffn=16,context=4,vocab=11", MT_BF16);
    test("gpt2:layers=1,heads=2,embed=8,context=4,vocab=11,bias=1,tied=1", MT_F16);
    for (int what = 0; what < 7; what++) CHECK(refused[what] > 0, "mutant %d", what);
    return 0;
}
