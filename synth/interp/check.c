/* Whether a program can be interpreted: ids, counts, boxes and extents are in range. Whether it is *right* is not
 * checked: wrong programs are run to see what they compute. */
#include "synth/interp/internal.h"

static enum mt_status sound_value(const struct mt_program *p, int value, struct mt_err *err) {
    const struct mt_pvalue *v = &p->values[value];
    const struct mt_graph *g = p->graph;
    if (v->gvalue < 0 || v->gvalue >= g->nvalues || v->layout < 0 || v->layout >= p->layouts.count ||
        (unsigned)v->type >= MT_NTYPES || (unsigned)v->block >= MT_NBLOCKS || v->next < -1 || v->next >= p->nvalues)
        return mt_fail(err, MT_EBUG, "%%%d: a field is out of range", value);
    const struct mt_value *gv = &g->values[v->gvalue];
    const struct mt_layout *l = mt_pvalue_layout(p, value);
    if ((v->type == MT_I32) != (gv->type == MT_I32))
        return mt_fail(err, MT_EBUG, "%%%d (%s): an integer where a real number belongs, or the reverse", value,
                       gv->name);
    bool shape = l->naxes == gv->naxes;
    for (int a = 0; a < gv->naxes && shape; a++)
        shape =
            l->extent[a] == (gv->label[a] == g->batch ? mt_program_batch(p, v->block) : g->labels[gv->label[a]].extent);
    if (!shape) return mt_fail(err, MT_EBUG, "%%%d (%s): the layout is of another shape", value, gv->name);
    if (v->next < 0) return MT_OK;
    if (!v->input || gv->kind != MT_VALUE_STATE)
        return mt_fail(err, MT_EBUG, "%%%d (%s) is no state, but has a next value", value, gv->name);
    if (p->values[v->next].layout != v->layout || p->values[v->next].type != v->type)
        return mt_fail(err, MT_EBUG, "%%%d (%s): its next value has another layout or type", value, gv->name);
    return MT_OK;
}

static bool layout_used(const struct mt_program *p, int layout) {
    for (int v = 0; v < p->nvalues; v++)
        if (p->values[v].layout == layout) return true;
    return false;
}

/* Boxes lie in the value. Whether they are all of it is not asked: what is missing is missed where it is read. */
static enum mt_status sound_boxes(const struct mt_program *p, int layout, struct mt_err *err) {
    const struct mt_layout *l = &p->layouts.items[layout];
    for (int r = 0; r < p->nranks; r++)
        for (int a = 0; a < l->naxes; a++)
            if (l->box[r].lo[a] < 0 || l->box[r].lo[a] > l->box[r].hi[a] || l->box[r].hi[a] > l->extent[a])
                return mt_fail(err, MT_EBUG, "layout %d: rank %d's box is outside of the value", layout, r);
    return MT_OK;
}

static bool same_shape(const struct mt_layout *a, const struct mt_layout *b) {
    bool same = a->naxes == b->naxes;
    for (int i = 0; i < a->naxes && same; i++) same = a->extent[i] == b->extent[i];
    return same;
}

/* Whether two values can be one value in two layouts. */
static bool sound_pair(const struct mt_program *p, int in, int out) {
    return same_shape(mt_pvalue_layout(p, in), mt_pvalue_layout(p, out)) &&
           (p->values[in].type == MT_I32) == (p->values[out].type == MT_I32);
}

static enum mt_status sound_collective(const struct mt_program *p, const struct mt_instr *instr, struct mt_err *err) {
    if ((unsigned)instr->coll >= MT_NCOLLS || (unsigned)instr->reduce > MT_MAX || (unsigned)instr->wire >= MT_NTYPES ||
        (unsigned)instr->acc >= MT_NTYPES || !instr->group || instr->nin < 1)
        return mt_fail(err, MT_EBUG, "a collective's field is out of range");
    if (mt_coll_reduces(instr->coll) && instr->reduce == MT_REDUCE_NONE)
        return mt_fail(err, MT_EBUG, "%s without a reduction", mt_coll_name(instr->coll));
    for (int i = 0; i < instr->nin; i++) {
        bool integer = p->values[instr->in[i]].type == MT_I32;
        if (integer != (instr->wire == MT_I32) || integer != (instr->acc == MT_I32) ||
            !sound_pair(p, instr->in[i], instr->out[i]))
            return mt_fail(err, MT_EBUG, "%%%d cannot become %%%d with wire type %s", instr->in[i], instr->out[i],
                           mt_type_name(instr->wire));
    }
    return MT_OK;
}

static enum mt_status sound_slice(const struct mt_program *p, const struct mt_instr *instr, struct mt_err *err) {
    bool fits = sound_pair(p, instr->in[0], instr->out[0]);
    for (int r = 0; r < p->nranks && fits; r++)
        fits = mt_box_within(mt_pvalue_box(p, instr->out[0], r), mt_pvalue_box(p, instr->in[0], r),
                             mt_pvalue_layout(p, instr->in[0])->naxes);
    return fits ? MT_OK : mt_fail(err, MT_EBUG, "%%%d is no slice of %%%d", instr->out[0], instr->in[0]);
}

static enum mt_status sound_accumulate(const struct mt_program *p, const struct mt_instr *instr, struct mt_err *err) {
    const struct mt_pvalue *a = &p->values[instr->in[0]], *b = &p->values[instr->in[1]],
                           *sum = &p->values[instr->out[0]];
    bool fits = a->layout == sum->layout && b->layout == sum->layout && a->type == sum->type && b->type == sum->type;
    return fits ? MT_OK
                : mt_fail(err, MT_EBUG, "%%%d and %%%d have another layout or type than their sum %%%d", instr->in[0],
                          instr->in[1], instr->out[0]);
}

static enum mt_status sound_instr(const struct mt_program *p, const struct mt_instr *instr, struct mt_err *err) {
    static const int takes[][2] = {[MT_INSTR_SLICE] = {1, 1}, [MT_INSTR_ZERO] = {0, 1}, [MT_INSTR_ACCUMULATE] = {2, 1}};
    if ((unsigned)instr->kind > MT_INSTR_ACCUMULATE)
        return mt_fail(err, MT_EBUG, "the instruction is of no known kind");
    int nin = takes[instr->kind][0], nout = takes[instr->kind][1];
    if (instr->kind == MT_INSTR_OP) {
        if (instr->gop < 0 || instr->gop >= p->graph->nops) return mt_fail(err, MT_EBUG, "no operator %d", instr->gop);
        nin = p->graph->ops[instr->gop].nin;
        nout = p->graph->ops[instr->gop].nout;
    } else if (instr->kind == MT_INSTR_COLLECTIVE) {
        nin = nout = instr->nin;
    }
    if (instr->nin != nin || instr->nout != nout)
        return mt_fail(err, MT_EBUG, "%d operands and %d results, where %d and %d belong", instr->nin, instr->nout, nin,
                       nout);
    for (int i = 0; i < nin + nout; i++) {
        int value = i < nin ? instr->in[i] : instr->out[i - nin];
        if (value < 0 || value >= p->nvalues) return mt_fail(err, MT_EBUG, "no value %%%d", value);
    }
    switch (instr->kind) {
    case MT_INSTR_COLLECTIVE: return sound_collective(p, instr, err);
    case MT_INSTR_SLICE: return sound_slice(p, instr, err);
    case MT_INSTR_ACCUMULATE: return sound_accumulate(p, instr, err);
    case MT_INSTR_OP: /* operands are checked when they are run */
    case MT_INSTR_ZERO: break;
    }
    return MT_OK;
}

static enum mt_status sound_batch(const struct mt_program *p, struct mt_err *err) {
    int64_t extent = p->graph->batch >= 0 ? p->graph->labels[p->graph->batch].extent : 0;
    bool collective = false;
    for (int i = 0; i < p->blocks[MT_BODY].ninstrs; i++)
        collective = collective || p->blocks[MT_BODY].instrs[i].kind == MT_INSTR_COLLECTIVE;
    for (int r = 0; r < p->nranks; r++) {
        const int64_t sizes[] = {p->batch_start[r], p->batch_size[r], p->body_size[r], p->body_count[r],
                                 p->last_size[r]};
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            if (sizes[i] < 0 || sizes[i] > extent)
                return mt_fail(err, MT_EBUG, "rank %d: the division of the batch is out of range", r);
        if (collective && p->body_count[r] != p->body_count[0])
            return mt_fail(err, MT_EBUG, "the body has a collective, but ranks 0 and %d run it %lld and %lld times", r,
                           (long long)p->body_count[0], (long long)p->body_count[r]);
    }
    return MT_OK;
}

enum mt_status mt_interp_sound(const struct mt_program *p, struct mt_err *err) {
    if (sound_batch(p, err)) return err->status;
    for (int v = 0; v < p->nvalues; v++)
        if (sound_value(p, v, err)) return err->status;
    for (int l = 0; l < p->layouts.count; l++)
        if (layout_used(p, l) && sound_boxes(p, l, err)) return err->status;
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = 0; i < p->blocks[b].ninstrs; i++)
            if (sound_instr(p, &p->blocks[b].instrs[i], err))
                return mt_err_context(err, "%s block, instruction %d", mt_block_name((enum mt_block_kind)b), i);
    return MT_OK;
}
