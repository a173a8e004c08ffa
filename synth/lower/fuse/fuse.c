/* Fusion: patterns of operators become one fused kernel.
 *
 * A pattern is a function that takes one instruction (its anchor), finds the other members through the values between
 * them, and merges them. Values that only members use are never made. Each pattern is a row of patterns.def. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "synth/lower/fuse/internal.h"

int mt_fusing_resolve(const struct mt_fusing *f, int instr) {
    while (f->into[instr] != instr) instr = f->into[instr];
    return instr;
}

struct mt_linstr *mt_fusing_maker(const struct mt_fusing *f, int value) {
    return f->producer[value] < 0 ? NULL : &f->instrs[mt_fusing_resolve(f, f->producer[value])];
}

struct mt_linstr *mt_fusing_made_by(const struct mt_fusing *f, int value, enum mt_op_kind kind, int out) {
    struct mt_linstr *p = mt_fusing_maker(f, value);
    return p && p->what == MT_LOWERED_OP && p->kind == kind && p->nout > out && p->out[out] == value ? p : NULL;
}

struct mt_linstr *mt_fusing_used_by(const struct mt_fusing *f, int value, enum mt_op_kind kind, int in) {
    struct mt_linstr *found = NULL;
    for (int u = f->first_use[value]; u < f->first_use[value + 1]; u++) {
        struct mt_linstr *c = &f->instrs[mt_fusing_resolve(f, f->uses[u])];
        if (c->what != MT_LOWERED_OP || c->kind != kind || c->nin <= in || c->in[in] != value || c == found) continue;
        if (found) return NULL;
        found = c;
    }
    return found;
}

static bool is_member(struct mt_linstr *const *members, int count, const struct mt_linstr *instr) {
    for (int i = 0; i < count; i++)
        if (members[i] == instr) return true;
    return false;
}

static bool makes(const struct mt_linstr *instr, int value) {
    for (int o = 0; o < instr->nout; o++)
        if (instr->out[o] == value) return true;
    return false;
}

/* Whether `value` is made by a member or before instruction `at`. */
static bool ready(const struct mt_fusing *f, struct mt_linstr *const *members, int count, const struct mt_linstr *at,
                  int value) {
    if (value < 0 || f->producer[value] < 0) return true;
    const struct mt_linstr *p = &f->instrs[mt_fusing_resolve(f, f->producer[value])];
    return p < at || is_member(members, count, p);
}

/* Whether the members may run together at the place of `at` and make only fused->out. */
static bool mergeable(const struct mt_fusing *f, struct mt_linstr *const *members, int count,
                      const struct mt_linstr *at, const struct mt_linstr *fused) {
    for (int i = 0; i < fused->nin; i++)
        if (!ready(f, members, count, at, fused->in[i])) return false;
    for (int o = 0; o < fused->nout; o++)
        if (!ready(f, members, count, at, f->l->adds_to[fused->out[o]])) return false;
    for (int m = 0; m < count; m++)
        for (int o = 0; o < members[m]->nout; o++) {
            int value = members[m]->out[o];
            bool stays = makes(fused, value);
            if (f->kept[value] && !stays) return false;
            for (int u = f->first_use[value]; u < f->first_use[value + 1]; u++) {
                const struct mt_linstr *c = &f->instrs[mt_fusing_resolve(f, f->uses[u])];
                if (!is_member(members, count, c) && (!stays || c < at)) return false;
            }
        }
    return true;
}

static int by_number(const void *left, const void *right) {
    return *(const int *)left - *(const int *)right;
}

/* Whether the device runs the fused operator no slower than its members. The bias of overlapped sums is no part of a
 * GEMM, and all ranks have to say the same of it. */
static bool worth(const struct mt_fusing *f, const struct mt_linstr *member, const struct mt_linstr *fused) {
    const struct mt_lower_options *options = f->l->options;
    if (!options->worth_fusing || mt_linstr_sums(fused)) return true;
    const struct mt_call whole = mt_linstr_call(fused, fused->tensor), first = mt_linstr_call(member, member->tensor);
    return options->worth_fusing(options->context, &whole, &first);
}

bool mt_fusing_merge(struct mt_fusing *f, struct mt_linstr *const *members, int count, struct mt_linstr fused) {
    struct mt_arena *arena = &f->l->low->arena;
    struct mt_linstr *at = NULL;
    bool overlapped = members[0]->what == MT_LOWERED_OVERLAP;
    for (int m = 0; m < (overlapped ? 1 : count); m++)
        if ((!at || members[m] > at) && mergeable(f, members, count, members[m], &fused)) at = members[m];
    fused.what = members[0]->what;
    fused.overlap = members[0]->overlap, fused.group = members[0]->group;
    if (!at || !mt_fuse_tensors(members, count, &fused, arena) || !worth(f, members[0], &fused)) return false;
    fused.name = members[0]->name;
    fused.scratch = fused.message[0] = fused.message[1] = -1;
    for (int m = 0; m < count; m++) fused.nsources += members[m]->nsources;
    fused.sources = mt_new(arena, int, fused.nsources);
    for (int m = 0, n = 0; m < count; m++)
        for (int s = 0; s < members[m]->nsources; s++) fused.sources[n++] = members[m]->sources[s];
    if (!overlapped) qsort(fused.sources, (size_t)fused.nsources, sizeof(int), by_number);
    fused.in = mt_arena_memdup(arena, fused.in, (size_t)fused.nin * sizeof(int));
    fused.out = mt_arena_memdup(arena, fused.out, (size_t)fused.nout * sizeof(int));
    for (int m = 0; m < count; m++) {
        f->into[members[m] - f->instrs] = (int)(at - f->instrs);
        f->anchor[members[m] - f->instrs] = 0;
    }
    if (!overlapped) f->anchor[at - f->instrs] = (unsigned char)(fused.kind + 1);
    *at = fused;
    return true;
}

/* ---- the blocks ---- */

/* Index the producers and readers of each value in the block. Values that others read, or that must stay, are kept. */
static void index_block(struct mt_fusing *f) {
    const struct mt_program *p = f->l->program;
    const struct mt_lowered *low = f->l->low;
    for (int v = 0; v < p->nvalues; v++) {
        f->producer[v] = -1;
        f->first_use[v] = 0;
        f->kept[v] = f->l->last_use[v] == INT_MAX;
    }
    f->first_use[p->nvalues] = 0;
    for (int i = 0; i < low->ninstrs; i++) {
        const struct mt_linstr *c = &f->instrs[i];
        bool here = i >= f->begin && i < f->end;
        for (int k = 0; k < c->nin; k++) {
            if (here)
                f->first_use[c->in[k] + 1]++;
            else
                f->kept[c->in[k]] = true;
        }
        for (int o = 0; o < c->nout && here; o++) f->producer[c->out[o]] = i;
    }
    for (int v = 0; v < p->nvalues; v++) f->first_use[v + 1] += f->first_use[v];
    int *next = mt_calloc((size_t)p->nvalues, sizeof *next);
    for (int i = f->begin; i < f->end; i++)
        for (int k = 0; k < f->instrs[i].nin; k++) {
            int v = f->instrs[i].in[k];
            f->uses[f->first_use[v] + next[v]++] = i;
        }
    free(next);
}

static const struct {
    enum mt_op_kind anchor;
    mt_pattern *fuse;
} patterns[] = {
#define MT_PATTERN(anchor, name) {MT_OP_##anchor, mt_fuse_##name},
#include "synth/lower/fuse/patterns.def"
#undef MT_PATTERN
};

_Static_assert(MT_NOPS < 255, "kinds fit into bytes");
static void fuse_block(struct mt_fusing *f) {
    index_block(f);
    const unsigned char *end = f->anchor + f->end;
    for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++)
        for (const unsigned char *at = f->anchor + f->begin;
             (at = memchr(at, (int)patterns[p].anchor + 1, (size_t)(end - at))); at++)
            patterns[p].fuse(f, &f->instrs[at - f->anchor]);
}

void mt_fuse(struct mt_lowering *l) {
    struct mt_lowered *low = l->low;
    size_t nvalues = (size_t)l->program->nvalues, nuses = 0;
    for (int i = 0; i < low->ninstrs; i++) nuses += (size_t)low->instrs[i].nin;
    struct mt_fusing f = {.l = l,
                          .instrs = low->instrs,
                          .into = mt_calloc((size_t)low->ninstrs + 1, sizeof(int)),
                          .anchor = mt_calloc((size_t)low->ninstrs + 1, sizeof(unsigned char)),
                          .producer = mt_calloc(nvalues, sizeof(int)),
                          .first_use = mt_calloc(nvalues + 1, sizeof(int)),
                          .uses = mt_calloc(nuses + 1, sizeof(int)),
                          .kept = mt_calloc(nvalues, sizeof(bool))};
    for (int i = 0; i < low->ninstrs; i++) {
        f.into[i] = i;
        if (f.instrs[i].what == MT_LOWERED_OP) f.anchor[i] = (unsigned char)(f.instrs[i].kind + 1);
    }
    for (int b = 0; b < MT_NBLOCKS; b++) {
        f.begin = low->block_begin[b], f.end = low->block_begin[b + 1];
        fuse_block(&f);
    }
    int n = 0, begin[MT_NBLOCKS + 1] = {0};
    for (int b = 0; b < MT_NBLOCKS; b++) {
        for (int i = low->block_begin[b]; i < low->block_begin[b + 1]; i++)
            if (f.into[i] == i) low->instrs[n++] = low->instrs[i];
        begin[b + 1] = n;
    }
    low->ninstrs = n;
    for (int b = 0; b <= MT_NBLOCKS; b++) low->block_begin[b] = begin[b];
    free(f.into), free(f.anchor), free(f.producer), free(f.first_use), free(f.uses), free(f.kept);
}
