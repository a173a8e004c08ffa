/* The training graph of one device: values with labelled axes, the operators on them, and what is fed, kept and
 * reported.
 *
 *   label      the interned name of an extent: batch, seq, embed, heads, vocab, ffn, ...; every axis of a value has
 *              one, and one label may occur twice on a value
 *   index      a letter of an operator's signature (m, n, k of a matmul); each axis of each operand is one index, so
 *              that indices tell two occurrences of a label apart
 *   value      what is fed each step (input), kept from step to step (state), or made by an operator (temporary)
 *   parameter  a state that is trained: a master weight
 *   operator   one row of kernels/op/ops.def on values, with attributes; forward, backward or update by its role
 *   bundle     a forward operator with the backward operators that its differentiation added (mt_op.forward)
 *
 *     struct mt_graph *g = mt_graph_new(MT_F32);
 *     mt_graph_labels(g, labels, nlabels, err);
 *     int x = mt_graph_input(g, "x", MT_F32, "batch embed");                                  // ops.h
 *     int w = mt_graph_param(g, "fc.weight", "embed,ffn", MT_INIT_NORMAL, 0.02);
 *     int y = mt_op_matmul(g, "fc", x, w, 1, 0);
 *     ...                                                // loss_sum and token_count are set
 *     mt_graph_set_precision(g, &job);                   // autodiff.h
 *     mt_graph_recompute(g, job.recompute);
 *     mt_graph_differentiate(g, err);                    // adds gradients
 *     mt_graph_optimize(g, &job.optimizer, err);         // adds updates
 *     mt_graph_free(g);
 *
 * Ids are indices into the vectors and stay valid, because a graph only grows; pointers into the vectors do not.
 * Operators stand in an order of execution. Differentiation ends by reordering its own operators. */
#ifndef MT_SYNTH_GRAPH_GRAPH_H
#define MT_SYNTH_GRAPH_GRAPH_H

#include <stdio.h>

#include "kernels/base/arena.h"
#include "kernels/base/err.h"
#include "kernels/op/op.h"
#include "synth/job/job.h"

#define MT_MAX_INDICES 12

struct mt_label {
    const char *name;
    int64_t extent;
    int64_t align; /* shares are multiples of this, but for one that takes the remainder */
};

enum mt_value_kind {
    MT_VALUE_INPUT, /* fed each step: tokens, targets */
    MT_VALUE_STATE, /* kept from step to step: master weights, optimizer state */
    MT_VALUE_TEMP,  /* made by an operator */
};

enum mt_init { MT_INIT_ZERO, MT_INIT_ONE, MT_INIT_NORMAL, MT_INIT_CONSTANT };

struct mt_value {
    const char *name; /* unique; parameters have their checkpoint name: "h.0.attn.c_attn.weight" */
    enum mt_value_kind kind;
    enum mt_type type;
    int naxes;
    int label[MT_MAX_AXES];
    int producer; /* the operator whose output it is, or -1 */
    bool param;   /* a parameter; its optimizer states name it as `owner` */
    int owner;    /* optimizer state: its parameter; else -1 */
    int next;     /* a state: the value that replaces it at the end of the step; else -1 */
    int gradient; /* of a differentiated parameter: type A, summed over all samples; else -1 */
    enum mt_init init;
    double init_std; /* NORMAL: the standard deviation; CONSTANT: the number */
    bool decay;      /* weight decay applies */
    /* The shape in a checkpoint: axes grouped into `ndims` dimensions; group_end[d] is the axis after dimension d. */
    int ndims, group_end[MT_MAX_AXES];
};

enum mt_op_role { MT_ROLE_FORWARD, MT_ROLE_BACKWARD, MT_ROLE_UPDATE };

struct mt_op {
    enum mt_op_kind kind;
    const char *name; /* "h.0.mlp.c_fc", "h.0.mlp.c_fc/grad_w": unique */
    enum mt_op_role role;
    int forward; /* backward: the forward operator of its bundle; update: the parameter; else -1 */
    bool cheap;  /* MT_RECOMPUTE_POINTWISE computes it again (class.h) */
    struct mt_attr attr;
    int nin, nout;
    int in[MT_MAX_IN], out[MT_MAX_OUT];
    int nindices;
    int index_label[MT_MAX_INDICES];
    int in_index[MT_MAX_IN][MT_MAX_AXES]; /* operand axis -> index; -1 after the last axis */
    int out_index[MT_MAX_OUT][MT_MAX_AXES];
};

struct mt_name {
    const char *name;
    int id;
    int copies; /* NAME.2 ... NAME.copies are taken */
};
/* Names to ids: open addressing, in the graph's arena. */
struct mt_names {
    struct mt_name *slots;
    int count, capacity;
};

struct mt_graph {
    struct mt_arena arena;
    struct mt_label *labels;
    struct mt_value *values;
    struct mt_op *ops;
    int nlabels, nvalues, nops;
    int labels_capacity, values_capacity, ops_capacity;
    int batch;                  /* the label of samples, or -1 */
    int loss_sum, token_count;  /* scalars: the sum of the losses, and their number; -1 until built */
    int logits, sq_norm, scale; /* reported values; -1 if absent */
    enum mt_type type, acc;
    bool tf32;                                 /* GEMMs of f32 may round operands to tf32 */
    bool any_order;                            /* attention may sum gradients in any order */
    int loss_scale, good_steps, skipped_steps; /* states of loss scaling; -1: none */
    int64_t growth_interval;                   /* of loss_scale, in steps */
    enum mt_op_role role;                      /* given, with `forward`, to every operator that is added */
    int forward;
    uint64_t tags; /* random streams in use; the last tag given out */
    /* [nrecomputed]: of each forward value, whether it is kept, dropped, or the copy that backward reads (recompute.c);
     * null: all are kept */
    int *recomputed, nrecomputed;
    struct mt_names value_names, op_names;
};

struct mt_graph *mt_graph_new(enum mt_type activation_type);
void mt_graph_free(struct mt_graph *graph);

/* Intern a label. MT_EINPUT, with the name and both extents, if it exists with another extent. */
enum mt_status mt_graph_label(struct mt_graph *graph, const char *name, int64_t extent, int64_t align, int *label,
                              struct mt_err *err);
/* Intern a model's labels; the one named "batch" becomes the graph's batch. */
enum mt_status mt_graph_labels(struct mt_graph *graph, const struct mt_label *labels, size_t nlabels,
                               struct mt_err *err);

/* Add a value; `name` is copied and made unique by adding ".2", ... */
int mt_graph_value(struct mt_graph *graph, const char *name, enum mt_value_kind kind, enum mt_type type, int naxes,
                   const int *labels);
/* The parameter that `value` is, or is a cast of; or -1. */
int mt_graph_param_of(const struct mt_graph *graph, int value);

/* Add an operator whose operands, attributes and index maps are set in *op; returns its id. Types and labels are
 * checked by assert, because builders are our own code. */
int mt_graph_op(struct mt_graph *graph, const char *name, const struct mt_op *op);
/* Reorder the `count` operators from `first` on: operator order[i] moves to first + i. Their ids change; no other
 * operator may name one of them as its `forward`. */
void mt_graph_reorder(struct mt_graph *graph, int first, const int *order, int count);

int mt_graph_find_value(const struct mt_graph *graph, const char *name); /* or -1 */
int mt_graph_find_label(const struct mt_graph *graph, const char *name); /* or -1 */
int64_t mt_graph_parameters(const struct mt_graph *graph);               /* elements of all parameters */
int64_t mt_value_count(const struct mt_graph *graph, int value);         /* elements */
static inline int64_t mt_value_extent(const struct mt_graph *g, int v, int axis) {
    return g->labels[g->values[v].label[axis]].extent;
}

/* The axis by which a parameter and its optimizer state are sharded: the longest (the first of equals), or an outer one
 * of at least 256 elements and a quarter of the longest, because shares of outer axes are longer contiguous runs; -1
 * for a scalar. */
int mt_sharding_axis(const struct mt_graph *graph, int value);
/* The labels of all parameters' sharding axes, each once, in order of parameters, to labels[graph->nlabels]. Returns
 * how many. */
int mt_sharding_labels(const struct mt_graph *graph, int *labels);

/* Choose the forward values that backward recomputes instead of keeping them; before differentiation. */
void mt_graph_recompute(struct mt_graph *graph, enum mt_recompute what);
/* The value that a backward operator reads in the place of `value`: itself, or its recomputed copy, whose operators the
 * first call adds. */
int mt_graph_recomputed(struct mt_graph *graph, int value);

/* Print labels, values that are fed or kept, and operators with their attributes. */
void mt_graph_print(const struct mt_graph *graph, FILE *file);
/* 32 hex digits: the hash of what mt_graph_print prints, which is all that decides what is computed. */
void mt_graph_hash(const struct mt_graph *graph, char out[33]);

#endif
