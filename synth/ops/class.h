/* What a file in synth/ops/ gives for each of its kinds, and what its builders are made with.
 *
 * A row is an object mt_op_class_KIND. The table is made from kernels/op/ops.def, so a kind that has none fails to
 * link.
 */
#ifndef MT_SYNTH_OPS_CLASS_H
#define MT_SYNTH_OPS_CLASS_H

#include "synth/ops/ops.h"

struct mt_vjp;

struct mt_op_class {
    /* What an index is to the outputs; null: MAP where every output has it, else SUM. */
    enum mt_index_role (*role)(const struct mt_op *op, int index);
    unsigned linear[3]; /* sets of inputs (bits), up to the first 0 */
    /* What flops of ops.def are counted for; null: each point of the space of all indices. */
    double (*points)(const struct mt_op *op, const int64_t *extent);
    unsigned untouched; /* inputs (bits) that are not read as a whole: they count by more_bytes; the others once */
    double (*more_bytes)(const struct mt_graph *graph, const struct mt_op *op, const int64_t *extent); /* or null */
    /* Add the operators that turn the gradients of the outputs into those of the inputs; null: has no derivative. `op`
     * is a copy. */
    void (*vjp)(struct mt_vjp *vjp, const struct mt_op *op);
};

#define MT_CLASS_true(kind)
#define MT_CLASS_false(kind) extern const struct mt_op_class mt_op_class_##kind;
#define MT_OP(kind, min_in, max_in, nout, in_types, out_types, in_place, exact, fused, ...) MT_CLASS_##fused(kind)
#include "kernels/op/ops.def"
#undef MT_OP
#undef MT_CLASS_true
#undef MT_CLASS_false

/* Of a kind that stands in graphs. */
const struct mt_op_class *mt_op_class(enum mt_op_kind kind);

/* Bytes of one operand whose axes have the indices `index`. */
double mt_op_operand_bytes(const struct mt_graph *graph, int value, const int *index, const int64_t *extent);

/* An operator being built, in the order: indices, inputs, outputs, end. */
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
int mt_draft_end(struct mt_draft *draft); /* adds it; returns the first output */

/* While an operator is differentiated. Gradients of values: -1 where nothing arrived. The first has what arrived, of
 * type T or A; the second a cast of it to the type of the value. */
struct mt_graph *mt_vjp_graph(struct mt_vjp *vjp);
int mt_vjp_gradient(struct mt_vjp *vjp, int value);
int mt_vjp_gradient_cast(struct mt_vjp *vjp, int value);
bool mt_vjp_wants(const struct mt_vjp *vjp, int value); /* depends on a parameter */
void mt_vjp_give(struct mt_vjp *vjp, int value, int gradient);
/* "NAME/grad_WHAT" */
const char *mt_vjp_name(struct mt_vjp *vjp, const char *what);

#endif
