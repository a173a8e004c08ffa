/* matmul: y[m, n] = sum over k of a[m, k] b[k, n]; m, n and k are groups of axes. */
#include <assert.h>

#include "synth/ops/class.h"

int mt_op_matmul(struct mt_graph *graph, const char *name, int a, int b, int nk, int flags) {
    bool trans_a = flags & MT_TRANS_A, trans_b = flags & MT_TRANS_B, out_acc = flags & MT_OUT_ACC;
    struct mt_draft d = mt_draft(graph, name, MT_OP_matmul);
    int a_axes = graph->values[a].naxes, nm = a_axes - nk, nn = graph->values[b].naxes - nk;
    assert(nm >= 0 && nn >= 0 && nm + nn <= MT_MAX_AXES);
    d.op.attr = (struct mt_attr){.nm = nm, .nn = nn, .nk = nk};
    d.op.attr.trans_a = trans_a, d.op.attr.trans_b = trans_b, d.op.attr.out_acc = out_acc;
    d.op.attr.tf32 = graph->tf32;
    int in_a[MT_MAX_AXES], in_b[MT_MAX_AXES], out[MT_MAX_AXES];
    mt_draft_indices(&d, a, 0, a_axes, in_a);
    const int *m = in_a + (trans_a ? nk : 0), *k = in_a + (trans_a ? 0 : nm);
    int first_n = trans_b ? 0 : nk, first_k = trans_b ? nn : 0;
    mt_draft_indices(&d, b, first_n, first_n + nn, in_b + first_n);
    for (int i = 0; i < nk; i++) in_b[first_k + i] = k[i];
    mt_draft_in(&d, a, in_a);
    mt_draft_in(&d, b, in_b);
    for (int i = 0; i < nm; i++) out[i] = m[i];
    for (int i = 0; i < nn; i++) out[nm + i] = in_b[first_n + i];
    mt_draft_out(&d, "", out_acc ? graph->acc : graph->type, nm + nn, out);
    return mt_draft_end(&d);
}

/* The gradient of operand b (side 1) or a (side 0), in the operand's memory order. */
static void give_side(struct mt_vjp *vjp, const struct mt_op *op, int dy, int side) {
    if (!vjp->needs[op->in[side]]) return;
    struct mt_graph *g = vjp->graph;
    const struct mt_attr *at = &op->attr;
    bool weight = mt_graph_param_of(g, op->in[side]) >= 0;
    const char *name = mt_vjp_name(vjp, weight ? "w" : side ? "b" : "x");
    int acc = weight ? MT_OUT_ACC : 0, a = op->in[0], b = op->in[1], grad;
    if (side == 1 && !at->trans_b) /* db[k, n] = a^T dy */
        grad = mt_op_matmul(g, name, a, dy, at->nm, acc | (at->trans_a ? 0 : MT_TRANS_A));
    else if (side == 1) /* db[n, k] = dy^T a */
        grad = mt_op_matmul(g, name, dy, a, at->nm, acc | MT_TRANS_A | (at->trans_a ? MT_TRANS_B : 0));
    else if (!at->trans_a) /* da[m, k] = dy b^T */
        grad = mt_op_matmul(g, name, dy, b, at->nn, acc | (at->trans_b ? 0 : MT_TRANS_B));
    else /* da[k, m] = b dy^T */
        grad = mt_op_matmul(g, name, b, dy, at->nn, acc | (at->trans_b ? MT_TRANS_A : 0) | MT_TRANS_B);
    mt_vjp_accumulate(vjp, op->in[side], grad);
}

/* The weight's gradient first: x can be freed before dx is computed, and the gradient's collective starts earlier. */
static void matmul_vjp(struct mt_vjp *vjp, const struct mt_op *op) {
    int dy = mt_vjp_gradient_cast(vjp, op->out[0]);
    give_side(vjp, op, dy, 1);
    give_side(vjp, op, dy, 0);
}

const struct mt_op_class mt_op_class_matmul = {.linear = {1u << 0, 1u << 1}, .vjp = matmul_vjp};
