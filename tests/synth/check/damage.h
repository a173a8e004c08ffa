/* Damage to programs, and to lowered programs, of the kinds that mutants.h lists: somewhere, drawn at random. Each is
 * false where it has found nothing to damage. */
#ifndef MT_TESTS_SYNTH_CHECK_DAMAGE_H
#define MT_TESTS_SYNTH_CHECK_DAMAGE_H

#include "tests/synth/check/changes.h"
#include "tests/synth/programs.h"

/* ---- programs ---- */

static inline struct mt_instr *draw_instr(struct mt_program *p, int kind, int *block, int *instr) {
    for (int tries = 0; tries < 60; tries++) {
        *block = (int)below(MT_NBLOCKS);
        if (!p->blocks[*block].ninstrs) continue;
        *instr = (int)below(p->blocks[*block].ninstrs);
        if ((int)at(p, *block, *instr)->kind == kind) return at(p, *block, *instr);
    }
    return NULL;
}

/* Number the groups from 0 by first rank. */
static inline void renumber(int *group, int nranks) {
    int number[64], next = 0;
    for (int i = 0; i < 64; i++) number[i] = -1;
    for (int r = 0; r < nranks; r++) {
        if (number[group[r]] < 0) number[group[r]] = next++;
        group[r] = number[group[r]];
    }
}

static inline bool reduces(const struct mt_instr *i) {
    return i->coll == MT_ALL_REDUCE || i->coll == MT_REDUCE_SCATTER;
}

/* Two groups of a reduction become one. */
static inline bool merge_groups(struct mt_program *p) {
    int block, instr, a, b;
    struct mt_instr *i = draw_instr(p, MT_INSTR_COLLECTIVE, &block, &instr);
    if (!i || !reduces(i)) return false;
    a = i->group[below(p->nranks)], b = i->group[below(p->nranks)];
    if (a == b) return false;
    for (int r = 0; r < p->nranks; r++)
        if (i->group[r] == b) i->group[r] = a;
    renumber(i->group, p->nranks);
    return true;
}

/* A collective or an addition to an accumulator once more, on what it has made. */
static inline bool once_more(struct mt_program *p) {
    int block, instr, in[64], out[64];
    struct mt_instr *found = draw_instr(p, below(2) ? MT_INSTR_COLLECTIVE : MT_INSTR_ACCUMULATE, &block, &instr);
    if (!found || found->nin > 64) return false;
    struct mt_instr i = *found;
    for (int k = 0; k < i.nin; k++) in[k] = i.in[k];
    for (int k = 0; k < i.nout; k++) {
        const struct mt_pvalue v = p->values[i.out[k]];
        in[k] = i.out[k];
        out[k] = mt_program_value(p, v.gvalue, v.layout, v.type, v.block);
        p->values[out[k]].covers = v.covers;
        redirect(p, in[k], out[k], block, instr + 1);
    }
    i.in = in, i.out = out;
    insert_instr(p, block, instr + 1, i);
    return true;
}

static inline bool same_boxes(const struct mt_program *p, int a, int b) {
    const struct mt_layout *x = mt_pvalue_layout(p, a), *y = mt_pvalue_layout(p, b);
    bool same = x->naxes == y->naxes;
    for (int r = 0; r < p->nranks && same; r++) same = mt_box_equal(&x->box[r], &y->box[r], x->naxes);
    return same;
}

/* Whether a value exists when an instruction runs. */
static inline bool made_before(const struct mt_program *p, int value, int block, int instr) {
    if (p->values[value].input) return (int)p->values[value].block <= block;
    for (int b = 0; b <= block; b++)
        for (int i = 0; i < (b < block ? p->blocks[b].ninstrs : instr); i++)
            for (int k = 0; k < p->blocks[b].instrs[i].nout; k++)
                if (p->blocks[b].instrs[i].out[k] == value) return true;
    return false;
}

/* An operator takes the whole value where it took a part of it, or the other way round. */
static inline bool whole_for_part(struct mt_program *p) {
    int block, instr;
    struct mt_instr *i = draw_instr(p, below(3) ? MT_INSTR_OP : MT_INSTR_ACCUMULATE, &block, &instr);
    if (!i || !i->nin) return false;
    int *in = &i->in[below(i->nin)], first = (int)below(p->nvalues);
    for (int n = 0; n < p->nvalues; n++) {
        int v = (first + n) % p->nvalues;
        if (v == *in || p->values[v].gvalue != p->values[*in].gvalue || p->values[v].layout == p->values[*in].layout)
            continue;
        if (!same_boxes(p, v, *in) || !made_before(p, v, block, instr)) continue;
        *in = v;
        return true;
    }
    return false;
}

/* A value with rank r's box shorter at one end of an axis: a new value, made by a slice before (block, instr). */
static inline int shortened(struct mt_program *p, int value, int axis, int rank, bool low, int block, int instr) {
    const struct mt_pvalue v = p->values[value];
    struct mt_layout l = p->layouts.items[v.layout];
    l.box = mt_arena_memdup(&p->arena, l.box, (size_t)p->nranks * sizeof *l.box);
    if (low)
        l.box[rank].lo[axis]++;
    else
        l.box[rank].hi[axis]--;
    int fresh = mt_program_value(p, v.gvalue, mt_layout_intern(&p->layouts, &l), v.type, (enum mt_block_kind)block);
    p->values[fresh].covers = v.covers;
    insert_instr(
        p, block, instr,
        (struct mt_instr){.kind = MT_INSTR_SLICE, .gop = -1, .nin = 1, .nout = 1, .in = &value, .out = &fresh});
    return fresh;
}

/* One rank leaves out an end of its range of an index that an operator sums over. */
static inline bool shorter_range(struct mt_program *p) {
    int block, instr;
    struct mt_instr *i = draw_instr(p, MT_INSTR_OP, &block, &instr);
    if (!i) return false;
    const struct mt_op *op = &p->graph->ops[i->gop];
    int index = op->nindices ? (int)below(op->nindices) : -1, rank = (int)below(p->nranks);
    bool low = below(2), some = false;
    enum mt_index_role role = index < 0 ? MT_INDEX_WHOLE : mt_op_index_role(op, index);
    if (role != MT_INDEX_SUM && role != MT_INDEX_MAX) return false;
    for (int pass = 0; pass < 2; pass++)
        for (int k = 0; k < op->nin + op->nout; k++) {
            bool input = k < op->nin;
            int value = input ? at(p, block, instr)->in[k] : i->out[k - op->nin];
            const int *axes = input ? op->in_index[k] : op->out_index[k - op->nin];
            for (int a = 0; a < mt_pvalue_layout(p, value)->naxes; a++) {
                const struct mt_box *box = mt_pvalue_box(p, value, rank);
                if (axes[a] != index) continue;
                if (!input || box->hi[a] - box->lo[a] < 2) return false;
                some = true;
                if (pass == 0) continue;
                int fresh = shortened(p, value, a, rank, low, block, instr++);
                at(p, block, instr)->in[k] = fresh;
                i = at(p, block, instr);
            }
        }
    return some;
}

/* One rank begins its samples elsewhere. */
static inline bool other_samples(struct mt_program *p) {
    int rank = (int)below(p->nranks);
    int64_t extent = p->graph->labels[p->graph->batch].extent, start = p->batch_start[rank] + (below(2) ? 1 : -1);
    if (start < 0 || start + p->batch_size[rank] > extent || !p->batch_size[rank]) return false;
    p->batch_start[rank] = start;
    return true;
}

/* Some ranks of a group leave it, for a group of their own. */
static inline bool drop_subgroup(struct mt_program *p) {
    int block, instr, members = 0, left = 0;
    struct mt_instr *i = draw_instr(p, MT_INSTR_COLLECTIVE, &block, &instr);
    if (!i || (!reduces(i) && below(4))) return false;
    int group = i->group[below(p->nranks)];
    for (int r = 0; r < p->nranks; r++) members += i->group[r] == group;
    if (members < 2) return false;
    for (int r = 0; r < p->nranks; r++)
        if (i->group[r] == group && left < members - 1 && below(2)) i->group[r] = p->nranks + 1, left++;
    renumber(i->group, p->nranks);
    return left > 0;
}

static inline bool is_weight(const struct mt_program *p, int value) {
    const struct mt_value *v = &p->graph->values[p->values[value].gvalue];
    for (int a = 0; a < v->naxes; a++)
        if (v->label[a] == p->graph->batch) return false;
    return v->naxes > 0 && (v->kind == MT_VALUE_STATE || mt_graph_param_of(p->graph, p->values[value].gvalue) >= 0);
}

/* A weight that an instruction reads is another value of its shape and layout, of which there is one at that time. */
static inline bool stale_operand(struct mt_program *p) {
    int block, instr;
    struct mt_instr *i = draw_instr(p, below(2) ? MT_INSTR_COLLECTIVE : MT_INSTR_OP, &block, &instr);
    if (!i || !i->nin) return false;
    int *in = &i->in[below(i->nin)], first = (int)below(p->nvalues);
    if (!is_weight(p, *in)) return false;
    for (int n = 0; n < p->nvalues; n++) {
        int v = (first + n) % p->nvalues;
        if (v == *in || p->values[v].layout != p->values[*in].layout || p->values[v].type != p->values[*in].type)
            continue;
        if (!made_before(p, v, block, instr)) continue;
        *in = v;
        return true;
    }
    return false;
}

/* What replaces a state after the step is what it was before, or another value of its layout. */
static inline bool stale_state(struct mt_program *p) {
    int v = (int)below(p->nvalues), first = (int)below(p->nvalues);
    if (p->values[v].next < 0) return false;
    for (int n = 0; n < p->nvalues; n++) {
        int other = below(3) ? (first + n) % p->nvalues : v;
        if (other == p->values[v].next || p->values[other].layout != p->values[v].layout ||
            p->values[other].type != p->values[v].type || p->values[other].block == MT_BODY)
            continue;
        p->values[v].next = other;
        return true;
    }
    return false;
}

/* ---- lowered programs ---- */

static inline bool remove_wait(struct mt_lowered *low) {
    for (int tries = 0; tries < 40; tries++) {
        struct mt_linstr *l = &low->instrs[below(low->ninstrs)];
        if (!l->nwaits) continue;
        SET(l->nwaits, l->nwaits - 1);
        return true;
    }
    return false;
}

/* The last instruction that reads a value, or -1. */
static inline int last_reader(const struct mt_lowered *low, int value) {
    for (int i = low->ninstrs - 1; i >= 0; i--)
        for (int k = 0; k < low->instrs[i].nin; k++)
            if (low->instrs[i].in[k] == value) return i;
    return -1;
}

/* What an instruction makes gets the memory of a value that a later one reads. */
static inline bool release_early(struct mt_lowered *low) {
    for (int tries = 0; tries < 60; tries++) {
        int at_instr = (int)below(low->ninstrs), value = (int)below(low->nvalues);
        const struct mt_linstr *l = &low->instrs[at_instr];
        if (!l->nout || l->what == MT_LOWERED_ALIAS || !has_memory(low, value) || !has_memory(low, l->out[0])) continue;
        const struct mt_lvalue *made = &low->values[l->out[0]], *kept = &low->values[value];
        int64_t by = kept->offset_bytes - made->offset_bytes;
        if (!by || made->offset_bytes < low->state_bytes || last_reader(low, value) <= at_instr) continue;
        if (kept->offset_bytes + made->size_bytes > low->arena_bytes || overlap(low, value, l->out[0])) continue;
        int *first = storages(low);
        bool same = first[value] == first[l->out[0]];
        free(first);
        if (same) continue;
        move_value(low, l->out[0], kept->offset_bytes);
        return true;
    }
    return false;
}

#endif
