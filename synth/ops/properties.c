/* The table of classes, and the properties of operators that follow from it. */
#include "synth/ops/class.h"

#include <assert.h>

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
    return mt_op_is_attention_grad(kind);
}

bool mt_op_repeats(enum mt_op_kind kind) {
    return kind == MT_OP_matmul || kind == MT_OP_sum || kind == MT_OP_embedding_grad;
}

double mt_op_flops(const struct mt_op *op, const int64_t *extent) {
    const struct mt_op_class *class = mt_op_class(op->kind);
    double points = 1;
    for (int i = 0; i < op->nindices; i++) points *= (double)extent[i];
    return mt_op_info[op->kind].flops * (class->points ? class->points(op, extent) : points);
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
