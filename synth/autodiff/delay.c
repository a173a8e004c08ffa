/* Delayed gradients: work for the time in which the last large gradient travels.
 *
 * The largest gradient is often made at the very end of the backward pass, as a tied embedding's is, and its message
 * then has nothing to run beside. The gradients of weights are read by nobody but the update, so some of those that
 * stand just before it can be made behind it. As much as half of its bytes moves there: were no computation long
 * enough to hide anything, the messages would still be as long in sum as before. */
#include <stdlib.h>

#include "synth/graph/graph.h"
#include "synth/autodiff/autodiff.h"

/* Of each value: whether it is a parameter's gradient, and no operator from `first` on reads it. */
static bool *find_gradients(const struct mt_graph *g, int first) {
    bool *is_gradient = mt_calloc((size_t)g->nvalues, sizeof *is_gradient);
    for (int v = 0; v < g->nvalues; v++)
        if (g->values[v].param) is_gradient[g->values[v].gradient] = true;
    for (int o = first; o < g->nops; o++)
        for (int i = 0; i < g->ops[o].nin; i++) is_gradient[g->ops[o].in[i]] = false;
    return is_gradient;
}

static double gradient_bytes(const struct mt_graph *g, const struct mt_op *op) {
    double bytes = 0;
    for (int o = 0; o < op->nout; o++)
        bytes += (double)mt_value_count(g, op->out[o]) * (double)mt_type_size(g->values[op->out[o]].type);
    return bytes;
}

/* The operator that makes the largest gradient, the last of equals, if no product comes after it; or -1. */
static int last_large(const struct mt_graph *g, int first, const bool *is_gradient) {
    int large = -1;
    double most = 0;
    for (int o = first; o < g->nops; o++) {
        const struct mt_op *op = &g->ops[o];
        double bytes = is_gradient[op->out[0]] ? gradient_bytes(g, op) : 0;
        if (bytes > 0 && bytes >= most) most = bytes, large = o;
    }
    for (int o = large + 1; large >= 0 && o < g->nops; o++)
        if (g->ops[o].kind == MT_OP_matmul) return -1;
    return large;
}

/* A weight's own gradient, or its bias's. (Those of norms come with the gradient that others wait for.) */
static bool can_wait(const struct mt_op *op, const bool *is_gradient) {
    return (op->kind == MT_OP_matmul || op->kind == MT_OP_sum) && is_gradient[op->out[0]];
}

void mt_graph_delay_gradients(struct mt_graph *graph, int first) {
    if (graph->recomputed) return; /* memory is short: what they read shall not live longer */
    bool *is_gradient = find_gradients(graph, first);
    int large = last_large(graph, first, is_gradient), *order = mt_malloc((size_t)graph->nops * sizeof *order);
    bool *delayed = mt_calloc((size_t)graph->nops, sizeof *delayed);
    double left = large < 0 ? 0 : gradient_bytes(graph, &graph->ops[large]) / 2;
    for (int o = large - 1; o >= first; o--) {
        if (!can_wait(&graph->ops[o], is_gradient)) continue;
        left -= gradient_bytes(graph, &graph->ops[o]);
        if (left < 0) break;
        delayed[o] = true;
    }
    int n = 0;
    for (int late = 0; late < 2 && large >= 0; late++)
        for (int o = first; o <= large; o++)
            if (delayed[o] == late) order[n++] = o;
    mt_graph_reorder(graph, first, order, n);
    free(is_gradient), free(order), free(delayed);
}
