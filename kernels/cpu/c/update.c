/* grad_scale, loss_scale, adamw and sgd: exact, so that replicas that are updated separately stay bit-equal. The file
 * is compiled without contraction into fused multiply-adds, powers are by repeated squaring, and constants are computed
 * in double and rounded once. */
#ifndef T
#include "kernels/cpu/c/internal.h"

/* base^n, n >= 0, with the same bits on every host (pow differs). */
static double power(double base, int64_t n) {
    double result = 1;
    for (; n; n >>= 1, base *= base)
        if (n & 1) result *= base;
    return result;
}

/* The updated weights in the type `to`. */
static void cast_weights(const struct mt_call *call) {
    const struct mt_attr attr = {.to = call->attr->to};
    const struct mt_call cast = {
        .kind = MT_OP_cast, .attr = &attr, .nin = 1, .nout = 1, .in = &call->out[0], .out = &call->out[3]};
    mt_c_cast.run[call->out[0].type](&cast);
}

#define TYPED_SOURCE "kernels/cpu/c/update.c"
#define KINDS(row) row(grad_scale) row(loss_scale) row(adamw) row(sgd)
#include "kernels/cpu/c/each_type.h"

#else

static void TYPED(grad_scale)(const struct mt_call *call) {
    double sq = (double)*(const A *)call->in[0].data, count = (double)*(const A *)call->in[1].data, scale = 0;
    double loss_scale = call->nin > 2 ? (double)*(const A *)call->in[2].data : 1;
    if (!isfinite(sq)) {
        scale = call->nin > 2 ? 0 : (double)NAN;
    } else if (count > 0) {
        double n = count * loss_scale, norm = sqrt(sq) / n, clip = call->attr->clip;
        scale = 1 / n;
        if (clip > 0 && !(norm + 1e-6 <= clip)) scale *= clip / (norm + 1e-6);
    }
    *(A *)call->out[0].data = (A)scale;
}

static void TYPED(loss_scale)(const struct mt_call *call) {
    double scale = (double)*(const A *)call->in[0].data, good = (double)*(const A *)call->in[1].data + 1;
    double skipped = (double)*(const A *)call->in[2].data, sq = (double)*(const A *)call->in[3].data;
    if (!isfinite(sq)) {
        scale = scale / 2 > MT_LOSS_SCALE_LEAST ? scale / 2 : MT_LOSS_SCALE_LEAST;
        good = 0, skipped++;
    } else if (good >= (double)call->attr->interval) {
        scale = scale * 2 < MT_LOSS_SCALE_MOST ? scale * 2 : MT_LOSS_SCALE_MOST;
        good = 0;
    }
    *(A *)call->out[0].data = (A)scale;
    *(A *)call->out[1].data = (A)good;
    *(A *)call->out[2].data = (A)skipped;
}

/* Skip the update: outputs are the first inputs. */
static void TYPED(keep)(const struct mt_call *call) {
    for (int o = 0; o < call->nout && o < 3; o++)
        if (call->out[o].data != call->in[o].data)
            memcpy(call->out[o].data, call->in[o].data, (size_t)mt_tensor_count(&call->out[o]) * sizeof(A));
}

struct TYPED(adamw_constants) {
    A beta1, rest1, beta2, rest2, unbias1, unbias2, eps, decay, lr, scale;
};

MT_CLONES static void TYPED(adamw_block)(int64_t n, const struct TYPED(adamw_constants) * k, const A *const from[4],
                                         A *const to[3]) {
    const A *w = from[0], *m = from[1], *v = from[2], *g = from[3];
    A *w_new = to[0], *m_new = to[1], *v_new = to[2];
    const struct TYPED(adamw_constants) c = *k;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        A grad = g[i] * c.scale, weight = w[i];
        A mean = c.beta1 * m[i] + c.rest1 * grad;
        A square = c.beta2 * v[i] + c.rest2 * grad * grad;
        A move = mean * c.unbias1 / (SQRT(square * c.unbias2) + c.eps);
        w_new[i] = weight - c.lr * (move + c.decay * weight);
        m_new[i] = mean;
        v_new[i] = square;
    }
}

static void TYPED(update_adamw)(const struct mt_call *call) {
    const struct mt_attr *t = call->attr;
    double skipped = call->nin > 5 ? (double)*(const A *)call->in[5].data : 0;
    int64_t step = largest(call->clock->step - (int64_t)skipped, 1); /* at least 1, whatever a checkpoint contains */
    if (*(const A *)call->in[4].data == 0) {
        TYPED(keep)(call);
        return;
    }
    const struct TYPED(adamw_constants) k = {(A)t->beta1,
                                             (A)(1 - t->beta1),
                                             (A)t->beta2,
                                             (A)(1 - t->beta2),
                                             (A)(1 / (1 - power(t->beta1, step))),
                                             (A)(1 / (1 - power(t->beta2, step))),
                                             (A)t->eps,
                                             (A)t->decay,
                                             (A)(call->clock->lr * t->lr_scale),
                                             *(const A *)call->in[4].data};
    int64_t n = mt_tensor_count(&call->out[0]);
#pragma omp parallel for schedule(static) if (n >= WORTH_A_TEAM)
    for (int64_t at = 0; at < n; at += BLOCK) {
        const A *from[4];
        A *to[3];
        for (int i = 0; i < 4; i++) from[i] = (const A *)call->in[i].data + at;
        for (int i = 0; i < 3; i++) to[i] = (A *)call->out[i].data + at;
        TYPED(adamw_block)(least(BLOCK, n - at), &k, from, to);
    }
}

static void TYPED(adamw)(const struct mt_call *call) {
    TYPED(update_adamw)(call);
    if (call->nout > 3) cast_weights(call);
}

struct TYPED(sgd_constants) {
    A momentum, decay, lr, scale;
    bool nesterov;
};

MT_CLONES static void TYPED(sgd_block)(int64_t n, const struct TYPED(sgd_constants) * k, const A *const from[3],
                                       A *const to[2]) {
    const A *w = from[0], *m = from[1], *g = from[2];
    A *w_new = to[0], *m_new = to[1];
    const struct TYPED(sgd_constants) c = *k;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        A weight = w[i], grad = g[i] * c.scale + c.decay * weight;
        A mean = c.momentum * m[i] + grad;
        A move = c.nesterov ? grad + c.momentum * mean : mean;
        w_new[i] = weight - c.lr * move;
        m_new[i] = mean;
    }
}

static void TYPED(sgd)(const struct mt_call *call) {
    const struct mt_attr *t = call->attr;
    if (*(const A *)call->in[3].data == 0) {
        TYPED(keep)(call);
        return;
    }
    const struct TYPED(sgd_constants) k = {(A)t->momentum, (A)t->decay, (A)(call->clock->lr * t->lr_scale),
                                           *(const A *)call->in[3].data, t->nesterov};
    int64_t n = mt_tensor_count(&call->out[0]);
#pragma omp parallel for schedule(static) if (n >= WORTH_A_TEAM)
    for (int64_t at = 0; at < n; at += BLOCK) {
        const A *from[3];
        A *to[2];
        for (int i = 0; i < 3; i++) from[i] = (const A *)call->in[i].data + at;
        for (int i = 0; i < 2; i++) to[i] = (A *)call->out[i].data + at;
        TYPED(sgd_block)(least(BLOCK, n - at), &k, from, to);
    }
}
#endif
