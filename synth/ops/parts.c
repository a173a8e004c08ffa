/* separate and join: a value and its parts along an axis. They are each other's derivatives, so that the gradients of
 * all parts become the gradient of the whole at once, without additions. The axis cannot be split, every other can. */
#include <assert.h>
#include <stdio.h>

#include "synth/ops/class.h"

/* New indices for the other axes of `like` than `axis`, to index[naxes - 1]. */
static int other_indices(struct mt_draft *d, int like, int axis, int *index) {
    int naxes = d->graph->values[like].naxes;
    mt_draft_indices(d, like, 0, axis, index);
    mt_draft_indices(d, like, axis + 1, naxes, index + axis);
    return naxes - 1;
}

/* The indices of an operand: the `nothers` shared ones, and its own index of the axis (-1: it lacks it). Returns its
 * number of axes. */
static int operand_indices(int nothers, const int *others, int axis, int own, int *index) {
    int n = 0;
    for (int a = 0; a < nothers; a++) {
        if (a == axis && own >= 0) index[n++] = own;
        index[n++] = others[a];
    }
    if (nothers == axis && own >= 0) index[n++] = own;
    return n;
}

static int label_index(struct mt_draft *d, int label) {
    if (label < 0) return -1;
    assert(d->op.nindices < MT_MAX_INDICES);
    d->op.index_label[d->op.nindices] = label;
    return d->op.nindices++;
}

void mt_op_separate(struct mt_graph *graph, const char *name, int x, int axis, const struct mt_part *parts, int nparts,
                    int *out) {
    struct mt_draft d = mt_draft(graph, name, MT_OP_separate);
    int others[MT_MAX_AXES], index[MT_MAX_AXES], nothers = other_indices(&d, x, axis, others);
    int64_t places = 0;
    assert(nparts >= 2 && nparts <= MT_MAX_OUT);
    operand_indices(nothers, others, axis, label_index(&d, graph->values[x].label[axis]), index);
    mt_draft_in(&d, x, index);
    for (int p = 0; p < nparts; p++) {
        int n = operand_indices(nothers, others, axis, label_index(&d, parts[p].label), index);
        out[p] = mt_draft_out(&d, parts[p].suffix, graph->values[x].type, n, index);
        places += parts[p].label < 0 ? 1 : graph->labels[parts[p].label].extent;
    }
    assert(places == mt_value_extent(graph, x, axis));
    (void)places;
    d.op.attr = (struct mt_attr){.axis = axis, .parts = nparts};
    mt_draft_end(&d);
}

int mt_op_join(struct mt_graph *graph, const char *name, const int *parts, int nparts, int naxes, int axis, int label) {
    struct mt_draft d = mt_draft(graph, name, MT_OP_join);
    int others[MT_MAX_AXES], index[MT_MAX_AXES];
    assert(nparts >= 2 && nparts <= mt_op_info[MT_OP_join].max_in && axis < naxes);
    for (int p = 0; p < nparts; p++) {
        bool lacks = graph->values[parts[p]].naxes == naxes - 1;
        assert(lacks || graph->values[parts[p]].naxes == naxes);
        if (p == 0 && lacks) mt_draft_indices(&d, parts[p], 0, naxes - 1, others);
        if (p == 0 && !lacks) other_indices(&d, parts[p], axis, others);
        int own = lacks ? -1 : label_index(&d, graph->values[parts[p]].label[axis]);
        operand_indices(naxes - 1, others, axis, own, index);
        mt_draft_in(&d, parts[p], index);
    }
    int n = operand_indices(naxes - 1, others, axis, label_index(&d, label), index);
    mt_draft_out(&d, "", graph->values[parts[0]].type, n, index);
    d.op.attr = (struct mt_attr){.axis = axis};
    return mt_draft_end(&d);
}

static void separate_vjp(struct mt_vjp *vjp, const struct mt_op *op) {
    struct mt_graph *g = vjp->graph;
    const struct mt_value whole = g->values[op->in[0]];
    int parts[MT_MAX_OUT];
    for (int p = 0; p < op->nout; p++)
        parts[p] = vjp->gradient[op->out[p]] >= 0
                       ? mt_vjp_gradient_cast(vjp, op->out[p])
                       : mt_op_fill(g, mt_vjp_name(vjp, "none"), op->out[p], 0, g->values[op->out[p]].type);
    mt_vjp_accumulate(
        vjp, op->in[0],
        mt_op_join(g, mt_vjp_name(vjp, "x"), parts, op->nout, whole.naxes, op->attr.axis, whole.label[op->attr.axis]));
}

static void join_vjp(struct mt_vjp *vjp, const struct mt_op *op) {
    struct mt_graph *g = vjp->graph;
    static const char *const suffixes[MT_MAX_OUT] = {"", ".1", ".2", ".3"};
    struct mt_part parts[MT_MAX_OUT];
    int naxes = g->values[op->out[0]].naxes, out[MT_MAX_OUT];
    for (int p = 0; p < op->nin; p++) {
        const struct mt_value *v = &g->values[op->in[p]];
        parts[p] = (struct mt_part){suffixes[p], v->naxes == naxes ? v->label[op->attr.axis] : -1};
    }
    mt_op_separate(g, mt_vjp_name(vjp, "parts"), vjp->gradient[op->out[0]], op->attr.axis, parts, op->nin, out);
    for (int p = 0; p < op->nin; p++)
        if (vjp->needs[op->in[p]]) mt_vjp_accumulate(vjp, op->in[p], out[p]);
}

/* An index is the parts' and the whole's, or one operand's own: its place in the axis. */
static enum mt_index_role role(const struct mt_op *op, int index) {
    for (int k = 0; k < op->nin + op->nout; k++) {
        const int *operand = k < op->nin ? op->in_index[k] : op->out_index[k - op->nin];
        bool has = false;
        for (int a = 0; a < MT_MAX_AXES; a++) has |= operand[a] == index;
        if (!has) return MT_INDEX_WHOLE;
    }
    return MT_INDEX_MAP;
}

const struct mt_op_class mt_op_class_separate = {.role = role, .cheap = true, .linear = {1u << 0}, .vjp = separate_vjp};
const struct mt_op_class mt_op_class_join = {.role = role, .linear = {(1u << MT_MAX_IN) - 1}, .vjp = join_vjp};
