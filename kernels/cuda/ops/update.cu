/* grad_scale, loss_scale, adamw and sgd: exact. Compiled without fused multiply-adds and with the plain C backend's
 * expressions in its order (kernels/cpu/c/update.c): a change there is a change here.
 *
 *   VECTOR   elements of one access
 *   TO       adamw: the type of the cast weights; not defined: they are not wanted
 *
 * One pass over the tensors of any number of calls (multi_tensor.h); outputs may be inputs. Constants that depend on
 * the step are computed in double, once a block. */

constexpr int V = VECTOR;
#ifdef TO
using Y = TO;
constexpr bool CASTS = true;
#else
using Y = float;
constexpr bool CASTS = false;
#endif

/* base^n by repeated squaring, the same everywhere. */
__device__ inline double power(double base, i64 n) {
    double result = 1;
    for (; n; n >>= 1, base *= base)
        if (n & 1) result *= base;
    return result;
}

__device__ inline bool finite(float x) {
    return (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u;
}

/* loss_scale: may be null. */
extern "C" __global__ void grad_scale(const float *sq, const float *count, const float *loss_scale, float *to,
                                      double clip) {
    double counted = *count, scale = 0;
    if (!finite(*sq)) {
        *to = loss_scale ? 0 : __uint_as_float(0x7fc00000);
        return;
    }
    if (counted > 0) {
        double n = counted * (loss_scale ? (double)*loss_scale : 1), norm = sqrt((double)*sq) / n;
        scale = 1 / n;
        if (clip > 0 && !(norm + 1e-6 <= clip)) scale *= clip / (norm + 1e-6);
    }
    *to = (float)scale;
}

struct loss_scale_s {
    double least, most;
    i64 interval;
};

extern "C" __global__ void loss_scale(const float *scale, const float *good, const float *skipped, const float *sq,
                                      float *scale_new, float *good_new, float *skipped_new, loss_scale_s k) {
    double s = *scale, g = (double)*good + 1, k_skipped = *skipped;
    if (!finite(*sq)) {
        s = s / 2 > k.least ? s / 2 : k.least;
        g = 0, k_skipped++;
    } else if (g >= (double)k.interval) {
        s = s * 2 < k.most ? s * 2 : k.most;
        g = 0;
    }
    *scale_new = (float)s;
    *good_new = (float)g;
    *skipped_new = (float)k_skipped;
}

/* Runs f(in[V]..., out[V]...) over a block's share of arrays: N are read, M are written, the first one as `cast` too. */
template <bool CAST, int N, int M, class F>
__device__ inline void each(const share &mine, const float *const (&from)[N], float *const (&to)[M], Y *cast, F f) {
    for (i64 at = mine.begin + threadIdx.x * V; at < mine.end; at += blockDim.x * V) {
        float in[N][V], out[M][V];
        if (at + V <= mine.end) {
            vec<float, V> bits[N];
#pragma unroll
            for (int k = 0; k < N; k++) bits[k].read(from[k] + at);
#pragma unroll
            for (int k = 0; k < N; k++) bits[k].get(in[k]);
#pragma unroll
            for (int v = 0; v < V; v++) f(in, out, v);
#pragma unroll
            for (int k = 0; k < M; k++) {
                bits[k].set(out[k]);
                bits[k].write(to[k] + at);
            }
            if constexpr (CAST) {
                vec<Y, V> rounded;
                rounded.set(out[0]);
                rounded.write(cast + at);
            }
        } else {
            for (i64 i = at; i < mine.end; i++) {
                for (int k = 0; k < N; k++) in[k][0] = from[k][i];
                f(in, out, 0);
                for (int k = 0; k < M; k++) to[k][i] = out[k][0];
                if constexpr (CAST) store(cast + i, out[0][0]);
            }
        }
    }
}

/* As in update.c. */
struct adamw_tensor {
    const float *w, *m, *v, *g, *factor, *skipped; /* skipped: or null */
    float *w_new, *m_new, *v_new;
    Y *cast; /* or null */
    i64 n;
    double beta1, beta2, lr_scale;
    float eps, decay;
};
struct adamw_tensors {
    adamw_tensor of[MOST_TENSORS];
};

extern "C" __global__ void adamw(const __grid_constant__ batch table, const __grid_constant__ adamw_tensors all,
                                 const clock_s *clock) {
    __shared__ float unbias[2];
    int which = tensor_of(table, blockIdx.x);
    const adamw_tensor &k = all.of[which];
    i64 step = clock->step - (k.skipped ? (i64)*k.skipped : 0);
    if (step < 1) step = 1;
    if (threadIdx.x < 2) unbias[threadIdx.x] = (float)(1 / (1 - power(threadIdx.x ? k.beta2 : k.beta1, step)));
    __syncthreads();
    float beta1 = (float)k.beta1, rest1 = (float)(1 - k.beta1), beta2 = (float)k.beta2, rest2 = (float)(1 - k.beta2);
    float unbias1 = unbias[0], unbias2 = unbias[1], eps = k.eps, decay = k.decay;
    float lr = (float)(clock->lr * k.lr_scale), scale = *k.factor;
    const float *const from[] = {k.w, k.m, k.v, k.g};
    float *const to[] = {k.w_new, k.m_new, k.v_new};
    each<CASTS>(share_of(table, which, k.n), from, to, k.cast, [&](const float(&in)[4][V], float(&out)[3][V], int i) {
        float grad = in[3][i] * scale, weight = in[0][i];
        float mean = beta1 * in[1][i] + rest1 * grad;
        float square = beta2 * in[2][i] + rest2 * grad * grad;
        float move = mean * unbias1 / (sqrtf(square * unbias2) + eps);
        out[0][i] = scale == 0 ? weight : weight - lr * (move + decay * weight);
        out[1][i] = scale == 0 ? in[1][i] : mean;
        out[2][i] = scale == 0 ? in[2][i] : square;
    });
}

struct sgd_tensor {
    const float *w, *m, *g, *factor;
    float *w_new, *m_new;
    i64 n;
    double lr_scale;
    float momentum, decay;
    int nesterov;
};
struct sgd_tensors {
    sgd_tensor of[MOST_TENSORS];
};

extern "C" __global__ void sgd(const __grid_constant__ batch table, const __grid_constant__ sgd_tensors all,
                               const clock_s *clock) {
    int which = tensor_of(table, blockIdx.x);
    const sgd_tensor &k = all.of[which];
    float lr = (float)(clock->lr * k.lr_scale), scale = *k.factor, momentum = k.momentum, decay = k.decay;
    bool nesterov = k.nesterov;
    const float *const from[] = {k.w, k.m, k.g};
    float *const to[] = {k.w_new, k.m_new};
    each<false>(share_of(table, which, k.n), from, to, nullptr, [&](const float(&in)[3][V], float(&out)[2][V], int i) {
        float weight = in[0][i], grad = in[2][i] * scale + decay * weight;
        float mean = momentum * in[1][i] + grad;
        float move = nesterov ? grad + momentum * mean : mean;
        out[0][i] = scale == 0 ? weight : weight - lr * move;
        out[1][i] = scale == 0 ? in[1][i] : mean;
    });
}
