/* Root-mean-square norm: fused, and in steps that can be split over the normalised axis. Definitions: those of
 * norm_rows.cuh. q is the sum of a row's squares: rrms = 1 / sqrt(q / n + eps), xhat = x rrms. */
#include "kernels/cuda/ops/norm_rows.cuh"

__device__ inline float rrms_of(float q, float n, float eps) {
    return rsqrtf(q / n + eps);
}

template <class row> __device__ inline float row_square(const row &x, int C) {
    float q[1] = {0};
    EACH_ACCESS if (column(k) < C) {
        float a[V];
        x.get(k, a);
        EACH_ELEMENT q[0] += a[v] * a[v];
    }
    row_sums(q, 0);
    return q[0];
}

template <class row> __device__ inline void apply(const row &x, float rrms, int C, const T *gamma, T *y) {
    EACH_ACCESS if (column(k) < C) {
        vec<T, V> io;
        float a[V], g[V];
        x.get(k, a);
        io.read(gamma + column(k));
        io.get(g);
        EACH_ELEMENT a[v] = a[v] * rrms * g[v];
        io.set(a);
        io.write(y + column(k));
    }
}

extern "C" __global__ void __launch_bounds__(W *ROWS) rms_sq(i64 rows, int C, const T *x, float *q) {
    i64 row = first_row();
    if (row >= rows) return;
    stored_row in;
    read(in, x + row * C, C);
    float sum = row_square(in, C);
    if (leads_row()) q[row] = sum;
}

extern "C" __global__ void __launch_bounds__(W *ROWS)
    rms_apply(i64 rows, int C, float n, float eps, const T *x, const float *q, const T *gamma, T *y) {
    i64 row = first_row();
    if (row >= rows) return;
    stored_row in;
    read(in, x + row * C, C);
    apply(in, rrms_of(q[row], n, eps), C, gamma, y + row * C);
}

extern "C" __global__ void __launch_bounds__(W *ROWS)
    rms_norm(i64 rows, int C, float n, float eps, const T *x, const T *gamma, T *y, float *q) {
    i64 row = first_row();
    if (row >= rows) return;
    stored_row in;
    read(in, x + row * C, C);
    float sum = row_square(in, C);
    if (leads_row()) q[row] = sum;
    apply(in, rrms_of(sum, n, eps), C, gamma, y + row * C);
}

/* x = a + b, y = its norm; x may be a. The norm is of the sum before it is rounded for storing. */
extern "C" __global__ void __launch_bounds__(W *ROWS)
    residual_rms(i64 rows, int C, float n, float eps, const T *a, const T *b, const T *gamma, T *x, T *y, float *q) {
    i64 row = first_row();
    if (row >= rows) return;
    floats sum;
    add_rows(a + row * C, b + row * C, C, x + row * C, sum);
    float square = row_square(sum, C);
    if (leads_row()) q[row] = square;
    apply(sum, rrms_of(square, n, eps), C, gamma, y + row * C);
}

/* ---- gradients ---- */

/* One access of dout, xhat and gamma as floats. */
struct operands {
    float dout[V], xhat[V], gamma[V];
};
__device__ inline operands operands_of(const stored_row &dout, const stored_row &x, int k, float rrms, const T *gamma) {
    operands o;
    dout.x[k].get(o.dout), x.x[k].get(o.xhat);
    EACH_ELEMENT o.xhat[v] *= rrms;
    vec<T, V> in;
    in.read(gamma + column(k));
    in.get(o.gamma);
    return o;
}

/* dinp = (dout gamma - xhat d / n) rrms (+ add, if it adds); mean: d / n. */
__device__ inline void input_grad(const stored_row &dout, const stored_row &x, float rrms, float mean, int C,
                                  const T *gamma, bool adds, const stored_row &add, T *dinp) {
    EACH_ACCESS if (column(k) < C) {
        operands o = operands_of(dout, x, k, rrms, gamma);
        float d[V], more[V];
        EACH_ELEMENT d[v] = (o.dout[v] * o.gamma[v] - o.xhat[v] * mean) * rrms;
        if (adds) {
            add.x[k].get(more);
            EACH_ELEMENT d[v] += more[v];
        }
        vec<T, V> out;
        out.set(d);
        out.write(dinp + column(k));
    }
}

extern "C" __global__ void __launch_bounds__(W *ROWS)
    rms_dot(i64 rows, int C, float n, float eps, const T *dout, const T *x, const float *q, const T *gamma, float *d) {
    i64 row = first_row();
    if (row >= rows) return;
    stored_row in_dout, in_x;
    read(in_dout, dout + row * C, C), read(in_x, x + row * C, C);
    float rrms = rrms_of(q[row], n, eps), dot[1] = {0};
    EACH_ACCESS if (column(k) < C) {
        operands o = operands_of(in_dout, in_x, k, rrms, gamma);
        EACH_ELEMENT dot[0] += o.dout[v] * o.gamma[v] * o.xhat[v];
    }
    row_sums(dot, 0);
    if (leads_row()) d[row] = dot[0];
}

/* dinp may be dout. */
extern "C" __global__ void __launch_bounds__(W *ROWS)
    rms_grad(i64 rows, int C, float n, float eps, const T *dout, const T *x, const float *q, const T *gamma,
             const float *d, T *dinp) {
    i64 row = first_row();
    if (row >= rows) return;
    stored_row in_dout, in_x;
    read(in_dout, dout + row * C, C), read(in_x, x + row * C, C);
    input_grad(in_dout, in_x, rrms_of(q[row], n, eps), d[row] / n, C, gamma, false, in_x, dinp + row * C);
}

/* A thread's columns of dgamma, summed over its rows. */
typedef float columns[K][V];

extern "C" __global__ void __launch_bounds__(W *ROWS, BLOCKS)
    rms_param_grad(i64 rows, int C, float n, float eps, const T *dout, const T *x, const float *q, float *partial) {
    ROWS_AHEAD(ahead, 2)
    columns dgamma = {};
    i64 row = first_row(), step = (i64)gridDim.x * ROWS;
    float next_q = 0;
    if (row < rows) {
        ahead.start(0, dout + row * C, C), ahead.start(1, x + row * C, C);
        next_q = q[row];
    }
    for (; row < rows; row += step) {
        stored_row in_dout, in_x;
        float rrms = rrms_of(next_q, n, eps);
        ahead.wait();
        ahead.take(0, in_dout, dout + row * C, C), ahead.take(1, in_x, x + row * C, C);
        if (row + step < rows) {
            ahead.start(0, dout + (row + step) * C, C), ahead.start(1, x + (row + step) * C, C);
            next_q = q[row + step];
        }
        EACH_ACCESS if (column(k) < C) {
            float d[V], a[V];
            in_dout.x[k].get(d), in_x.x[k].get(a);
            EACH_ELEMENT dgamma[k][v] += d[v] * (a[v] * rrms);
        }
    }
    store_columns(dgamma, C, partial);
}

/* dinp may be dout. partial[gridDim.x][C]: of dgamma. */
extern "C" __global__ void __launch_bounds__(W *ROWS, BLOCKS)
    rms_norm_grad(i64 rows, int C, float n, float eps, const T *dout, const T *x, const float *q, const T *gamma,
                  const T *add, T *dinp, float *partial) {
    ROWS_AHEAD(ahead, 3)
    columns dgamma = {};
    i64 row = first_row(), step = (i64)gridDim.x * ROWS;
    float next_q = 0;
    if (row < rows) {
        ahead.start(0, dout + row * C, C), ahead.start(1, x + row * C, C);
        if (add) ahead.start(2, add + row * C, C);
        next_q = q[row];
    }
    for (int turn = 0; row < rows; row += step, turn ^= 1) {
        stored_row in_dout, in_x, in_add;
        float rrms = rrms_of(next_q, n, eps), dot[1] = {0};
        bool more = row + step < rows;
        ahead.wait();
        ahead.take(0, in_dout, dout + row * C, C), ahead.take(1, in_x, x + row * C, C);
        if (more) {
            ahead.start(0, dout + (row + step) * C, C), ahead.start(1, x + (row + step) * C, C);
            next_q = q[row + step];
        }
        EACH_ACCESS if (column(k) < C) {
            operands o = operands_of(in_dout, in_x, k, rrms, gamma);
            EACH_ELEMENT {
                dgamma[k][v] += o.dout[v] * o.xhat[v];
                dot[0] += o.dout[v] * o.gamma[v] * o.xhat[v];
            }
        }
        if (add && !AHEAD) ahead.take(2, in_add, add + row * C, C);
        row_sums(dot, turn);
        forget_floats(in_dout), forget_floats(in_x);
        if (add && AHEAD) ahead.take(2, in_add, add + row * C, C);
        if (add && more) ahead.start(2, add + (row + step) * C, C);
        input_grad(in_dout, in_x, rrms, dot[0] / n, C, gamma, add, in_add, dinp + row * C);
    }
    store_columns(dgamma, C, partial);
}
