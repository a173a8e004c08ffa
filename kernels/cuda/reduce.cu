/* sq_norm and count: a number from a whole array, in two stages. A block walks tiles of the array; what a thread adds
 * up of a tile is a float, and all further sums are doubles, in an order that the shape alone decides.
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

template <class F> __device__ inline void reduce(i64 n, const float *x, double *partial, F f) {
    double sum = 0;
    for (i64 tile = blockIdx.x; tile * TILE < n; tile += gridDim.x) {
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
    sum = block_sum_of(sum);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(THREADS) sq_norm(i64 n, const float *x, double *partial) {
    reduce(n, x, partial, [](u32 bits) { return __uint_as_float(bits) * __uint_as_float(bits); });
}

extern "C" __global__ void __launch_bounds__(THREADS) count(i64 n, const float *target, double *partial) {
    reduce(n, target, partial, [](u32 bits) { return (int)bits >= 0 ? 1.0f : 0.0f; });
}

extern "C" __global__ void __launch_bounds__(THREADS) finish(i64 parts, const double *partial, float *to) {
    double sum = 0;
    for (i64 p = threadIdx.x; p < parts; p += THREADS) sum += partial[p];
    sum = block_sum_of(sum);
    if (threadIdx.x == 0) *to = (float)sum;
}
