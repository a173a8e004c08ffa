/* Damage to overlapped instructions of lowered programs: to the problem that one carries, to its operands and its place
 * in the window, and to its schedule; one rank's. */
#ifndef MT_TESTS_SYNTH_CHECK_OVERLAPPED_CHANGES_H
#define MT_TESTS_SYNTH_CHECK_OVERLAPPED_CHANGES_H

#include "tests/synth/check/changes.h"

/* A row, or a term, goes from one rank to another. */
static inline void change_share(const int64_t **shares, int n) {
    static int64_t other[8];
    int from = 0;
    while (from < n && !(*shares)[from]) from++;
    if (n < 2 || n > 8 || from == n) return;
    memcpy(other, *shares, (size_t)n * sizeof *other);
    other[from]--, other[(from + 1) % n]++;
    SET(*shares, (const int64_t *)other);
}

static inline void change_place(struct mt_linstr *l) {
    static int group[8];
    int n = l->overlap->problem.n;
    if (n < 2 || n > 8) return;
    memcpy(group, l->group, (size_t)n * sizeof *group);
    group[0] = l->group[1], group[1] = l->group[0];
    SET(l->group, group);
    if (l->overlap->me < 2) SET(l->overlap->me, !l->overlap->me);
}

enum { OVERLAP_PROBLEM_CHANGES = 17, OVERLAP_SCHEDULE_CHANGES = 14 };

static inline void change_overlap_problem(struct mt_lowered *m, struct mt_linstr *l, int variant) {
    struct mt_loverlap *o = l->overlap;
    struct mt_overlap *p = &o->problem;
    switch (variant) {
    case 0: SET(p->m, p->m + 1); break;
    case 1: SET(p->cols, p->cols - 1); break;
    case 2: change_share(&p->rows, p->n); break;
    case 3: change_share(&p->shares, p->n); break;
    case 4: SET(p->form, (enum mt_overlap_form)(((int)p->form + 1) % MT_OVERLAP_NFORMS)); break;
    case 5: SET(p->type, MT_F32); break;
    case 6: SET(p->wire, MT_BF16); break;
    case 7: SET(p->out, MT_F32); break;
    case 8: SET(o->trans_a, !o->trans_a); break;
    case 9: SET(o->trans_b, !o->trans_b); break;
    case 10: SET(o->trans_out, !o->trans_out); break;
    case 11: SET(o->me, (o->me + 1) % p->n); break;
    case 12: SET(o->window_at, o->window_at + 128); break;
    case 13: SET(o->region, (o->region + 1) % m->nregions); break;
    case 14: change_place(l); break;
    case 15: SET(o->window_at, m->window_bytes); break;
    case 16: SET(p->tf32, !p->tf32); break;
    }
}

static inline void change_overlap_schedule(struct mt_linstr *l, int variant) {
    struct mt_overlap_schedule *s = l->overlap->schedule;
    if (!s->ntiles || !s->nputs || !s->nwaits) return;
    struct mt_overlap_tile *tile = &s->tiles[(int)below(s->ntiles)];
    struct mt_overlap_put *put = &s->puts[(int)below(s->nputs)];
    struct mt_overlap_wait *wait = &s->waits[(int)below(s->nwaits)];
    int n = l->overlap->problem.n;
    switch (variant) {
    case 0: SET(s->ntiles, s->ntiles - 1); break;
    case 1: SET(s->nputs, s->nputs - 1); break;
    case 2: SET(tile->rows, tile->rows - 1); break;
    case 3: SET(tile->row, tile->row + 1); break;
    case 4: SET(tile->from_row, tile->from_row + 1); break;
    case 5: SET(tile->nwaits, 0); break;
    case 6: SET(put->peer, (put->peer + 1) % n); break;
    case 7: SET(put->flag, put->flag + 1); break;
    case 8: SET(put->to_row, put->to_row + 1); break;
    case 9: SET(put->cols, put->cols - 1); break;
    case 10: SET(wait->count, wait->count + 1); break;
    case 11: SET(wait->flag, wait->flag + 1); break;
    case 12: SET(s->copies, 1); break;
    case 13: SET(l->overlap->schedule, NULL); break;
    }
}

/* To an epilogue; the last: none at all. False: there is nothing to change. */
enum {
    OTHER_EPILOGUE,
    OTHER_EXTRA,
    OUTPUTS_SWAPPED,
    EPILOGUE_SOURCE_DROPPED,
    EPILOGUE_SOURCE_CHANGED,
    WHOLE_FOR_PRE,
    SUMMED_FOR_BIASED,
    ANOTHER_ADDITION,
    OTHER_AXES,
    OTHER_TENSOR,
    NO_EPILOGUE,
    OVERLAP_EPILOGUE_CHANGES
};

static inline const struct mt_block *block_with(const struct mt_lowered *m, const struct mt_linstr *l) {
    int b = 0;
    while (l - m->instrs >= m->block_begin[b + 1]) b++;
    return &m->program->blocks[b];
}

/* Whether it adds a vector to the rows of a matrix. */
static inline bool adds_row(const struct mt_lowered *m, const struct mt_instr *instr) {
    const struct mt_graph *g = m->program->graph;
    return instr->kind == MT_INSTR_OP && g->ops[instr->gop].kind == MT_OP_add &&
           g->values[g->ops[instr->gop].in[1]].naxes == 1;
}

static inline bool change_overlap_epilogue(struct mt_lowered *m, struct mt_linstr *l, int variant) {
    const struct mt_op_epilogue *info = mt_op_epilogue(l->attr.epilogue);
    const struct mt_block *block = block_with(m, l);
    int other = -1, last = l->nsources - 1, y = l->out[0];
    if (!info) return false;
    switch (variant) {
    case OTHER_EPILOGUE:
        SET(l->attr.epilogue, !info->bias ? (info->kind == MT_OP_gelu_grad ? MT_OP_relu_grad : MT_OP_gelu_grad)
                              : info->kind == MT_OP_gelu ? MT_OP_relu
                                                         : MT_OP_gelu);
        return true;
    case OTHER_EXTRA:
        for (int v = 0; v < m->program->nvalues && other < 0; v++)
            if (v != l->in[2] && has_memory(m, v) && m->values[v].size_bytes == m->values[l->in[2]].size_bytes)
                other = v;
        if (other >= 0) SET(l->in[2], other);
        return other >= 0;
    case OUTPUTS_SWAPPED:
        if (info->nout < 2) return false;
        SET(l->out[0], l->out[1]);
        SET(l->out[1], y);
        return true;
    case EPILOGUE_SOURCE_DROPPED: SET(l->nsources, last); return true;
    case EPILOGUE_SOURCE_CHANGED: SET(l->sources[last], l->sources[last] + 1); return true;
    case WHOLE_FOR_PRE:
        if (info->nout < 2 || !l->overlap->problem.keep) return false;
        SET(l->out[1], l->out[2]);
        SET(l->nout, 2);
        return true;
    case SUMMED_FOR_BIASED: /* of sums: what the collective makes */
        if (!mt_linstr_sums(l)) return false;
        SET(l->out[0], block->instrs[l->sources[1]].out[0]);
        return true;
    case ANOTHER_ADDITION: /* of sums: one of another value */
        for (int i = 0; i < block->ninstrs && mt_linstr_sums(l) && other < 0; i++)
            if (i != l->sources[last] && adds_row(m, &block->instrs[i])) other = i;
        if (other < 0) return false;
        SET(l->sources[last], other);
        SET(l->in[2], block->instrs[other].in[1]);
        SET(l->out[0], block->instrs[other].out[0]);
        return true;
    case OTHER_AXES: SET(l->attr.nm, l->attr.nm + 1); return true;
    case OTHER_TENSOR: SET(l->tensor[2].extent[0], l->tensor[2].extent[0] + 1); return true;
    case NO_EPILOGUE:
        SET(l->kind, MT_OP_matmul);
        SET(l->attr.epilogue, (enum mt_op_kind)0);
        SET(l->nin, 2);
        SET(l->nsources, 2);
        if (info->nout > 1 && l->overlap->problem.keep) SET(l->out[1], l->out[2]);
        SET(l->nout, l->nout - (info->nout - 1));
        return true;
    }
    return false;
}

#endif
