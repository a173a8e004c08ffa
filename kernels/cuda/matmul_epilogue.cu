/* What goes around a product that cuBLASLt does not do itself: the bias before it, the activation after it, and random
 * operands to time it with.
 *
 * TYPE: of the elements (not T, which is a name in NVRTC's own templates). VEC: elements a thread, 16 bytes where the
 * pointers are so aligned, else 1. GELU: 1, or 0 for relu. */
#ifndef VEC
#define VEC 1
#endif
#ifndef GELU
#define GELU 0
#endif

typedef TYPE T;

struct alignas(sizeof(T) * VEC) pack {
    T v[VEC];
};

/* The tanh form: x (1 + tanh u) / 2 = x / (1 + exp(-2 u)). */
__device__ inline float activation(float x) {
    if (!GELU) return x < 0 ? 0 : x; /* NaN stays */
    return x / (1 + __expf(-1.5957691216f * x * (1 + 0.044715f * x * x)));
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

/* y[m, n] = bias[n] in every row: columns along x, rows along y of the grid. */
extern "C" __global__ void spread(const T *bias, T *y, i64 m, i64 n) {
    i64 j = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= n) return;
    T b = bias[j];
    for (i64 i = blockIdx.y; i < m; i += gridDim.y) y[i * n + j] = b;
}

/* x[count] in [-1/2, 1/2), a hash of the index. */
extern "C" __global__ void noise(T *x, i64 count) {
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (i64)gridDim.x * blockDim.x) {
        u32 h = ((u32)i ^ (u32)(i >> 32)) * 0x9E3779B1u;
        h = (h ^ (h >> 15)) * 0x85EBCA77u;
        h ^= h >> 13;
        store(x + i, (float)(h >> 8) * 0x1p-24f - 0.5f);
    }
}
