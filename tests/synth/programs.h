/* Programs of several kinds of one graph: what the checkers and their mutants are tested on. */
#ifndef MT_TESTS_SYNTH_PROGRAMS_H
#define MT_TESTS_SYNTH_PROGRAMS_H

#include "tests/synth/random_program.h"

/* Which instructions are damaged: under sanitizers a mutant takes long, and that of a lowered program anyhow. Of how
 * many ranks what belongs to no instruction is damaged, and how many random programs of a kind are lowered. */
#ifdef MOTLEY_SANITIZE
enum { EVERY = 61, EVERY_LOWERED = 61, EVERY_OVERLAPPED = 2, RANKS_LOWERED = 1, RANDOM_LOWERED = 8 };
#else
enum { EVERY = 1, EVERY_LOWERED = 4, EVERY_OVERLAPPED = 1, RANKS_LOWERED = 1 << 10, RANDOM_LOWERED = 60 };
#endif

static inline struct mt_instr *at(struct mt_program *m, int block, int instr) {
    return &m->blocks[block].instrs[instr];
}

static inline void insert_instr(struct mt_program *m, int block, int instr, struct mt_instr copy) {
    mt_program_add(m, (enum mt_block_kind)block, &copy);
    struct mt_block *b = &m->blocks[block];
    struct mt_instr last = b->instrs[b->ninstrs - 1];
    memmove(b->instrs + instr + 1, b->instrs + instr, (size_t)(b->ninstrs - instr - 1) * sizeof *b->instrs);
    b->instrs[instr] = last;
}

/* Everybody who read `old` reads `fresh`, from (block, instr) on. */
static inline void redirect(struct mt_program *m, int old, int fresh, int block, int instr) {
    for (int b = block; b < MT_NBLOCKS; b++)
        for (int i = b == block ? instr : 0; i < m->blocks[b].ninstrs; i++)
            for (int k = 0; k < at(m, b, i)->nin; k++)
                if (at(m, b, i)->in[k] == old) at(m, b, i)->in[k] = fresh;
    for (int v = 0; v < m->nvalues; v++)
        if (m->values[v].next == old) m->values[v].next = fresh;
}

enum style { ALL_REDUCE, SHARDED, MICRO, TENSOR, WILD, LAYERS, OVERLAPPED, OVERLAPPED_SUMS, OVERLAPPED_REPLICAS };

/* Iterations: two, none, one. */
static inline void uneven_micro_batches(struct mt_choice *c) {
    static const int64_t sizes[3] = {3, 0, 2};
    int64_t *starts = c->batch->starts;
    for (int r = 0; r < 3; r++) {
        c->batch->sizes[r] = sizes[r];
        starts[r + 1] = starts[r] + sizes[r];
        c->micro[r] = 1;
    }
}

/* Two micro-batches on every rank with samples; weights gathered for each layer, gradients reduced each time. */
static inline void communicate_in_body(struct mt_choice *c) {
    static const int64_t sizes[3] = {3, 0, 2}, micro[3] = {2, 0, 1};
    for (int r = 0; r < 3; r++) {
        c->batch->sizes[r] = sizes[r];
        c->batch->starts[r + 1] = c->batch->starts[r] + sizes[r];
        c->micro[r] = micro[r];
    }
    c->decisions.gather = MT_GATHER_LAYER;
    c->decisions.reduced = MT_REDUCED_MICRO_BATCH;
    c->decisions.bucket_bytes = 500;
}

/* Three ranks (WILD: two) and a batch of five samples. Of OVERLAPPED_REPLICAS all ranks have all samples, so that their
 * activations are sums of all. */
static inline void make_choice(struct mt_arena *arena, const struct mt_graph *g, enum style style,
                               struct mt_choice *c) {
    random_choice(arena, g, style == WILD ? 2 : 3, style == WILD, c);
    if (style >= OVERLAPPED) c->decisions.overlapped = MT_OVERLAPPED_ALL;
    c->decisions.sync = style == ALL_REDUCE || style == OVERLAPPED_SUMS ? MT_SYNC_ALL_REDUCE : MT_SYNC_REDUCE_SCATTER;
    if (style == MICRO) uneven_micro_batches(c);
    if (style == LAYERS) communicate_in_body(c);
    for (int o = 0; o < g->nops && style != WILD; o++) {
        struct mt_rule rules[MT_MAX_INDICES + MT_MAX_IN + 1];
        int n = all_rules(&g->ops[o], c->splits, c->nsplits, rules);
        bool divided = false;
        bool update = g->ops[o].role == MT_ROLE_UPDATE && g->ops[o].kind != MT_OP_sq_norm;
        for (int r = 0; r < n; r++) {
            bool replicate = rules[r].kind == MT_RULE_REPLICATE && update && style == ALL_REDUCE;
            bool tensor = rules[r].kind == MT_RULE_SPLIT && (style == TENSOR || style >= OVERLAPPED) &&
                          g->ops[o].role != MT_ROLE_UPDATE &&
                          (!strcmp(rules[r].split->name, "ffn") || !strcmp(rules[r].split->name, "heads"));
            bool whole = rules[r].kind == MT_RULE_REPLICATE && style == OVERLAPPED_REPLICAS &&
                         g->ops[o].role != MT_ROLE_UPDATE && !divided;
            if (replicate || tensor || whole) c->rules[o] = rules[r];
            divided |= tensor;
        }
    }
}

/* Recompute: every operator that makes a value for the backward pass is repeated right before its first backward use.
 */
static inline void add_recomputation(struct mt_program *p) {
    int seen = 0;
    for (int i = 0; i < p->blocks[MT_LAST].ninstrs; i++) {
        struct mt_instr *user = at(p, MT_LAST, i);
        if (user->kind != MT_INSTR_OP || p->graph->ops[user->gop].role != MT_ROLE_BACKWARD) continue;
        for (int k = 0; k < user->nin; k++)
            for (int j = 0; j < i; j++) {
                struct mt_instr maker = *at(p, MT_LAST, j);
                if (maker.kind != MT_INSTR_OP || maker.out[0] != at(p, MT_LAST, i)->in[k]) continue;
                if (p->graph->ops[maker.gop].role != MT_ROLE_FORWARD || seen++ % 3) continue;
                int out[MT_MAX_OUT];
                for (int o = 0; o < maker.nout; o++) {
                    const struct mt_pvalue v = p->values[maker.out[o]];
                    out[o] = mt_program_value(p, v.gvalue, v.layout, v.type, v.block);
                    p->values[out[o]].covers = v.covers;
                    redirect(p, maker.out[o], out[o], MT_LAST, i);
                }
                maker.out = out;
                insert_instr(p, MT_LAST, i++, maker);
            }
    }
    CHECK(seen > 3, "something is recomputed");
}

#endif
