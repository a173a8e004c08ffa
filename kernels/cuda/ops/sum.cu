/* Sums over axes: of rows (the last axis is summed) and of columns (it is kept). Partial sums go through the same
 * kernels once more.
 *
 *   TYPE          of x; sums are float
 *   VECTOR        elements of one access
 *   FLAT          there is one summed axis
 *   SUM_THREADS   sum_rows: threads of a sum
 *   WARPS         sum_columns: of a block
 *
 * Offsets in x follow from two sets of axes: those kept, and those summed. */
using T = TYPE;
constexpr int V = VECTOR, W = SUM_THREADS;

__device__ inline i64 summed_place(const axes &summed, i64 i) {
    return FLAT ? i * summed.stride[0] : place(summed, i);
}

/* Sum number k, part p: of the elements [p piece, (p + 1) piece) of the summed axes, to to[k parts + p]. */
extern "C" __global__ void sum_rows(const T *x, const __grid_constant__ axes kept,
                                    const __grid_constant__ axes summed, i64 sums, i64 length, i64 piece, i64 parts,
                                    int accumulate, float *to) {
    __shared__ float part[32];
    i64 item = (i64)blockIdx.x * (blockDim.x / W) + threadIdx.x / W;
    if (item >= sums * parts) return; /* whole warps, or none of the block */
    i64 k = item / parts, from = (item - k * parts) * piece, end = from + piece < length ? from + piece : length;
    x += place(kept, k);
    float sum[V] = {0};
#pragma unroll 4
    for (i64 i = from + threadIdx.x % W * V; i < end; i += W * V) {
        vec<T, V> in;
        float v[V];
        in.read(x + summed_place(summed, i));
        in.get(v);
#pragma unroll
        for (int j = 0; j < V; j++) sum[j] += v[j];
    }
    float all = 0;
#pragma unroll
    for (int j = 0; j < V; j++) all += sum[j];
    all = W == 32 ? warp_sum(all) : block_sum(all, part);
    if (threadIdx.x % W == 0) to[item] = accumulate ? to[item] + all : all;
}

/* to[column] = the sum of rows [begin, end) of x, for a strip of 32 V columns. Warps take rows round-robin. */
__device__ inline void sum_strip(const T *x, const axes &summed, i64 columns, i64 strip, i64 begin, i64 end,
                                 bool accumulate, float *to) {
    __shared__ float part[WARPS][32 * V];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    i64 column = (strip * 32 + lane) * V;
    float sum[V] = {0};
    if (column < columns) {
        x += column;
#pragma unroll 4
        for (i64 r = begin + warp; r < end; r += WARPS) {
            vec<T, V> in;
            float v[V];
            in.read(x + summed_place(summed, r));
            in.get(v);
#pragma unroll
            for (int j = 0; j < V; j++) sum[j] += v[j];
        }
    }
#pragma unroll
    for (int j = 0; j < V; j++) part[warp][lane * V + j] = sum[j];
    __syncthreads();
    for (int j = threadIdx.x; j < 32 * V; j += WARPS * 32) {
        column = strip * 32 * V + j;
        if (column >= columns) break;
        float all = 0;
        for (int w = 0; w < WARPS; w++) all += part[w][j];
        to[column] = accumulate ? to[column] + all : all;
    }
}

/* Row k of the output, chunk c of the summed axes, a strip of columns: to to[k step + c columns + column]. */
extern "C" __global__ void __launch_bounds__(WARPS * 32)
    sum_columns(const T *x, const __grid_constant__ axes kept, const __grid_constant__ axes summed, i64 columns,
                i64 length, i64 chunk, i64 chunks, int accumulate, float *to, i64 step) {
    i64 strips = (columns + 32 * V - 1) / (32 * V), which = blockIdx.x / strips, strip = blockIdx.x - which * strips;
    i64 k = which / chunks, c = which - k * chunks;
    i64 end = (c + 1) * chunk < length ? (c + 1) * chunk : length;
    sum_strip(x + place(kept, k), summed, columns, strip, c * chunk, end, accumulate, to + k * step + c * columns);
}

/* sum.c */
struct outputs {
    float *to[3];
};

/* to[k][columns] is the sum over the parts of x[k][parts][columns]. */
extern "C" __global__ void __launch_bounds__(WARPS * 32)
    add_partials(const T *x, i64 columns, i64 parts, int accumulate, const __grid_constant__ outputs out) {
    i64 strips = (columns + 32 * V - 1) / (32 * V), k = blockIdx.x / strips, strip = blockIdx.x - k * strips;
    const axes rows = {1, {parts}, {columns}};
    sum_strip(x + k * parts * columns, rows, columns, strip, 0, parts, accumulate, out.to[k]);
}
