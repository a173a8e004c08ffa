/* attention: q[b, s, h, d], kv[b, t, 2, g, d] -> o[b, s, h, d], lse[b, h, s]. Queries can be split by their positions:
 * each rank then needs all keys and values, and of their gradient gives its queries' terms.
 *
 * Heads: where q's label of heads is kv's, each head of keys and values serves one query head, and both are split
 * together. Grouped queries have heads as two axes, [g, n]: n query heads for each of the g heads of keys and values.
 * A split of g keeps groups whole; of n, it divides each group's queries, with all keys and values on every rank (so
 * that one head of keys may serve several ranks), and the gradient of keys and values is a sum over it too. Query heads
 * as one axis with another label than kv's cannot be split. */
#include <assert.h>
#include <math.h>

#include "synth/ops/class.h"

struct indices {
    int q[5], kv[5], lse[4]; /* of the operands' axes */
    int nq;                  /* axes of q */
};

static bool same_label(const struct mt_graph *g, int q, int q_axis, int kv, int kv_axis) {
    return g->values[q].label[q_axis] == g->values[kv].label[kv_axis];
}

static struct indices draft_indices(struct mt_draft *d, int q, int kv) {
    const struct mt_graph *g = d->graph;
    struct indices x = {.nq = g->values[q].naxes};
    int size = x.nq - 1; /* q's last axis */
    assert((x.nq == 4 || x.nq == 5) && g->values[kv].naxes == 5 && mt_value_extent(g, kv, 2) == 2);
    assert(same_label(g, q, 0, kv, 0) && same_label(g, q, size, kv, 4));
    mt_draft_indices(d, q, 0, x.nq, x.q);
    x.kv[0] = x.q[0];
    mt_draft_indices(d, kv, 1, 3, &x.kv[1]);
    if (same_label(g, q, 2, kv, 3))
        x.kv[3] = x.q[2];
    else
        mt_draft_indices(d, kv, 3, 4, &x.kv[3]);
    x.kv[4] = x.q[size];
    assert(x.nq == 4 ? mt_value_extent(g, q, 2) % mt_value_extent(g, kv, 3) == 0 : x.kv[3] == x.q[2]);
    x.lse[0] = x.q[0];
    for (int a = 2; a < size; a++) x.lse[a - 1] = x.q[a];
    x.lse[size - 1] = x.q[1];
    return x;
}

static int attention_with(struct mt_graph *graph, const char *name, int q, int kv, struct mt_attr attr) {
    struct mt_draft d = mt_draft(graph, name, MT_OP_attention);
    struct indices x = draft_indices(&d, q, kv);
    mt_draft_in(&d, q, x.q);
    mt_draft_in(&d, kv, x.kv);
    mt_draft_out(&d, "", graph->type, x.nq, x.q);
    mt_draft_out(&d, ".lse", graph->acc, x.nq - 1, x.lse);
    d.op.attr = attr;
    d.op.attr.scale = 1 / sqrt((double)mt_value_extent(graph, kv, 4));
    if (attr.p > 0) d.op.attr.tag = ++graph->tags;
    return mt_draft_end(&d);
}

int mt_op_attention(struct mt_graph *graph, const char *name, int q, int kv, bool causal, double p) {
    return attention_with(graph, name, q, kv, (struct mt_attr){.causal = causal, .p = p});
}

int mt_op_window_attention(struct mt_graph *graph, const char *name, int q, int kv, int64_t window, double p) {
    return attention_with(graph, name, q, kv, (struct mt_attr){.causal = true, .window = window, .p = p});
}

static void attention_vjp(struct mt_vjp *vjp, const struct mt_op *op) {
    struct mt_graph *g = vjp->graph;
    int grad = mt_vjp_gradient_cast(vjp, op->out[0]);
    struct mt_draft d = mt_draft(g, mt_vjp_name(vjp, "q"), MT_OP_attention_grad);
    struct indices x = draft_indices(&d, op->in[0], op->in[1]);
    mt_draft_in(&d, grad, x.q);
    mt_draft_in(&d, op->in[0], x.q);
    mt_draft_in(&d, op->in[1], x.kv);
    mt_draft_in(&d, op->out[0], x.q);
    mt_draft_in(&d, op->out[1], x.lse);
    mt_draft_out(&d, "", g->type, x.nq, x.q);
    int dkv = mt_draft_out(&d, ".kv", g->type, 5, x.kv);
    d.op.attr = op->attr;
    d.op.attr.any_order = g->any_order;
    mt_vjp_accumulate(vjp, op->in[0], mt_draft_end(&d));
    mt_vjp_accumulate(vjp, op->in[1], dkv);
}

static bool has(const int *operand_index, int index) {
    for (int a = 0; a < MT_MAX_AXES; a++)
        if (operand_index[a] == index) return true;
    return false;
}

/* Keys' positions, the pair of keys and values, and elements of heads are whole; so are heads that are not shared. */
static enum mt_index_role role(const struct mt_op *op, int index) {
    bool gradient = op->kind == MT_OP_attention_grad;
    const int *q = op->in_index[gradient], *kv = op->in_index[1 + gradient];
    if (index == kv[1] || index == kv[2] || index == kv[4]) return MT_INDEX_WHOLE;
    if (kv[3] != q[2] && (index == kv[3] || index == q[2])) return MT_INDEX_WHOLE;
    return gradient && !has(kv, index) ? MT_INDEX_SUM : MT_INDEX_MAP;
}

/* B H D times the pairs of positions that attend to each other. Forward has two GEMMs over them, the scores and the sum
 * of the values; backward five, the scores again and four gradients. */
static double points(const struct mt_op *op, const int64_t *extent) {
    bool gradient = op->kind == MT_OP_attention_grad;
    const int *q = op->in_index[gradient], *kv = op->in_index[1 + gradient];
    double s = (double)extent[q[1]], t = (double)extent[kv[1]], points = op->attr.causal ? s * (t + 1) / 2 : s * t;
    double w = op->attr.window ? fmin(t, (double)op->attr.window) : t;
    if (op->attr.causal) points -= s / t * (t - w) * (t - w + 1) / 2; /* of the queries behind the first window */
    for (int a = 0; a < MT_MAX_AXES && q[a] >= 0; a++)
        if (a != 1) points *= (double)extent[q[a]];
    return points;
}

const struct mt_op_class mt_op_class_attention = {.role = role, .points = points, .vjp = attention_vjp};
const struct mt_op_class mt_op_class_attention_grad = {.role = role, .linear = {1u << 0}, .points = points};
