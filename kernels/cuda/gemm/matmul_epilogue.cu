/* Passes around a GEMM that cuBLASLt does not do itself: the bias before it, the activation or its slope after it, and
 * the columns that strips leave over (strips.c).
 *
 * TYPE: of the elements (not T, which is a name in NVRTC's own templates). VEC: elements a thread, 16 bytes where the
 * pointers are so aligned, else 1. GELU: 1, or 0 for relu. STRIPS: how many strips there are. */
#ifndef VEC
#define VEC 1
#endif
#ifndef GELU
#define GELU 0
#endif
#ifndef STRIPS
#define STRIPS 8
#endif

#include "kernels/cuda/gemm/activation.cuh"

typedef TYPE T;

struct alignas(sizeof(T) * VEC) pack {
    T v[VEC];
};

__device__ inline float activation(float x) {
    return GELU ? gelu_of(x) : relu_of(x);
}
__device__ inline float slope_at(float x) {
    return GELU ? gelu_slope(x) : relu_slope(x);
}

/* y[count] = activation(x[count]); a block takes blockDim.x * VEC elements. */
extern "C" __global__ void activate(const T *x, T *y, i64 count) {
    i64 i = ((i64)blockIdx.x * blockDim.x + threadIdx.x) * VEC;
    if (i + VEC <= count) {
        pack p = *(const pack *)(x + i);
#pragma unroll
        for (int v = 0; v < VEC; v++) store(&p.v[v], activation(load(p.v[v])));
        *(pack *)(y + i) = p;
    } else {
        for (; i < count; i++) store(y + i, activation(load(x[i])));
    }
}

/* y[count] *= the slope at x[count]. */
extern "C" __global__ void slope(const T *x, T *y, i64 count) {
    i64 i = ((i64)blockIdx.x * blockDim.x + threadIdx.x) * VEC;
    if (i + VEC <= count) {
        pack at = *(const pack *)(x + i), p = *(const pack *)(y + i);
#pragma unroll
        for (int v = 0; v < VEC; v++) store(&p.v[v], load(p.v[v]) * slope_at(load(at.v[v])));
        *(pack *)(y + i) = p;
    } else {
        for (; i < count; i++) store(y + i, load(y[i]) * slope_at(load(x[i])));
    }
}

/* Column `at` of the 2 * 64 that strips may leave over: of a matrix `width` wide, the first 64 and the last. Row i has
 * its strip of `window` columns from (i % STRIPS) * shift on; -1 where the column is in the strip. */
__device__ inline i64 left_over(i64 i, int at, i64 width, i64 shift, i64 window) {
    i64 column = at < 64 ? at : width - 128 + at, first = i % STRIPS * shift;
    return column < first || column >= first + window ? column : -1;
}

/* edge[rows, 128] = x[rows, width] where strips leave it over, else 0; a block of 128 threads a row. */
extern "C" __global__ void gather_edges(const T *x, T *edge, i64 rows, i64 width, i64 shift, i64 window) {
    for (i64 i = blockIdx.x; i < rows; i += gridDim.x) {
        i64 column = left_over(i, threadIdx.x, width, shift, window);
        T zero;
        store(&zero, 0.0f);
        edge[i * 128 + threadIdx.x] = column < 0 ? zero : x[i * width + column];
    }
}

/* The reverse: y[rows, width] gets the columns that strips leave over. */
extern "C" __global__ void scatter_edges(const T *edge, T *y, i64 rows, i64 width, i64 shift, i64 window) {
    for (i64 i = blockIdx.x; i < rows; i += gridDim.x) {
        i64 column = left_over(i, threadIdx.x, width, shift, window);
        if (column >= 0) y[i * width + column] = edge[i * 128 + threadIdx.x];
    }
}

/* y[m, n] = bias[n] in every row: columns along x, rows along y of the grid. */
extern "C" __global__ void spread(const T *bias, T *y, i64 m, i64 n) {
    i64 j = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= n) return;
    T b = bias[j];
    for (i64 i = blockIdx.y; i < m; i += gridDim.y) y[i * n + j] = b;
}
