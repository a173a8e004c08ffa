/* Reverse-mode differentiation on the graph: operators are visited from the loss backwards, and each class adds the
 * operators that turn gradients of outputs into gradients of inputs. Two gradients of one value are added as soon as
 * the second arrives, so that one of them can be freed. */
#include <assert.h>
#include <stdlib.h>

#include "synth/ops/class.h"
#include "synth/autodiff/autodiff.h"

struct mt_vjp {
    struct mt_graph *graph;
    int nvalues;   /* of the forward graph */
    int *gradient; /* [nvalues] */
    bool *wants;   /* [nvalues] */
    const char *op_name;
};

struct mt_graph *mt_vjp_graph(struct mt_vjp *vjp) {
    return vjp->graph;
}

int mt_vjp_gradient(struct mt_vjp *vjp, int value) {
    return vjp->gradient[value];
}

const char *mt_vjp_name(struct mt_vjp *vjp, const char *what) {
    return mt_arena_printf(&vjp->graph->arena, "%s/grad_%s", vjp->op_name, what);
}

static int cast_to(struct mt_vjp *vjp, int gradient, enum mt_type type) {
    if (vjp->graph->values[gradient].type == type) return gradient;
    return mt_op_cast(vjp->graph, mt_vjp_name(vjp, "cast"), gradient, type);
}

int mt_vjp_gradient_cast(struct mt_vjp *vjp, int value) {
    return cast_to(vjp, vjp->gradient[value], vjp->graph->values[value].type);
}

bool mt_vjp_wants(const struct mt_vjp *vjp, int value) {
    return vjp->wants[value];
}

void mt_vjp_give(struct mt_vjp *vjp, int value, int gradient) {
    struct mt_graph *g = vjp->graph;
    assert(g->values[gradient].naxes == g->values[value].naxes);
    for (int a = 0; a < g->values[value].naxes; a++) assert(g->values[gradient].label[a] == g->values[value].label[a]);
    int *held = &vjp->gradient[value];
    if (*held >= 0) {
        bool same = g->values[*held].type == g->values[gradient].type;
        int a = same ? *held : cast_to(vjp, *held, g->acc), b = same ? gradient : cast_to(vjp, gradient, g->acc);
        gradient = mt_op_add(g, mt_vjp_name(vjp, "add"), a, b);
    }
    *held = gradient;
}

/* A value wants a gradient when it depends on a parameter. */
static void find_wants(struct mt_vjp *vjp) {
    const struct mt_graph *g = vjp->graph;
    for (int v = 0; v < vjp->nvalues; v++) vjp->wants[v] = g->values[v].param;
    for (int i = 0; i < g->nops; i++)
        for (int k = 0; k < g->ops[i].nin; k++)
            for (int o = 0; o < g->ops[i].nout && vjp->wants[g->ops[i].in[k]]; o++) vjp->wants[g->ops[i].out[o]] = true;
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
    bool wanted = false;
    for (int i = 0; i < op.nin; i++) wanted |= vjp->wants[op.in[i]];
    if (!wanted) return MT_OK;
    if (!mt_op_class(op.kind)->vjp)
        return mt_fail(err, MT_EBUG, "operator %s: %s has no derivative", op.name, mt_op_info[op.kind].name);
    g->forward = id;
    vjp->op_name = op.name;
    mt_op_class(op.kind)->vjp(vjp, &op);
    return MT_OK;
}

/* Give every parameter its gradient, of type A. */
static enum mt_status settle(struct mt_vjp *vjp, struct mt_err *err) {
    struct mt_graph *g = vjp->graph;
    for (int v = 0; v < vjp->nvalues; v++) {
        if (!g->values[v].param) continue;
        if (vjp->gradient[v] < 0)
            return mt_fail(err, MT_EBUG, "parameter %s: the loss does not depend on it", g->values[v].name);
        vjp->op_name = g->values[v].name;
        int gradient = cast_to(vjp, vjp->gradient[v], g->acc);
        g->values[v].gradient = gradient;
    }
    return MT_OK;
}

enum mt_status mt_graph_differentiate(struct mt_graph *graph, struct mt_err *err) {
    assert(graph->loss_sum >= 0);
    struct mt_vjp vjp = {.graph = graph, .nvalues = graph->nvalues};
    vjp.gradient = mt_calloc((size_t)graph->nvalues, sizeof *vjp.gradient);
    vjp.wants = mt_calloc((size_t)graph->nvalues, sizeof *vjp.wants);
    for (int v = 0; v < graph->nvalues; v++) vjp.gradient[v] = -1;
    find_wants(&vjp);
    int last = graph->values[graph->loss_sum].producer;
    assert(last >= 0 && graph->ops[last].kind == MT_OP_sum && graph->values[graph->loss_sum].naxes == 0);
    int first = graph->nops;
    graph->role = MT_ROLE_BACKWARD;
    graph->forward = last;
    vjp.op_name = graph->ops[last].name;
    int losses = graph->ops[last].in[0];
    bool scaled = graph->loss_scale >= 0;
    int seed = mt_op_fill(graph, mt_vjp_name(&vjp, "seed"), losses, scaled ? 0 : 1, graph->values[losses].type);
    mt_vjp_give(&vjp, losses, scaled ? mt_op_add(graph, mt_vjp_name(&vjp, "scaled"), seed, graph->loss_scale) : seed);
    enum mt_status st = MT_OK;
    for (int id = last - 1; id >= 0 && !st; id--) st = differentiate_op(&vjp, id, err);
    if (!st) st = settle(&vjp, err);
    if (!st) mt_graph_delay_gradients(graph, first);
    graph->role = MT_ROLE_FORWARD;
    graph->forward = -1;
    free(vjp.gradient);
    free(vjp.wants);
    return st;
}
