/* matmul and fused_matmul by oneDNN's GEMM. GELU and ReLU also store their input, for the gradient. So they are a
 * separate pass over a block of rows of the GEMM's result that is still in cache. */
#include <omp.h>

#include "kernels/cpu/onednn/exp.h"
#include "kernels/cpu/onednn/internal.h"
#include "kernels/cpu/onednn/gemm.h"

static struct gemm_shape shape_of(const struct mt_call *call) {
    const struct mt_attr *attr = call->attr;
    const struct mt_tensor *a = &call->in[0], *b = &call->in[1];
    struct gemm_shape s = {.trans_a = attr->trans_a,
                           .trans_b = attr->trans_b,
                           .accumulate = attr->accumulate,
                           .bias = call->kind == MT_OP_fused_matmul,
                           .in = a->type,
                           .out = call->out[0].type,
                           .threads = onednn_threads()};
    s.m = mt_tensor_extent(a, attr->trans_a ? attr->nk : 0, attr->nm);
    s.k = mt_tensor_extent(a, attr->trans_a ? 0 : attr->nm, attr->nk);
    s.n = mt_tensor_extent(b, attr->trans_b ? 0 : attr->nk, attr->nn);
    s.lda = s.trans_a ? s.m : s.k;
    s.ldb = s.trans_b ? s.k : s.n;
    s.ldc = s.n;
    return s;
}

static bool activated(const struct mt_call *call) {
    return call->kind == MT_OP_fused_matmul && call->attr->epilogue != MT_OP_add;
}

/* Only epilogues with a bias are supported. */
static bool known(const struct mt_call *call) {
    return call->kind == MT_OP_matmul || mt_op_epilogue(call->attr->epilogue)->bias;
}

bool onednn_matmul_supports(const struct mt_call *call) {
    const struct mt_tensor *in = call->in;
    if (in[0].type != MT_F32 && in[0].type != MT_BF16) return false;
    if (in[1].type != in[0].type || call->attr->tf32 || !known(call)) return false;
    if (call->out[0].type != in[0].type && call->out[0].type != MT_F32) return false;
    struct gemm_shape s = shape_of(call);
    if (s.m == 0 || s.n == 0 || s.k == 0) return false;
    if (call->kind == MT_OP_fused_matmul && (in[2].type != in[0].type || call->attr->accumulate)) return false;
    struct mt_err err;
    const struct gemm *gemm;
    return gemm_get(&s, &gemm, &err) == MT_OK; /* fails where the CPU lacks bf16 */
}

/* Rows of a block when an activation follows: few enough that they stay in a cache, many enough that packing b again
 * for each block costs little. */
static int64_t block_rows(const struct gemm_shape *s) {
    int64_t rows = (int64_t)onednn_threads() * (4 << 20) / (s->n * mt_type_size(s->out));
    rows = round_up(rows < 64 ? 64 : rows, 64);
    return least(rows, s->m);
}

static enum mt_status gemms(const struct mt_call *call, const struct gemm **whole, const struct gemm **last,
                            struct gemm_shape *s, struct mt_err *err) {
    *s = shape_of(call);
    int64_t m = s->m;
    if (activated(call)) s->m = block_rows(s);
    enum mt_status st = gemm_get(s, whole, err);
    struct gemm_shape rest = *s;
    rest.m = m % s->m ? m % s->m : s->m;
    return st ? st : gemm_get(&rest, last, err);
}

int64_t onednn_matmul_scratch(const struct mt_call *call) {
    struct mt_err err;
    struct gemm_shape s;
    const struct gemm *whole, *last;
    if (gemms(call, &whole, &last, &s, &err)) return 0;
    int64_t a = gemm_scratch_bytes(whole), b = gemm_scratch_bytes(last);
    return a > b ? a : b;
}

/* (1 + tanh v) / 2 = 1 / (1 + exp(-2 v)) */
static inline float gelu_of(float x) {
    float v = -1.5957691216f * x * (1 + 0.044715f * x * x);
    v = v > 60 ? 60 : v;
    return x / (1 + fast_exp(v < -60 ? -60 : v));
}

MT_CLONES static void gelu(const float *restrict x, float *restrict y, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = gelu_of(x[i]);
}

MT_CLONES static void gelu_bf16(const mt_bf16 *restrict x, mt_bf16 *restrict y, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = mt_bf16_from_f32(gelu_of(mt_bf16_to_f32(x[i])));
}

MT_CLONES static void relu(const float *restrict x, float *restrict y, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = x[i] > 0 ? x[i] : 0;
}

MT_CLONES static void relu_bf16(const mt_bf16 *restrict x, mt_bf16 *restrict y, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = mt_bf16_to_f32(x[i]) > 0 ? x[i] : 0;
}

static void activate(enum mt_op_kind epilogue, enum mt_type type, const void *x, void *y, int64_t count) {
#pragma omp parallel num_threads(onednn_threads())
    {
        int64_t share = round_up((count + omp_get_num_threads() - 1) / omp_get_num_threads(), 64);
        int64_t from = least(share * omp_get_thread_num(), count), n = least(share, count - from);
        const char *in = (const char *)x + from * mt_type_size(type);
        char *out = (char *)y + from * mt_type_size(type);
        if (epilogue == MT_OP_gelu)
            type == MT_F32 ? gelu((const void *)in, (void *)out, n) : gelu_bf16((const void *)in, (void *)out, n);
        else
            type == MT_F32 ? relu((const void *)in, (void *)out, n) : relu_bf16((const void *)in, (void *)out, n);
    }
}

enum mt_status onednn_matmul_run(const struct mt_call *call, struct mt_err *err) {
    struct gemm_shape s;
    const struct gemm *whole, *last;
    enum mt_status st = gemms(call, &whole, &last, &s, err);
    int64_t m = shape_of(call).m, type_bytes = mt_type_size(s.in);
    const void *bias = s.bias ? call->in[2].data : NULL;
    for (int64_t row = 0; !st && row < m; row += s.m) {
        int64_t rows = least(s.m, m - row);
        const char *a = (const char *)call->in[0].data + row * (s.trans_a ? 1 : s.lda) * type_bytes;
        int64_t at = row * s.n * mt_type_size(s.out);
        char *sum = (char *)call->out[activated(call)].data + at;
        st = gemm_run(rows == s.m ? whole : last, a, call->in[1].data, bias, sum, call->scratch, err);
        if (!st && activated(call))
            activate(call->attr->epilogue, s.out, sum, (char *)call->out[0].data + at, rows * s.n);
    }
    return st;
}
