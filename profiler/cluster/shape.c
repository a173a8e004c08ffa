/* Shapes of calls: one function for each family of kinds. */
#include "profiler/cluster/shape.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static double extents(const struct mt_tensor *t, int first, int end) {
    double n = 1;
    for (int a = first; a < end; a++) n *= (double)t->extent[a];
    return n;
}

static double operand_bytes(const struct mt_tensor *t) {
    return extents(t, 0, t->naxes) * (double)mt_type_size(t->type);
}

static void add_variant(struct mt_op_shape *shape, const char *text) {
    size_t used = strlen(shape->variant);
    assert(used + strlen(text) < sizeof shape->variant);
    snprintf(shape->variant + used, sizeof shape->variant - used, "%s", text);
}

static void describe_gemm(const struct mt_call *call, struct mt_op_shape *shape) {
    const struct mt_attr *at = call->attr;
    const struct mt_tensor *a = &call->in[0], *b = &call->in[1];
    int first_m = at->trans_a ? at->nk : 0, first_k = at->trans_a ? 0 : at->nm, first_n = at->trans_b ? 0 : at->nk;
    double m = extents(a, first_m, first_m + at->nm), k = extents(a, first_k, first_k + at->nk);
    double n = extents(b, first_n, first_n + at->nn);
    bool summed = at->trans_a && !at->trans_b; /* as for a weight's gradient: k is the rows */
    shape->rows = (int64_t)(summed ? k : m);
    shape->dim[0] = (int64_t)(summed ? m : n);
    shape->dim[1] = (int64_t)(summed ? n : k);
    shape->flops = mt_op_info[call->kind].flops * m * n * k;
    add_variant(shape, at->trans_a ? "t" : "n");
    add_variant(shape, at->trans_b ? "t" : "n");
    if (call->kind == MT_OP_fused_matmul) {
        bool bare = at->epilogue == MT_OP_add;
        double over = at->epilogue == MT_OP_sum ? k * n : m * n;
        add_variant(shape, "+");
        add_variant(shape, bare ? "bias" : mt_op_info[at->epilogue].name);
        shape->flops += over * (bare ? 1 : mt_op_epilogue(at->epilogue)->bias + mt_op_info[at->epilogue].flops);
    }
    if (at->tf32 && a->type == MT_F32) add_variant(shape, "+tf32");
    if (call->out[0].type == a->type) return;
    add_variant(shape, "+");
    add_variant(shape, mt_type_name(call->out[0].type));
}

/* Keys that the first n queries see under a causal mask, each `window` at most. */
static double seen_by(double n, double window) {
    double behind = n - window; /* queries that do not see the first key */
    return n * (n + 1) / 2 - (window && behind > 0 ? behind * (behind + 1) / 2 : 0);
}

/* Of the whole sequence, where that is what the call has; a part of its queries, or of the keys that they see, counts
 * as the share of the pairs. */
static void describe_attention(const struct mt_call *call, struct mt_op_shape *shape) {
    const struct mt_attention a = mt_attention_of(call);
    bool causal = call->attr->causal;
    double s = (double)a.s, t = (double)a.t, first = (double)a.first, window = (double)a.window;
    double pairs = causal ? seen_by(first + s, window) - seen_by(first, window) : s * t;
    double all = causal ? seen_by(t, 0) : t * t, heads = (double)(a.b * a.heads);
    shape->kind = a.gradient ? MT_OP_attention_grad : MT_OP_attention; /* packed or not */
    shape->rows = a.s == a.t && !a.window ? a.b * a.heads : (int64_t)ceil(all > 0 ? heads * pairs / all : 0);
    shape->dim[0] = a.t;
    shape->dim[1] = a.d;
    shape->flops = mt_op_info[call->kind].flops * heads * pairs * (double)a.d;
    if (causal) add_variant(shape, "causal");
    if (call->attr->p > 0) add_variant(shape, "+drop");
    if (call->attr->any_order) add_variant(shape, "+any");
}

static void describe_embedding(const struct mt_call *call, struct mt_op_shape *shape) {
    bool gradient = call->kind == MT_OP_embedding_grad;
    const struct mt_tensor *table = gradient ? &call->out[0] : &call->in[0], *ids = &call->in[1];
    shape->rows = mt_tensor_count(ids);
    shape->dim[0] = table->extent[0];
    shape->dim[1] = table->extent[1];
    /* Of the table only the rows looked up are read: as many bytes as the output has. */
    if (!gradient) shape->bytes += operand_bytes(&call->out[0]) - operand_bytes(table);
}

/* Kinds over the last axis of input 0. */
static void describe_rows(const struct mt_call *call, struct mt_op_shape *shape) {
    const struct mt_tensor *x = &call->in[0];
    shape->rows = (int64_t)extents(x, 0, x->naxes - 1);
    shape->dim[0] = x->extent[x->naxes - 1];
    bool adds = (call->kind == MT_OP_layer_norm_grad && call->nin == 6) ||
                (call->kind == MT_OP_rms_norm_grad && call->nin == 5);
    bool sums = call->kind == MT_OP_layer_norm_grad && call->attr->epilogue == MT_OP_sum;
    if (adds) add_variant(shape, "+add");
    if (sums) add_variant(shape, "+sum");
    shape->flops += (adds + sums) * extents(x, 0, x->naxes);
    if (call->kind == MT_OP_cross_entropy || call->kind == MT_OP_cross_entropy_grad)
        shape->flops += mt_op_info[MT_OP_nll].flops * (double)shape->rows;
    /* Of each row one element is read: count that as the bytes of the output. */
    if (call->kind == MT_OP_pick) shape->bytes += operand_bytes(&call->out[0]) - operand_bytes(x);
}

/* Sums over leading or trailing axes, whose memory access differs. */
static void describe_sum(const struct mt_call *call, struct mt_op_shape *shape) {
    const struct mt_tensor *x = &call->in[0];
    unsigned axes = call->attr->axes, all = (1u << x->naxes) - 1;
    int summed = __builtin_popcount(axes);
    shape->rows = mt_tensor_count(x);
    if (axes == all)
        add_variant(shape, "all");
    else if (axes == (1u << summed) - 1) {
        add_variant(shape, "leading");
        shape->dim[0] = (int64_t)extents(x, summed, x->naxes);
    } else if (axes == (all & ~((1u << (x->naxes - summed)) - 1))) {
        add_variant(shape, "trailing");
        shape->dim[0] = (int64_t)extents(x, x->naxes - summed, x->naxes);
    } else
        add_variant(shape, "mixed");
}

static void describe_elements(const struct mt_call *call, struct mt_op_shape *shape) {
    const struct mt_tensor *x = call->kind == MT_OP_join ? &call->out[0] : &call->in[0];
    shape->rows = mt_tensor_count(x);
    if (call->kind == MT_OP_cast) add_variant(shape, mt_type_name(call->attr->to));
    if (call->kind == MT_OP_add && mt_tensor_count(&call->in[1]) != mt_tensor_count(x)) add_variant(shape, "broadcast");
    if (call->kind == MT_OP_fill) {
        shape->type = call->attr->to;
        shape->bytes -= operand_bytes(x); /* only its extents are read */
    }
}

void mt_op_shape(const struct mt_call *call, struct mt_op_shape *shape) {
    *shape = (struct mt_op_shape){.kind = call->kind, .type = call->in[0].type, .dim = {1, 1}};
    for (int i = 0; i < call->nin; i++) shape->bytes += operand_bytes(&call->in[i]);
    for (int o = 0; o < call->nout; o++) shape->bytes += operand_bytes(&call->out[o]);
    shape->flops = mt_op_info[call->kind].flops * extents(&call->in[0], 0, call->in[0].naxes);
    switch (call->kind) {
    case MT_OP_matmul:
    case MT_OP_fused_matmul: describe_gemm(call, shape); break;
    case MT_OP_attention:
    case MT_OP_attention_grad:
    case MT_OP_attention_packed:
    case MT_OP_attention_packed_grad: describe_attention(call, shape); break;
    case MT_OP_embedding:
    case MT_OP_embedding_grad: describe_embedding(call, shape); break;
    case MT_OP_sum: describe_sum(call, shape); break;
    case MT_OP_norm_sqdev:
    case MT_OP_norm_apply:
    case MT_OP_norm_dots:
    case MT_OP_norm_grad:
    case MT_OP_norm_param_grad:
    case MT_OP_rms_sq:
    case MT_OP_rms_apply:
    case MT_OP_rms_dot:
    case MT_OP_rms_grad:
    case MT_OP_rms_param_grad:
    case MT_OP_layer_norm:
    case MT_OP_residual_norm:
    case MT_OP_layer_norm_grad:
    case MT_OP_rms_norm:
    case MT_OP_residual_rms:
    case MT_OP_rms_norm_grad:
    case MT_OP_row_max:
    case MT_OP_exp_sum:
    case MT_OP_pick:
    case MT_OP_nll_grad:
    case MT_OP_cross_entropy:
    case MT_OP_cross_entropy_grad: describe_rows(call, shape); break;
    default: describe_elements(call, shape); break;
    }
    if (!call->attr->accumulate) return;
    add_variant(shape, "+acc");
    /* dx is not accumulated */
    int first = call->kind == MT_OP_layer_norm_grad || call->kind == MT_OP_rms_norm_grad;
    for (int o = first; o < call->nout; o++) shape->bytes += operand_bytes(&call->out[o]);
}

double mt_op_shape_work(const struct mt_op_shape *shape) {
    double rows = (double)shape->rows, d0 = (double)shape->dim[0], d1 = (double)shape->dim[1];
    switch (shape->kind) {
    case MT_OP_matmul:
    case MT_OP_fused_matmul: return rows * d0 * d1;
    case MT_OP_attention:
    case MT_OP_attention_grad: return rows * d0 * d0 * d1;
    case MT_OP_embedding: return rows * d1;
    case MT_OP_embedding_grad: return (rows + d0) * d1;
    case MT_OP_sum: return rows;
    default: return rows * d0;
    }
}

bool mt_op_shape_equal(const struct mt_op_shape *a, const struct mt_op_shape *b) {
    return a->kind == b->kind && a->type == b->type && a->rows == b->rows && a->dim[0] == b->dim[0] &&
           a->dim[1] == b->dim[1] && !strcmp(a->variant, b->variant);
}
