/* Reverse-mode differentiation on the graph: operators are visited from the loss backwards, and each one's
 * vector-Jacobian product adds the operators that compute gradients of inputs from gradients of outputs. */
#include <assert.h>
#include <stdlib.h>

#include "synth/autodiff/autodiff.h"
#include "synth/ops/class.h"

static void find_needs(struct mt_vjp *vjp) {
    const struct mt_graph *g = vjp->graph;
    for (int v = 0; v < vjp->nvalues; v++) vjp->needs[v] = g->values[v].param;
    for (int i = 0; i < g->nops; i++)
        for (int k = 0; k < g->ops[i].nin; k++)
            for (int o = 0; o < g->ops[i].nout && vjp->needs[g->ops[i].in[k]]; o++) vjp->needs[g->ops[i].out[o]] = true;
}

static bool any_gradient(const struct mt_vjp *vjp, const struct mt_op *op) {
    for (int o = 0; o < op->nout; o++)
        if (vjp->gradient[op->out[o]] >= 0) return true;
    return false;
}

static enum mt_status differentiate_op(struct mt_vjp *vjp, int id, struct mt_err *err) {
    struct mt_graph *g = vjp->graph;
    struct mt_op op = g->ops[id]; /* a copy: the vector grows */
    if (!any_gradient(vjp, &op)) return MT_OK;
    bool needed = false;
    for (int i = 0; i < op.nin; i++) needed |= vjp->needs[op.in[i]];
    if (!needed) return MT_OK;
    if (!mt_op_class(op.kind)->vjp)
        return mt_fail(err, MT_EBUG, "operator %s: %s has no derivative", op.name, mt_op_info[op.kind].name);
    g->forward = id;
    vjp->op_name = op.name;
    mt_op_class(op.kind)->vjp(vjp, &op);
    return MT_OK;
}

/* Give every parameter its gradient, of type A. */
static enum mt_status finish_gradients(struct mt_vjp *vjp, struct mt_err *err) {
    struct mt_graph *g = vjp->graph;
    for (int v = 0; v < vjp->nvalues; v++) {
        if (!g->values[v].param) continue;
        if (vjp->gradient[v] < 0)
            return mt_fail(err, MT_EBUG, "parameter %s: the loss does not depend on it", g->values[v].name);
        vjp->op_name = g->values[v].name;
        int gradient = mt_vjp_cast(vjp, vjp->gradient[v], g->acc); /* g->values may move */
        g->values[v].gradient = gradient;
    }
    return MT_OK;
}

enum mt_status mt_graph_differentiate(struct mt_graph *graph, struct mt_err *err) {
    assert(graph->loss_sum >= 0);
    struct mt_vjp vjp = {.graph = graph, .nvalues = graph->nvalues};
    vjp.gradient = mt_calloc((size_t)graph->nvalues, sizeof *vjp.gradient);
    vjp.needs = mt_calloc((size_t)graph->nvalues, sizeof *vjp.needs);
    for (int v = 0; v < graph->nvalues; v++) vjp.gradient[v] = -1;
    find_needs(&vjp);
    int last = graph->values[graph->loss_sum].producer;
    assert(last >= 0 && graph->ops[last].kind == MT_OP_sum && graph->values[graph->loss_sum].naxes == 0);
    int first = graph->nops;
    graph->role = MT_ROLE_BACKWARD;
    graph->forward = last;
    vjp.op_name = graph->ops[last].name;
    int losses = graph->ops[last].in[0];
    bool scaled = graph->loss_scale >= 0;
    int seed = mt_op_fill(graph, mt_vjp_name(&vjp, "seed"), losses, scaled ? 0 : 1, graph->values[losses].type);
    mt_vjp_accumulate(&vjp, losses,
                      scaled ? mt_op_add(graph, mt_vjp_name(&vjp, "scaled"), seed, graph->loss_scale) : seed);
    enum mt_status st = MT_OK;
    for (int id = last - 1; id >= 0 && !st; id--) st = differentiate_op(&vjp, id, err);
    if (!st) st = finish_gradients(&vjp, err);
    if (!st) mt_graph_delay_gradients(graph, first);
    graph->role = MT_ROLE_FORWARD;
    graph->forward = -1;
    free(vjp.gradient);
    free(vjp.needs);
    return st;
}
