/* Mutations of a lowered instruction: its order and stream, its memory, and what an operator computes. */
#ifndef MT_TESTS_SYNTH_CHECK_INSTR_MUTATIONS_H
#define MT_TESTS_SYNTH_CHECK_INSTR_MUTATIONS_H

#include "tests/synth/check/lowered_mutants.h"

/* ---- order and streams ---- */

MUTATE(drop_wait) {
    UNUSED;
    if (variant >= l->nwaits) return;
    SET(l->waits[variant], l->waits[l->nwaits - 1]);
    SET(l->nwaits, l->nwaits - 1);
}

/* For an earlier instruction of another stream. */
MUTATE(wait_earlier) {
    UNUSED;
    if (!l->nwaits) return;
    int wait = l->waits[0] - 1;
    for (int skip = variant; wait >= 0; wait--)
        if (m->instrs[wait].stream != l->stream && m->instrs[wait].what != MT_LOWERED_ALIAS && skip-- == 0) break;
    if (wait >= 0) SET(l->waits[0], wait);
}

MUTATE(wait_for_another) {
    UNUSED;
    int wait = variant == 0 ? instr - 1 : (int)below(m->ninstrs);
    if (l->nwaits) SET(l->waits[l->nwaits - 1], wait);
}

MUTATE(other_stream) {
    UNUSED;
    SET(l->stream, (l->stream + 1 + variant) % m->nstreams);
}

static inline bool same_block(const struct mt_lowered *m, int i, int j) {
    for (int b = 0; b < MT_NBLOCKS; b++)
        if ((i < m->block_begin[b]) != (j < m->block_begin[b])) return false;
    return true;
}

/* Two instructions change places; who waits for one of them still does, where that is before it. */
static inline void swap_instrs(struct mt_lowered *m, int i, int j) {
    if (j >= m->ninstrs || !same_block(m, i, j)) return;
    struct mt_linstr a = m->instrs[i], b = m->instrs[j];
    for (int w = 0; w < b.nwaits; w++)
        if (b.waits[w] >= i) b.nwaits = w;
    SET(m->instrs[i], b);
    SET(m->instrs[j], a);
    for (int k = i + 1; k < m->ninstrs; k++) {
        for (int w = 0; w < m->instrs[k].nwaits; w++) {
            int wait = m->instrs[k].waits[w];
            if (wait == i || wait == j) SET(m->instrs[k].waits[w], wait == i && j < k ? j : i);
        }
    }
}

MUTATE(swap_next) {
    UNUSED;
    swap_instrs(m, instr, instr + 1 + variant);
}

MUTATE(swap_collectives) {
    UNUSED;
    if (l->what != MT_LOWERED_COLLECTIVE) return;
    for (int j = instr + 1; j < m->ninstrs; j++)
        if (m->instrs[j].what == MT_LOWERED_COLLECTIVE) {
            swap_instrs(m, instr, j);
            return;
        }
}

/* Left out, with all that refers to places in the sequence put right. */
static inline void remove_instr(struct mt_lowered *m, int instr) {
    for (int i = instr + 1; i < m->ninstrs; i++)
        for (int w = 0; w < m->instrs[i].nwaits; w++)
            if (m->instrs[i].waits[w] >= instr)
                SET(m->instrs[i].waits[w], m->instrs[i].waits[w] ? m->instrs[i].waits[w] - 1 : 0);
    for (int b = 0; b <= MT_NBLOCKS; b++)
        if (m->block_begin[b] > instr) SET(m->block_begin[b], m->block_begin[b] - 1);
    poke(&m->instrs[instr], &m->instrs[instr + 1], (size_t)(m->ninstrs - instr - 1) * sizeof *m->instrs);
    SET(m->ninstrs, m->ninstrs - 1);
}

MUTATE(leave_out) {
    UNUSED;
    remove_instr(m, instr);
}

MUTATE(leave_out_everywhere) {
    UNUSED;
    int block = 0, source = l->nsources ? l->sources[0] : -1;
    while (instr >= m->block_begin[block + 1]) block++;
    for (int r = 0; r < truth.program->nranks; r++)
        for (int i = truth.lowered[r]->block_begin[block]; i < truth.lowered[r]->block_begin[block + 1]; i++)
            if (linstr(r, i)->nsources && linstr(r, i)->sources[0] == source) {
                remove_instr(truth.lowered[r], i);
                break;
            }
}

MUTATE(run_nothing) { /* an alias orders nothing, too */
    UNUSED;
    if (l->what != MT_LOWERED_ALIAS) SET(l->what, MT_LOWERED_ALIAS);
}

/* ---- memory ---- */

MUTATE(reuse_memory) {
    UNUSED;
    int n = l->nin + l->nout + 3, k = (int)below(n);
    int value = k < l->nin             ? l->in[k]
                : k < l->nin + l->nout ? l->out[k - l->nin]
                : k == n - 1           ? l->scratch
                                       : l->message[k - l->nin - l->nout];
    move_memory(m, value, variant);
}

MUTATE(move_one_value) {
    UNUSED;
    int value = l->out[variant % l->nout];
    if (!has_memory(m, value)) return;
    int target = variant < 2 && l->nin ? l->in[(int)below(l->nin)] : (int)below(m->nvalues);
    if (has_memory(m, target) && m->values[target].offset_bytes != m->values[value].offset_bytes)
        move_value(m, value, m->values[target].offset_bytes);
}

MUTATE(misalign) {
    UNUSED;
    int value = variant ? l->scratch : l->out[0];
    if (has_memory(m, value)) move_value(m, value, m->values[value].offset_bytes + 4);
}

/* ---- what is computed ---- */

MUTATE(other_attribute) {
    UNUSED;
    struct mt_attr *t = &l->attr;
    if (l->what != MT_LOWERED_OP) return;
    switch (variant) {
    case 0: SET(t->eps, t->eps * 2 + 1e-3); break;
    case 1: SET(t->axes, t->axes ^ 1u); break;
    case 2: SET(t->p, t->p / 2 + 0.1); break;
    case 3: SET(t->tag, t->tag + 1); break;
    case 4: SET(t->scale, t->scale + 0.5); break;
    case 5: SET(t->causal, !t->causal); break;
    case 6: SET(t->trans_a, !t->trans_a); break;
    case 7: SET(t->trans_b, !t->trans_b); break;
    case 8: SET(t->value, t->value + 1); break;
    case 9: SET(t->clip, t->clip + 0.25); break;
    case 10: SET(t->decay, t->decay + 0.25); break;
    case 11: SET(t->beta1, t->beta1 / 2); break;
    case 12: SET(t->accumulate, !t->accumulate); break;
    case 13: SET(t->epilogue, t->epilogue == MT_OP_gelu ? MT_OP_relu : MT_OP_gelu); break;
    case 14: SET(t->lr_scale, t->lr_scale + 1); break;
    case 15: SET(t->nk, t->nk + 1); break;
    case 16: SET(t->to, t->to == MT_F64 ? MT_F32 : MT_F64); break;
    }
}

MUTATE(other_kind) {
    UNUSED;
    if (l->what == MT_LOWERED_OP) SET(l->kind, (enum mt_op_kind)(((int)l->kind + 1 + variant) % MT_NOPS));
}

MUTATE(drop_source) {
    UNUSED;
    if (l->nsources) SET(l->nsources, l->nsources - 1);
}

MUTATE(other_source) {
    UNUSED;
    if (l->nsources) SET(l->sources[variant % l->nsources], l->sources[variant % l->nsources] + 1);
}

static inline bool same_shape(const struct mt_lowered *m, int a, int b) {
    const struct mt_tensor *x = &m->values[a].tensor, *y = &m->values[b].tensor;
    return x->type == y->type && x->naxes == y->naxes && !memcmp(x->extent, y->extent, sizeof x->extent);
}

MUTATE(other_operand) {
    UNUSED;
    int k = variant % (l->nin + l->nout), skip = variant / (l->nin + l->nout);
    int *operand = k < l->nin ? &l->in[k] : &l->out[k - l->nin];
    for (int v = 0; v < truth.program->nvalues; v++)
        if (v != *operand && same_shape(m, v, *operand) && has_memory(m, v) && skip-- == 0) {
            SET(*operand, v);
            return;
        }
}

MUTATE(swap_operands) {
    UNUSED;
    if (l->nin < 2 || variant + 1 >= l->nin) return;
    int a = l->in[variant], b = l->in[variant + 1];
    SET(l->in[variant], b);
    SET(l->in[variant + 1], a);
    if (l->what != MT_LOWERED_OP) return;
    struct mt_tensor t = l->tensor[variant], u = l->tensor[variant + 1];
    SET(l->tensor[variant], u);
    SET(l->tensor[variant + 1], t);
}

MUTATE(drop_operand) {
    UNUSED;
    if (variant ? l->nout > 1 : l->nin > 0) {
        if (variant)
            SET(l->nout, l->nout - 1);
        else
            SET(l->nin, l->nin - 1);
    }
}

MUTATE(other_tensor) {
    UNUSED;
    if (l->what != MT_LOWERED_OP) return;
    struct mt_tensor *t = &l->tensor[(int)below(l->nin + l->nout)];
    int axis = t->naxes ? (int)below(t->naxes) : 0;
    switch (variant) {
    case 0: SET(t->offset[axis], t->offset[axis] + 1); break;
    case 1: SET(t->extent[axis], t->extent[axis] - 1); break;
    case 2: SET(t->global[axis], t->global[axis] + 1); break;
    case 3: SET(t->type, t->type == MT_F64 ? MT_F32 : MT_F64); break;
    }
}

MUTATE(other_samples) {
    UNUSED;
    if (!l->nadvances) return;
    struct mt_ladvance *a = &l->advances[(int)below(l->nadvances)];
    switch (variant) {
    case 0: SET(a->offset, a->offset + 1); break;
    case 1: SET(a->bytes, a->bytes + 8); break;
    case 2: SET(a->operand, (a->operand + 1) % (l->nin + l->nout)); break;
    case 3: SET(l->nadvances, l->nadvances - 1); break;
    }
}

/* That of another operator. */
MUTATE(other_scratch) {
    UNUSED;
    int other = (instr + 1 + variant) % m->ninstrs;
    while (other != instr && m->instrs[other].scratch < 0) other = (other + 1) % m->ninstrs;
    if (l->what == MT_LOWERED_OP && l->scratch >= 0) SET(l->scratch, m->instrs[other].scratch);
}

#endif
