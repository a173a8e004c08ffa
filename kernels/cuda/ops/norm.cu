/* Layer norm: fused, and in steps that can be split over the normalised axis.
 *
 *   TYPE          the activation type
 *   VECTOR        elements of one access: divides the row
 *   ROW_THREADS   of a row: a warp, or all of a block
 *   ACCESSES      of a thread: all of them together are at least a row
 *   ROWS          that a block has at once
 *   BLOCKS        that a multiprocessor shall hold, of those that walk rows
 *   DX_SUM        defined: layer_norm_grad sums the columns of dx, too
 *
 * A thread keeps its columns of a row in registers, so that a row is read once. mean = s / n and rstd =
 * 1 / sqrt(q / n + eps), n the whole extent. */
using T = TYPE;
constexpr int V = VECTOR, W = ROW_THREADS, K = ACCESSES;
#define EACH_ACCESS _Pragma("unroll") for (int k = 0; k < K; k++)
#define EACH_ELEMENT _Pragma("unroll") for (int v = 0; v < V; v++)

__device__ inline i64 first_row() {
    return (i64)blockIdx.x * ROWS + threadIdx.x / W;
}
__device__ inline int column(int k) {
    return (k * W + (int)(threadIdx.x % W)) * V;
}
__device__ inline bool leads_row() {
    return threadIdx.x % W == 0;
}

/* Sums over the threads of a row, in all of them. */
template <int N> __device__ inline void row_sums(float (&x)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = warp_sum(x[i]);
    if constexpr (W > 32) {
        __shared__ float part[N][W / 32];
        __syncthreads();
        if (threadIdx.x % 32 == 0)
            for (int i = 0; i < N; i++) part[i][threadIdx.x / 32] = x[i];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < N; i++) {
            x[i] = 0;
            for (int w = 0; w < W / 32; w++) x[i] += part[i][w];
        }
    }
}

/* A thread's part of a row: as it is stored, and as floats. */
struct line {
    vec<T, V> x[K];
    __device__ void get(int k, float (&to)[V]) const { x[k].get(to); }
};
struct floats {
    float x[K][V];
    __device__ void get(int k, float (&to)[V]) const { EACH_ELEMENT to[v] = x[k][v]; }
};

__device__ inline void read(line &to, const T *row, int e) {
    EACH_ACCESS if (column(k) < e) to.x[k].read(row + column(k));
}

/* Statistics as the loops want them. */
struct moments {
    float mean, rstd;
};
__device__ inline moments moments_of(float s, float q, float n, float eps) {
    return {s / n, rsqrtf(q / n + eps)};
}

template <class row> __device__ inline float row_sqdev(const row &x, float mean, int e) {
    float q[1] = {0};
    EACH_ACCESS if (column(k) < e) {
        float a[V];
        x.get(k, a);
        EACH_ELEMENT q[0] += (a[v] - mean) * (a[v] - mean);
    }
    row_sums(q);
    return q[0];
}

template <class row>
__device__ inline void apply(const row &x, moments m, int e, const T *gamma, const T *beta, T *y) {
    EACH_ACCESS if (column(k) < e) {
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

/* Statistics and the normalised row of a whole row. */
template <class row>
__device__ inline void normalize(const row &x, int e, float n, float eps, const T *gamma, const T *beta, T *y,
                                 float *s_to, float *q_to) {
    float s[1] = {0};
    EACH_ACCESS if (column(k) < e) {
        float a[V];
        x.get(k, a);
        EACH_ELEMENT s[0] += a[v];
    }
    row_sums(s);
    float q = row_sqdev(x, s[0] / n, e);
    if (leads_row()) *s_to = s[0], *q_to = q;
    apply(x, moments_of(s[0], q, n, eps), e, gamma, beta, y);
}

extern "C" __global__ void __launch_bounds__(W *ROWS)
    layer_norm(i64 rows, int e, float n, float eps, const T *x, const T *gamma, const T *beta, T *y, float *s,
               float *q) {
    i64 row = first_row();
    if (row >= rows) return;
    line in;
    read(in, x + row * e, e);
    normalize(in, e, n, eps, gamma, beta, y + row * e, s + row, q + row);
}

/* x may be a. The norm is of the sum before it is rounded to be stored. */
extern "C" __global__ void __launch_bounds__(W *ROWS)
    residual_norm(i64 rows, int e, float n, float eps, const T *a, const T *b, const T *gamma, const T *beta, T *x,
                  T *y, float *s, float *q) {
    i64 row = first_row();
    if (row >= rows) return;
    line left, right;
    floats sum;
    read(left, a + row * e, e);
    read(right, b + row * e, e);
    EACH_ACCESS if (column(k) < e) {
        float more[V];
        left.get(k, sum.x[k]), right.get(k, more);
        EACH_ELEMENT sum.x[k][v] += more[v];
        left.x[k].set(sum.x[k]);
        left.x[k].write(x + row * e + column(k));
    }
    normalize(sum, e, n, eps, gamma, beta, y + row * e, s + row, q + row);
}

extern "C" __global__ void __launch_bounds__(W *ROWS)
    norm_sqdev(i64 rows, int e, float n, const T *x, const float *s, float *q) {
    i64 row = first_row();
    if (row >= rows) return;
    line in;
    read(in, x + row * e, e);
    float sum = row_sqdev(in, s[row] / n, e);
    if (leads_row()) q[row] = sum;
}

extern "C" __global__ void __launch_bounds__(W *ROWS)
    norm_apply(i64 rows, int e, float n, float eps, const T *x, const float *s, const float *q, const T *gamma,
               const T *beta, T *y) {
    i64 row = first_row();
    if (row >= rows) return;
    line in;
    read(in, x + row * e, e);
    apply(in, moments_of(s[row], q[row], n, eps), e, gamma, beta, y + row * e);
}

/* ---- gradients ---- */

/* One access of dy, xhat and gamma as floats. */
struct operands {
    float dy[V], xhat[V], gamma[V];
};
__device__ inline operands operands_of(const line &dy, const line &x, int k, moments m, const T *gamma) {
    operands o;
    dy.x[k].get(o.dy), x.x[k].get(o.xhat);
    EACH_ELEMENT o.xhat[v] = (o.xhat[v] - m.mean) * m.rstd;
    vec<T, V> in;
    in.read(gamma + column(k));
    in.get(o.gamma);
    return o;
}

/* dx = (dy gamma - d1 / n - xhat d2 / n) rstd (+ add, if it adds); means: d1 / n, d2 / n. As it is stored, rounded, it
 * is added to `sums`, if they are there. */
__device__ inline void input_grad(const line &dy, const line &x, moments m, const float (&means)[2], int e,
                                  const T *gamma, bool adds, const line &add, T *dx, float (*sums)[V]) {
    EACH_ACCESS if (column(k) < e) {
        operands o = operands_of(dy, x, k, m, gamma);
        float d[V], more[V];
        EACH_ELEMENT d[v] = (o.dy[v] * o.gamma[v] - means[0] - o.xhat[v] * means[1]) * m.rstd;
        if (adds) {
            add.x[k].get(more);
            EACH_ELEMENT d[v] += more[v];
        }
        vec<T, V> out;
        out.set(d);
        out.write(dx + column(k));
        if (sums) {
            out.get(d);
            EACH_ELEMENT sums[k][v] += d[v];
        }
    }
}

extern "C" __global__ void __launch_bounds__(W *ROWS)
    norm_dots(i64 rows, int e, float n, float eps, const T *dy, const T *x, const float *s, const float *q,
              const T *gamma, float *d1, float *d2) {
    i64 row = first_row();
    if (row >= rows) return;
    line in_dy, in_x;
    read(in_dy, dy + row * e, e), read(in_x, x + row * e, e);
    moments m = moments_of(s[row], q[row], n, eps);
    float dots[2] = {0, 0};
    EACH_ACCESS if (column(k) < e) {
        operands o = operands_of(in_dy, in_x, k, m, gamma);
        EACH_ELEMENT {
            dots[0] += o.dy[v] * o.gamma[v];
            dots[1] += o.dy[v] * o.gamma[v] * o.xhat[v];
        }
    }
    row_sums(dots);
    if (leads_row()) d1[row] = dots[0], d2[row] = dots[1];
}

/* dx may be dy. */
extern "C" __global__ void __launch_bounds__(W *ROWS)
    norm_grad(i64 rows, int e, float n, float eps, const T *dy, const T *x, const float *s, const float *q,
              const T *gamma, const float *d1, const float *d2, T *dx) {
    i64 row = first_row();
    if (row >= rows) return;
    line in_dy, in_x;
    read(in_dy, dy + row * e, e), read(in_x, x + row * e, e);
    const float means[2] = {d1[row] / n, d2[row] / n};
    input_grad(in_dy, in_x, moments_of(s[row], q[row], n, eps), means, e, gamma, false, in_x, dx + row * e,
               NULL);
}

/* A thread's columns of dgamma and dbeta, over the rows that it has seen. */
struct columns {
    float dgamma[K][V], dbeta[K][V];
};

/* A block's sums to row `blockIdx.x` of to[gridDim.x][e]; of its rows in order. */
__device__ inline void store_columns(const float (&sums)[K][V], int e, float *to) {
    to += (i64)blockIdx.x * e;
    if constexpr (ROWS == 1) {
        EACH_ACCESS if (column(k) < e) EACH_ELEMENT to[column(k) + v] = sums[k][v];
    } else {
        __shared__ float part[ROWS][W * K * V];
        __syncthreads();
        EACH_ACCESS EACH_ELEMENT part[threadIdx.x / W][column(k) + v] = sums[k][v];
        __syncthreads();
        for (int j = threadIdx.x; j < e; j += W * ROWS) {
            float sum = 0;
            for (int r = 0; r < ROWS; r++) sum += part[r][j];
            to[j] = sum;
        }
    }
}

/* Rows that a thread will want next are on their way while it works on one: its own columns of them, in shared memory,
 * so that nobody waits for others. Where that is not to be had, or too large, rows are read when they are wanted. */
#if __CUDA_ARCH__ >= 800
constexpr bool AHEAD = vec<T, V>::bytes >= 4 && 3 * K * W * ROWS * vec<T, V>::bytes <= 40 * 1024;
#else
constexpr bool AHEAD = false;
#endif

struct rows_ahead {
    vec<T, V> (*slot)[K][W * ROWS]; /* shared: [dy, x, add] */

    __device__ void start(int which, const T *row, int e) const {
        if constexpr (AHEAD) {
            EACH_ACCESS if (column(k) < e) {
                u32 to = (u32)__cvta_generic_to_shared(&slot[which][k][threadIdx.x]);
                if constexpr (vec<T, V>::bytes == 16)
                    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(row + column(k))
                                 : "memory");
                else
                    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(row + column(k)),
                                 "n"(vec<T, V>::bytes)
                                 : "memory");
            }
        }
    }
    __device__ void wait() const {
        if constexpr (AHEAD) asm volatile("cp.async.wait_all;" ::: "memory");
    }
    /* What was started, or from memory. */
    __device__ void take(int which, line &to, const T *row, int e) const {
        if constexpr (AHEAD) {
            EACH_ACCESS if (column(k) < e) to.x[k] = slot[which][k][threadIdx.x];
        } else {
            read(to, row, e);
        }
    }
};
#define ROWS_AHEAD(name, count)                                                                                        \
    __shared__ __align__(16) vec<T, V> name##_slots[AHEAD ? count : 1][AHEAD ? K : 1][AHEAD ? W * ROWS : 1];          \
    rows_ahead name = {(vec<T, V>(*)[K][W * ROWS])name##_slots};

extern "C" __global__ void __launch_bounds__(W *ROWS, BLOCKS)
    norm_param_grad(i64 rows, int e, float n, float eps, const T *dy, const T *x, const float *s, const float *q,
                    float *partial) {
    ROWS_AHEAD(ahead, 2)
    columns sums = {};
    i64 row = first_row(), step = (i64)gridDim.x * ROWS;
    float next_s = 0, next_q = 0;
    if (row < rows) {
        ahead.start(0, dy + row * e, e), ahead.start(1, x + row * e, e);
        next_s = s[row], next_q = q[row];
    }
    for (; row < rows; row += step) {
        line in_dy, in_x;
        moments m = moments_of(next_s, next_q, n, eps);
        ahead.wait();
        ahead.take(0, in_dy, dy + row * e, e), ahead.take(1, in_x, x + row * e, e);
        if (row + step < rows) {
            ahead.start(0, dy + (row + step) * e, e), ahead.start(1, x + (row + step) * e, e);
            next_s = s[row + step], next_q = q[row + step];
        }
        EACH_ACCESS if (column(k) < e) {
            float d[V], a[V];
            in_dy.x[k].get(d), in_x.x[k].get(a);
            EACH_ELEMENT {
                sums.dgamma[k][v] += d[v] * ((a[v] - m.mean) * m.rstd);
                sums.dbeta[k][v] += d[v];
            }
        }
    }
    store_columns(sums.dgamma, e, partial);
    store_columns(sums.dbeta, e, partial + (i64)gridDim.x * e);
}

/* Keeps the compiler from holding a row as floats over the sums: it is unpacked again, in half the registers. */
__device__ inline void forget_floats(line &x) {
    EACH_ACCESS for (int i = 0; i < vec<T, V>::words; i++) asm volatile("" : "+r"(x.x[k].w[i]));
}

#ifdef DX_SUM
constexpr bool SUMS_DX = true;
#else
constexpr bool SUMS_DX = false;
#endif

/* dx may be dy. partial[2 or 3][gridDim.x][e]: of dgamma, of dbeta and, if it is summed, of dx. */
extern "C" __global__ void __launch_bounds__(W *ROWS, BLOCKS)
    layer_norm_grad(i64 rows, int e, float n, float eps, const T *dy, const T *x, const float *s, const float *q,
                    const T *gamma, const T *add, T *dx, float *partial) {
    ROWS_AHEAD(ahead, 3)
    columns sums = {};
    float dx_sums[K][V] = {};
    i64 row = first_row(), step = (i64)gridDim.x * ROWS;
    float next_s = 0, next_q = 0;
    if (row < rows) {
        ahead.start(0, dy + row * e, e), ahead.start(1, x + row * e, e);
        if (add) ahead.start(2, add + row * e, e);
        next_s = s[row], next_q = q[row];
    }
    for (; row < rows; row += step) {
        line in_dy, in_x, in_add;
        moments m = moments_of(next_s, next_q, n, eps);
        bool more = row + step < rows;
        ahead.wait();
        ahead.take(0, in_dy, dy + row * e, e), ahead.take(1, in_x, x + row * e, e);
        if (more) {
            ahead.start(0, dy + (row + step) * e, e), ahead.start(1, x + (row + step) * e, e);
            next_s = s[row + step], next_q = q[row + step];
        }
        float means[2] = {0, 0};
        EACH_ACCESS if (column(k) < e) {
            operands o = operands_of(in_dy, in_x, k, m, gamma);
            EACH_ELEMENT {
                sums.dgamma[k][v] += o.dy[v] * o.xhat[v];
                sums.dbeta[k][v] += o.dy[v];
                means[0] += o.dy[v] * o.gamma[v];
                means[1] += o.dy[v] * o.gamma[v] * o.xhat[v];
            }
        }
        if (add && !AHEAD) ahead.take(2, in_add, add + row * e, e);
        row_sums(means);
        means[0] /= n, means[1] /= n;
        forget_floats(in_dy), forget_floats(in_x);
        if (add && AHEAD) ahead.take(2, in_add, add + row * e, e);
        if (add && more) ahead.start(2, add + (row + step) * e, e);
        input_grad(in_dy, in_x, m, means, e, gamma, add, in_add, dx + row * e, SUMS_DX ? dx_sums : NULL);
    }
    store_columns(sums.dgamma, e, partial);
    store_columns(sums.dbeta, e, partial + (i64)gridDim.x * e);
    if constexpr (SUMS_DX) store_columns(dx_sums, e, partial + 2 * (i64)gridDim.x * e);
}
