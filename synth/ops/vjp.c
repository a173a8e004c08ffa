/* Vector-Jacobian products: the gradients of values while a graph is differentiated. Two gradients of one value are
 * added as soon as the second is there, so that the memory of one of them can be freed. */
#include <assert.h>

#include "synth/ops/class.h"

const char *mt_vjp_name(struct mt_vjp *vjp, const char *what) {
    return mt_arena_printf(&vjp->graph->arena, "%s/grad_%s", vjp->op_name, what);
}

int mt_vjp_cast(struct mt_vjp *vjp, int gradient, enum mt_type type) {
    struct mt_attr attr = {.to = type};
    if (vjp->graph->values[gradient].type == type) return gradient;
    return mt_draft_map(vjp->graph, mt_vjp_name(vjp, "cast"), MT_OP_cast, type, 1, &gradient, &attr);
}

int mt_vjp_gradient_cast(struct mt_vjp *vjp, int value) {
    return mt_vjp_cast(vjp, vjp->gradient[value], vjp->graph->values[value].type);
}

void mt_vjp_accumulate(struct mt_vjp *vjp, int value, int gradient) {
    struct mt_graph *g = vjp->graph;
    int naxes = g->values[value].naxes, *held = &vjp->gradient[value];
    assert(g->values[gradient].naxes == naxes);
    for (int a = 0; a < naxes; a++) assert(g->values[gradient].label[a] == g->values[value].label[a]);
    if (*held >= 0) {
        bool same = g->values[*held].type == g->values[gradient].type;
        int terms[2] = {*held, gradient};
        for (int t = 0; t < 2 && !same; t++) terms[t] = mt_vjp_cast(vjp, terms[t], g->acc);
        struct mt_attr attr = {.axes = (1u << naxes) - 1};
        gradient = mt_draft_map(g, mt_vjp_name(vjp, "add"), MT_OP_add, g->values[terms[0]].type, 2, terms, &attr);
    }
    *held = gradient;
}
