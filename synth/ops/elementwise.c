/* Elementwise operators: every axis is an index of its own, the same in every operand. */
#include <assert.h>

#include "synth/ops/class.h"

int mt_op_gelu(struct mt_graph *graph, const char *name, int x) {
    return mt_draft_map(graph, name, MT_OP_gelu, graph->type, 1, &x, NULL);
}

int mt_op_relu(struct mt_graph *graph, const char *name, int x) {
    return mt_draft_map(graph, name, MT_OP_relu, graph->type, 1, &x, NULL);
}

int mt_op_silu_mul(struct mt_graph *graph, const char *name, int gate, int up) {
    int in[2] = {gate, up};
    return mt_draft_map(graph, name, MT_OP_silu_mul, graph->type, 2, in, NULL);
}

int mt_op_dropout(struct mt_graph *graph, const char *name, int x, double p) {
    if (p == 0) return x;
    struct mt_attr attr = {.p = p, .tag = ++graph->tags};
    return mt_draft_map(graph, name, MT_OP_dropout, graph->type, 1, &x, &attr);
}

int mt_op_cast(struct mt_graph *graph, const char *name, int x, enum mt_type to) {
    struct mt_attr attr = {.to = to};
    return mt_draft_map(graph, name, MT_OP_cast, to, 1, &x, &attr);
}

int mt_op_fill(struct mt_graph *graph, const char *name, int like, double value, enum mt_type to) {
    struct mt_attr attr = {.to = to, .value = value};
    return mt_draft_map(graph, name, MT_OP_fill, to, 1, &like, &attr);
}

int mt_op_add(struct mt_graph *graph, const char *name, int a, int b) {
    struct mt_draft d = mt_draft(graph, name, MT_OP_add);
    int index[MT_MAX_AXES], n = mt_draft_indices(&d, a, 0, graph->values[a].naxes, index);
    int lacking = n - graph->values[b].naxes;
    assert(lacking >= 0);
    for (int axis = lacking; axis < n; axis++) d.op.attr.axes |= 1u << axis;
    mt_draft_in(&d, a, index);
    mt_draft_in(&d, b, index + lacking);
    mt_draft_out(&d, "", graph->values[a].type, n, index);
    return mt_draft_end(&d);
}

/* KIND_grad: dy, x -> dx. */
static void vjp_by_input(struct mt_vjp *vjp, const struct mt_op *op, enum mt_op_kind kind) {
    struct mt_graph *g = vjp->graph;
    int in[2] = {mt_vjp_gradient_cast(vjp, op->out[0]), op->in[0]};
    mt_vjp_accumulate(vjp, op->in[0], mt_draft_map(g, mt_vjp_name(vjp, "x"), kind, g->type, 2, in, NULL));
}

static void gelu_vjp(struct mt_vjp *vjp, const struct mt_op *op) {
    vjp_by_input(vjp, op, MT_OP_gelu_grad);
}

static void relu_vjp(struct mt_vjp *vjp, const struct mt_op *op) {
    vjp_by_input(vjp, op, MT_OP_relu_grad);
}

static void silu_mul_vjp(struct mt_vjp *vjp, const struct mt_op *op) {
    struct mt_graph *g = vjp->graph;
    int in[3] = {mt_vjp_gradient_cast(vjp, op->out[0]), op->in[0], op->in[1]}, index[MT_MAX_AXES];
    struct mt_draft d = mt_draft(g, mt_vjp_name(vjp, "x"), MT_OP_silu_mul_grad);
    int n = mt_draft_indices(&d, in[0], 0, g->values[in[0]].naxes, index);
    for (int i = 0; i < 3; i++) mt_draft_in(&d, in[i], index);
    int dgate = mt_draft_out(&d, "", g->type, n, index), dup = mt_draft_out(&d, ".up", g->type, n, index);
    mt_draft_end(&d);
    mt_vjp_accumulate(vjp, op->in[0], dgate);
    mt_vjp_accumulate(vjp, op->in[1], dup);
}

static void dropout_vjp(struct mt_vjp *vjp, const struct mt_op *op) {
    struct mt_graph *g = vjp->graph;
    int dy = mt_vjp_gradient_cast(vjp, op->out[0]);
    mt_vjp_accumulate(vjp, op->in[0],
                      mt_draft_map(g, mt_vjp_name(vjp, "x"), MT_OP_dropout, g->type, 1, &dy, &op->attr));
}

/* da = dy; db = dy summed over the axes that b lacks. */
static void add_vjp(struct mt_vjp *vjp, const struct mt_op *op) {
    struct mt_graph *g = vjp->graph;
    int dy = vjp->gradient[op->out[0]];
    if (vjp->needs[op->in[1]]) {
        unsigned lacking = ((1u << g->values[dy].naxes) - 1) & ~op->attr.axes;
        int db = lacking ? mt_op_sum(g, mt_vjp_name(vjp, "b"), dy, lacking) : dy;
        mt_vjp_accumulate(vjp, op->in[1], db);
    }
    if (vjp->needs[op->in[0]]) mt_vjp_accumulate(vjp, op->in[0], dy);
}

/* The gradient keeps its type: that of a parameter's cast is the parameter's gradient as it is. */
static void cast_vjp(struct mt_vjp *vjp, const struct mt_op *op) {
    mt_vjp_accumulate(vjp, op->in[0], vjp->gradient[op->out[0]]);
}

const struct mt_op_class mt_op_class_add = {.linear = {1u << 0 | 1u << 1}, .vjp = add_vjp};
const struct mt_op_class mt_op_class_gelu = {.cheap = true, .vjp = gelu_vjp};
const struct mt_op_class mt_op_class_gelu_grad = {.linear = {1u << 0}};
const struct mt_op_class mt_op_class_relu = {.cheap = true, .vjp = relu_vjp};
const struct mt_op_class mt_op_class_relu_grad = {.linear = {1u << 0}};
const struct mt_op_class mt_op_class_silu_mul = {.cheap = true, .linear = {1u << 1}, .vjp = silu_mul_vjp};
const struct mt_op_class mt_op_class_silu_mul_grad = {.linear = {1u << 0}};
const struct mt_op_class mt_op_class_dropout = {.linear = {1u << 0}, .vjp = dropout_vjp};
const struct mt_op_class mt_op_class_cast = {.linear = {1u << 0}, .vjp = cast_vjp};
const struct mt_op_class mt_op_class_fill = {0};
