/* The epilogue of tiles in fused.cu: a bias, which is added to their sums, of those that add to this rank's part of them;
 * and of a gather, as what has been rounded is stored, its activation, or its product with a slope. */
#ifndef MT_KERNELS_CUDA_OVERLAP_EPILOGUE_CUH
#define MT_KERNELS_CUDA_OVERLAP_EPILOGUE_CUH

#include "kernels/cuda/gemm/activation.cuh"
#include "kernels/cuda/overlap/fused/call.cuh"

constexpr bool BIASED = EPILOGUE >= 1 && EPILOGUE <= 3 && (!SIGNALS || ADDS);

/* A group: the bias of a tile's columns is in the L1 cache when it is added. */
__device__ inline void fetch_bias(const run &r, int column) {
    int line = (int)threadIdx.x % 128, at = column + line * 64;
    if (line < COLUMNS / 64 && at < r.c.columns) asm volatile("prefetch.global.L1 [%0];" ::"l"(r.c.bias + at));
}
/* A thread has columns 8 n + 2 (lane % 4) and the next, for all n. The result has a multiple of 8 columns. */
__device__ __forceinline__ void add_bias(const run &r, int column, float (&c)[HALVES][COLUMNS / 8][4]) {
    const TYPE *bias = r.c.bias + column + threadIdx.x % 4 * 2;
#pragma unroll
    for (int n = 0; n < COLUMNS / 8; n++) {
        u32 two = 0;
        float left, right;
        if (column + 8 * n < r.c.columns) asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(two) : "l"(bias + 8 * n));
        unpair((const T *)0, two, left, right);
#pragma unroll
        for (int h = 0; h < HALVES; h++)
            c[h][n][0] += left, c[h][n][1] += right, c[h][n][2] += left, c[h][n][3] += right;
    }
}
/* A division here, as gelu_of has, would not fit into the registers beside two tiles. */
struct activated {
    __device__ inline u32 operator()(u32 two) const {
        float x, y;
        unpair((const T *)0, two, x, y);
        return EPILOGUE == 2 ? ::pair((const T *)0, x * gelu_sigmoid(x), y * gelu_sigmoid(y))
                             : ::pair((const T *)0, relu_of(x), relu_of(y));
    }
};
struct sloped {
    __device__ inline u32 operator()(u32 two, u32 at) const {
        float x, y, left, right;
        unpair((const T *)0, two, x, y);
        unpair((const T *)0, at, left, right);
        return EPILOGUE == 4 ? ::pair((const T *)0, x * gelu_slope(left), y * gelu_slope(right))
                             : ::pair((const T *)0, x * relu_slope(left), y * relu_slope(right));
    }
};

#endif
