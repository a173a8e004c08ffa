/* gelu, relu and their gradients, element by element. */
#ifndef T
#include "kernels/cpu/c/internal.h"

#define TYPED_SOURCE "kernels/cpu/c/activation.c"
#include "kernels/cpu/c/each_type.h"
C_OP(gelu, NULL, NULL);
C_OP(gelu_grad, NULL, NULL);
C_OP(relu, NULL, NULL);
C_OP(relu_grad, NULL, NULL);

#else

MT_CLONES static void TYPED(gelu_block)(int64_t n, const T *x, T *y) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        A v = LOAD(x[i]);
        y[i] = STORE(v / (1 + EXP(-GELU_TWICE_U(A, v))));
    }
}

MT_CLONES static void TYPED(gelu_grad_block)(int64_t n, const T *dy, const T *x, T *dx) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        A v = LOAD(x[i]);
        A slope = GELU_TWICE_U_SLOPE(A, v);
        A s = 1 / (1 + EXP(-GELU_TWICE_U(A, v)));
        dx[i] = STORE(LOAD(dy[i]) * (s + v * s * (1 - s) * slope));
    }
}

MT_CLONES static void TYPED(relu_block)(int64_t n, const T *x, T *y) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        A v = LOAD(x[i]);
        y[i] = STORE(v < 0 ? 0 : v);
    }
}

MT_CLONES static void TYPED(relu_grad_block)(int64_t n, const T *dy, const T *x, T *dx) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        A slope = LOAD(x[i]), d = LOAD(dy[i]);
        dx[i] = STORE(slope > 0 ? d : 0);
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
    const T *dy = call->in[0].data, *x = call->in[1].data;
    T *dx = call->out[0].data;
#pragma omp parallel for schedule(static) if (n >= WORTH_A_TEAM)
    for (int64_t at = 0; at < n; at += BLOCK) block(least(BLOCK, n - at), dy + at, x + at, dx + at);
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
