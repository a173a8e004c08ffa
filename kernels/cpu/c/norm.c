/* Layer norm: in steps that can be split over the normalised axis, and fused.
 *
 * With n the whole extent, mean = s / n and rstd = 1 / sqrt(q / n + eps): xhat = (x - mean) rstd. The fused kernels do
 * a row while it is in the cache; sums over rows (dgamma, dbeta, dx) have a partial for each chunk of rows. */
#ifndef T
#include "kernels/cpu/c/internal.h"

/* The outputs that are sums over the rows: from this one on. */
static int first_sum(const struct mt_call *call) {
    return call->kind == MT_OP_layer_norm_grad;
}

/* Partials of them: [sums][chunks][e]. */
static int64_t param_scratch(const struct mt_call *call) {
    const struct mt_tensor *x = &call->in[1];
    int sums = call->nout - first_sum(call);
    return chunk_count(row_count(x)) * sums * last_extent(x) * mt_type_size(call->in[2].type);
}

#define TYPED_SOURCE "kernels/cpu/c/norm.c"
#include "kernels/cpu/c/each_type.h"
C_OP(norm_sqdev, NULL, NULL);
C_OP(norm_apply, NULL, NULL);
C_OP(norm_dots, NULL, NULL);
C_OP(norm_grad, NULL, NULL);
C_OP(norm_param_grad, param_scratch, NULL);
C_OP(layer_norm, NULL, NULL);
C_OP(residual_norm, NULL, NULL);
C_OP(layer_norm_grad, param_scratch, NULL);

#else

/* A row's statistics as the loops want them. */
struct TYPED(row) {
    int64_t e;
    A mean, rstd;
};
struct TYPED(dots) {
    A d1, d2;
};

static struct TYPED(row) TYPED(row_of)(const struct mt_call *call, const struct mt_tensor *x, A s, A q) {
    A n = (A)x->global[x->naxes - 1];
    return (struct TYPED(row)){last_extent(x), s / n, 1 / SQRT(q / n + (A)call->attr->eps)};
}

MT_CLONES static A TYPED(row_sum)(int64_t e, const T *x) {
    A s = 0;
#pragma omp simd reduction(+ : s)
    for (int64_t j = 0; j < e; j++) s += LOAD(x[j]);
    return s;
}

MT_CLONES static A TYPED(row_sqdev)(int64_t e, A mean, const T *x) {
    A q = 0;
#pragma omp simd reduction(+ : q)
    for (int64_t j = 0; j < e; j++) {
        A d = LOAD(x[j]) - mean;
        q += d * d;
    }
    return q;
}

MT_CLONES static void TYPED(row_add)(int64_t e, const T *a, const T *b, T *x) {
#pragma omp simd
    for (int64_t j = 0; j < e; j++) x[j] = STORE(LOAD(a[j]) + LOAD(b[j]));
}

MT_CLONES static void TYPED(row_apply)(struct TYPED(row) r, const T *x, const T *gamma, const T *beta, T *restrict y) {
    if (beta) {
#pragma omp simd
        for (int64_t j = 0; j < r.e; j++) y[j] = STORE((LOAD(x[j]) - r.mean) * r.rstd * LOAD(gamma[j]) + LOAD(beta[j]));
    } else {
#pragma omp simd
        for (int64_t j = 0; j < r.e; j++) y[j] = STORE((LOAD(x[j]) - r.mean) * r.rstd * LOAD(gamma[j]));
    }
}

MT_CLONES static struct TYPED(dots) TYPED(row_dots)(struct TYPED(row) r, const T *dy, const T *x, const T *gamma) {
    A d1 = 0, d2 = 0;
#pragma omp simd reduction(+ : d1, d2)
    for (int64_t j = 0; j < r.e; j++) {
        A d = LOAD(dy[j]) * LOAD(gamma[j]);
        d1 += d;
        d2 += d * ((LOAD(x[j]) - r.mean) * r.rstd);
    }
    return (struct TYPED(dots)){d1, d2};
}

/* mean_dots: d1 / n and d2 / n. dx may be dy. */
MT_CLONES static void TYPED(row_grad)(struct TYPED(row) r, struct TYPED(dots) mean_dots, const T *dy, const T *x,
                                      const T *gamma, T *dx) {
#pragma omp simd
    for (int64_t j = 0; j < r.e; j++) {
        A xhat = (LOAD(x[j]) - r.mean) * r.rstd;
        dx[j] = STORE((LOAD(dy[j]) * LOAD(gamma[j]) - mean_dots.d1 - xhat * mean_dots.d2) * r.rstd);
    }
}

MT_CLONES static void TYPED(row_grad_add)(struct TYPED(row) r, struct TYPED(dots) mean_dots, const T *dy, const T *x,
                                          const T *gamma, const T *add, T *dx) {
#pragma omp simd
    for (int64_t j = 0; j < r.e; j++) {
        A xhat = (LOAD(x[j]) - r.mean) * r.rstd;
        A d = (LOAD(dy[j]) * LOAD(gamma[j]) - mean_dots.d1 - xhat * mean_dots.d2) * r.rstd;
        dx[j] = STORE(d + LOAD(add[j]));
    }
}

MT_CLONES static void TYPED(row_param)(struct TYPED(row) r, const T *restrict dy, const T *restrict x,
                                       A *restrict dgamma, A *restrict dbeta) {
    for (int64_t j = 0; j < r.e; j++) {
        A d = LOAD(dy[j]);
        dgamma[j] += d * ((LOAD(x[j]) - r.mean) * r.rstd);
        dbeta[j] += d;
    }
}

MT_CLONES static void TYPED(row_total)(int64_t e, const T *restrict dx, A *restrict total) {
#pragma omp simd
    for (int64_t j = 0; j < e; j++) total[j] += LOAD(dx[j]);
}

static void TYPED(norm_sqdev)(const struct mt_call *call) {
    const struct mt_tensor *x = &call->in[0];
    const A *s = call->in[1].data;
    A *q = call->out[0].data;
    int64_t e = last_extent(x), rows = row_count(x);
    A n = (A)x->global[x->naxes - 1];
#pragma omp parallel for schedule(static) if (rows * e >= WORTH_A_TEAM)
    for (int64_t r = 0; r < rows; r++) q[r] = TYPED(row_sqdev)(e, s[r] / n, (const T *)x->data + r * e);
}

static void TYPED(norm_apply)(const struct mt_call *call) {
    const struct mt_tensor *x = &call->in[0];
    const A *s = call->in[1].data, *q = call->in[2].data;
    const T *gamma = call->in[3].data, *beta = call->nin > 4 ? call->in[4].data : NULL;
    T *y = call->out[0].data;
    int64_t e = last_extent(x), rows = row_count(x);
#pragma omp parallel for schedule(static) if (rows * e >= WORTH_A_TEAM)
    for (int64_t r = 0; r < rows; r++)
        TYPED(row_apply)(TYPED(row_of)(call, x, s[r], q[r]), (const T *)x->data + r * e, gamma, beta, y + r * e);
}

static void TYPED(norm_dots)(const struct mt_call *call) {
    const struct mt_tensor *x = &call->in[1];
    const T *dy = call->in[0].data, *gamma = call->in[4].data;
    const A *s = call->in[2].data, *q = call->in[3].data;
    A *d1 = call->out[0].data, *d2 = call->out[1].data;
    int64_t e = last_extent(x), rows = row_count(x);
#pragma omp parallel for schedule(static) if (rows * e >= WORTH_A_TEAM)
    for (int64_t r = 0; r < rows; r++) {
        struct TYPED(row) row = TYPED(row_of)(call, x, s[r], q[r]);
        struct TYPED(dots) dots = TYPED(row_dots)(row, dy + r * e, (const T *)x->data + r * e, gamma);
        d1[r] = dots.d1, d2[r] = dots.d2;
    }
}

static void TYPED(norm_grad)(const struct mt_call *call) {
    const struct mt_tensor *x = &call->in[1];
    const T *dy = call->in[0].data, *gamma = call->in[4].data;
    const A *s = call->in[2].data, *q = call->in[3].data, *d1 = call->in[5].data, *d2 = call->in[6].data;
    T *dx = call->out[0].data;
    int64_t e = last_extent(x), rows = row_count(x);
    A n = (A)x->global[x->naxes - 1];
#pragma omp parallel for schedule(static) if (rows * e >= WORTH_A_TEAM)
    for (int64_t r = 0; r < rows; r++) {
        struct TYPED(dots) mean_dots = {d1[r] / n, d2[r] / n};
        TYPED(row_grad)
        (TYPED(row_of)(call, x, s[r], q[r]), mean_dots, dy + r * e, (const T *)x->data + r * e, gamma, dx + r * e);
    }
}

/* From the partials in scratch to the sums. */
static void TYPED(finish_params)(const struct mt_call *call) {
    const struct mt_tensor *x = &call->in[1];
    enum mt_type acc = call->in[2].type;
    int64_t e = last_extent(x), chunks = chunk_count(row_count(x));
    const A *partial = call->scratch;
    for (int o = first_sum(call); o < call->nout; o++, partial += chunks * e)
        mt_c_add_partials(acc, chunks, e, partial, call->attr->accumulate, call->out[o].data);
}

static void TYPED(norm_param_grad)(const struct mt_call *call) {
    const struct mt_tensor *x = &call->in[1];
    const T *dy = call->in[0].data;
    const A *s = call->in[2].data, *q = call->in[3].data;
    int64_t e = last_extent(x), rows = row_count(x), chunk = chunk_rows(rows), chunks = chunk_count(rows);
    if (!e) return; /* no outputs, and no scratch */
#pragma omp parallel for schedule(static) if (rows * e >= WORTH_A_TEAM)
    for (int64_t c = 0; c < chunks; c++) {
        A *dgamma = (A *)call->scratch + c * e, *dbeta = dgamma + chunks * e;
        memset(dgamma, 0, (size_t)e * sizeof(A));
        memset(dbeta, 0, (size_t)e * sizeof(A));
        for (int64_t r = c * chunk; r < least(rows, (c + 1) * chunk); r++) TYPED(row_param)
        (TYPED(row_of)(call, x, s[r], q[r]), dy + r * e, (const T *)x->data + r * e, dgamma, dbeta);
    }
    TYPED(finish_params)(call);
}

/* The statistics and the normalised row of a row x that is in the cache. */
static void TYPED(norm_row)(const struct mt_call *call, const struct mt_tensor *t, const T *x, const T *const params[2],
                            T *y, A *s, A *q) {
    int64_t e = last_extent(t);
    *s = TYPED(row_sum)(e, x);
    *q = TYPED(row_sqdev)(e, *s / (A)t->global[t->naxes - 1], x);
    TYPED(row_apply)(TYPED(row_of)(call, t, *s, *q), x, params[0], params[1], y);
}

static void TYPED(layer_norm)(const struct mt_call *call) {
    const struct mt_tensor *x = &call->in[0];
    const T *const params[2] = {call->in[1].data, call->nin > 2 ? call->in[2].data : NULL};
    T *y = call->out[0].data;
    A *s = call->out[1].data, *q = call->out[2].data;
    int64_t e = last_extent(x), rows = row_count(x);
#pragma omp parallel for schedule(static) if (rows * e >= WORTH_A_TEAM)
    for (int64_t r = 0; r < rows; r++)
        TYPED(norm_row)(call, x, (const T *)x->data + r * e, params, y + r * e, s + r, q + r);
}

static void TYPED(residual_norm)(const struct mt_call *call) {
    const struct mt_tensor *a = &call->in[0];
    const T *b = call->in[1].data;
    const T *const params[2] = {call->in[2].data, call->nin > 3 ? call->in[3].data : NULL};
    T *x = call->out[0].data, *y = call->out[1].data;
    A *s = call->out[2].data, *q = call->out[3].data;
    int64_t e = last_extent(a), rows = row_count(a);
#pragma omp parallel for schedule(static) if (rows * e >= WORTH_A_TEAM)
    for (int64_t r = 0; r < rows; r++) {
        TYPED(row_add)(e, (const T *)a->data + r * e, b + r * e, x + r * e);
        TYPED(norm_row)(call, a, x + r * e, params, y + r * e, s + r, q + r);
    }
}

/* total: null if nobody wants it. */
static void TYPED(layer_norm_grad_chunk)(const struct mt_call *call, int64_t first, int64_t end, A *dgamma, A *dbeta,
                                         A *total) {
    const struct mt_tensor *t = &call->in[1];
    const T *gamma = call->in[4].data, *add = call->nin > 5 ? call->in[5].data : NULL;
    int64_t e = last_extent(t);
    A n = (A)t->global[t->naxes - 1];
    memset(dgamma, 0, (size_t)e * sizeof(A));
    memset(dbeta, 0, (size_t)e * sizeof(A));
    if (total) memset(total, 0, (size_t)e * sizeof(A));
    for (int64_t r = first; r < end; r++) {
        const T *dy = (const T *)call->in[0].data + r * e, *x = (const T *)t->data + r * e;
        T *dx = (T *)call->out[0].data + r * e;
        struct TYPED(row) row =
            TYPED(row_of)(call, t, ((const A *)call->in[2].data)[r], ((const A *)call->in[3].data)[r]);
        struct TYPED(dots) dots = TYPED(row_dots)(row, dy, x, gamma);
        dots.d1 /= n, dots.d2 /= n;
        TYPED(row_param)(row, dy, x, dgamma, dbeta);
        if (add)
            TYPED(row_grad_add)(row, dots, dy, x, gamma, add + r * e, dx);
        else
            TYPED(row_grad)(row, dots, dy, x, gamma, dx);
        if (total) TYPED(row_total)(e, dx, total);
    }
}

static void TYPED(layer_norm_grad)(const struct mt_call *call) {
    const struct mt_tensor *x = &call->in[1];
    int64_t e = last_extent(x), rows = row_count(x), chunk = chunk_rows(rows), chunks = chunk_count(rows);
    if (!e) return;
#pragma omp parallel for schedule(static) if (rows * e >= WORTH_A_TEAM)
    for (int64_t c = 0; c < chunks; c++) {
        A *dgamma = (A *)call->scratch + c * e, *dbeta = dgamma + chunks * e;
        A *total = call->attr->epilogue == MT_OP_sum ? dbeta + chunks * e : NULL;
        TYPED(layer_norm_grad_chunk)(call, c * chunk, least(rows, (c + 1) * chunk), dgamma, dbeta, total);
    }
    TYPED(finish_params)(call);
}
#endif
