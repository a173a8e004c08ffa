/* embedding: table[v, e], ids[...] -> y[..., e], and its gradient. */
#include <assert.h>

#include "synth/ops/class.h"

int mt_op_embedding(struct mt_graph *graph, const char *name, int table, int ids) {
    assert(graph->values[table].naxes == 2);
    struct mt_draft d = mt_draft(graph, name, MT_OP_embedding);
    int rows[MT_MAX_AXES], table_index[2];
    int n = mt_draft_indices(&d, ids, 0, graph->values[ids].naxes, rows);
    mt_draft_indices(&d, table, 0, 2, table_index);
    mt_draft_in(&d, table, table_index);
    mt_draft_in(&d, ids, rows);
    rows[n] = table_index[1];
    mt_draft_out(&d, "", graph->type, n + 1, rows);
    return mt_draft_end(&d);
}

/* Takes dy of either type: that of a position embedding is a sum over the batch, of type A. */
static void embedding_vjp(struct mt_vjp *vjp, const struct mt_op *op) {
    struct mt_graph *g = vjp->graph;
    int table = op->in[0], ids = op->in[1], dy = vjp->gradient[op->out[0]];
    struct mt_draft d = mt_draft(g, mt_vjp_name(vjp, "w"), MT_OP_embedding_grad);
    int rows[MT_MAX_AXES], table_index[2];
    int n = mt_draft_indices(&d, ids, 0, g->values[ids].naxes, rows);
    mt_draft_indices(&d, table, 0, 2, table_index);
    rows[n] = table_index[1];
    mt_draft_in(&d, dy, rows);
    mt_draft_in(&d, ids, rows);
    mt_draft_out(&d, "", g->acc, 2, table_index);
    mt_vjp_accumulate(vjp, table, mt_draft_end(&d));
}

/* The elements of dy. */
static double embedding_grad_points(const struct mt_op *op, const int64_t *extent) {
    double n = 1;
    for (int a = 0; a < MT_MAX_AXES && op->in_index[0][a] >= 0; a++) n *= (double)extent[op->in_index[0][a]];
    return n;
}

const struct mt_op_class mt_op_class_embedding = {.linear = {1u << 0}, .vjp = embedding_vjp};
const struct mt_op_class mt_op_class_embedding_grad = {.linear = {1u << 0}, .points = embedding_grad_points};
