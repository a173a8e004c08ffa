/* Attention of the parts of one value becomes packed attention, which reads the whole; and of a gradient whose outputs
 * are only joined, the joined whole is made at once. So where nothing comes between the parts and their use (no
 * position is split, no layout converted), a fused projection costs no copies, and its parts no memory.
 *
 * This is not a pattern of fuse.c: forward and backward read the same parts, and each computes them on its own. Then no
 * one reads them, and their operator is left out. It runs before the patterns, in O(instructions). */
#include <limits.h>
#include <string.h>

#include "synth/lower/internal.h"

struct packing {
    struct mt_lowering *l;
    struct mt_linstr *instrs;
    int *producer; /* [pvalues]: the instruction of this block that makes it, or -1 */
    int *readers;  /* [pvalues]: in the whole program, and one more for a value that stays after the step */
    int *reader;   /* [pvalues]: the last instruction that reads it */
    bool *gone;    /* [ninstrs] */
    int end;       /* of the block */
};

/* The `separate` that makes both the queries and the keys and values of the call, as its only parts; or null. */
static struct mt_linstr *packed_parts(const struct packing *k, const struct mt_linstr *attention, int q) {
    int producer = k->producer[attention->in[q]];
    struct mt_linstr *parts = producer >= 0 ? &k->instrs[producer] : NULL;
    if (!parts || parts->what != MT_LOWERED_OP || parts->kind != MT_OP_separate || parts->nout != 2) return NULL;
    const struct mt_tensor *whole = &parts->tensor[0], *of_q = &attention->tensor[q];
    if (parts->attr.axis != 2 || whole->naxes != 5 || of_q->naxes != 4 || whole->global[3] != of_q->global[2])
        return NULL;
    return parts->out[0] == attention->in[q] && parts->out[1] == attention->in[q + 1] ? parts : NULL;
}

/* The `join` that alone reads both gradients, or null. */
static struct mt_linstr *packed_join(const struct packing *k, const struct mt_linstr *gradient) {
    int dq = gradient->out[0], dkv = gradient->out[1];
    if (k->readers[dq] != 1 || k->readers[dkv] != 1 || k->reader[dq] != k->reader[dkv] || k->reader[dq] >= k->end)
        return NULL;
    struct mt_linstr *join = &k->instrs[k->reader[dq]];
    if (join->what != MT_LOWERED_OP || join->kind != MT_OP_join || join->nin != 2 || join->attr.axis != 2) return NULL;
    return join->in[0] == dq && join->in[1] == dkv ? join : NULL;
}

/* Replace the first member by `fused`, which computes all of them. */
static bool replace(struct packing *k, struct mt_linstr *const *members, int count, struct mt_linstr fused) {
    struct mt_arena *arena = &k->l->low->arena;
    if (!mt_fuse_tensors(members, count, &fused, arena)) return false;
    fused.what = MT_LOWERED_OP;
    fused.name = members[0]->name;
    fused.scratch = fused.message[0] = fused.message[1] = -1;
    fused.sources = mt_new(arena, int, count);
    for (int m = 0; m < count; m++) fused.sources[fused.nsources++] = members[m]->sources[0];
    fused.in = mt_arena_memdup(arena, fused.in, (size_t)fused.nin * sizeof(int));
    fused.out = mt_arena_memdup(arena, fused.out, (size_t)fused.nout * sizeof(int));
    *members[0] = fused;
    return true;
}

static void pack_forward(struct packing *k, struct mt_linstr *attention) {
    struct mt_linstr *parts = packed_parts(k, attention, 0);
    if (!parts) return;
    int q = attention->in[0], kv = attention->in[1];
    if (replace(k, (struct mt_linstr *[]){attention, parts}, 2,
                (struct mt_linstr){.kind = MT_OP_attention_packed,
                                   .attr = attention->attr,
                                   .nin = 1,
                                   .nout = 2,
                                   .in = parts->in,
                                   .out = attention->out}))
        k->readers[q]--, k->readers[kv]--;
}

static void pack_gradient(struct packing *k, struct mt_linstr *gradient) {
    struct mt_linstr *parts = packed_parts(k, gradient, 1), *join = parts ? packed_join(k, gradient) : NULL;
    if (!join || join->nsources != 1) return;
    int q = gradient->in[1], kv = gradient->in[2];
    int in[4] = {gradient->in[0], parts->in[0], gradient->in[3], gradient->in[4]};
    if (!replace(k, (struct mt_linstr *[]){gradient, join, parts}, 3,
                 (struct mt_linstr){.kind = MT_OP_attention_packed_grad,
                                    .attr = gradient->attr,
                                    .nin = 4,
                                    .nout = 1,
                                    .in = in,
                                    .out = join->out}))
        return;
    k->readers[q]--, k->readers[kv]--;
    k->gone[join - k->instrs] = true;
}

static void pack_block(struct packing *k, int begin, int end) {
    k->end = end;
    memset(k->producer, -1, (size_t)k->l->program->nvalues * sizeof *k->producer);
    for (int i = begin; i < end; i++)
        for (int o = 0; o < k->instrs[i].nout; o++) k->producer[k->instrs[i].out[o]] = i;
    for (int i = begin; i < end; i++) {
        struct mt_linstr *c = &k->instrs[i];
        if (c->what == MT_LOWERED_OP && c->kind == MT_OP_attention) pack_forward(k, c);
        if (c->what == MT_LOWERED_OP && c->kind == MT_OP_attention_grad) pack_gradient(k, c);
    }
    for (int i = begin; i < end; i++) {
        const struct mt_linstr *c = &k->instrs[i];
        bool dead = c->what == MT_LOWERED_OP && c->kind == MT_OP_separate;
        for (int o = 0; o < c->nout && dead; o++) dead = !k->readers[c->out[o]];
        k->gone[i] |= dead;
    }
}

void mt_fuse_packed(struct mt_lowering *l) {
    struct mt_lowered *low = l->low;
    int nvalues = l->program->nvalues, n = 0, begin[MT_NBLOCKS + 1] = {0};
    struct packing k = {.l = l,
                        .instrs = low->instrs,
                        .producer = mt_new(&l->scratch, int, nvalues + 1),
                        .readers = mt_new(&l->scratch, int, nvalues + 1),
                        .reader = mt_new(&l->scratch, int, nvalues + 1),
                        .gone = mt_new(&l->scratch, bool, low->ninstrs + 1)};
    for (int v = 0; v < nvalues; v++) k.readers[v] = l->last_use[v] == INT_MAX;
    for (int i = 0; i < low->ninstrs; i++)
        for (int p = 0; p < low->instrs[i].nin; p++)
            k.readers[low->instrs[i].in[p]]++, k.reader[low->instrs[i].in[p]] = i;
    for (int b = 0; b < MT_NBLOCKS; b++) pack_block(&k, low->block_begin[b], low->block_begin[b + 1]);
    for (int b = 0; b < MT_NBLOCKS; b++) {
        for (int i = low->block_begin[b]; i < low->block_begin[b + 1]; i++)
            if (!k.gone[i]) low->instrs[n++] = low->instrs[i];
        begin[b + 1] = n;
    }
    low->ninstrs = n;
    memcpy(low->block_begin, begin, sizeof begin);
}
