/* Cross entropy over the last axis, in steps that can be split over it:
 *
 *     m = row_max(x),  z = exp_sum(x, m),  t = pick(x, target),  l = nll(m, z, t, target)
 *
 * The derivative is joint: nll's vjp gives dx = (softmax(x) - onehot(target)) dl, and m, z and t get no gradient. */
#include <assert.h>

#include "synth/ops/class.h"

/* An operator on x[rows, v] and, if not -1, on row[rows]; the result is [rows]. */
static int row_op(struct mt_graph *graph, const char *name, enum mt_op_kind kind, int x, int row) {
    struct mt_draft d = mt_draft(graph, name, kind);
    int index[MT_MAX_AXES], n = mt_draft_indices(&d, x, 0, graph->values[x].naxes, index);
    mt_draft_in(&d, x, index);
    if (row >= 0) {
        assert(graph->values[row].naxes == n - 1);
        mt_draft_in(&d, row, index);
    }
    mt_draft_out(&d, "", graph->acc, n - 1, index);
    return mt_draft_end(&d);
}

int mt_op_cross_entropy(struct mt_graph *graph, const char *name, int x, int target) {
    char part[256];
    snprintf(part, sizeof part, "%s.max", name);
    int m = row_op(graph, part, MT_OP_row_max, x, -1);
    snprintf(part, sizeof part, "%s.exp_sum", name);
    int z = row_op(graph, part, MT_OP_exp_sum, x, m);
    snprintf(part, sizeof part, "%s.pick", name);
    int picked = row_op(graph, part, MT_OP_pick, x, target);

    snprintf(part, sizeof part, "%s.nll", name);
    struct mt_draft d = mt_draft(graph, part, MT_OP_nll);
    int index[MT_MAX_AXES], n = mt_draft_indices(&d, target, 0, graph->values[target].naxes, index);
    mt_draft_in(&d, m, index);
    mt_draft_in(&d, z, index);
    mt_draft_in(&d, picked, index);
    mt_draft_in(&d, target, index);
    mt_draft_out(&d, "", graph->acc, n, index);
    int losses = mt_draft_end(&d);
    return mt_op_sum(graph, name, losses, (1u << n) - 1);
}

static void nll_vjp(struct mt_vjp *vjp, const struct mt_op *op) {
    struct mt_graph *g = vjp->graph;
    int m = op->in[0], z = op->in[1], target = op->in[3], dl = vjp->gradient[op->out[0]];
    assert(g->ops[g->values[m].producer].kind == MT_OP_row_max);
    int x = g->ops[g->values[m].producer].in[0];
    assert(g->ops[g->values[z].producer].in[0] == x && g->ops[g->values[op->in[2]].producer].in[0] == x);
    struct mt_draft d = mt_draft(g, mt_vjp_name(vjp, "x"), MT_OP_nll_grad);
    int index[MT_MAX_AXES], n = mt_draft_indices(&d, x, 0, g->values[x].naxes, index);
    mt_draft_in(&d, x, index);
    mt_draft_in(&d, m, index);
    mt_draft_in(&d, z, index);
    mt_draft_in(&d, target, index);
    mt_draft_in(&d, dl, index);
    mt_draft_out(&d, "", g->type, n, index);
    mt_vjp_accumulate(vjp, x, mt_draft_end(&d));
}

/* The last axis of x is reduced by maximum. */
static enum mt_index_role max_role(const struct mt_op *op, int index) {
    return index == op->nindices - 1 ? MT_INDEX_MAX : MT_INDEX_MAP;
}

const struct mt_op_class mt_op_class_row_max = {.role = max_role};
const struct mt_op_class mt_op_class_exp_sum = {0};
const struct mt_op_class mt_op_class_pick = {.linear = {1u << 0}};
const struct mt_op_class mt_op_class_nll = {.vjp = nll_vjp};
const struct mt_op_class mt_op_class_nll_grad = {.linear = {1u << 4}};
