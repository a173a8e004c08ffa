/* Layouts of operands by rule. */
#include "synth/layout/rule.h"
#include "synth/ops/ops.h"

#include <assert.h>

/* The axis of an operand that carries the index, or -1. */
static int axis_of(const int *axis_index, int naxes, int index) {
    for (int a = 0; a < naxes; a++)
        if (axis_index[a] == index) return a;
    return -1;
}

int mt_rule_input(struct mt_layouts *table, const struct mt_graph *graph, const struct mt_op *op,
                  const struct mt_rule *rule, int input, const int64_t *extent) {
    int naxes = graph->values[op->in[input]].naxes;
    if (rule->kind == MT_RULE_SPLIT) {
        int axis = axis_of(op->in_index[input], naxes, rule->index);
        if (axis >= 0) return mt_layout_split(table, naxes, extent, axis, rule->split);
    }
    if (rule->kind == MT_RULE_LINEAR) {
        unsigned sets[MT_MAX_IN];
        int nsets = mt_op_linear_sets(op, sets);
        assert(rule->set >= 0 && rule->set < nsets);
        (void)nsets;
        if (sets[rule->set] >> input & 1) return mt_layout_partial(table, naxes, extent, MT_SUM);
    }
    return mt_layout_replicated(table, naxes, extent);
}

int mt_rule_output(struct mt_layouts *table, const struct mt_graph *graph, const struct mt_op *op,
                   const struct mt_rule *rule, int output, const int64_t *extent) {
    int naxes = graph->values[op->out[output]].naxes;
    if (rule->kind == MT_RULE_LINEAR) return mt_layout_partial(table, naxes, extent, MT_SUM);
    if (rule->kind == MT_RULE_REPLICATE) return mt_layout_replicated(table, naxes, extent);
    int axis = axis_of(op->out_index[output], naxes, rule->index);
    if (axis >= 0) return mt_layout_split(table, naxes, extent, axis, rule->split);
    enum mt_index_role role = mt_op_index_role(op, rule->index);
    assert(role == MT_INDEX_SUM || role == MT_INDEX_MAX);
    return mt_layout_partial(table, naxes, extent, role == MT_INDEX_MAX ? MT_MAX : MT_SUM);
}
