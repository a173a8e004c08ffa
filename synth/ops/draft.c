/* Drafts: an operator while its indices, inputs and outputs are added. */
#include <assert.h>
#include <string.h>

#include "synth/ops/class.h"

struct mt_draft mt_draft(struct mt_graph *graph, const char *name, enum mt_op_kind kind) {
    struct mt_draft draft = {.graph = graph, .name = name, .op = {.kind = kind}};
    memset(draft.op.in_index, -1, sizeof draft.op.in_index);
    memset(draft.op.out_index, -1, sizeof draft.op.out_index);
    return draft;
}

int mt_draft_indices(struct mt_draft *draft, int value, int first, int end, int *index) {
    for (int a = first; a < end; a++) {
        assert(draft->op.nindices < MT_MAX_INDICES);
        index[a - first] = draft->op.nindices;
        draft->op.index_label[draft->op.nindices++] = draft->graph->values[value].label[a];
    }
    return end - first;
}

void mt_draft_in(struct mt_draft *draft, int value, const int *index) {
    struct mt_op *op = &draft->op;
    assert(op->nin < MT_MAX_IN);
    for (int a = 0; a < draft->graph->values[value].naxes; a++) op->in_index[op->nin][a] = index[a];
    op->in[op->nin++] = value;
}

int mt_draft_out(struct mt_draft *draft, const char *suffix, enum mt_type type, int naxes, const int *index) {
    struct mt_op *op = &draft->op;
    assert(op->nout < MT_MAX_OUT && naxes <= MT_MAX_AXES);
    int labels[MT_MAX_AXES];
    for (int a = 0; a < naxes; a++) {
        op->out_index[op->nout][a] = index[a];
        labels[a] = op->index_label[index[a]];
    }
    char name[256];
    snprintf(name, sizeof name, "%s%s", draft->name, suffix);
    return op->out[op->nout++] = mt_graph_value(draft->graph, name, MT_VALUE_TEMP, type, naxes, labels);
}

int mt_draft_end(struct mt_draft *draft) {
    struct mt_op *op = &draft->op;
    for (int i = 0; i < op->nin && draft->graph->role == MT_ROLE_BACKWARD; i++)
        op->in[i] = mt_graph_recomputed(draft->graph, op->in[i]);
    op->cheap = mt_op_class(op->kind)->cheap;
    mt_graph_op(draft->graph, draft->name, op);
    return op->out[0];
}

int mt_draft_map(struct mt_graph *graph, const char *name, enum mt_op_kind kind, enum mt_type type, int nin,
                 const int *in, const struct mt_attr *attr) {
    struct mt_draft d = mt_draft(graph, name, kind);
    int index[MT_MAX_AXES], n = mt_draft_indices(&d, in[0], 0, graph->values[in[0]].naxes, index);
    for (int i = 0; i < nin; i++) {
        assert(graph->values[in[i]].naxes == n);
        mt_draft_in(&d, in[i], index);
    }
    mt_draft_out(&d, "", type, n, index);
    if (attr) d.op.attr = *attr;
    return mt_draft_end(&d);
}
