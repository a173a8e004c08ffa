/* gelu, relu, silu of a gate times another value, and their gradients, element-wise. */
#ifndef T
#include "kernels/cpu/c/internal.h"

#define TYPED_SOURCE "kernels/cpu/c/activation.c"
#define KINDS(row) row(gelu) row(gelu_grad) row(relu) row(relu_grad) row(silu_mul) row(silu_mul_grad)
#include "kernels/cpu/c/each_type.h"

#else

MT_CLONES static void TYPED(gelu_block)(int64_t n, const T *x, T *y) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        A v = LOAD(x[i]);
        y[i] = STORE(v / (1 + EXP(-GELU_TWICE_U(A, v))));
    }
}

MT_CLONES static void TYPED(gelu_grad_block)(int64_t n, const T *dout, const T *x, T *dinp) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        A v = LOAD(x[i]);
        A slope = GELU_TWICE_U_SLOPE(A, v);
        A s = 1 / (1 + EXP(-GELU_TWICE_U(A, v)));
        dinp[i] = STORE(LOAD(dout[i]) * (s + v * s * (1 - s) * slope));
    }
}

MT_CLONES static void TYPED(relu_block)(int64_t n, const T *x, T *y) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        A v = LOAD(x[i]);
        y[i] = STORE(v < 0 ? 0 : v);
    }
}

MT_CLONES static void TYPED(relu_grad_block)(int64_t n, const T *dout, const T *x, T *dinp) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        A slope = LOAD(x[i]), d = LOAD(dout[i]);
        dinp[i] = STORE(slope > 0 ? d : 0);
    }
}

static void TYPED(by_block)(const struct mt_call *call, void (*block)(int64_t, const T *, T *)) {
    int64_t n = mt_tensor_count(&call->out[0]);
    const T *x = call->in[0].data;
    T *y = call->out[0].data;
#pragma omp parallel for schedule(static) if (n >= WORTH_A_TEAM)
    for (int64_t at = 0; at < n; at += BLOCK) block(least(BLOCK, n - at), x + at, y + at);
}

static void TYPED(by_block_of_two)(const struct mt_call *call, void (*block)(int64_t, const T *, const T *, T *)) {
    int64_t n = mt_tensor_count(&call->out[0]);
    const T *a = call->in[0].data, *b = call->in[1].data;
    T *y = call->out[0].data;
#pragma omp parallel for schedule(static) if (n >= WORTH_A_TEAM)
    for (int64_t at = 0; at < n; at += BLOCK) block(least(BLOCK, n - at), a + at, b + at, y + at);
}

MT_CLONES static void TYPED(silu_mul_block)(int64_t n, const T *gate, const T *up, T *y) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        A v = LOAD(gate[i]);
        y[i] = STORE(v / (1 + EXP(-v)) * LOAD(up[i]));
    }
}

/* dgate may be gate, and dup may be up. */
MT_CLONES static void TYPED(silu_mul_grad_block)(int64_t n, const T *const in[3], T *dgate, T *dup) {
    const T *dout = in[0], *gate = in[1], *up = in[2];
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        A v = LOAD(gate[i]), d = LOAD(dout[i]), u = LOAD(up[i]);
        A s = 1 / (1 + EXP(-v));
        dgate[i] = STORE(d * u * (s + v * s * (1 - s)));
        dup[i] = STORE(d * (v * s));
    }
}

static void TYPED(silu_mul)(const struct mt_call *call) {
    TYPED(by_block_of_two)(call, TYPED(silu_mul_block));
}
static void TYPED(silu_mul_grad)(const struct mt_call *call) {
    int64_t n = mt_tensor_count(&call->out[0]);
    const T *dout = call->in[0].data, *gate = call->in[1].data, *up = call->in[2].data;
    T *dgate = call->out[0].data, *dup = call->out[1].data;
#pragma omp parallel for schedule(static) if (n >= WORTH_A_TEAM)
    for (int64_t at = 0; at < n; at += BLOCK) TYPED(silu_mul_grad_block)
    (least(BLOCK, n - at), (const T *[3]){dout + at, gate + at, up + at}, dgate + at, dup + at);
}
static void TYPED(gelu)(const struct mt_call *call) {
    TYPED(by_block)(call, TYPED(gelu_block));
}
static void TYPED(gelu_grad)(const struct mt_call *call) {
    TYPED(by_block_of_two)(call, TYPED(gelu_grad_block));
}
static void TYPED(relu)(const struct mt_call *call) {
    TYPED(by_block)(call, TYPED(relu_block));
}
static void TYPED(relu_grad)(const struct mt_call *call) {
    TYPED(by_block_of_two)(call, TYPED(relu_grad_block));
}
#endif
