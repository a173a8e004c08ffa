/* Cross entropy over the last axis, of extent V: in steps that can be split over V, and fused; and its gradient.
 *
 * The fused kernels read a row once, in pieces that stay in the L1 cache: a piece's maximum, then the sum of its
 * exponentials. A larger maximum rescales the sum so far (online softmax). */
#ifndef T
#include "kernels/cpu/c/internal.h"

enum { PIECE = 2048 };

/* The index of the target in the box, or -1 if it is not there. */
static int64_t target_at(const struct mt_tensor *x, int32_t target) {
    int64_t at = target - x->offset[x->naxes - 1];
    return target >= 0 && at >= 0 && at < last_extent(x) ? at : -1;
}

#define TYPED_SOURCE "kernels/cpu/c/cross_entropy.c"
#define KINDS(row) row(row_max) row(exp_sum) row(pick) row(nll) row(nll_grad) row(cross_entropy) row(cross_entropy_grad)
#include "kernels/cpu/c/each_type.h"

#else

/* Convert a piece of a row to A; returns its maximum. */
MT_CLONES static A TYPED(load_piece)(int64_t n, const T *restrict x, A *restrict to) {
    A m = (A)-INFINITY;
#pragma omp simd reduction(max : m)
    for (int64_t j = 0; j < n; j++) {
        A value = LOAD(x[j]);
        to[j] = value;
        m = value > m ? value : m;
    }
    return m;
}

/* sum of exp(x - m). If m is -inf, all of x is, and the sum is 0. */
MT_CLONES static A TYPED(exp_sum_of)(int64_t n, A m, const A *x) {
    A z = 0;
    if (m == (A)-INFINITY) return 0;
#pragma omp simd reduction(+ : z)
    for (int64_t j = 0; j < n; j++) z += EXP(x[j] - m);
    return z;
}

MT_CLONES static void TYPED(softmax_grad)(int64_t n, A m, A factor, const T *x, T *dinp) {
#pragma omp simd
    for (int64_t j = 0; j < n; j++) dinp[j] = STORE(EXP(LOAD(x[j]) - m) * factor);
}

static A TYPED(nll_of)(A m, A z, A picked, int32_t target) {
    return target < 0 ? 0 : LOG(z) + (m - picked);
}

static void TYPED(row_max)(const struct mt_call *call) {
    const T *x = call->in[0].data;
    A *m = call->out[0].data;
    int64_t V = last_extent(&call->in[0]), rows = row_count(&call->in[0]);
#pragma omp parallel for schedule(static) if (rows * V >= WORTH_A_TEAM)
    for (int64_t r = 0; r < rows; r++) {
        A piece[PIECE], most = (A)-INFINITY;
        for (int64_t at = 0; at < V; at += PIECE) {
            A here = TYPED(load_piece)(least(PIECE, V - at), x + r * V + at, piece);
            most = here > most ? here : most;
        }
        m[r] = most;
    }
}

static void TYPED(exp_sum)(const struct mt_call *call) {
    const T *x = call->in[0].data;
    const A *m = call->in[1].data;
    A *z = call->out[0].data;
    int64_t V = last_extent(&call->in[0]), rows = row_count(&call->in[0]);
#pragma omp parallel for schedule(static) if (rows * V >= WORTH_A_TEAM)
    for (int64_t r = 0; r < rows; r++) {
        A piece[PIECE], sum = 0;
        for (int64_t at = 0; at < V; at += PIECE) {
            int64_t n = least(PIECE, V - at);
            TYPED(load_piece)(n, x + r * V + at, piece);
            sum += TYPED(exp_sum_of)(n, m[r], piece);
        }
        z[r] = sum;
    }
}

static void TYPED(pick)(const struct mt_call *call) {
    const T *x = call->in[0].data;
    const int32_t *target = call->in[1].data;
    A *picked = call->out[0].data;
    int64_t V = last_extent(&call->in[0]), rows = row_count(&call->in[0]);
    for (int64_t r = 0; r < rows; r++) {
        int64_t at = target_at(&call->in[0], target[r]);
        picked[r] = at < 0 ? 0 : LOAD(x[r * V + at]);
    }
}

static void TYPED(nll)(const struct mt_call *call) {
    const A *m = call->in[0].data, *z = call->in[1].data, *picked = call->in[2].data;
    const int32_t *target = call->in[3].data;
    A *l = call->out[0].data;
    int64_t rows = mt_tensor_count(&call->out[0]);
    for (int64_t r = 0; r < rows; r++) l[r] = TYPED(nll_of)(m[r], z[r], picked[r], target[r]);
}

/* dinp of one row, for the gradient dloss of its loss; at: index of the target, or -1. dinp may be x. */
static void TYPED(row_grad)(int64_t V, int64_t at, A m, A z, A dloss, const T *x, T *dinp) {
    A factor = z > 0 ? dloss / z : 0, there = at < 0 ? 0 : EXP(LOAD(x[at]) - m) * factor - dloss;
    TYPED(softmax_grad)(V, m, factor, x, dinp);
    if (at >= 0) dinp[at] = STORE(there);
}

static void TYPED(nll_grad)(const struct mt_call *call) {
    const T *x = call->in[0].data;
    const A *m = call->in[1].data, *z = call->in[2].data, *dloss = call->in[4].data;
    const int32_t *target = call->in[3].data;
    T *dinp = call->out[0].data;
    int64_t V = last_extent(&call->in[0]), rows = row_count(&call->in[0]);
    if (!V) return;
#pragma omp parallel for schedule(static) if (rows * V >= WORTH_A_TEAM)
    for (int64_t r = 0; r < rows; r++) {
        if (target[r] < 0)
            memset(dinp + r * V, 0, (size_t)V * sizeof(T));
        else
            TYPED(row_grad)(V, target_at(&call->in[0], target[r]), m[r], z[r], dloss[r], x + r * V, dinp + r * V);
    }
}

/* A row's maximum m, and z = sum of exp(x - m). */
static void TYPED(row_sum)(int64_t V, const T *x, A *m, A *z) {
    A piece[PIECE], most = (A)-INFINITY, sum = 0;
    for (int64_t at = 0; at < V; at += PIECE) {
        int64_t n = least(PIECE, V - at);
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
    int64_t V = last_extent(&call->in[0]), rows = row_count(&call->in[0]);
#pragma omp parallel for schedule(static) if (rows * V >= WORTH_A_TEAM)
    for (int64_t r = 0; r < rows; r++) {
        TYPED(row_sum)(V, x + r * V, &m[r], &z[r]);
        int64_t at = target_at(&call->in[0], target[r]);
        l[r] = TYPED(nll_of)(m[r], z[r], at < 0 ? 0 : LOAD(x[r * V + at]), target[r]);
    }
}

static void TYPED(cross_entropy_grad)(const struct mt_call *call) {
    const T *x = call->in[0].data;
    const int32_t *target = call->in[1].data;
    T *dinp = call->out[0].data;
    A *l = call->out[1].data, dloss = (A)call->attr->value + (call->nin > 2 ? *(const A *)call->in[2].data : 0);
    int64_t V = last_extent(&call->in[0]), rows = row_count(&call->in[0]);
#pragma omp parallel for schedule(static) if (rows * V >= WORTH_A_TEAM)
    for (int64_t r = 0; r < rows; r++) {
        const T *row = x + r * V;
        int64_t at = target_at(&call->in[0], target[r]);
        l[r] = 0;
        if (target[r] < 0) {
            if (V) memset(dinp + r * V, 0, (size_t)V * sizeof(T));
            continue;
        }
        A m, z;
        TYPED(row_sum)(V, row, &m, &z);
        l[r] = TYPED(nll_of)(m, z, at < 0 ? 0 : LOAD(row[at]), target[r]);
        if (V) TYPED(row_grad)(V, at, m, z, dloss, row, dinp + r * V);
    }
}
#endif
