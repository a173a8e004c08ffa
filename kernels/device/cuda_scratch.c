/* One function a family, by the shapes alone; what depends on the GPU is computed for a large one. */
#include "kernels/device/cuda_scratch.h"

enum {
    WORKSPACE_BYTES = (32 << 20) + 256, /* of cuBLASLt, with its alignment */
    ALIGN = 256,
    EDGE_COLUMNS = 128,    /* of GEMMs with rows that are not multiples of 16 bytes */
    CUDNN_BYTES = 1 << 20, /* of a plan, in addition to scores */
    MOST_MULTIPROCESSORS = 192,
    ROW_BLOCKS = 6,       /* blocks of a multiprocessor that loop over rows, for sums over them */
    SUM_PARTS = 512 * 32, /* warps' columns of partial sums; each of at most 16 bytes of the narrowest type */
    NORM_PARTS = 4096,    /* partial sums of squares */
    SORT_ROWS = 1024,     /* that a block sorts */
    SORT_BINS = 1024,
    RUN_ROWS = 32 /* that are summed up at a time */
};

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int64_t of_sum(const struct mt_call *call) {
    return (int64_t)(16 / mt_type_size(call->in[0].type)) * SUM_PARTS * (int64_t)sizeof(float);
}

/* The workspace; and column sums of b, or the columns that strips leave over (kernels/cuda/gemm/strips.c). */
static int64_t of_gemm(const struct mt_call *call) {
    const struct mt_attr *attr = call->attr;
    int64_t size = mt_type_size(call->in[0].type), m = mt_tensor_extent(&call->out[0], 0, attr->nm);
    int64_t n = mt_tensor_extent(&call->out[0], attr->nm, attr->nn), k = m ? mt_tensor_count(&call->in[0]) / m : 0;
    bool sums = call->kind == MT_OP_fused_matmul && attr->epilogue == MT_OP_sum;
    bool odd = m * size % 16 || n * size % 16 || k * size % 16;
    if (!(m && n && k) && !sums) return 0;
    int64_t more = odd ? EDGE_COLUMNS * (m + n + k) * size + ALIGN : 0;
    if (sums) more = larger(more, larger(of_sum(call), n * (int64_t)sizeof(float)));
    return WORKSPACE_BYTES + more;
}

static int64_t of_sq_norm(const struct mt_call *call) {
    (void)call;
    return NORM_PARTS * (int64_t)sizeof(double);
}

/* Keys and rows twice, histograms, and two partial sums of each run. */
static int64_t of_embedding_grad(const struct mt_call *call) {
    int64_t n = mt_tensor_count(&call->in[1]), e = call->out[0].extent[1];
    int64_t blocks = (n + SORT_ROWS - 1) / SORT_ROWS, runs = (n + RUN_ROWS - 1) / RUN_ROWS;
    return 4 * (4 * n + SORT_BINS * (blocks + 1) + 2 * runs * e) + 7 * 64;
}

/* Sums (dgamma, dbeta and, if it is an output, the sum of dinp) of each block that loops over rows. */
static int64_t of_norm_grad(const struct mt_call *call) {
    const struct mt_tensor *x = &call->in[1];
    int64_t width = x->extent[x->naxes - 1], rows = width ? mt_tensor_count(x) / width : 0;
    bool whole = call->kind == MT_OP_layer_norm_grad || call->kind == MT_OP_rms_norm_grad; /* has dinp too */
    int64_t blocks = MOST_MULTIPROCESSORS * ROW_BLOCKS, sums = call->nout - whole;
    return (rows < blocks ? rows : blocks) * sums * width * (int64_t)sizeof(float);
}

static int64_t whole(int64_t n, int64_t unit) {
    return (n + unit - 1) / unit * unit;
}

/* Backward, cuDNN's keeps delta of each query and all scores; in any order, two times the sums of q's gradient instead
 * of scores; and where heads share keys and values, their gradients by head. */
static int64_t between(const struct mt_attention *a, int64_t samples, bool any_order) {
    const int64_t f32 = sizeof(float), heads = samples * a->heads, s = a->s, d = a->d;
    int64_t deltas = whole(heads * s * f32, ALIGN), scores = heads * whole(s, 128) * whole(s, 128) * 2;
    int64_t of_heads = heads * whole(s, 64) * d * f32, sums = whole(heads * s * d * f32, ALIGN) + of_heads;
    return deltas + (any_order ? sums : scores) + (a->groups < a->heads ? 2 * of_heads : 0);
}

/* What cuDNN needs where it can run the call, samples in equal parts if all at once want too much. */
static int64_t of_cudnn(const struct mt_call *call, const struct mt_attention *a, bool any_order) {
    if (a->first || a->s != a->t || !a->groups || !mt_type_is_half(a->q->type) || a->d % 8 || a->s <= 1 ||
        call->attr->p > 0)
        return 0;
    for (int64_t runs = 1; runs <= a->b; runs++) {
        int64_t more = a->gradient ? between(a, a->b / runs, any_order) : 0, bytes = CUDNN_BYTES + ALIGN + more;
        if (a->b % runs == 0 && bytes <= MT_CUDA_MOST_CUDNN_BYTES) return bytes;
    }
    return 0;
}

static int64_t of_attention(const struct mt_call *call) {
    const struct mt_attention a = mt_attention_of(call);
    return of_cudnn(call, &a, false);
}

/* Our kernels need lse and delta of each query. */
static int64_t of_attention_grad(const struct mt_call *call) {
    const struct mt_attention a = mt_attention_of(call);
    int64_t bytes = larger(a.b * a.heads * a.s * 2 * (int64_t)sizeof(float), of_cudnn(call, &a, false));
    return call->attr->any_order ? larger(bytes, of_cudnn(call, &a, true)) : bytes;
}

int64_t mt_cuda_scratch_bytes(const struct mt_call *call) {
    static int64_t (*const of_kind[MT_NOPS])(const struct mt_call *) = {[MT_OP_matmul] = of_gemm,
                                                                        [MT_OP_fused_matmul] = of_gemm,
                                                                        [MT_OP_sum] = of_sum,
                                                                        [MT_OP_sq_norm] = of_sq_norm,
                                                                        [MT_OP_count] = of_sq_norm,
                                                                        [MT_OP_embedding_grad] = of_embedding_grad,
                                                                        [MT_OP_norm_param_grad] = of_norm_grad,
                                                                        [MT_OP_layer_norm_grad] = of_norm_grad,
                                                                        [MT_OP_rms_param_grad] = of_norm_grad,
                                                                        [MT_OP_rms_norm_grad] = of_norm_grad,
                                                                        [MT_OP_attention] = of_attention,
                                                                        [MT_OP_attention_grad] = of_attention_grad,
                                                                        [MT_OP_attention_packed] = of_attention,
                                                                        [MT_OP_attention_packed_grad] =
                                                                            of_attention_grad};
    return of_kind[call->kind] ? of_kind[call->kind](call) : 0;
}
