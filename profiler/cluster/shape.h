/* The shape of a call, on which its time depends: kind, variant, precision and sizes. It is also the key of curves, so
 * that the operators of a program find their times in any device's profile.
 *
 *     mt_op_shape(&call, &shape);
 *     double time_s = mt_class_op_s(class, &shape, &error) / device->speed;
 *
 * `rows` is the size that grows with the number of samples (of GEMMs: m, or k if that is summed over), dim[] are the
 * other sizes, 1 where the kind has none.
 *
 *   kind                      variant                        rows                dim[0], dim[1]
 *   matmul, fused_matmul      "nn" "nt" "tn" "tt", then      m; with "tn" k      n, k; with "tn" m, n
 *                             "+" and the epilogue
 *                             ("bias", "gelu", ...),
 *                             "+tf32"
 *                             "+f32" (another output type)
 *   attention(_grad), packed  "" "causal", then "+drop",     batch x heads, in   keys, headsize
 *   or not: one kind          "+any" (order)                 whole sequences
 *   norms, row_max, exp_sum,  "", "+add" (a norm's gradient   rows                width, 1
 *   pick, cross_entropy,      with a residual), "+sum" (of
 *   cross_entropy_grad,       its dx)
 *   nll_grad
 *   embedding(_grad)          ""                             ids                 vocab, embed
 *   sum                       "leading" "trailing" (axes),   elements            the others' elements; that
 *                             "mixed", "all"                                     axes' elements; 1
 *   element by element        "", or the target type;        elements            1, 1
 *                             add: "", "broadcast"
 *
 * Calls that accumulate into their output have "+acc" at the end of the variant. */
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
    double bytes; /* of the operands, each once; of a table only the rows looked up; of accumulated outputs twice */
};
/* The shape of a well-formed call (data may be null). */
void mt_op_shape(const struct mt_call *call, struct mt_op_shape *shape);
/* Apart from flops and bytes. */
bool mt_op_shape_equal(const struct mt_op_shape *a, const struct mt_op_shape *b);

/* A measure of the shape's work: times of two shapes of one kind are scaled by its ratio. */
double mt_op_shape_work(const struct mt_op_shape *shape);

/* Seconds on a device of the class with speed 1. By the curve of that name and dims; else from the nearest curves of
 * that kind, variant and type (per flop or byte, weighted by distance in the logarithm of the dims); else of another
 * variant; else by the class's rates: overhead + max(flops / rate, bytes / memory_Bps). *error (may be null): relative
 * half-width, larger the further the curves used are from the shape. An empty box takes overhead_s and the time of
 * writing zeros. */
double mt_class_op_s(const struct mt_cluster_class *class, const struct mt_op_shape *shape, double *error);

/* Build curves from samples in any order. Samples with equal names form a curve; a point is the median of equal rows.
 * Empty boxes are left out. */
struct mt_curve_builder;
struct mt_curve_builder *mt_curves_new(void);
void mt_curves_sample(struct mt_curve_builder *builder, const struct mt_op_shape *shape, double time_s);
/* Add the curves to the class, in the cluster's arena, replacing those of equal names. stolen: the fraction of the
 * devices' time that others used while the samples were taken, by which errors are wider. Frees the builder. */
void mt_curves_finish(struct mt_curve_builder *builder, double stolen, struct mt_cluster *cluster,
                      struct mt_cluster_class *class);

#endif
