/* gelu, relu and their gradients, element-wise. */
#ifndef T
#include "kernels/cpu/c/internal.h"

#define TYPED_SOURCE "kernels/cpu/c/activation.c"
#define KINDS(row) row(gelu) row(gelu_grad) row(relu) row(relu_grad)
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

static void TYPED(grad_by_block)(const struct mt_call *call, void (*block)(int64_t, const T *, const T *, T *)) {
    int64_t n = mt_tensor_count(&call->out[0]);
    const T *dout = call->in[0].data, *x = call->in[1].data;
    T *dinp = call->out[0].data;
#pragma omp parallel for schedule(static) if (n >= WORTH_A_TEAM)
    for (int64_t at = 0; at < n; at += BLOCK) block(least(BLOCK, n - at), dout + at, x + at, dinp + at);
}

static void TYPED(gelu)(const struct mt_call *call) {
    TYPED(by_block)(call, TYPED(gelu_block));
}
static void TYPED(gelu_grad)(const struct mt_call *call) {
    TYPED(grad_by_block)(call, TYPED(gelu_grad_block));
}
static void TYPED(relu)(const struct mt_call *call) {
    TYPED(by_block)(call, TYPED(relu_block));
}
static void TYPED(relu_grad)(const struct mt_call *call) {
    TYPED(grad_by_block)(call, TYPED(relu_grad_block));
}
#endif
