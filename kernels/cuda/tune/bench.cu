/* Random operands, and the comparison of outputs. TYPE: of the elements. */

__device__ inline u32 scrambled(i64 i, u32 seed) {
    u32 h = ((u32)i ^ (u32)(i >> 32) ^ seed) * 0x9E3779B1u;
    h = (h ^ (h >> 15)) * 0x85EBCA77u;
    return h ^ h >> 13;
}

/* x[count]: random numbers from low to low + span. */
extern "C" __global__ void numbers(TYPE *x, i64 count, u32 seed, float low, float span) {
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (i64)gridDim.x * blockDim.x)
        store(x + i, low + span * 0x1p-24f * (float)(scrambled(i, seed) >> 8));
}

/* x[count]: random integers from 0 to below - 1. */
extern "C" __global__ void ids(int *x, i64 count, u32 seed, u32 below) {
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (i64)gridDim.x * blockDim.x)
        x[i] = (int)(scrambled(i, seed) % below);
}

/* sums[blockIdx.x] = the sums over a block's elements of (x - y)^2 and of y^2; NaN equals NaN. */
extern "C" __global__ void compare(const TYPE *x, const TYPE *y, i64 count, double *sums) {
    __shared__ double part[2][32];
    double sum[2] = {0, 0};
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (i64)gridDim.x * blockDim.x) {
        double a = (double)load(x[i]), b = (double)load(y[i]);
        if (a != a && b != b) continue;
        if (a == b) a = b; /* infinities */
        sum[0] += a == b ? 0 : (a - b) * (a - b);
        sum[1] += b * b;
    }
    for (int k = 0; k < 2; k++) {
        for (int step = 16; step; step /= 2) sum[k] += __shfl_xor_sync(~0u, sum[k], step);
        if (threadIdx.x % 32 == 0) part[k][threadIdx.x / 32] = sum[k];
    }
    __syncthreads();
    if (threadIdx.x < 2) {
        double all = 0;
        for (int w = 0; w < (int)blockDim.x / 32; w++) all += part[threadIdx.x][w];
        sums[2 * blockIdx.x + threadIdx.x] = all;
    }
}
