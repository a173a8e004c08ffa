/* attention: qkv[b, s, 3, h, d] -> o[b, s, h, d], lse[b, h, s]; only batch and heads can be split. */
#include <assert.h>
#include <math.h>

#include "synth/ops/class.h"

/* Indices, in the order in which they are made: the axes of qkv. */
enum { B, S, THREE, H, D };

int mt_op_attention(struct mt_graph *graph, const char *name, int qkv, bool causal, double p) {
    assert(graph->values[qkv].naxes == 5 && mt_value_extent(graph, qkv, THREE) == 3);
    struct mt_draft d = mt_draft(graph, name, MT_OP_attention);
    int index[5];
    mt_draft_indices(&d, qkv, 0, 5, index);
    mt_draft_in(&d, qkv, index);
    mt_draft_out(&d, "", graph->type, 4, (int[]){B, S, H, D});
    mt_draft_out(&d, ".lse", graph->acc, 3, (int[]){B, H, S});
    d.op.attr = (struct mt_attr){.causal = causal, .p = p};
    d.op.attr.scale = 1 / sqrt((double)mt_value_extent(graph, qkv, D));
    if (p > 0) d.op.attr.tag = ++graph->tags;
    return mt_draft_end(&d);
}

static void attention_vjp(struct mt_vjp *vjp, const struct mt_op *op) {
    struct mt_graph *g = vjp->graph;
    int grad = mt_vjp_gradient_cast(vjp, op->out[0]);
    struct mt_draft d = mt_draft(g, mt_vjp_name(vjp, "qkv"), MT_OP_attention_grad);
    int index[5];
    mt_draft_indices(&d, op->in[0], 0, 5, index);
    mt_draft_in(&d, grad, (int[]){B, S, H, D});
    mt_draft_in(&d, op->in[0], index);
    mt_draft_in(&d, op->out[0], (int[]){B, S, H, D});
    mt_draft_in(&d, op->out[1], (int[]){B, H, S});
    mt_draft_out(&d, "", g->type, 5, index);
    d.op.attr = op->attr;
    d.op.attr.any_order = g->any_order;
    mt_vjp_accumulate(vjp, op->in[0], mt_draft_end(&d));
}

static enum mt_index_role role(const struct mt_op *op, int index) {
    (void)op;
    return index == B || index == H ? MT_INDEX_MAP : MT_INDEX_WHOLE;
}

/* B H D times the pairs of positions that attend to each other. Forward has two GEMMs over them, the scores and the sum
 * of the values; backward five, the scores again and four gradients. */
static double points(const struct mt_op *op, const int64_t *extent) {
    double s = (double)extent[S], pairs = op->attr.causal ? s * (s + 1) / 2 : s * s;
    return (double)extent[B] * (double)extent[H] * (double)extent[D] * pairs;
}

const struct mt_op_class mt_op_class_attention = {.role = role, .points = points, .vjp = attention_vjp};
const struct mt_op_class mt_op_class_attention_grad = {.role = role, .linear = {1u << 0}, .points = points};
