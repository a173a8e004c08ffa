/* Layer norm over the last axis, in steps that can be split over it:
 *
 *     s = sum x,  q = norm_sqdev(x, s) = sum (x - s/n)^2,  y = norm_apply(x, s, q, gamma, beta)
 *
 * The derivative is joint: norm_apply's vjp gives the whole dx, and s and q get no gradient. */
#include <assert.h>

#include "synth/ops/class.h"

/* A draft over x[rows, n]: index[n - 1] is the last axis of x; per-row values (s, q) have the axes before it. */
struct rows {
    struct mt_draft draft;
    int index[MT_MAX_AXES], n;
};

static struct rows rows_draft(struct mt_graph *graph, const char *name, enum mt_op_kind kind, int x) {
    struct rows r = {.draft = mt_draft(graph, name, kind)};
    r.n = mt_draft_indices(&r.draft, x, 0, graph->values[x].naxes, r.index);
    assert(r.n > 0);
    return r;
}

static void take_whole(struct rows *r, int value) {
    assert(r->draft.graph->values[value].naxes == r->n);
    mt_draft_in(&r->draft, value, r->index);
}

static void take_row(struct rows *r, int value) {
    assert(r->draft.graph->values[value].naxes == r->n - 1);
    mt_draft_in(&r->draft, value, r->index);
}

static void take_last(struct rows *r, int value) {
    assert(r->draft.graph->values[value].naxes == 1);
    mt_draft_in(&r->draft, value, r->index + r->n - 1);
}

int mt_op_layer_norm(struct mt_graph *graph, const char *name, int x, int gamma, int beta, double eps) {
    char part[256];
    snprintf(part, sizeof part, "%s.sum", name);
    int s = mt_op_sum(graph, part, x, 1u << (graph->values[x].naxes - 1));

    snprintf(part, sizeof part, "%s.sqdev", name);
    struct rows r = rows_draft(graph, part, MT_OP_norm_sqdev, x);
    take_whole(&r, x);
    take_row(&r, s);
    mt_draft_out(&r.draft, "", graph->acc, r.n - 1, r.index);
    int q = mt_draft_end(&r.draft);

    r = rows_draft(graph, name, MT_OP_norm_apply, x);
    take_whole(&r, x);
    take_row(&r, s);
    take_row(&r, q);
    take_last(&r, gamma);
    if (beta >= 0) take_last(&r, beta);
    mt_draft_out(&r.draft, "", graph->type, r.n, r.index);
    r.draft.op.attr.eps = eps;
    return mt_draft_end(&r.draft);
}

static void norm_param_vjp(struct mt_vjp *vjp, const struct mt_op *op, int dy) {
    struct mt_graph *g = vjp->graph;
    int x = op->in[0], s = op->in[1], q = op->in[2];
    struct rows r = rows_draft(g, mt_vjp_name(vjp, "w"), MT_OP_norm_param_grad, x);
    take_whole(&r, dy);
    take_whole(&r, x);
    take_row(&r, s);
    take_row(&r, q);
    int dgamma = mt_draft_out(&r.draft, "", g->acc, 1, r.index + r.n - 1);
    int dbeta = mt_draft_out(&r.draft, ".beta", g->acc, 1, r.index + r.n - 1);
    r.draft.op.attr.eps = op->attr.eps;
    mt_draft_end(&r.draft);
    if (vjp->needs[op->in[3]]) mt_vjp_accumulate(vjp, op->in[3], dgamma);
    if (op->nin > 4 && vjp->needs[op->in[4]]) mt_vjp_accumulate(vjp, op->in[4], dbeta);
}

static void norm_apply_vjp(struct mt_vjp *vjp, const struct mt_op *op) {
    struct mt_graph *g = vjp->graph;
    int x = op->in[0], s = op->in[1], q = op->in[2], gamma = op->in[3];
    assert(g->ops[g->values[q].producer].kind == MT_OP_norm_sqdev && g->ops[g->values[q].producer].in[0] == x);
    int dy = mt_vjp_gradient_cast(vjp, op->out[0]);
    norm_param_vjp(vjp, op, dy);
    if (!vjp->needs[x]) return;

    struct rows r = rows_draft(g, mt_vjp_name(vjp, "dots"), MT_OP_norm_dots, x);
    take_whole(&r, dy);
    take_whole(&r, x);
    take_row(&r, s);
    take_row(&r, q);
    take_last(&r, gamma);
    int d1 = mt_draft_out(&r.draft, "", g->acc, r.n - 1, r.index);
    int d2 = mt_draft_out(&r.draft, ".xhat", g->acc, r.n - 1, r.index);
    r.draft.op.attr.eps = op->attr.eps;
    mt_draft_end(&r.draft);

    r = rows_draft(g, mt_vjp_name(vjp, "x"), MT_OP_norm_grad, x);
    take_whole(&r, dy);
    take_whole(&r, x);
    take_row(&r, s);
    take_row(&r, q);
    take_last(&r, gamma);
    take_row(&r, d1);
    take_row(&r, d2);
    mt_draft_out(&r.draft, "", g->type, r.n, r.index);
    r.draft.op.attr.eps = op->attr.eps;
    mt_vjp_accumulate(vjp, x, mt_draft_end(&r.draft));
}

const struct mt_op_class mt_op_class_norm_sqdev = {0};
const struct mt_op_class mt_op_class_norm_apply = {.cheap = true, .linear = {1u << 3 | 1u << 4}, .vjp = norm_apply_vjp};
const struct mt_op_class mt_op_class_norm_dots = {.linear = {1u << 0}};
const struct mt_op_class mt_op_class_norm_grad = {.linear = {1u << 0 | 1u << 5 | 1u << 6}};
const struct mt_op_class mt_op_class_norm_param_grad = {.linear = {1u << 0}};
