/* What an operator's time depends on: kind, variant, precision and shape. Curves are named by it, so that a profile of
 * any device is the same table, and a program's operators find their times in it.
 *
 * `rows` is the one number that grows with the samples (of products: m, or k where the rows are summed away), dim[]
 * are the others; what the kind does not need is 1.
 *
 *   kind                      variant                        rows                dim[0], dim[1]
 *   matmul, fused_matmul      "nn" "nt" "tn" "tt", then      m; with "tn" k      n, k; with "tn" m, n
 *                             "+" and the epilogue
 *                             ("bias", "gelu", ...),
 *                             "+tf32"
 *                             "+f32" (another output type)
 *   attention(_grad)          "" "causal", then "+drop",     batch x heads       seq, headsize
 *                             "+any" (order)
 *   norms, row_max, exp_sum,  "", "+add" (layer_norm_grad    rows                width, 1
 *   pick, cross_entropy,      with a residual), "+sum" (of
 *   cross_entropy_grad,       its dx)
 *   nll_grad
 *   embedding(_grad)          ""                             ids                 vocab, embed
 *   sum                       "leading" "trailing" (axes),   elements            the others' elements; that
 *                             "mixed", "all"                                     axes' elements; 1
 *   element by element        "", or the target type;        elements            1, 1
 *                             add: "", "broadcast"
 *
 * What adds to the old content of its output has "+acc" at the end. */
#ifndef MT_PROFILER_CLUSTER_SHAPE_H
#define MT_PROFILER_CLUSTER_SHAPE_H

#include "kernels/op/op.h"
#include "profiler/cluster/cluster.h"

#define MT_VARIANT_TEXT 24

struct mt_op_shape {
    enum mt_op_kind kind;
    char variant[MT_VARIANT_TEXT];
    enum mt_type type;
    int64_t rows, dim[2];
    double flops; /* as ops.def counts them */
    double bytes; /* of the operands, each once; of a table only the rows that are wanted; what is added to, twice */
};
/* Of a well-formed call (data may be null). */
void mt_op_shape(const struct mt_call *call, struct mt_op_shape *shape);

/* Proportional to the shape's work: what a time can be divided by to be lent to another shape of the same kind. */
double mt_op_shape_work(const struct mt_op_shape *shape);

/* Seconds on a device of the class with speed 1. By the curve of that name and dims; else from the nearest curves of
 * that kind, variant and type (per flop or byte, weighted by distance in the logarithm of the dims); else of another
 * variant; else by the class's rates: overhead + max(flops / rate, bytes / memory_Bps). *error (may be null): relative
 * half-width, wider the further the figure was fetched. An empty box takes overhead_s, and what writing zeros takes. */
double mt_class_op_s(const struct mt_cluster_class *class, const struct mt_op_shape *shape, double *error);

/* Build curves from samples, in any order; equal names join, equal rows are medians. Empty boxes are left out. */
struct mt_curve_builder;
struct mt_curve_builder *mt_curves_new(void);
void mt_curves_sample(struct mt_curve_builder *builder, const struct mt_op_shape *shape, double time_s);
/* Into the class (its arena is the cluster's); curves of the same name that it has are replaced. Frees the builder. */
void mt_curves_finish(struct mt_curve_builder *builder, struct mt_cluster *cluster, struct mt_cluster_class *class);

#endif
