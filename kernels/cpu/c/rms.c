/* Root-mean-square norm over the last axis, of extent C in the box, in steps that can be split over C, and fused. With
 * n the whole extent, rrms = 1 / sqrt(q / n + eps): xhat = x rrms. The sum over rows (dgamma) has a partial sum for
 * each chunk of rows. */
#ifndef T
#include "kernels/cpu/c/internal.h"

/* The partial sums of dgamma: [chunks][C]. */
static int64_t param_scratch(const struct mt_call *call) {
    const struct mt_tensor *x = &call->in[1];
    return chunk_count(row_count(x)) * last_extent(x) * mt_type_size(call->in[2].type);
}

#define TYPED_SOURCE "kernels/cpu/c/rms.c"
#define KINDS(row) row(rms_sq) row(rms_apply) row(rms_dot) row(rms_grad) row(rms_norm) row(residual_rms)
#include "kernels/cpu/c/each_type.h"
C_OP_WITH(rms_param_grad, param_scratch, NULL);
C_OP_WITH(rms_norm_grad, param_scratch, NULL);

#else

static A TYPED(rrms_of)(const struct mt_call *call, const struct mt_tensor *x, A q) {
    return 1 / SQRT(q / (A)x->global[x->naxes - 1] + (A)call->attr->eps);
}

MT_CLONES static A TYPED(row_sq)(int64_t C, const T *x) {
    A q = 0;
#pragma omp simd reduction(+ : q)
    for (int64_t j = 0; j < C; j++) q += LOAD(x[j]) * LOAD(x[j]);
    return q;
}

MT_CLONES static void TYPED(row_apply)(int64_t C, A rrms, const T *x, const T *gamma, T *restrict y) {
#pragma omp simd
    for (int64_t j = 0; j < C; j++) y[j] = STORE(LOAD(x[j]) * rrms * LOAD(gamma[j]));
}

MT_CLONES static A TYPED(row_dot)(int64_t C, A rrms, const T *dout, const T *x, const T *gamma) {
    A d = 0;
#pragma omp simd reduction(+ : d)
    for (int64_t j = 0; j < C; j++) d += LOAD(dout[j]) * LOAD(gamma[j]) * (LOAD(x[j]) * rrms);
    return d;
}

/* dinp = (dout gamma - xhat mean(dout gamma xhat)) rrms, with the mean in mean_dot. dinp may be dout. */
MT_CLONES static void TYPED(row_grad)(int64_t C, const A rrms_and_mean_dot[2], const T *dout, const T *x,
                                      const T *gamma, T *dinp) {
    A rrms = rrms_and_mean_dot[0], mean_dot = rrms_and_mean_dot[1];
#pragma omp simd
    for (int64_t j = 0; j < C; j++)
        dinp[j] = STORE((LOAD(dout[j]) * LOAD(gamma[j]) - LOAD(x[j]) * rrms * mean_dot) * rrms);
}

MT_CLONES static void TYPED(row_grad_add)(int64_t C, const A rrms_and_mean_dot[2], const T *dout, const T *x,
                                          const T *gamma, const T *add, T *dinp) {
    A rrms = rrms_and_mean_dot[0], mean_dot = rrms_and_mean_dot[1];
#pragma omp simd
    for (int64_t j = 0; j < C; j++)
        dinp[j] = STORE((LOAD(dout[j]) * LOAD(gamma[j]) - LOAD(x[j]) * rrms * mean_dot) * rrms + LOAD(add[j]));
}

MT_CLONES static void TYPED(row_add)(int64_t C, const T *a, const T *b, T *x) {
#pragma omp simd
    for (int64_t j = 0; j < C; j++) x[j] = STORE(LOAD(a[j]) + LOAD(b[j]));
}

MT_CLONES static void TYPED(row_param)(int64_t C, A rrms, const T *restrict dout, const T *restrict x,
                                       A *restrict dgamma) {
#pragma omp simd
    for (int64_t j = 0; j < C; j++) dgamma[j] += LOAD(dout[j]) * (LOAD(x[j]) * rrms);
}

static void TYPED(rms_sq)(const struct mt_call *call) {
    const struct mt_tensor *x = &call->in[0];
    A *q = call->out[0].data;
    int64_t C = last_extent(x), rows = row_count(x);
#pragma omp parallel for schedule(static) if (rows * C >= WORTH_A_TEAM)
    for (int64_t r = 0; r < rows; r++) q[r] = TYPED(row_sq)(C, (const T *)x->data + r * C);
}

static void TYPED(rms_apply)(const struct mt_call *call) {
    const struct mt_tensor *x = &call->in[0];
    const A *q = call->in[1].data;
    const T *gamma = call->in[2].data;
    T *y = call->out[0].data;
    int64_t C = last_extent(x), rows = row_count(x);
#pragma omp parallel for schedule(static) if (rows * C >= WORTH_A_TEAM)
    for (int64_t r = 0; r < rows; r++)
        TYPED(row_apply)(C, TYPED(rrms_of)(call, x, q[r]), (const T *)x->data + r * C, gamma, y + r * C);
}

static void TYPED(rms_dot)(const struct mt_call *call) {
    const struct mt_tensor *x = &call->in[1];
    const T *dout = call->in[0].data, *gamma = call->in[3].data;
    const A *q = call->in[2].data;
    A *d = call->out[0].data;
    int64_t C = last_extent(x), rows = row_count(x);
#pragma omp parallel for schedule(static) if (rows * C >= WORTH_A_TEAM)
    for (int64_t r = 0; r < rows; r++)
        d[r] = TYPED(row_dot)(C, TYPED(rrms_of)(call, x, q[r]), dout + r * C, (const T *)x->data + r * C, gamma);
}

static void TYPED(rms_grad)(const struct mt_call *call) {
    const struct mt_tensor *x = &call->in[1];
    const T *dout = call->in[0].data, *gamma = call->in[3].data;
    const A *q = call->in[2].data, *d = call->in[4].data;
    T *dinp = call->out[0].data;
    int64_t C = last_extent(x), rows = row_count(x);
    A n = (A)x->global[x->naxes - 1];
#pragma omp parallel for schedule(static) if (rows * C >= WORTH_A_TEAM)
    for (int64_t r = 0; r < rows; r++) {
        const A row[2] = {TYPED(rrms_of)(call, x, q[r]), d[r] / n};
        TYPED(row_grad)(C, row, dout + r * C, (const T *)x->data + r * C, gamma, dinp + r * C);
    }
}

static void TYPED(rms_param_grad)(const struct mt_call *call) {
    const struct mt_tensor *x = &call->in[1];
    const T *dout = call->in[0].data;
    const A *q = call->in[2].data;
    int64_t C = last_extent(x), rows = row_count(x), chunk = chunk_rows(rows), chunks = chunk_count(rows);
    if (!C) return; /* no output, and no scratch */
#pragma omp parallel for schedule(static) if (rows * C >= WORTH_A_TEAM)
    for (int64_t c = 0; c < chunks; c++) {
        A *dgamma = (A *)call->scratch + c * C;
        memset(dgamma, 0, (size_t)C * sizeof(A));
        for (int64_t r = c * chunk; r < least(rows, (c + 1) * chunk); r++)
            TYPED(row_param)(C, TYPED(rrms_of)(call, x, q[r]), dout + r * C, (const T *)x->data + r * C, dgamma);
    }
    mt_c_add_partials(call->in[2].type, chunks, C, call->scratch, call->attr->accumulate, call->out[0].data);
}

static void TYPED(rms_norm)(const struct mt_call *call) {
    const struct mt_tensor *t = &call->in[0];
    const T *gamma = call->in[1].data;
    T *y = call->out[0].data;
    A *q = call->out[1].data;
    int64_t C = last_extent(t), rows = row_count(t);
#pragma omp parallel for schedule(static) if (rows * C >= WORTH_A_TEAM)
    for (int64_t r = 0; r < rows; r++) {
        const T *x = (const T *)t->data + r * C;
        q[r] = TYPED(row_sq)(C, x);
        TYPED(row_apply)(C, TYPED(rrms_of)(call, t, q[r]), x, gamma, y + r * C);
    }
}

static void TYPED(residual_rms)(const struct mt_call *call) {
    const struct mt_tensor *a = &call->in[0];
    const T *b = call->in[1].data, *gamma = call->in[2].data;
    T *sum = call->out[0].data, *y = call->out[1].data;
    A *q = call->out[2].data;
    int64_t C = last_extent(a), rows = row_count(a);
#pragma omp parallel for schedule(static) if (rows * C >= WORTH_A_TEAM)
    for (int64_t r = 0; r < rows; r++) {
        T *x = sum + r * C;
        TYPED(row_add)(C, (const T *)a->data + r * C, b + r * C, x);
        q[r] = TYPED(row_sq)(C, x);
        TYPED(row_apply)(C, TYPED(rrms_of)(call, a, q[r]), x, gamma, y + r * C);
    }
}

/* Rows [first, end). */
static void TYPED(rms_norm_grad_chunk)(const struct mt_call *call, int64_t first, int64_t end, A *dgamma) {
    const struct mt_tensor *t = &call->in[1];
    const T *gamma = call->in[3].data, *add = call->nin > 4 ? call->in[4].data : NULL;
    int64_t C = last_extent(t);
    memset(dgamma, 0, (size_t)C * sizeof(A));
    for (int64_t r = first; r < end; r++) {
        const T *dout = (const T *)call->in[0].data + r * C, *x = (const T *)t->data + r * C;
        T *dinp = (T *)call->out[0].data + r * C;
        A rrms = TYPED(rrms_of)(call, t, ((const A *)call->in[2].data)[r]);
        const A row[2] = {rrms, TYPED(row_dot)(C, rrms, dout, x, gamma) / (A)t->global[t->naxes - 1]};
        TYPED(row_param)(C, rrms, dout, x, dgamma);
        if (add)
            TYPED(row_grad_add)(C, row, dout, x, gamma, add + r * C, dinp);
        else
            TYPED(row_grad)(C, row, dout, x, gamma, dinp);
    }
}

static void TYPED(rms_norm_grad)(const struct mt_call *call) {
    const struct mt_tensor *x = &call->in[1];
    int64_t C = last_extent(x), rows = row_count(x), chunk = chunk_rows(rows), chunks = chunk_count(rows);
    if (!C) return;
#pragma omp parallel for schedule(static) if (rows * C >= WORTH_A_TEAM)
    for (int64_t c = 0; c < chunks; c++)
        TYPED(rms_norm_grad_chunk)(call, c * chunk, least(rows, (c + 1) * chunk), (A *)call->scratch + c * C);
    mt_c_add_partials(call->in[2].type, chunks, C, call->scratch, call->attr->accumulate, call->out[1].data);
}
#endif
