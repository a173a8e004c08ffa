/* Inside the operators: what a file of this folder gives for each of its kinds, and what its builders are made with.
 *
 * A row is an object mt_op_class_KIND. The table is made from kernels/op/ops.def: a kind without a row fails to link.
 *
 *     static void gelu_vjp(struct mt_vjp *vjp, const struct mt_op *op) {
 *         int in[2] = {mt_vjp_gradient_cast(vjp, op->out[0]), op->in[0]};
 *         const char *name = mt_vjp_name(vjp, "x");
 *         mt_vjp_accumulate(vjp, op->in[0], mt_draft_map(vjp->graph, name, MT_OP_gelu_grad, type, 2, in, NULL));
 *     }
 *     const struct mt_op_class mt_op_class_gelu = {.vjp = gelu_vjp}; */
#ifndef MT_SYNTH_OPS_CLASS_H
#define MT_SYNTH_OPS_CLASS_H

#include "synth/ops/ops.h"

struct mt_vjp;

struct mt_op_class {
    /* The role of an index; null: MAP where every output has it, else SUM. */
    enum mt_index_role (*role)(const struct mt_op *op, int index);
    bool cheap; /* backward may compute it again at little cost; its gradient reads its inputs, which are so kept */
    unsigned linear[3]; /* the linear sets (mt_op_linear_sets): inputs as bits, up to the first 0 */
    /* The number of points that the flops of ops.def are multiplied by; null: the product of all extents. */
    double (*points)(const struct mt_op *op, const int64_t *extent);
    /* Add the operators that compute the gradients of the inputs from those of the outputs; null: not differentiable.
     * `op` is a copy: the graph's vector grows. */
    void (*vjp)(struct mt_vjp *vjp, const struct mt_op *op);
};

#define MT_CLASS_true(kind)
#define MT_CLASS_false(kind) extern const struct mt_op_class mt_op_class_##kind;
#define MT_OP(kind, min_in, max_in, nout, in_types, out_types, in_place, exact, fused, ...) MT_CLASS_##fused(kind)
#include "kernels/op/ops.def"
#undef MT_OP
#undef MT_CLASS_true
#undef MT_CLASS_false

/* The row of a kind; no fused kind has one. */
const struct mt_op_class *mt_op_class(enum mt_op_kind kind);

/* A draft: an operator being built, in the order indices, inputs, outputs, end. */
struct mt_draft {
    struct mt_graph *graph;
    const char *name;
    struct mt_op op;
};
struct mt_draft mt_draft(struct mt_graph *graph, const char *name, enum mt_op_kind kind);
/* New indices for axes [first, end) of `value`, written to index[]. Returns end - first. */
int mt_draft_indices(struct mt_draft *draft, int value, int first, int end, int *index);
void mt_draft_in(struct mt_draft *draft, int value, const int *index);
/* A new value with the labels of `index`; its name is the operator's with `suffix` added. */
int mt_draft_out(struct mt_draft *draft, const char *suffix, enum mt_type type, int naxes, const int *index);
/* Add the operator to the graph; a backward operator reads recomputed values (mt_graph_recomputed). Returns the first
 * output. */
int mt_draft_end(struct mt_draft *draft);
/* A whole operator that works element by element: all inputs and the output have the axes of in[0]. `attr` null: all
 * zero. Returns the output. */
int mt_draft_map(struct mt_graph *graph, const char *name, enum mt_op_kind kind, enum mt_type type, int nin,
                 const int *in, const struct mt_attr *attr);

struct mt_vjp {
    struct mt_graph *graph;
    int nvalues;         /* of the forward graph */
    int *gradient;       /* [nvalues]: the sum of the gradients so far, of type T or A; -1: none */
    bool *needs;         /* [nvalues]: depends on a parameter, so that it needs a gradient */
    const char *op_name; /* of the operator that is being differentiated */
};
/* gradient[value], cast to the value's own type. */
int mt_vjp_gradient_cast(struct mt_vjp *vjp, int value);
int mt_vjp_cast(struct mt_vjp *vjp, int gradient, enum mt_type type);
void mt_vjp_accumulate(struct mt_vjp *vjp, int value, int gradient);
/* "NAME/grad_WHAT", in the graph's arena. */
const char *mt_vjp_name(struct mt_vjp *vjp, const char *what);

#endif
