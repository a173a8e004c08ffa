/* Delayed gradients: work that overlaps the collective of the last large gradient.
 *
 * The largest gradient is often computed at the very end of the backward pass, as a tied embedding's is, and then
 * nothing overlaps its collective. Only the update reads the gradients of weights, so some of those just before the
 * largest can be computed after it: as many as have half of its bytes together. Even if no computation were long enough
 * to hide anything, the collectives would then take as long in total as before. */
#include <stdlib.h>

#include "synth/autodiff/autodiff.h"

/* [nvalues]: whether a value is a parameter's gradient that no operator from `first` on reads. */
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

/* The operator of the largest gradient (the last of equals) if no matmul comes after it; or -1. */
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

/* The gradient of a weight or of a bias. Those of norms are computed together with the input's gradient, which others
 * read. */
static bool can_wait(const struct mt_op *op, const bool *is_gradient) {
    return (op->kind == MT_OP_matmul || op->kind == MT_OP_sum) && is_gradient[op->out[0]];
}

void mt_graph_delay_gradients(struct mt_graph *graph, int first) {
    if (graph->recomputed) return; /* memory is short: the inputs of delayed operators would live longer */
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
