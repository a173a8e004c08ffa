/* Root-mean-square norm over the last axis, in steps that can be split over it:
 *
 *     q = rms_sq(x) = sum x^2,  y = rms_apply(x, q, gamma)
 *
 * The derivative is joint: rms_apply's vjp gives the whole dx, and q gets no gradient. */
#include <assert.h>

#include "synth/ops/class.h"

/* What an operand of rows x[rows, n] has: all axes, those before the last, or the last. */
enum part { WHOLE, ROW, LAST };

/* An operator on rows: index[n - 1] is the last axis of x. */
struct rows {
    struct mt_draft draft;
    int index[MT_MAX_AXES], n;
};

static struct rows rows_draft(struct mt_graph *graph, const char *name, enum mt_op_kind kind, int x, double eps) {
    struct rows r = {.draft = mt_draft(graph, name, kind)};
    r.n = mt_draft_indices(&r.draft, x, 0, graph->values[x].naxes, r.index);
    r.draft.op.attr.eps = eps;
    assert(r.n > 0);
    return r;
}

static void take(struct rows *r, int value, enum part part) {
    int naxes = part == WHOLE ? r->n : part == ROW ? r->n - 1 : 1;
    assert(r->draft.graph->values[value].naxes == naxes);
    (void)naxes;
    mt_draft_in(&r->draft, value, r->index + (part == LAST ? r->n - 1 : 0));
}

int mt_op_rms_norm(struct mt_graph *graph, const char *name, int x, int gamma, double eps) {
    char square[256];
    snprintf(square, sizeof square, "%s.square", name);
    struct rows r = rows_draft(graph, square, MT_OP_rms_sq, x, 0);
    take(&r, x, WHOLE);
    mt_draft_out(&r.draft, "", graph->acc, r.n - 1, r.index);
    int q = mt_draft_end(&r.draft);

    r = rows_draft(graph, name, MT_OP_rms_apply, x, eps);
    take(&r, x, WHOLE);
    take(&r, q, ROW);
    take(&r, gamma, LAST);
    mt_draft_out(&r.draft, "", graph->type, r.n, r.index);
    return mt_draft_end(&r.draft);
}

static void param_vjp(struct mt_vjp *vjp, const struct mt_op *op, int dy) {
    struct mt_graph *g = vjp->graph;
    struct rows r = rows_draft(g, mt_vjp_name(vjp, "w"), MT_OP_rms_param_grad, op->in[0], op->attr.eps);
    take(&r, dy, WHOLE);
    take(&r, op->in[0], WHOLE);
    take(&r, op->in[1], ROW);
    mt_draft_out(&r.draft, "", g->acc, 1, r.index + r.n - 1);
    mt_vjp_accumulate(vjp, op->in[2], mt_draft_end(&r.draft));
}

static void rms_apply_vjp(struct mt_vjp *vjp, const struct mt_op *op) {
    struct mt_graph *g = vjp->graph;
    int x = op->in[0], q = op->in[1], gamma = op->in[2];
    assert(g->ops[g->values[q].producer].kind == MT_OP_rms_sq && g->ops[g->values[q].producer].in[0] == x);
    int dy = mt_vjp_gradient_cast(vjp, op->out[0]);
    if (vjp->needs[gamma]) param_vjp(vjp, op, dy);
    if (!vjp->needs[x]) return;

    struct rows r = rows_draft(g, mt_vjp_name(vjp, "dot"), MT_OP_rms_dot, x, op->attr.eps);
    take(&r, dy, WHOLE);
    take(&r, x, WHOLE);
    take(&r, q, ROW);
    take(&r, gamma, LAST);
    mt_draft_out(&r.draft, "", g->acc, r.n - 1, r.index);
    int dot = mt_draft_end(&r.draft);

    r = rows_draft(g, mt_vjp_name(vjp, "x"), MT_OP_rms_grad, x, op->attr.eps);
    take(&r, dy, WHOLE);
    take(&r, x, WHOLE);
    take(&r, q, ROW);
    take(&r, gamma, LAST);
    take(&r, dot, ROW);
    mt_draft_out(&r.draft, "", g->type, r.n, r.index);
    mt_vjp_accumulate(vjp, x, mt_draft_end(&r.draft));
}

const struct mt_op_class mt_op_class_rms_sq = {0};
const struct mt_op_class mt_op_class_rms_apply = {.cheap = true, .linear = {1u << 2}, .vjp = rms_apply_vjp};
const struct mt_op_class mt_op_class_rms_dot = {.linear = {1u << 0}};
const struct mt_op_class mt_op_class_rms_grad = {.linear = {1u << 0 | 1u << 4}};
const struct mt_op_class mt_op_class_rms_param_grad = {.linear = {1u << 0}};
