/* A lower bound on every program: each floating-point operation of GEMMs and attention is done by some rank at least
 * once, at the best rate of its device. Of one operator rank r can do a part p_r in no less than p_r t_r, where t_r is
 * the time of all of it at that rate, so the ranks together take at least
 *
 *     1 / (1/t_0 + 1/t_1 + ...)
 *
 * for it, however it is divided, and a step at least the sum over operators. Communication and memory are not counted:
 * where the network is slow, programs that use few devices are far above it. */
#include "planner/divide/divide.h"

static bool counts(enum mt_op_kind kind) {
    return kind == MT_OP_matmul || kind == MT_OP_attention || kind == MT_OP_attention_grad;
}

double mt_divide_bound(const struct mt_graph *g, const struct mt_costs *costs) {
    double bound_s = 0;
    for (int o = 0; o < g->nops; o++) {
        const struct mt_op *op = &g->ops[o];
        struct mt_tensor tensors[MT_MAX_IN + MT_MAX_OUT];
        struct mt_op_shape shape;
        double rate = 0;
        if (!counts(op->kind)) continue;
        for (int k = 0; k < op->nin + op->nout; k++) {
            int v = k < op->nin ? op->in[k] : op->out[k - op->nin];
            tensors[k] = (struct mt_tensor){.type = g->values[v].type, .naxes = g->values[v].naxes};
            for (int a = 0; a < tensors[k].naxes; a++)
                tensors[k].extent[a] = tensors[k].global[a] = mt_value_extent(g, v, a);
        }
        struct mt_call call = {.kind = op->kind,
                               .attr = &op->attr,
                               .nin = op->nin,
                               .nout = op->nout,
                               .in = tensors,
                               .out = tensors + op->nin};
        mt_op_shape(&call, &shape);
        shape.bytes = 0;
        for (int r = 0; r < costs->nranks; r++) {
            double floor_s = mt_cost_op(costs, r, &shape).floor_s;
            if (floor_s <= 0) return 0; /* no rate is known */
            rate += 1 / floor_s;
        }
        bound_s += 1 / rate;
    }
    return bound_s;
}
