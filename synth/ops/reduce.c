/* Sums: over some axes, or over everything. */
#include "synth/ops/class.h"

int mt_op_sum(struct mt_graph *graph, const char *name, int x, unsigned axes) {
    struct mt_draft d = mt_draft(graph, name, MT_OP_sum);
    int index[MT_MAX_AXES], kept[MT_MAX_AXES], n = 0;
    int naxes = mt_draft_indices(&d, x, 0, graph->values[x].naxes, index);
    for (int a = 0; a < naxes; a++)
        if (!(axes >> a & 1)) kept[n++] = index[a];
    mt_draft_in(&d, x, index);
    mt_draft_out(&d, "", graph->acc, n, kept);
    d.op.attr.axes = axes;
    return mt_draft_end(&d);
}

static int to_scalar(struct mt_graph *graph, const char *name, enum mt_op_kind kind, int x) {
    struct mt_draft d = mt_draft(graph, name, kind);
    int index[MT_MAX_AXES];
    mt_draft_indices(&d, x, 0, graph->values[x].naxes, index);
    mt_draft_in(&d, x, index);
    mt_draft_out(&d, "", graph->acc, 0, NULL);
    return mt_draft_end(&d);
}

int mt_op_count(struct mt_graph *graph, const char *name, int target) {
    return to_scalar(graph, name, MT_OP_count, target);
}

int mt_op_sq_norm(struct mt_graph *graph, const char *name, int x) {
    return to_scalar(graph, name, MT_OP_sq_norm, x);
}

/* `sum` has no vjp: the loss's sum is where mt_graph_differentiate begins, and the other sums of a model are steps of
 * layer norms, whose joint derivative is norm_apply's. */
const struct mt_op_class mt_op_class_sum = {.linear = {1u << 0}};
const struct mt_op_class mt_op_class_count = {0};
const struct mt_op_class mt_op_class_sq_norm = {0};
