/* A class of 64 equal ranks, whose equal parts the checkers prove once: damage to one rank, anywhere in the class, is
 * refused, in the program and in that rank's lowered program. Lowered programs are given one after another. */
#include "synth/check/check.h"
#include "tests/synth/programs.h"

enum { RANKS = 64, ROUNDS = 300 };

/* Every split even, every update in shares, every sample operator by the batch. */
static void even_choice(struct mt_arena *arena, const struct mt_graph *g, struct mt_choice *c) {
    random_choice(arena, g, RANKS, false, c);
    c->decisions.sync = MT_SYNC_REDUCE_SCATTER;
    c->decisions.bucket_bytes = 4000;
    for (int s = 0; s < c->nsplits; s++) {
        struct mt_split *split = (struct mt_split *)(uintptr_t)&c->splits[s];
        int64_t extent = g->labels[split->label].extent;
        for (int r = 0; r < RANKS; r++) {
            split->sizes[r] = extent / RANKS + (r < extent % RANKS);
            split->starts[r + 1] = split->starts[r] + split->sizes[r];
        }
    }
    for (int r = 0; r < RANKS; r++) c->micro[r] = c->batch->sizes[r];
    for (int o = 0; o < g->nops; o++) {
        struct mt_rule rules[MT_MAX_INDICES + MT_MAX_IN + 1];
        int n = all_rules(&g->ops[o], c->splits, c->nsplits, rules);
        for (int r = 0; r < n && g->ops[o].role == MT_ROLE_UPDATE; r++)
            if (rules[r].kind == MT_RULE_SPLIT) c->rules[o] = rules[r];
    }
}

/* ---- the program ---- */

/* Change one rank's part of what all ranks share, and back. Returns whether there was something to change. */
static bool expect_refused(struct mt_program *p, int64_t *place, int64_t by, const char *what, int rank) {
    struct mt_err err = MT_ERR_INIT;
    *place += by;
    enum mt_status st = mt_check_program(p, NULL, &err);
    *place -= by;
    CHECK_EQ(st, MT_EPROOF);
    CHECK(err.text[0], "%s of rank %d", what, rank);
    return true;
}

static void mutate_program(struct mt_program *p) {
    int kinds[4] = {0};
    for (int round = 0; round < ROUNDS; round++) {
        int rank = (int)below(RANKS), v = (int)below(p->nvalues), kind = (int)below(4);
        struct mt_layout *l = &p->layouts.items[p->values[v].layout];
        struct mt_box *box = &l->box[rank];
        int a = l->naxes ? (int)below(l->naxes) : 0;
        if (kind == 3) {
            kinds[kind] += expect_refused(p, &p->last_size[rank], 1, "samples", rank);
        } else if (kind == 2) {
            struct mt_block *b = &p->blocks[below(MT_NBLOCKS)];
            struct mt_instr *instr = b->ninstrs ? &b->instrs[below(b->ninstrs)] : NULL;
            if (!instr || instr->kind != MT_INSTR_COLLECTIVE) continue;
            struct mt_err err = MT_ERR_INIT;
            int *own = calloc(RANKS, sizeof *own), *shared = instr->group;
            memcpy(own, shared, RANKS * sizeof *own);
            own[rank] += 1; /* another group */
            instr->group = own;
            CHECK_EQ(mt_check_program(p, NULL, &err), MT_EPROOF);
            instr->group = shared;
            free(own);
            kinds[kind]++;
        } else if (l->naxes && box->hi[a] - box->lo[a] > 0) {
            kinds[kind] += expect_refused(p, kind ? &box->hi[a] : &box->lo[a], kind ? -1 : 1, "a box", rank);
        }
    }
    printf("program: %d boxes that begin later, %d that end sooner, %d groups, %d shares\n", kinds[0], kinds[1],
           kinds[2], kinds[3]);
    for (int k = 0; k < 4; k++) CHECK(kinds[k] > 0, "kind %d", k);
}

/* ---- lowered programs ---- */

struct ranks {
    const struct mt_program *program;
    struct mt_lowered *lowered[RANKS];
    struct mt_lower_options options;
};

static enum mt_status next_rank(void *context, int rank, const struct mt_lowered **lowered, struct mt_err *err) {
    struct ranks *ranks = context;
    (void)err;
    *lowered = ranks->lowered[rank];
    return MT_OK;
}

static enum mt_status check(struct ranks *ranks, struct mt_err *err) {
    return mt_check_each_lowered(ranks->program, next_rank, ranks, &ranks->options, NULL, err);
}

/* Damage one instruction of one rank; false if this kind of damage does not apply to it. What is to be written back is
 * in *place and *old. */
static bool damage(struct mt_linstr *l, int kind, int64_t **place, int64_t *old) {
    struct mt_schedule *s = l->schedule;
    bool collective = l->what == MT_LOWERED_COLLECTIVE;
    *place = NULL;
    if (kind == 0 && l->what == MT_LOWERED_OP && l->tensor[0].naxes && mt_tensor_count(&l->tensor[0]))
        *place = &l->tensor[0].offset[0];
    if (kind == 1 && collective && l->npack) *place = &l->pack[l->npack / 2].at;
    if (kind == 2 && collective && l->nunpack) *place = &l->unpack[l->nunpack / 2].at;
    if (kind == 3 && collective && s && s->nsteps) *place = &s->steps[s->nsteps / 2].count;
    if (kind == 4 && collective && s && s->nsteps) *place = &s->steps[s->nsteps / 3].offset;
    if (kind == 5 && collective) *place = &l->message_count[0];
    if (!*place) return false;
    *old = **place;
    **place += 1;
    return true;
}

static void mutate_lowered(struct ranks *ranks) {
    int kinds[8] = {0};
    for (int round = 0; round < ROUNDS; round++) {
        struct mt_err err = MT_ERR_INIT;
        int rank = (int)below(RANKS), kind = (int)below(8);
        struct mt_lowered *low = ranks->lowered[rank];
        if (kind == 6) { /* the program of another rank of the class */
            int other = (rank + 1 + (int)below(RANKS - 1)) % RANKS;
            ranks->lowered[rank] = ranks->lowered[other];
            CHECK_EQ(check(ranks, &err), MT_EPROOF);
            ranks->lowered[rank] = low;
            kinds[kind]++;
            continue;
        }
        struct mt_linstr *l = &low->instrs[below(low->ninstrs)];
        if (kind == 7) { /* an instruction of the same kind, for another value */
            if (l->what != MT_LOWERED_OP || !l->nsources) continue;
            l->sources[0]++;
            CHECK_EQ(check(ranks, &err), MT_EPROOF);
            l->sources[0]--;
            kinds[kind]++;
            continue;
        }
        int64_t *place, old;
        if (!damage(l, kind, &place, &old)) continue;
        CHECK(check(ranks, &err), "rank %d, %s, kind %d", rank, l->name, kind);
        CHECK_EQ(err.status, MT_EPROOF);
        *place = old;
        kinds[kind]++;
    }
    printf("lowered: %d tensors, %d packed and %d unpacked pieces, %d and %d steps, %d counts, %d whole ranks, %d "
           "sources\n",
           kinds[0], kinds[1], kinds[2], kinds[3], kinds[4], kinds[5], kinds[6], kinds[7]);
    for (int k = 0; k < 8; k++) CHECK(kinds[k] > 0, "kind %d", k);
}

int main(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_graph *g = training_graph("mlp:context=4,embed=16,hidden=128,layers=2,vocab=64", RANKS, 0);
    struct mt_choice choice;
    struct mt_program p;
    even_choice(&arena, g, &choice);
    CHECK_OK(mt_build(g, &choice, &p, &err), err);
    CHECK_OK(mt_check_program(&p, NULL, &err), err);
    mutate_program(&p);
    struct ranks ranks = {.program = &p, .options = {.fuse = true, .latency_s = 1e-5, .bandwidth_Bps = 1e9}};
    for (int r = 0; r < RANKS; r++) CHECK_OK(mt_lower(&p, r, &ranks.options, &ranks.lowered[r], &err), err);
    CHECK_OK(check(&ranks, &err), err);
    mutate_lowered(&ranks);
    CHECK_OK(check(&ranks, &err), err);
    for (int r = 0; r < RANKS; r++) mt_lowered_free(ranks.lowered[r]);
    mt_program_release(&p);
    mt_arena_release(&arena);
    mt_graph_free(g);
    return 0;
}
