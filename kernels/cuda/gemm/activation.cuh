/* Activations and their slopes, by fast approximations: for results that are rounded to half precision, or compared
 * with the library's. */
#ifndef MT_KERNELS_CUDA_GEMM_ACTIVATION_CUH
#define MT_KERNELS_CUDA_GEMM_ACTIVATION_CUH

/* The tanh form: x (1 + tanh u) / 2 = x / (1 + exp(-2 u)). */
__device__ inline float gelu_sigmoid(float x) {
    return __fdividef(1, 1 + __expf(-1.5957691216f * x * (1 + 0.044715f * x * x)));
}
__device__ inline float gelu_of(float x) {
    return x / (1 + __expf(-1.5957691216f * x * (1 + 0.044715f * x * x)));
}
__device__ inline float relu_of(float x) {
    return x < 0 ? 0 : x; /* NaN stays */
}
__device__ inline float gelu_slope(float x) {
    float s = gelu_sigmoid(x);
    return s + x * s * (1 - s) * 1.5957691216f * (1 + 0.134145f * x * x);
}
__device__ inline float relu_slope(float x) {
    return x > 0;
}

#endif
