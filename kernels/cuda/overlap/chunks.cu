/* Between the GEMMs and copies of a chunked schedule: waits for flags, and sums of slots.
 *
 *   WAITS        overlap_await: most flags of a launch, and threads of its one block
 *   FROM, TO     overlap_sum: types
 *   BIAS         of the bias [TO]
 *   VECTOR       elements of one access
 *   TRANSPOSED   the result is stored transposed */
#include "kernels/cuda/window/window.cuh"

struct flags {
    u64 *flag[WAITS];
    u32 count[WAITS], lag[WAITS];
};

/* Until each flag has the count of this epoch, or of the one before. A run that has given up goes on at once: its
 * results are not used; and it tells peers nothing more: words[nwords], which copy engines put into their flags, are 0.
 */
extern "C" __global__ void __launch_bounds__(WAITS)
    overlap_await(const __grid_constant__ flags f, int n, const u64 *epoch, u64 *words, i64 nwords,
                  const __grid_constant__ watch w) {
    __shared__ u32 claims;
    int i = threadIdx.x, fine = 1;
    if (!i) claims = 0;
    __syncthreads();
    if (i < n)
        fine = wait<THREAD>(f.flag[i], (*epoch - f.lag[i]) * f.count[i], w, [] { return !atomicAdd(&claims, 1); });
    if (__syncthreads_and(fine)) return;
    for (i64 at = i; at < nwords; at += WAITS) words[at] = 0;
}

#ifndef BIAS
#define BIAS TO
#endif

using F = FROM;
using T = TO;
constexpr int V = VECTOR;

struct sources {
    i64 count, at[64]; /* elements from `from` on */
};

/* to[rows, cols] = the sum over sources of from[at + ...], rows of `stride`; in their order, in float; and bias[cols], if
 * it is not null. */
extern "C" __global__ void overlap_sum(T *to, i64 to_stride, const F *from, i64 stride,
                                       const __grid_constant__ sources s, i64 rows, i64 cols, const BIAS *bias) {
    i64 across = (cols + V - 1) / V, count = rows * across;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (i64)gridDim.x * blockDim.x) {
        i64 row = i / across, col = i % across * V;
        float sum[V] = {0};
        for (i64 k = 0; k < s.count; k++) {
            vec<F, V> in;
            float v[V];
            in.read(from + s.at[k] + row * stride + col);
            in.get(v);
#pragma unroll
            for (int j = 0; j < V; j++) sum[j] += v[j];
        }
        for (int j = 0; j < V && bias; j++) sum[j] += load(bias[col + j]);
        vec<T, V> out;
        out.set(sum);
        out.write(to + row * to_stride + col);
    }
}

/* The same, to[cols, rows]: by tiles of 32 by 32, of 256 threads. */
extern "C" __global__ void __launch_bounds__(256)
    overlap_sum_transposed(T *to, i64 to_stride, const F *from, i64 stride, const __grid_constant__ sources s, i64 rows,
                           i64 cols, const BIAS *bias) {
    __shared__ float tile[32][33];
    i64 across = (cols + 31) / 32, count = (rows + 31) / 32 * across;
    int x = threadIdx.x % 32, y = threadIdx.x / 32;
    for (i64 t = blockIdx.x; t < count; t += gridDim.x) {
        i64 row = t / across * 32, col = t % across * 32;
        for (int r = y; r < 32; r += 8) {
            float sum = 0;
            if (row + r < rows && col + x < cols)
                for (i64 k = 0; k < s.count; k++) sum += load(from[s.at[k] + (row + r) * stride + col + x]);
            if (bias && col + x < cols) sum += load(bias[col + x]);
            tile[r][x] = sum;
        }
        __syncthreads();
        for (int c = y; c < 32; c += 8)
            if (col + c < cols && row + x < rows) store(to + (col + c) * to_stride + row + x, tile[x][c]);
        __syncthreads();
    }
}
