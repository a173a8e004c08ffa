/* Layer norm: fused, and in steps that can be split over the normalised axis.
 *
 * Definitions: those of norm_rows.cuh, and DINP_SUM (layer_norm_grad also sums the columns of dinp).
 *
 * s is the sum of a row, q of its squared deviations: mean = s / n, rstd = 1 / sqrt(q / n + eps). */
#include "kernels/cuda/ops/norm_rows.cuh"

struct moments {
    float mean, rstd;
};
__device__ inline moments moments_of(float s, float q, float n, float eps) {
    return {s / n, rsqrtf(q / n + eps)};
}

template <class row> __device__ inline float row_sqdev(const row &x, float mean, int C) {
    float q[1] = {0};
    EACH_ACCESS if (column(k) < C) {
        float a[V];
        x.get(k, a);
        EACH_ELEMENT q[0] += (a[v] - mean) * (a[v] - mean);
    }
    row_sums(q, 1); /* s may have been summed before */
    return q[0];
}

template <class row>
__device__ inline void apply(const row &x, moments m, int C, const T *gamma, const T *beta, T *y) {
    EACH_ACCESS if (column(k) < C) {
        vec<T, V> io;
        float a[V], g[V], b[V] = {0};
        x.get(k, a);
        io.read(gamma + column(k));
        io.get(g);
        if (beta) {
            io.read(beta + column(k));
            io.get(b);
        }
        EACH_ELEMENT a[v] = (a[v] - m.mean) * m.rstd * g[v] + b[v];
        io.set(a);
        io.write(y + column(k));
    }
}

/* Statistics of a row, and the row normalised. */
template <class row>
__device__ inline void normalize(const row &x, int C, float n, float eps, const T *gamma, const T *beta, T *y,
                                 float *s_to, float *q_to) {
    float s[1] = {0};
    EACH_ACCESS if (column(k) < C) {
        float a[V];
        x.get(k, a);
        EACH_ELEMENT s[0] += a[v];
    }
    row_sums(s, 0);
    float q = row_sqdev(x, s[0] / n, C);
    if (leads_row()) *s_to = s[0], *q_to = q;
    apply(x, moments_of(s[0], q, n, eps), C, gamma, beta, y);
}

extern "C" __global__ void __launch_bounds__(W *ROWS)
    layer_norm(i64 rows, int C, float n, float eps, const T *x, const T *gamma, const T *beta, T *y, float *s,
               float *q) {
    i64 row = first_row();
    if (row >= rows) return;
    stored_row in;
    read(in, x + row * C, C);
    normalize(in, C, n, eps, gamma, beta, y + row * C, s + row, q + row);
}

/* x = a + b, y = its norm; x may be a. The norm is of the sum before it is rounded for storing. */
extern "C" __global__ void __launch_bounds__(W *ROWS)
    residual_norm(i64 rows, int C, float n, float eps, const T *a, const T *b, const T *gamma, const T *beta, T *x,
                  T *y, float *s, float *q) {
    i64 row = first_row();
    if (row >= rows) return;
    floats sum;
    add_rows(a + row * C, b + row * C, C, x + row * C, sum);
    normalize(sum, C, n, eps, gamma, beta, y + row * C, s + row, q + row);
}

extern "C" __global__ void __launch_bounds__(W *ROWS)
    norm_sqdev(i64 rows, int C, float n, const T *x, const float *s, float *q) {
    i64 row = first_row();
    if (row >= rows) return;
    stored_row in;
    read(in, x + row * C, C);
    float sum = row_sqdev(in, s[row] / n, C);
    if (leads_row()) q[row] = sum;
}

extern "C" __global__ void __launch_bounds__(W *ROWS)
    norm_apply(i64 rows, int C, float n, float eps, const T *x, const float *s, const float *q, const T *gamma,
               const T *beta, T *y) {
    i64 row = first_row();
    if (row >= rows) return;
    stored_row in;
    read(in, x + row * C, C);
    apply(in, moments_of(s[row], q[row], n, eps), C, gamma, beta, y + row * C);
}

/* ---- gradients ---- */

/* One access of dout, xhat and gamma as floats. */
struct operands {
    float dout[V], xhat[V], gamma[V];
};
__device__ inline operands operands_of(const stored_row &dout, const stored_row &x, int k, moments m, const T *gamma) {
    operands o;
    dout.x[k].get(o.dout), x.x[k].get(o.xhat);
    EACH_ELEMENT o.xhat[v] = (o.xhat[v] - m.mean) * m.rstd;
    vec<T, V> in;
    in.read(gamma + column(k));
    in.get(o.gamma);
    return o;
}

/* dinp = (dout gamma - d1 / n - xhat d2 / n) rstd (+ add, if it adds); means: d1 / n, d2 / n. Rounded as it is stored,
 * it is added to `sums`, unless they are null. */
__device__ inline void input_grad(const stored_row &dout, const stored_row &x, moments m, const float (&means)[2],
                                  int C, const T *gamma, bool adds, const stored_row &add, T *dinp, float (*sums)[V]) {
    EACH_ACCESS if (column(k) < C) {
        operands o = operands_of(dout, x, k, m, gamma);
        float d[V], more[V];
        EACH_ELEMENT d[v] = (o.dout[v] * o.gamma[v] - means[0] - o.xhat[v] * means[1]) * m.rstd;
        if (adds) {
            add.x[k].get(more);
            EACH_ELEMENT d[v] += more[v];
        }
        vec<T, V> out;
        out.set(d);
        out.write(dinp + column(k));
        if (sums) {
            out.get(d);
            EACH_ELEMENT sums[k][v] += d[v];
        }
    }
}

extern "C" __global__ void __launch_bounds__(W *ROWS)
    norm_dots(i64 rows, int C, float n, float eps, const T *dout, const T *x, const float *s, const float *q,
              const T *gamma, float *d1, float *d2) {
    i64 row = first_row();
    if (row >= rows) return;
    stored_row in_dout, in_x;
    read(in_dout, dout + row * C, C), read(in_x, x + row * C, C);
    moments m = moments_of(s[row], q[row], n, eps);
    float dots[2] = {0, 0};
    EACH_ACCESS if (column(k) < C) {
        operands o = operands_of(in_dout, in_x, k, m, gamma);
        EACH_ELEMENT {
            dots[0] += o.dout[v] * o.gamma[v];
            dots[1] += o.dout[v] * o.gamma[v] * o.xhat[v];
        }
    }
    row_sums(dots, 0);
    if (leads_row()) d1[row] = dots[0], d2[row] = dots[1];
}

/* dinp may be dout. */
extern "C" __global__ void __launch_bounds__(W *ROWS)
    norm_grad(i64 rows, int C, float n, float eps, const T *dout, const T *x, const float *s, const float *q,
              const T *gamma, const float *d1, const float *d2, T *dinp) {
    i64 row = first_row();
    if (row >= rows) return;
    stored_row in_dout, in_x;
    read(in_dout, dout + row * C, C), read(in_x, x + row * C, C);
    const float means[2] = {d1[row] / n, d2[row] / n};
    input_grad(in_dout, in_x, moments_of(s[row], q[row], n, eps), means, C, gamma, false, in_x, dinp + row * C,
               NULL);
}

/* A thread's columns of dgamma and dbeta, summed over its rows. */
struct columns {
    float dgamma[K][V], dbeta[K][V];
};

extern "C" __global__ void __launch_bounds__(W *ROWS, BLOCKS)
    norm_param_grad(i64 rows, int C, float n, float eps, const T *dout, const T *x, const float *s, const float *q,
                    float *partial) {
    ROWS_AHEAD(ahead, 2)
    columns sums = {};
    i64 row = first_row(), step = (i64)gridDim.x * ROWS;
    float next_s = 0, next_q = 0;
    if (row < rows) {
        ahead.start(0, dout + row * C, C), ahead.start(1, x + row * C, C);
        next_s = s[row], next_q = q[row];
    }
    for (; row < rows; row += step) {
        stored_row in_dout, in_x;
        moments m = moments_of(next_s, next_q, n, eps);
        ahead.wait();
        ahead.take(0, in_dout, dout + row * C, C), ahead.take(1, in_x, x + row * C, C);
        if (row + step < rows) {
            ahead.start(0, dout + (row + step) * C, C), ahead.start(1, x + (row + step) * C, C);
            next_s = s[row + step], next_q = q[row + step];
        }
        EACH_ACCESS if (column(k) < C) {
            float d[V], a[V];
            in_dout.x[k].get(d), in_x.x[k].get(a);
            EACH_ELEMENT {
                sums.dgamma[k][v] += d[v] * ((a[v] - m.mean) * m.rstd);
                sums.dbeta[k][v] += d[v];
            }
        }
    }
    store_columns(sums.dgamma, C, partial);
    store_columns(sums.dbeta, C, partial + (i64)gridDim.x * C);
}

#ifdef DINP_SUM
constexpr bool SUMS_DINP = true;
#else
constexpr bool SUMS_DINP = false;
#endif

/* dinp may be dout. partial[2 or 3][gridDim.x][C]: of dgamma, of dbeta and, if it is summed, of dinp. */
extern "C" __global__ void __launch_bounds__(W *ROWS, BLOCKS)
    layer_norm_grad(i64 rows, int C, float n, float eps, const T *dout, const T *x, const float *s, const float *q,
                    const T *gamma, const T *add, T *dinp, float *partial) {
    ROWS_AHEAD(ahead, 3)
    columns sums = {};
    float dinp_sums[K][V] = {};
    i64 row = first_row(), step = (i64)gridDim.x * ROWS;
    float next_s = 0, next_q = 0;
    if (row < rows) {
        ahead.start(0, dout + row * C, C), ahead.start(1, x + row * C, C);
        if (add) ahead.start(2, add + row * C, C);
        next_s = s[row], next_q = q[row];
    }
    for (int turn = 0; row < rows; row += step, turn ^= 1) {
        stored_row in_dout, in_x, in_add;
        moments m = moments_of(next_s, next_q, n, eps);
        bool more = row + step < rows;
        ahead.wait();
        ahead.take(0, in_dout, dout + row * C, C), ahead.take(1, in_x, x + row * C, C);
        if (more) {
            ahead.start(0, dout + (row + step) * C, C), ahead.start(1, x + (row + step) * C, C);
            next_s = s[row + step], next_q = q[row + step];
        }
        float means[2] = {0, 0};
        EACH_ACCESS if (column(k) < C) {
            operands o = operands_of(in_dout, in_x, k, m, gamma);
            EACH_ELEMENT {
                sums.dgamma[k][v] += o.dout[v] * o.xhat[v];
                sums.dbeta[k][v] += o.dout[v];
                means[0] += o.dout[v] * o.gamma[v];
                means[1] += o.dout[v] * o.gamma[v] * o.xhat[v];
            }
        }
        if (add && !AHEAD) ahead.take(2, in_add, add + row * C, C);
        row_sums(means, turn);
        means[0] /= n, means[1] /= n;
        forget_floats(in_dout), forget_floats(in_x);
        if (add && AHEAD) ahead.take(2, in_add, add + row * C, C);
        if (add && more) ahead.start(2, add + (row + step) * C, C);
        input_grad(in_dout, in_x, m, means, C, gamma, add, in_add, dinp + row * C, SUMS_DINP ? dinp_sums : NULL);
    }
    store_columns(sums.dgamma, C, partial);
    store_columns(sums.dbeta, C, partial + (i64)gridDim.x * C);
    if constexpr (SUMS_DINP) store_columns(dinp_sums, C, partial + 2 * (i64)gridDim.x * C);
}
