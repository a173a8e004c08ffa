/* The optimizer's operators: one scale for all gradients, and updates element by element. */
#include <assert.h>

#include "synth/ops/class.h"

int mt_op_grad_scale(struct mt_graph *graph, const char *name, int sq, int count, int loss_scale, double clip) {
    struct mt_draft d = mt_draft(graph, name, MT_OP_grad_scale);
    mt_draft_in(&d, sq, NULL);
    mt_draft_in(&d, count, NULL);
    if (loss_scale >= 0) mt_draft_in(&d, loss_scale, NULL);
    mt_draft_out(&d, "", graph->acc, 0, NULL);
    d.op.attr.clip = clip;
    return mt_draft_end(&d);
}

int mt_op_loss_scale(struct mt_graph *graph, const char *name, const int states[3], int sq, int64_t interval) {
    static const char *const suffix[] = {".scale", ".good", ".skipped"};
    struct mt_draft d = mt_draft(graph, name, MT_OP_loss_scale);
    for (int s = 0; s < 3; s++) mt_draft_in(&d, states[s], NULL);
    mt_draft_in(&d, sq, NULL);
    for (int s = 0; s < 3; s++) mt_draft_out(&d, suffix[s], graph->acc, 0, NULL);
    d.op.attr.interval = interval;
    return mt_graph_op(graph, name, &d.op);
}

int mt_op_update(struct mt_graph *graph, const char *name, enum mt_op_kind kind, const struct mt_attr *attr,
                 const int *in, int nin) {
    struct mt_draft d = mt_draft(graph, name, kind);
    int nout = mt_op_nout(kind, attr), index[MT_MAX_AXES],
        n = mt_draft_indices(&d, in[0], 0, graph->values[in[0]].naxes, index);
    for (int i = 0; i < nin; i++) { /* w, states and the gradient; then scalars */
        assert(graph->values[in[i]].naxes == (i <= nout ? n : 0));
        mt_draft_in(&d, in[i], index);
    }
    static const char *const suffix[] = {".w", ".m", ".v"};
    for (int o = 0; o < nout; o++) mt_draft_out(&d, suffix[o], graph->acc, n, index);
    d.op.attr = *attr;
    return mt_graph_op(graph, name, &d.op);
}

const struct mt_op_class mt_op_class_grad_scale = {0};
const struct mt_op_class mt_op_class_loss_scale = {0};
const struct mt_op_class mt_op_class_adamw = {0};
const struct mt_op_class mt_op_class_sgd = {0};
