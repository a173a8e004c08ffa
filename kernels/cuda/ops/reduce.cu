/* sq_norm, sq_norm_add and count: a number from a whole array, in two stages. A block loops over tiles of the array.
 * The sum of a thread over a tile is a float, all further sums are doubles, in an order that depends on the shape
 * alone.
 *
 *   VECTOR   elements of one access */
constexpr int V = VECTOR;
enum { THREADS = 256, U = 4, TILE = THREADS * U * V };

__device__ inline double block_sum_of(double x) {
    __shared__ double part[THREADS / 32];
    for (int i = 16; i; i >>= 1) x += __shfl_xor_sync(0xffffffffu, x, i);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
    __syncthreads();
    double sum = 0;
    for (int w = 0; w < THREADS / 32; w++) sum += part[w];
    return sum;
}

/* The sum of f over every `step`-th tile of n elements, from first_tile on. */
template <class F> __device__ inline double sum_of(i64 first_tile, i64 step, i64 n, const float *x, F f) {
    double sum = 0;
    for (i64 tile = first_tile; tile * TILE < n; tile += step) {
        i64 first = tile * TILE + threadIdx.x * V;
        vec<float, V> in[U];
        float s = 0;
#pragma unroll
        for (int u = 0; u < U; u++)
            if (first + u * THREADS * V + V <= n) in[u].read(x + first + u * THREADS * V);
#pragma unroll
        for (int u = 0; u < U; u++) {
            i64 at = first + u * THREADS * V;
            if (at + V <= n) {
#pragma unroll
                for (int v = 0; v < V; v++) s += f(in[u].w[v]);
            } else {
                for (i64 i = at; i < n; i++) s += f(__float_as_uint(x[i]));
            }
        }
        sum += s;
    }
    return block_sum_of(sum);
}

template <class F> __device__ inline void reduce(i64 n, const float *x, double *partial, F f) {
    double sum = sum_of(blockIdx.x, gridDim.x, n, x, f);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__device__ inline float square_of(u32 bits) {
    return __uint_as_float(bits) * __uint_as_float(bits);
}

extern "C" __global__ void __launch_bounds__(THREADS) sq_norm(i64 n, const float *x, double *partial) {
    reduce(n, x, partial, square_of);
}

extern "C" __global__ void __launch_bounds__(THREADS) count(i64 n, const float *target, double *partial) {
    reduce(n, target, partial, [](u32 bits) { return (int)bits >= 0 ? 1.0f : 0.0f; });
}

extern "C" __global__ void __launch_bounds__(THREADS) add_partials(i64 blocks, const double *partial, float *to) {
    double sum = 0;
    for (i64 p = threadIdx.x; p < blocks; p += THREADS) sum += partial[p];
    sum = block_sum_of(sum);
    if (threadIdx.x == 0) *to = (float)sum;
}

/* ---- sq_norm_add: of several tensors (multi_tensor.h); structs as in reduce.c. partial[block]: a block's sum ---- */

struct norm_tensor {
    const float *x, *before;
    float *to;
    i64 n;
};
struct norm_tensors {
    norm_tensor of[MOST_TENSORS];
};

extern "C" __global__ void __launch_bounds__(THREADS)
    sq_norm_add(const __grid_constant__ batch table, const __grid_constant__ norm_tensors all, double *partial) {
    int which = tensor_of(table, blockIdx.x), blocks = table.first[which + 1] - table.first[which];
    const norm_tensor &k = all.of[which];
    double sum = sum_of((int)blockIdx.x - table.first[which], blocks, k.n, k.x, square_of);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

/* A warp adds up a tensor's partial sums; then one thread adds the tensors' sums in order: each adds to the output of
 * the one before it, the first to its own `before`. */
extern "C" __global__ void __launch_bounds__(32 * MOST_TENSORS)
    add_partials_of_each(const __grid_constant__ batch table, const __grid_constant__ norm_tensors all,
                         const double *partial) {
    __shared__ float squares[MOST_TENSORS];
    int tensor = threadIdx.x / 32, lane = threadIdx.x % 32;
    double sum = 0;
    if (tensor < table.count)
        for (int b = table.first[tensor] + lane; b < table.first[tensor + 1]; b += 32) sum += partial[b];
    for (int i = 16; i; i >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, i);
    if (lane == 0) squares[tensor] = (float)sum;
    __syncthreads();
    if (threadIdx.x) return;
    float so_far = *all.of[0].before;
    for (int t = 0; t < table.count; t++) *all.of[t].to = so_far += squares[t];
}
