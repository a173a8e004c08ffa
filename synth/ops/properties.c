/* The table of classes, what rules and costs ask of it, and drafts. */
#include "synth/ops/class.h"

#include <assert.h>
#include <string.h>

#define MT_CLASS_true(kind)
#define MT_CLASS_false(kind) [MT_OP_##kind] = &mt_op_class_##kind,
#define MT_OP(kind, min_in, max_in, nout, in_types, out_types, in_place, exact, fused, ...) MT_CLASS_##fused(kind)
static const struct mt_op_class *const classes[MT_NOPS] = {
#include "kernels/op/ops.def"
};
#undef MT_OP

const struct mt_op_class *mt_op_class(enum mt_op_kind kind) {
    assert(kind < MT_NOPS && classes[kind] && "a fused operator in a graph");
    return classes[kind];
}

static bool carries(const int *operand_index, int index) {
    for (int a = 0; a < MT_MAX_AXES; a++)
        if (operand_index[a] == index) return true;
    return false;
}

enum mt_index_role mt_op_index_role(const struct mt_op *op, int index) {
    assert(index >= 0 && index < op->nindices);
    const struct mt_op_class *class = mt_op_class(op->kind);
    if (class->role) return class->role(op, index);
    for (int o = 0; o < op->nout; o++)
        if (!carries(op->out_index[o], index)) return MT_INDEX_SUM;
    return MT_INDEX_MAP;
}

int mt_op_linear_sets(const struct mt_op *op, unsigned sets[MT_MAX_IN]) {
    const struct mt_op_class *class = mt_op_class(op->kind);
    int n = 0;
    for (int s = 0; s < 3 && class->linear[s]; s++) sets[n++] = class->linear[s] & ((1u << op->nin) - 1);
    return n;
}

void mt_op_extents(const struct mt_graph *graph, const struct mt_op *op, int64_t extent[MT_MAX_INDICES]) {
    for (int i = 0; i < op->nindices; i++) extent[i] = graph->labels[op->index_label[i]].extent;
}

bool mt_op_yields(enum mt_op_kind kind) {
    return kind == MT_OP_attention_grad;
}

double mt_op_flops(const struct mt_op *op, const int64_t *extent) {
    const struct mt_op_class *class = mt_op_class(op->kind);
    double points = 1;
    for (int i = 0; i < op->nindices; i++) points *= (double)extent[i];
    return mt_op_info[op->kind].flops * (class->points ? class->points(op, extent) : points);
}

double mt_op_operand_bytes(const struct mt_graph *graph, int value, const int *index, const int64_t *extent) {
    double bytes = (double)mt_type_size(graph->values[value].type);
    for (int a = 0; a < graph->values[value].naxes; a++) bytes *= (double)extent[index[a]];
    return bytes;
}

double mt_op_bytes(const struct mt_graph *graph, const struct mt_op *op, const int64_t *extent) {
    const struct mt_op_class *class = mt_op_class(op->kind);
    double bytes = 0;
    for (int i = 0; i < op->nin; i++)
        if (!(class->untouched >> i & 1)) bytes += mt_op_operand_bytes(graph, op->in[i], op->in_index[i], extent);
    for (int o = 0; o < op->nout; o++) bytes += mt_op_operand_bytes(graph, op->out[o], op->out_index[o], extent);
    return bytes + (class->more_bytes ? class->more_bytes(graph, op, extent) : 0);
}

double mt_graph_flops(const struct mt_graph *graph) {
    double flops = 0;
    for (int i = 0; i < graph->nops; i++) {
        int64_t extent[MT_MAX_INDICES];
        mt_op_extents(graph, &graph->ops[i], extent);
        flops += mt_op_flops(&graph->ops[i], extent);
    }
    return flops;
}

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
    mt_graph_op(draft->graph, draft->name, &draft->op);
    return draft->op.out[0];
}
