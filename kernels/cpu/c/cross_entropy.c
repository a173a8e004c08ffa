/* Cross entropy over the last axis: in steps that can be split over it, and fused; and its gradient.
 *
 * The fused kernel goes over a row once, by pieces that stay in the innermost cache: a piece's maximum, then its
 * exponentials; a larger maximum rescales the sum so far. */
#ifndef T
#include "kernels/cpu/c/internal.h"

enum { PIECE = 2048 };

/* Where in the box the target is, or -1. */
static int64_t target_at(const struct mt_tensor *x, int32_t target) {
    int64_t at = target - x->offset[x->naxes - 1];
    return target >= 0 && at >= 0 && at < last_extent(x) ? at : -1;
}

#define TYPED_SOURCE "kernels/cpu/c/cross_entropy.c"
#include "kernels/cpu/c/each_type.h"
C_OP(row_max, NULL, NULL);
C_OP(exp_sum, NULL, NULL);
C_OP(pick, NULL, NULL);
C_OP(nll, NULL, NULL);
C_OP(nll_grad, NULL, NULL);
C_OP(cross_entropy, NULL, NULL);
C_OP(cross_entropy_grad, NULL, NULL);

#else

/* A piece of a row as A, and its maximum. */
MT_CLONES static A TYPED(load_piece)(int64_t n, const T *restrict x, A *restrict to) {
    A m = (A)-INFINITY;
#pragma omp simd reduction(max : m)
    for (int64_t j = 0; j < n; j++) {
        A v = LOAD(x[j]);
        to[j] = v;
        m = v > m ? v : m;
    }
    return m;
}

/* m is finite, or there is nothing above -inf to sum. */
MT_CLONES static A TYPED(exp_sum_of)(int64_t n, A m, const A *x) {
    A z = 0;
    if (m == (A)-INFINITY) return 0;
#pragma omp simd reduction(+ : z)
    for (int64_t j = 0; j < n; j++) z += EXP(x[j] - m);
    return z;
}

MT_CLONES static void TYPED(softmax_grad)(int64_t n, A m, A factor, const T *x, T *dx) {
#pragma omp simd
    for (int64_t j = 0; j < n; j++) dx[j] = STORE(EXP(LOAD(x[j]) - m) * factor);
}

static A TYPED(nll_of)(A m, A z, A picked, int32_t target) {
    return target < 0 ? 0 : LOG(z) + (m - picked);
}

static void TYPED(row_max)(const struct mt_call *call) {
    const T *x = call->in[0].data;
    A *m = call->out[0].data;
    int64_t v = last_extent(&call->in[0]), rows = row_count(&call->in[0]);
#pragma omp parallel for schedule(static) if (rows * v >= WORTH_A_TEAM)
    for (int64_t r = 0; r < rows; r++) {
        A piece[PIECE], most = (A)-INFINITY;
        for (int64_t at = 0; at < v; at += PIECE) {
            A here = TYPED(load_piece)(least(PIECE, v - at), x + r * v + at, piece);
            most = here > most ? here : most;
        }
        m[r] = most;
    }
}

static void TYPED(exp_sum)(const struct mt_call *call) {
    const T *x = call->in[0].data;
    const A *m = call->in[1].data;
    A *z = call->out[0].data;
    int64_t v = last_extent(&call->in[0]), rows = row_count(&call->in[0]);
#pragma omp parallel for schedule(static) if (rows * v >= WORTH_A_TEAM)
    for (int64_t r = 0; r < rows; r++) {
        A piece[PIECE], sum = 0;
        for (int64_t at = 0; at < v; at += PIECE) {
            int64_t n = least(PIECE, v - at);
            TYPED(load_piece)(n, x + r * v + at, piece);
            sum += TYPED(exp_sum_of)(n, m[r], piece);
        }
        z[r] = sum;
    }
}

static void TYPED(pick)(const struct mt_call *call) {
    const T *x = call->in[0].data;
    const int32_t *target = call->in[1].data;
    A *picked = call->out[0].data;
    int64_t v = last_extent(&call->in[0]), rows = row_count(&call->in[0]);
    for (int64_t r = 0; r < rows; r++) {
        int64_t at = target_at(&call->in[0], target[r]);
        picked[r] = at < 0 ? 0 : LOAD(x[r * v + at]);
    }
}

static void TYPED(nll)(const struct mt_call *call) {
    const A *m = call->in[0].data, *z = call->in[1].data, *picked = call->in[2].data;
    const int32_t *target = call->in[3].data;
    A *l = call->out[0].data;
    int64_t rows = mt_tensor_count(&call->out[0]);
    for (int64_t r = 0; r < rows; r++) l[r] = TYPED(nll_of)(m[r], z[r], picked[r], target[r]);
}

/* dx of one row, dl being its loss's gradient; at: where the target is, or -1. dx may be x. */
static void TYPED(row_grad)(int64_t v, int64_t at, A m, A z, A dl, const T *x, T *dx) {
    A factor = z > 0 ? dl / z : 0, there = at < 0 ? 0 : EXP(LOAD(x[at]) - m) * factor - dl;
    TYPED(softmax_grad)(v, m, factor, x, dx);
    if (at >= 0) dx[at] = STORE(there);
}

static void TYPED(nll_grad)(const struct mt_call *call) {
    const T *x = call->in[0].data;
    const A *m = call->in[1].data, *z = call->in[2].data, *dl = call->in[4].data;
    const int32_t *target = call->in[3].data;
    T *dx = call->out[0].data;
    int64_t v = last_extent(&call->in[0]), rows = row_count(&call->in[0]);
    if (!v) return;
#pragma omp parallel for schedule(static) if (rows * v >= WORTH_A_TEAM)
    for (int64_t r = 0; r < rows; r++) {
        if (target[r] < 0)
            memset(dx + r * v, 0, (size_t)v * sizeof(T));
        else
            TYPED(row_grad)(v, target_at(&call->in[0], target[r]), m[r], z[r], dl[r], x + r * v, dx + r * v);
    }
}

/* The maximum of a row, and the sum of the exponentials under it. */
static void TYPED(row_sum)(int64_t v, const T *x, A *m, A *z) {
    A piece[PIECE], most = (A)-INFINITY, sum = 0;
    for (int64_t at = 0; at < v; at += PIECE) {
        int64_t n = least(PIECE, v - at);
        A here = TYPED(load_piece)(n, x + at, piece);
        if (here > most) {
            sum = sum > 0 ? sum * EXP(most - here) : 0;
            most = here;
        }
        sum += TYPED(exp_sum_of)(n, most, piece);
    }
    *m = most, *z = sum;
}

static void TYPED(cross_entropy)(const struct mt_call *call) {
    const T *x = call->in[0].data;
    const int32_t *target = call->in[1].data;
    A *m = call->out[0].data, *z = call->out[1].data, *l = call->out[2].data;
    int64_t v = last_extent(&call->in[0]), rows = row_count(&call->in[0]);
#pragma omp parallel for schedule(static) if (rows * v >= WORTH_A_TEAM)
    for (int64_t r = 0; r < rows; r++) {
        TYPED(row_sum)(v, x + r * v, &m[r], &z[r]);
        int64_t at = target_at(&call->in[0], target[r]);
        l[r] = TYPED(nll_of)(m[r], z[r], at < 0 ? 0 : LOAD(x[r * v + at]), target[r]);
    }
}

static void TYPED(cross_entropy_grad)(const struct mt_call *call) {
    const T *x = call->in[0].data;
    const int32_t *target = call->in[1].data;
    T *dx = call->out[0].data;
    A *l = call->out[1].data, dl = (A)call->attr->value + (call->nin > 2 ? *(const A *)call->in[2].data : 0);
    int64_t v = last_extent(&call->in[0]), rows = row_count(&call->in[0]);
#pragma omp parallel for schedule(static) if (rows * v >= WORTH_A_TEAM)
    for (int64_t r = 0; r < rows; r++) {
        const T *row = x + r * v;
        int64_t at = target_at(&call->in[0], target[r]);
        l[r] = 0;
        if (target[r] < 0) {
            if (v) memset(dx + r * v, 0, (size_t)v * sizeof(T));
            continue;
        }
        A m, z;
        TYPED(row_sum)(v, row, &m, &z);
        l[r] = TYPED(nll_of)(m, z, at < 0 ? 0 : LOAD(row[at]), target[r]);
        if (v) TYPED(row_grad)(v, at, m, z, dl, row, dx + r * v);
    }
}
#endif
