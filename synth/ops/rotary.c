/* rotary: heads turned by angles in proportion to their positions. A rotation's gradient is the rotation back. Pairs
 * are halves of a head, so that a head cannot be split; positions can, since a box knows its place. */
#include <assert.h>

#include "synth/ops/class.h"

static int rotate(struct mt_graph *graph, const char *name, int x, const struct mt_attr *attr) {
    assert(graph->values[x].naxes >= 3);
    return mt_draft_map(graph, name, MT_OP_rotary, graph->type, 1, &x, attr);
}

int mt_op_rotary(struct mt_graph *graph, const char *name, int x, const struct mt_attr *attr) {
    const struct mt_attr own = {.rope_base = attr->rope_base,
                                .rope_factor = attr->rope_factor,
                                .rope_low = attr->rope_low,
                                .rope_high = attr->rope_high,
                                .rope_context = attr->rope_context};
    return rotate(graph, name, x, &own);
}

static void rotary_vjp(struct mt_vjp *vjp, const struct mt_op *op) {
    struct mt_attr back = op->attr;
    back.inverse = !back.inverse;
    int dy = mt_vjp_gradient_cast(vjp, op->out[0]);
    mt_vjp_accumulate(vjp, op->in[0], rotate(vjp->graph, mt_vjp_name(vjp, "x"), dy, &back));
}

static enum mt_index_role role(const struct mt_op *op, int index) {
    return index == op->nindices - 1 ? MT_INDEX_WHOLE : MT_INDEX_MAP;
}

/* Not cheap: a copy would need x, which is as large as y and which nothing else reads. */
const struct mt_op_class mt_op_class_rotary = {.role = role, .linear = {1u << 0}, .vjp = rotary_vjp};
