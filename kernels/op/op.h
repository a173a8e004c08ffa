/* Operators as devices run them: the table of kinds, their attributes, and calls.
 *
 *     struct mt_call call = {.kind = MT_OP_gelu, .attr = &attr, .nin = 1, .nout = 1, .in = &x, .out = &y};
 *     if (mt_backend_c.supports(&call)) st = mt_backend_c.run(&call, &err);
 *
 * A tensor is one rank's box of a value: contiguous, row-major, with the box's offset in the whole value, so that an
 * operator whose index is split (embedding over `vocab`, dropout over any axis) knows its place. Axes are *atoms*: rows
 * are [batch, seq], a fused projection is [3, heads, headsize]. Extents may be zero: an empty sum is 0, an empty
 * maximum -inf, and outputs are always written in full.
 *
 * `T` is the job's activation type, `A` its accumulation type (type.h). ops.def gives each operand's type. */
#ifndef MT_KERNELS_OP_OP_H
#define MT_KERNELS_OP_OP_H

#include "kernels/base/err.h"
#include "kernels/base/number/type.h"

#define MT_MAX_AXES 6
#define MT_MAX_IN 8
#define MT_MAX_OUT 4

enum mt_op_kind {
#define MT_OP(kind, ...) MT_OP_##kind,
#include "kernels/op/ops.def"
#undef MT_OP
    MT_NOPS
};

/* Attributes; each kind reads those that ops.def names for it, the others are zero. */
struct mt_attr {
    /* matmul: y[m, n] = sum over k of a[m, k] b[k, n], m, n and k being groups of nm, nn and nk axes. a is
     * stored as [k, m] if trans_a, b as [n, k] if trans_b. */
    int nm, nn, nk;
    bool trans_a, trans_b;
    bool out_acc; /* y has type A, not T (weight gradients) */
    bool tf32;    /* f32 operands are rounded to 10 bits of mantissa; sums are in f32 (also fused_matmul) */

    unsigned axes; /* add: the axes of `a` that `b` has, in order; sum: the axes that are summed away (bits) */

    int axis;  /* separate, join: of the whole, by which it is divided */
    int parts; /* separate: the number of outputs */

    double p;     /* dropout, attention*: the probability of dropping an element */
    uint64_t tag; /* dropout, attention*: number of the random stream; equal in forward and backward */

    double scale;   /* attention*: of the scores, before the softmax */
    bool causal;    /* attention* */
    int64_t window; /* attention*, if causal: a query sees so many keys at most, its own the last; 0: all up to it */
    bool any_order; /* attention*_grad: sums may be in any order, so that bits may differ between runs */
    double eps;     /* *norm*, *rms*: added to the mean square; adamw: to the root */

    /* rotary: see mt_rotary_frequency; `inverse` turns back */
    double rope_base, rope_factor, rope_low, rope_high;
    int64_t rope_context;
    bool inverse;

    double value;    /* fill, cross_entropy_grad */
    enum mt_type to; /* cast, fill: the output's type; adamw: the cast's; cross_entropy_grad: A */
    double clip;     /* grad_scale: the largest global norm; 0 = no clipping */
    double beta1, beta2, momentum, decay, lr_scale; /* adamw, sgd; lr_scale multiplies the clock's rate */
    bool nesterov;
    int64_t interval; /* loss_scale: steps without overflow after which it grows */

    /* Set by lowering only. */
    /* matmul, fused_matmul with sum, embedding_grad, sum, norm_param_grad, rms_param_grad, layer_norm_grad and
     * rms_norm_grad (all but dx): add to the outputs' old content */
    bool accumulate;
    /* fused_matmul: MT_OP_add, gelu, relu, gelu_grad, relu_grad or sum; layer_norm_grad: sum, or zero; adamw: cast, or
     * zero */
    enum mt_op_kind epilogue;
};

/* Bounds of the loss scale, which is always a power of two. Gradients are sums over samples, so it may be below 1. */
#define MT_LOSS_SCALE_LEAST 0x1p-14
#define MT_LOSS_SCALE_MOST 0x1p24

struct mt_tensor {
    void *data; /* may be null when an extent is zero */
    enum mt_type type;
    int naxes;
    int64_t extent[MT_MAX_AXES]; /* of this rank's box */
    int64_t offset[MT_MAX_AXES]; /* of the box in the value; on the batch axis the sample's global number */
    int64_t global[MT_MAX_AXES]; /* of the value */
};

/* The product of `count` extents from axis `first` on. */
static inline int64_t mt_tensor_extent(const struct mt_tensor *t, int first, int count) {
    int64_t n = 1;
    for (int a = first; a < first + count; a++) n *= t->extent[a];
    return n;
}
static inline int64_t mt_tensor_count(const struct mt_tensor *t) {
    return mt_tensor_extent(t, 0, t->naxes);
}
static inline int64_t mt_tensor_bytes(const struct mt_tensor *t) {
    return mt_tensor_count(t) * mt_type_size(t->type);
}

/* What changes from step to step. */
struct mt_clock {
    int64_t step; /* from 1: number of the update being computed */
    uint64_t seed;
    double lr; /* this step's learning rate */
};

struct mt_call {
    enum mt_op_kind kind;
    const struct mt_attr *attr;
    int nin, nout;
    const struct mt_tensor *in;
    const struct mt_tensor *out;
    const struct mt_clock *clock;
    void *scratch;    /* of the size that the backend asked for, 64-byte aligned; null if that is zero */
    const char *what; /* for messages: the operator's name in its graph; or null */
    /* 0: one call. Else a multi-tensor launch of so many calls, for kinds that the device merges (mt_device_merges).
     * All have the same types and numbers of operands; attr, in (nin each) and out (nout each) are arrays over the
     * calls. No call reads or writes what another writes, except that input 1 of sq_norm_add is the previous call's
     * output. */
    int ncalls;
};

static inline int mt_call_count(const struct mt_call *call) {
    return call->ncalls ? call->ncalls : 1;
}
/* Call i of a multi-tensor launch. */
static inline struct mt_call mt_call_nth(const struct mt_call *call, int i) {
    struct mt_call part = *call;
    part.attr += i, part.in += i * call->nin, part.out += i * call->nout;
    part.ncalls = 0;
    return part;
}

struct mt_op_info {
    const char *name;
    int min_in, max_in, nout;         /* nout: at most, see mt_op_nout */
    const char *in_types, *out_types; /* one letter an operand: T, A, I (i32), S (same as the input 0), * (attr) */
    int in_place[MT_MAX_OUT];         /* the input whose memory output o may take, or -1 */
    bool exact;         /* same bits on every device: element-wise, with a fixed order of operations and roundings */
    bool fused;         /* made by lowering, never in a graph */
    const char *shapes; /* "*e,*>*": see ops.def; "" where mt_call_check has the rules */
    double flops;       /* for each element of input 0, or as ops.def says */
};
extern const struct mt_op_info mt_op_info[MT_NOPS];

/* The number of outputs of a call: info->nout, but for fused_matmul, layer_norm_grad and adamw according to the
 * epilogue, for separate the parts. */
int mt_op_nout(enum mt_op_kind kind, const struct mt_attr *attr);

/* The operands of fused_matmul by its epilogue. */
struct mt_op_epilogue {
    enum mt_op_kind kind;
    int nin, nout;
    bool bias;  /* input 2 is [n]; else, where there is one, [m, n] */
    bool whole; /* output 1, where there is one, is [m, n] of type T; else [n] of type A */
    bool sums;  /* out_acc and accumulate may be set, as in matmul */
};
/* Null where there is no such epilogue. */
const struct mt_op_epilogue *mt_op_epilogue(enum mt_op_kind kind);

/* Check that a call is well formed: operands, types, extents, attributes, memory where there are elements. Backends
 * assume it. MT_EBUG with the operator, operand and reason otherwise. */
enum mt_status mt_call_check(const struct mt_call *call, struct mt_err *err);

/* The shape pattern of an operand (inputs, then outputs) in its row of ops.def, such as "*e", and its length; null
 * where the row has none. The row has a pattern for every input, also for optional ones that a call omits. */
const char *mt_call_pattern(const struct mt_call *call, int operand, int *letters);

/* Attention and its gradient, on queries apart from keys and values, or packed. */
static inline bool mt_op_is_attention(enum mt_op_kind kind) {
    return kind == MT_OP_attention || kind == MT_OP_attention_packed;
}
static inline bool mt_op_is_attention_grad(enum mt_op_kind kind) {
    return kind == MT_OP_attention_grad || kind == MT_OP_attention_packed_grad;
}

/* What a call of attention or its gradient works on, whether packed or not. */
struct mt_attention {
    bool gradient, packed;
    const struct mt_tensor *q, *kv;    /* packed: both are qkv */
    const struct mt_tensor *dq, *dkv;  /* of a gradient; packed: both are dqkv */
    int64_t b, s, t, heads, groups, d; /* of the box: samples, queries, keys, query heads, heads of keys and values */
    int64_t share;  /* query heads of a head of keys and values: heads / groups, 0 if there are none */
    int64_t first;  /* the first query's position in the whole value */
    int64_t window; /* the attribute; 0 where it hides no key from any query of the box */
    /* Of the whole value, by which dropout draws: queries, query heads, query heads of a group; and the box's first
     * sample, group, and query head of each group. */
    int64_t all_s, all_heads, all_share, first_sample, first_group, first_in_group;
    int64_t q_row, kv_row; /* elements from one position to the next */
    int64_t k_at, v_at;    /* elements from kv's memory to the first key and value */
};
struct mt_attention mt_attention_of(const struct mt_call *call);
/* The number in the whole value of the box's query head `head`. */
static inline int64_t mt_attention_head(const struct mt_attention *a, int64_t head) {
    return (a->first_group + head / a->share) * a->all_share + a->first_in_group + head % a->share;
}

/* Radians by which one position turns pair i of a head of `size` elements: f = rope_base^(-2i/size). With a rope_factor
 * (Llama 3: contexts longer than rope_context, that of the first training), waves longer than rope_context / rope_low
 * are slowed by the factor, those shorter than rope_context / rope_high are kept, and between them
 * f = (1 - t) f / rope_factor + t f, where t = (rope_context / wavelength - rope_low) / (rope_high - rope_low). */
double mt_rotary_frequency(const struct mt_attr *attr, int64_t i, int64_t size);

/* The bound of integer inputs, which are below it: the rows of a table, or classes; 0: no bound. */
int64_t mt_call_ids_below(const struct mt_call *call);

/* Dropout, also within attention: an element is dropped when mt_random_u32(seed, stream, index) is below the
 * threshold. */
static inline uint32_t mt_drop_threshold(double p) {
    double below = p * 0x1p32;
    return below >= 0x1p32 - 1 ? UINT32_MAX : (uint32_t)below + (below > (double)(uint32_t)below);
}
static inline uint64_t mt_drop_stream(const struct mt_attr *attr, const struct mt_clock *clock) {
    return attr->tag + ((uint64_t)clock->step << 20);
}

/* An implementation of operators. Backends are asked in order; the first that `supports` a call runs it. */
struct mt_backend {
    const char *name;
    bool (*supports)(const struct mt_call *call);
    int64_t (*scratch_bytes)(const struct mt_call *call); /* for this call's shapes */
    enum mt_status (*run)(const struct mt_call *call, struct mt_err *err);
};

/* Plain C: every kind, in f64, f32, bf16 and f16; always available; the reference. */
extern const struct mt_backend mt_backend_c;

/* The oneDNN module, or null with the reason in `err` when it cannot be loaded; loaded once. */
const struct mt_backend *mt_backend_onednn(struct mt_err *err);

#endif
