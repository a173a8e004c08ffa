/* Layer norm over the last axis, of extent C in the box: in steps that can be split over C, and fused.
 *
 * With n the whole extent, mean = s / n and rstd = 1 / sqrt(q / n + eps): xhat = (x - mean) rstd. The fused kernels
 * process a row while it is in the cache; sums over rows (dgamma, dbeta, dinp) have a partial sum for each chunk of
 * rows. */
#ifndef T
#include "kernels/cpu/c/internal.h"

/* The first of the outputs that are sums over the rows; all after it are too. */
static int first_sum(const struct mt_call *call) {
    return call->kind == MT_OP_layer_norm_grad;
}

/* Their partial sums: [sums][chunks][C]. */
static int64_t param_scratch(const struct mt_call *call) {
    const struct mt_tensor *x = &call->in[1];
    int sums = call->nout - first_sum(call);
    return chunk_count(row_count(x)) * sums * last_extent(x) * mt_type_size(call->in[2].type);
}

#define TYPED_SOURCE "kernels/cpu/c/norm.c"
#define KINDS(row) row(norm_sqdev) row(norm_apply) row(norm_dots) row(norm_grad) row(layer_norm) row(residual_norm)
#include "kernels/cpu/c/each_type.h"
C_OP_WITH(norm_param_grad, param_scratch, NULL);
C_OP_WITH(layer_norm_grad, param_scratch, NULL);

#else

struct TYPED(row) {
    int64_t C;
    A mean, rstd;
};
struct TYPED(dots) {
    A d1, d2;
};

static struct TYPED(row) TYPED(row_of)(const struct mt_call *call, const struct mt_tensor *x, A s, A q) {
    A n = (A)x->global[x->naxes - 1];
    return (struct TYPED(row)){last_extent(x), s / n, 1 / SQRT(q / n + (A)call->attr->eps)};
}

MT_CLONES static A TYPED(row_sum)(int64_t C, const T *x) {
    A s = 0;
#pragma omp simd reduction(+ : s)
    for (int64_t j = 0; j < C; j++) s += LOAD(x[j]);
    return s;
}

MT_CLONES static A TYPED(row_sqdev)(int64_t C, A mean, const T *x) {
    A q = 0;
#pragma omp simd reduction(+ : q)
    for (int64_t j = 0; j < C; j++) {
        A d = LOAD(x[j]) - mean;
        q += d * d;
    }
    return q;
}

MT_CLONES static void TYPED(row_add)(int64_t C, const T *a, const T *b, T *x) {
#pragma omp simd
    for (int64_t j = 0; j < C; j++) x[j] = STORE(LOAD(a[j]) + LOAD(b[j]));
}

MT_CLONES static void TYPED(row_apply)(struct TYPED(row) r, const T *x, const T *gamma, const T *beta, T *restrict y) {
    if (beta) {
#pragma omp simd
        for (int64_t j = 0; j < r.C; j++) y[j] = STORE((LOAD(x[j]) - r.mean) * r.rstd * LOAD(gamma[j]) + LOAD(beta[j]));
    } else {
#pragma omp simd
        for (int64_t j = 0; j < r.C; j++) y[j] = STORE((LOAD(x[j]) - r.mean) * r.rstd * LOAD(gamma[j]));
    }
}

MT_CLONES static struct TYPED(dots) TYPED(row_dots)(struct TYPED(row) r, const T *dout, const T *x, const T *gamma) {
    A d1 = 0, d2 = 0;
#pragma omp simd reduction(+ : d1, d2)
    for (int64_t j = 0; j < r.C; j++) {
        A d = LOAD(dout[j]) * LOAD(gamma[j]);
        d1 += d;
        d2 += d * ((LOAD(x[j]) - r.mean) * r.rstd);
    }
    return (struct TYPED(dots)){d1, d2};
}

/* dinp = (dout gamma - mean(dout gamma) - xhat mean(dout gamma xhat)) rstd, with the means in mean_dots. dinp may be
 * dout. */
MT_CLONES static void TYPED(row_grad)(struct TYPED(row) r, struct TYPED(dots) mean_dots, const T *dout, const T *x,
                                      const T *gamma, T *dinp) {
#pragma omp simd
    for (int64_t j = 0; j < r.C; j++) {
        A xhat = (LOAD(x[j]) - r.mean) * r.rstd;
        dinp[j] = STORE((LOAD(dout[j]) * LOAD(gamma[j]) - mean_dots.d1 - xhat * mean_dots.d2) * r.rstd);
    }
}

MT_CLONES static void TYPED(row_grad_add)(struct TYPED(row) r, struct TYPED(dots) mean_dots, const T *dout, const T *x,
                                          const T *gamma, const T *add, T *dinp) {
#pragma omp simd
    for (int64_t j = 0; j < r.C; j++) {
        A xhat = (LOAD(x[j]) - r.mean) * r.rstd;
        A d = (LOAD(dout[j]) * LOAD(gamma[j]) - mean_dots.d1 - xhat * mean_dots.d2) * r.rstd;
        dinp[j] = STORE(d + LOAD(add[j]));
    }
}

MT_CLONES static void TYPED(row_param)(struct TYPED(row) r, const T *restrict dout, const T *restrict x,
                                       A *restrict dgamma, A *restrict dbeta) {
    for (int64_t j = 0; j < r.C; j++) {
        A d = LOAD(dout[j]);
        dgamma[j] += d * ((LOAD(x[j]) - r.mean) * r.rstd);
        dbeta[j] += d;
    }
}

MT_CLONES static void TYPED(row_total)(int64_t C, const T *restrict dinp, A *restrict total) {
#pragma omp simd
    for (int64_t j = 0; j < C; j++) total[j] += LOAD(dinp[j]);
}

static void TYPED(norm_sqdev)(const struct mt_call *call) {
    const struct mt_tensor *x = &call->in[0];
    const A *s = call->in[1].data;
    A *q = call->out[0].data;
    int64_t C = last_extent(x), rows = row_count(x);
    A n = (A)x->global[x->naxes - 1];
#pragma omp parallel for schedule(static) if (rows * C >= WORTH_A_TEAM)
    for (int64_t r = 0; r < rows; r++) q[r] = TYPED(row_sqdev)(C, s[r] / n, (const T *)x->data + r * C);
}

static void TYPED(norm_apply)(const struct mt_call *call) {
    const struct mt_tensor *x = &call->in[0];
    const A *s = call->in[1].data, *q = call->in[2].data;
    const T *gamma = call->in[3].data, *beta = call->nin > 4 ? call->in[4].data : NULL;
    T *y = call->out[0].data;
    int64_t C = last_extent(x), rows = row_count(x);
#pragma omp parallel for schedule(static) if (rows * C >= WORTH_A_TEAM)
    for (int64_t r = 0; r < rows; r++)
        TYPED(row_apply)(TYPED(row_of)(call, x, s[r], q[r]), (const T *)x->data + r * C, gamma, beta, y + r * C);
}

static void TYPED(norm_dots)(const struct mt_call *call) {
    const struct mt_tensor *x = &call->in[1];
    const T *dout = call->in[0].data, *gamma = call->in[4].data;
    const A *s = call->in[2].data, *q = call->in[3].data;
    A *d1 = call->out[0].data, *d2 = call->out[1].data;
    int64_t C = last_extent(x), rows = row_count(x);
#pragma omp parallel for schedule(static) if (rows * C >= WORTH_A_TEAM)
    for (int64_t r = 0; r < rows; r++) {
        struct TYPED(row) row = TYPED(row_of)(call, x, s[r], q[r]);
        struct TYPED(dots) dots = TYPED(row_dots)(row, dout + r * C, (const T *)x->data + r * C, gamma);
        d1[r] = dots.d1, d2[r] = dots.d2;
    }
}

static void TYPED(norm_grad)(const struct mt_call *call) {
    const struct mt_tensor *x = &call->in[1];
    const T *dout = call->in[0].data, *gamma = call->in[4].data;
    const A *s = call->in[2].data, *q = call->in[3].data, *d1 = call->in[5].data, *d2 = call->in[6].data;
    T *dinp = call->out[0].data;
    int64_t C = last_extent(x), rows = row_count(x);
    A n = (A)x->global[x->naxes - 1];
#pragma omp parallel for schedule(static) if (rows * C >= WORTH_A_TEAM)
    for (int64_t r = 0; r < rows; r++) {
        struct TYPED(dots) mean_dots = {d1[r] / n, d2[r] / n};
        TYPED(row_grad)
        (TYPED(row_of)(call, x, s[r], q[r]), mean_dots, dout + r * C, (const T *)x->data + r * C, gamma, dinp + r * C);
    }
}

/* Add the partial sums in scratch to the outputs. */
static void TYPED(finish_params)(const struct mt_call *call) {
    const struct mt_tensor *x = &call->in[1];
    enum mt_type acc = call->in[2].type;
    int64_t C = last_extent(x), chunks = chunk_count(row_count(x));
    const A *partial = call->scratch;
    for (int o = first_sum(call); o < call->nout; o++, partial += chunks * C)
        mt_c_add_partials(acc, chunks, C, partial, call->attr->accumulate, call->out[o].data);
}

static void TYPED(norm_param_grad)(const struct mt_call *call) {
    const struct mt_tensor *x = &call->in[1];
    const T *dout = call->in[0].data;
    const A *s = call->in[2].data, *q = call->in[3].data;
    int64_t C = last_extent(x), rows = row_count(x), chunk = chunk_rows(rows), chunks = chunk_count(rows);
    if (!C) return; /* no outputs, and no scratch */
#pragma omp parallel for schedule(static) if (rows * C >= WORTH_A_TEAM)
    for (int64_t c = 0; c < chunks; c++) {
        A *dgamma = (A *)call->scratch + c * C, *dbeta = dgamma + chunks * C;
        memset(dgamma, 0, (size_t)C * sizeof(A));
        memset(dbeta, 0, (size_t)C * sizeof(A));
        for (int64_t r = c * chunk; r < least(rows, (c + 1) * chunk); r++) TYPED(row_param)
        (TYPED(row_of)(call, x, s[r], q[r]), dout + r * C, (const T *)x->data + r * C, dgamma, dbeta);
    }
    TYPED(finish_params)(call);
}

/* Statistics s, q and the normalised row y of a row x that is in the cache. */
static void TYPED(norm_row)(const struct mt_call *call, const struct mt_tensor *t, const T *x, const T *const params[2],
                            T *y, A *s, A *q) {
    int64_t C = last_extent(t);
    *s = TYPED(row_sum)(C, x);
    *q = TYPED(row_sqdev)(C, *s / (A)t->global[t->naxes - 1], x);
    TYPED(row_apply)(TYPED(row_of)(call, t, *s, *q), x, params[0], params[1], y);
}

static void TYPED(layer_norm)(const struct mt_call *call) {
    const struct mt_tensor *x = &call->in[0];
    const T *const params[2] = {call->in[1].data, call->nin > 2 ? call->in[2].data : NULL};
    T *y = call->out[0].data;
    A *s = call->out[1].data, *q = call->out[2].data;
    int64_t C = last_extent(x), rows = row_count(x);
#pragma omp parallel for schedule(static) if (rows * C >= WORTH_A_TEAM)
    for (int64_t r = 0; r < rows; r++)
        TYPED(norm_row)(call, x, (const T *)x->data + r * C, params, y + r * C, s + r, q + r);
}

static void TYPED(residual_norm)(const struct mt_call *call) {
    const struct mt_tensor *a = &call->in[0];
    const T *b = call->in[1].data;
    const T *const params[2] = {call->in[2].data, call->nin > 3 ? call->in[3].data : NULL};
    T *x = call->out[0].data, *y = call->out[1].data;
    A *s = call->out[2].data, *q = call->out[3].data;
    int64_t C = last_extent(a), rows = row_count(a);
#pragma omp parallel for schedule(static) if (rows * C >= WORTH_A_TEAM)
    for (int64_t r = 0; r < rows; r++) {
        TYPED(row_add)(C, (const T *)a->data + r * C, b + r * C, x + r * C);
        TYPED(norm_row)(call, a, x + r * C, params, y + r * C, s + r, q + r);
    }
}

/* Rows [first, end). total: null if the call has no such output. */
static void TYPED(layer_norm_grad_chunk)(const struct mt_call *call, int64_t first, int64_t end, A *dgamma, A *dbeta,
                                         A *total) {
    const struct mt_tensor *t = &call->in[1];
    const T *gamma = call->in[4].data, *add = call->nin > 5 ? call->in[5].data : NULL;
    int64_t C = last_extent(t);
    A n = (A)t->global[t->naxes - 1];
    memset(dgamma, 0, (size_t)C * sizeof(A));
    memset(dbeta, 0, (size_t)C * sizeof(A));
    if (total) memset(total, 0, (size_t)C * sizeof(A));
    for (int64_t r = first; r < end; r++) {
        const T *dout = (const T *)call->in[0].data + r * C, *x = (const T *)t->data + r * C;
        T *dinp = (T *)call->out[0].data + r * C;
        struct TYPED(row) row =
            TYPED(row_of)(call, t, ((const A *)call->in[2].data)[r], ((const A *)call->in[3].data)[r]);
        struct TYPED(dots) dots = TYPED(row_dots)(row, dout, x, gamma);
        dots.d1 /= n, dots.d2 /= n;
        TYPED(row_param)(row, dout, x, dgamma, dbeta);
        if (add)
            TYPED(row_grad_add)(row, dots, dout, x, gamma, add + r * C, dinp);
        else
            TYPED(row_grad)(row, dots, dout, x, gamma, dinp);
        if (total) TYPED(row_total)(C, dinp, total);
    }
}

static void TYPED(layer_norm_grad)(const struct mt_call *call) {
    const struct mt_tensor *x = &call->in[1];
    int64_t C = last_extent(x), rows = row_count(x), chunk = chunk_rows(rows), chunks = chunk_count(rows);
    if (!C) return;
#pragma omp parallel for schedule(static) if (rows * C >= WORTH_A_TEAM)
    for (int64_t c = 0; c < chunks; c++) {
        A *dgamma = (A *)call->scratch + c * C, *dbeta = dgamma + chunks * C;
        A *total = call->attr->epilogue == MT_OP_sum ? dbeta + chunks * C : NULL;
        TYPED(layer_norm_grad_chunk)(call, c * chunk, least(rows, (c + 1) * chunk), dgamma, dbeta, total);
    }
    TYPED(finish_params)(call);
}
#endif
