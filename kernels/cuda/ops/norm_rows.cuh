/* Rows in registers, for the kernels of both norms: reading, sums along a row, sums down the columns, prefetch.
 *
 *   TYPE          the activation type
 *   VECTOR        elements of one access: divides the row
 *   ROW_THREADS   threads of a row: a warp, or all of a block
 *   ACCESSES      of a thread: ROW_THREADS * ACCESSES * VECTOR is at least a row
 *   ROWS          of a block at a time
 *   BLOCKS        resident on a multiprocessor, of the kernels that loop over rows
 *
 * Rows have C elements here, and n over all ranks. A thread keeps its columns of a row in registers, so that a row is
 * read once. */
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

/* Sums over the threads of a row, returned in all of them. Successive calls of a kernel pass turn 0, 1, 0, ...: each turn
 * has a part of shared memory, so that a warp that is ahead does not overwrite what others still read, and warps wait
 * for each other only once in each call. */
template <int N> __device__ inline void row_sums(float (&x)[N], int turn) {
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = warp_sum(x[i]);
    if constexpr (W > 32) {
        __shared__ float parts[2][N][W / 32];
        float(&part)[N][W / 32] = parts[turn];
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

/* A thread's columns of a row: as stored, and as floats. */
struct stored_row {
    vec<T, V> x[K];
    __device__ void get(int k, float (&to)[V]) const { x[k].get(to); }
};
struct floats {
    float x[K][V];
    __device__ void get(int k, float (&to)[V]) const { EACH_ELEMENT to[v] = x[k][v]; }
};

__device__ inline void read(stored_row &to, const T *row, int C) {
    EACH_ACCESS if (column(k) < C) to.x[k].read(row + column(k));
}

/* x = a + b, of a row; x may be a. `sum`: before it is rounded for storing. */
__device__ inline void add_rows(const T *a, const T *b, int C, T *x, floats &sum) {
    stored_row left, right;
    read(left, a, C);
    read(right, b, C);
    EACH_ACCESS if (column(k) < C) {
        float more[V];
        left.get(k, sum.x[k]), right.get(k, more);
        EACH_ELEMENT sum.x[k][v] += more[v];
        left.x[k].set(sum.x[k]);
        left.x[k].write(x + column(k));
    }
}

/* Store a block's sums, over its ROWS in order, to row `blockIdx.x` of to[gridDim.x][C]. */
__device__ inline void store_columns(const float (&sums)[K][V], int C, float *to) {
    to += (i64)blockIdx.x * C;
    if constexpr (ROWS == 1) {
        EACH_ACCESS if (column(k) < C) EACH_ELEMENT to[column(k) + v] = sums[k][v];
    } else {
        __shared__ float part[ROWS][W * K * V];
        __syncthreads();
        EACH_ACCESS EACH_ELEMENT part[threadIdx.x / W][column(k) + v] = sums[k][v];
        __syncthreads();
        for (int j = threadIdx.x; j < C; j += W * ROWS) {
            float sum = 0;
            for (int r = 0; r < ROWS; r++) sum += part[r][j];
            to[j] = sum;
        }
    }
}

/* Prefetch: while a thread works on a row, its own columns of the next one are copied into shared memory, so that no
 * thread waits for another. Without cp.async, or where they do not fit, rows are read when they are needed. */
#if __CUDA_ARCH__ >= 800
constexpr bool AHEAD = vec<T, V>::bytes >= 4 && 3 * K * W * ROWS * vec<T, V>::bytes <= 40 * 1024;
#else
constexpr bool AHEAD = false;
#endif

struct rows_ahead {
    vec<T, V> (*slot)[K][W * ROWS]; /* shared: [dout, x, add] */

    __device__ void start(int which, const T *row, int C) const {
        if constexpr (AHEAD) {
            EACH_ACCESS if (column(k) < C) {
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
    /* The row that was prefetched; or it is read now. */
    __device__ void take(int which, stored_row &to, const T *row, int C) const {
        if constexpr (AHEAD) {
            EACH_ACCESS if (column(k) < C) to.x[k] = slot[which][k][threadIdx.x];
        } else {
            read(to, row, C);
        }
    }
};
#define ROWS_AHEAD(name, count)                                                                                        \
    __shared__ __align__(16) vec<T, V> name##_slots[AHEAD ? count : 1][AHEAD ? K : 1][AHEAD ? W * ROWS : 1];          \
    rows_ahead name = {(vec<T, V>(*)[K][W * ROWS])name##_slots};

/* Keeps the compiler from holding a row as floats across the sums: it is unpacked again, which takes half the
 * registers.
 */
__device__ inline void forget_floats(stored_row &x) {
    EACH_ACCESS for (int i = 0; i < vec<T, V>::words; i++) asm volatile("" : "+r"(x.x[k].w[i]));
}
