/* Operators of the training graph: builders, and the properties that rules, the checker and costs need to know.
 *
 * A builder adds an operator (or a few) to a graph and returns its first output:
 *
 *     int h = mt_op_layer_norm(g, "h.0.ln_1", x, gamma, beta, 1e-5);
 *     int q = mt_op_matmul(g, "h.0.attn.c_attn", h, w, 1, 0);
 *
 * Outputs have the operator's name; further ones add ".lse" and the like. Shapes are in kernels/op/ops.def. Operands
 * that do not fit are bugs of the caller: asserts. Gradients' operators are added by mt_graph_differentiate.
 *
 * Each operator has a file here, which gives one row of properties for each of its kinds (class.h).
 *   role         what splitting an index does to the outputs (enum mt_index_role)
 *   linear set   a set of inputs in which the operator is linear
 *   gradient     of a value: the derivative of the loss with respect to it (JAX's cotangent)
 *   vjp          vector-Jacobian product: the gradients of an operator's inputs from those of its outputs */
#ifndef MT_SYNTH_OPS_OPS_H
#define MT_SYNTH_OPS_OPS_H

#include "synth/graph/graph.h"

/* a[m, k] b[k, n]: the last `nk` axes of a with the first of b; flags change where the k axes stand. */
enum { MT_TRANS_A = 1 /* a[k, m] */, MT_TRANS_B = 2 /* b[n, k] */, MT_OUT_ACC = 4 /* y has the type A */ };
int mt_op_matmul(struct mt_graph *graph, const char *name, int a, int b, int nk, int flags);

int mt_op_add(struct mt_graph *graph, const char *name, int a, int b); /* b has the last axes of a, or all */
int mt_op_gelu(struct mt_graph *graph, const char *name, int x);
int mt_op_relu(struct mt_graph *graph, const char *name, int x);
int mt_op_silu_mul(struct mt_graph *graph, const char *name, int gate, int up); /* silu(gate) up */
int mt_op_dropout(struct mt_graph *graph, const char *name, int x, double p);   /* x itself when p is 0 */
int mt_op_cast(struct mt_graph *graph, const char *name, int x, enum mt_type to);
int mt_op_fill(struct mt_graph *graph, const char *name, int like, double value, enum mt_type to);

int mt_op_sum(struct mt_graph *graph, const char *name, int x, unsigned axes); /* over these axes (bits) */
int mt_op_count(struct mt_graph *graph, const char *name, int target);
int mt_op_sq_norm(struct mt_graph *graph, const char *name, int x);

/* sum, norm_sqdev and norm_apply over the last axis; beta may be -1. */
int mt_op_layer_norm(struct mt_graph *graph, const char *name, int x, int gamma, int beta, double eps);

/* rms_sq and rms_apply over the last axis: x / sqrt(mean of x^2 + eps) * gamma. */
int mt_op_rms_norm(struct mt_graph *graph, const char *name, int x, int gamma, double eps);

/* x[batch, seq, heads, ..., headsize], turned by its positions; of *attr only rope_* are read (kernels/op/op.h). */
int mt_op_rotary(struct mt_graph *graph, const char *name, int x, const struct mt_attr *attr);

int mt_op_embedding(struct mt_graph *graph, const char *name, int table, int ids);

/* q[batch, seq, heads, headsize], kv[batch, keys, two, heads, headsize] -> o, as q; scores are divided by the root of
 * headsize. Each head of keys and values serves the same number of query heads: one where q's heads have kv's label;
 * grouped, q's heads are two axes, of which the first has kv's label. `keys` may be the label seq again. */
int mt_op_attention(struct mt_graph *graph, const char *name, int q, int kv, bool causal, double p);
/* Causal, where a query sees the last `window` keys up to its own; 0: all up to its own. */
int mt_op_window_attention(struct mt_graph *graph, const char *name, int q, int kv, int64_t window, double p);

/* The parts of a value along an axis: consecutive ranges of it, out[nparts]. Part p is named `name` with its suffix.
 * join: the reverse, a value of `naxes` axes, of which `axis` has the label `label`. */
struct mt_part {
    const char *suffix;
    int label; /* of the axis in the part: its extent; -1: the part lacks the axis, and is one place of it */
};
void mt_op_separate(struct mt_graph *graph, const char *name, int x, int axis, const struct mt_part *parts, int nparts,
                    int *out);
int mt_op_join(struct mt_graph *graph, const char *name, const int *parts, int nparts, int naxes, int axis, int label);

/* row_max, exp_sum, pick, nll and sum: the sum over all rows of x[..., v] whose target is not negative. */
int mt_op_cross_entropy(struct mt_graph *graph, const char *name, int x, int target);

/* Updates return the operator, whose outputs are the next states; the others their first output. */
int mt_op_grad_scale(struct mt_graph *graph, const char *name, int sq, int count, int loss_scale /* or -1 */,
                     double clip);
int mt_op_loss_scale(struct mt_graph *graph, const char *name, const int states[3], int sq, int64_t interval);
int mt_op_update(struct mt_graph *graph, const char *name, enum mt_op_kind kind, const struct mt_attr *attr,
                 const int *in, int nin);

/* Inputs and parameters by the names of their axes' labels, which must exist: "batch seq". In a parameter commas
 * separate the dimensions that a checkpoint has: "embed,three heads headsize". A parameter is a state of type
 * `acc`; what is returned is the value that operators compute with, a cast of it where the types differ.
 * Parameters of two dimensions or more decay. */
int mt_graph_input(struct mt_graph *graph, const char *name, enum mt_type type, const char *axes);
int mt_graph_param(struct mt_graph *graph, const char *name, const char *axes, enum mt_init init, double init_std);

/* ---- properties ---- */

enum mt_index_role {
    MT_INDEX_MAP, /* in every output; an output element reads its own place of the index, and all of an operand without
                   */
    MT_INDEX_SUM, /* outputs that lack it are sums over it */
    MT_INDEX_MAX, /* outputs that lack it are maxima over it */
    MT_INDEX_WHOLE, /* cannot be split */
};
enum mt_index_role mt_op_index_role(const struct mt_op *op, int index);

/* The linear sets: bit i of set s is input i. All inputs of one set may be partial sums together while all others are
 * not; then every output is a partial sum. Returns the number of sets. */
int mt_op_linear_sets(const struct mt_op *op, unsigned sets[MT_MAX_IN]);

/* Whether the operator's kernel yields multiprocessors to NCCL's: its many short blocks end one by one, and it goes on
 * with the multiprocessors that are left. A GEMM has one long block for each multiprocessor, and NCCL's kernel waits
 * for it. */
bool mt_op_yields(enum mt_op_kind kind);

/* Whether devices that are alike (mt_program.alike) compute the same bits from the same operands: the operators that
 * sum gradients of weights over samples, other than those of norms. All kernels give the same bits every time; which
 * kernel it is, and into how many parts it divides a sum, follows from the operands' extents, the device's class and,
 * on GPUs, from a tuning file that all ranks of a class have in common (launcher/tune). */
bool mt_op_repeats(enum mt_op_kind kind);

/* Floating-point operations of the operator when index i has extent[i]. */
double mt_op_flops(const struct mt_op *op, const int64_t *extent);
/* The whole extents of an operator's indices. */
void mt_op_extents(const struct mt_graph *graph, const struct mt_op *op, int64_t extent[MT_MAX_INDICES]);
/* Floating-point operations of all operators: one step on the whole batch. */
double mt_graph_flops(const struct mt_graph *graph);

#endif
