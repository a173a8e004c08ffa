/* Cross entropy over the last axis. A block does a row; memory sets the pace, so each kernel reads the logits once:
 * a thread keeps the maximum of what it has seen and the sum of exponentials under it, and rescales the sum when a
 * larger one comes (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018).
 *
 * Rows may begin at any element: what is before the first and after the last boundary of 16 bytes goes by elements. */
typedef TYPE T;
#define VECTOR (16 / (int)sizeof(T))
#define MINUS_INFINITY __int_as_float(0xff800000)

struct __align__(16) pack {
    T x[VECTOR];
};

/* bf16's own rounding is far above what the fast exponential loses. */
__device__ inline float exp_of(float x) {
    return sizeof(T) == 2 ? __expf(x) : expf(x);
}

/* Call one(j, x[j]) and pack(j, x[j, +VECTOR]) such that this thread's part of the row is seen once. UNROLL packs are
 * on their way together. */
template <class One, class Pack> __device__ inline void each_of_row(const T *x, i64 n, One one, Pack whole) {
    enum { UNROLL = 4 };
    i64 head = (i64)((16 - (u64)x % 16) % 16 / sizeof(T));
    if (head > n) head = n;
    i64 packs = (n - head) / VECTOR, tail = head + packs * VECTOR;
    const pack *body = (const pack *)(x + head);
    if (threadIdx.x < head) one((i64)threadIdx.x, x[threadIdx.x]);
    i64 i = threadIdx.x;
    for (; i + (UNROLL - 1) * blockDim.x < packs; i += UNROLL * blockDim.x) {
        pack p[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) p[u] = body[i + u * blockDim.x];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) whole(head + (i + u * blockDim.x) * VECTOR, p[u]);
    }
    for (; i < packs; i += blockDim.x) whole(head + i * VECTOR, body[i]);
    if (threadIdx.x < n - tail) one(tail + threadIdx.x, x[tail + threadIdx.x]);
}

__device__ inline float most_of(const pack &p) {
    float m = load(p.x[0]);
#pragma unroll
    for (int k = 1; k < VECTOR; k++) m = fmaxf(m, load(p.x[k]));
    return m;
}

__device__ inline float block_max(float x, float *part) {
    x = warp_max(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
    __syncthreads();
    float most = MINUS_INFINITY;
    for (int w = 0; w < (int)(blockDim.x + 31) / 32; w++) most = fmaxf(most, part[w]);
    return most;
}

__device__ inline float nll_of(float m, float z, float picked, int target) {
    return target < 0 ? 0 : logf(z) + (m - picked);
}

/* Where in the box the target is, or -1. */
__device__ inline i64 target_at(int target, i64 offset, i64 v) {
    i64 at = target - offset;
    return target >= 0 && at >= 0 && at < v ? at : -1;
}

extern "C" __global__ void row_max(const T *x, float *m, i64 v) {
    __shared__ float part[32];
    float most = MINUS_INFINITY;
    each_of_row(
        x + blockIdx.x * v, v, [&](i64, T value) { most = fmaxf(most, load(value)); },
        [&](i64, const pack &p) { most = fmaxf(most, most_of(p)); });
    most = block_max(most, part);
    if (threadIdx.x == 0) m[blockIdx.x] = most;
}

extern "C" __global__ void exp_sum(const T *x, const float *m, float *z, i64 v) {
    __shared__ float part[32];
    float most = m[blockIdx.x], sum = 0;
    if (most > MINUS_INFINITY)
        each_of_row(
            x + blockIdx.x * v, v, [&](i64, T value) { sum += exp_of(load(value) - most); },
            [&](i64, const pack &p) {
#pragma unroll
                for (int k = 0; k < VECTOR; k++) sum += exp_of(load(p.x[k]) - most);
            });
    sum = block_sum(sum, part);
    if (threadIdx.x == 0) z[blockIdx.x] = sum;
}

extern "C" __global__ void pick(const T *x, const int *target, float *picked, i64 rows, i64 v, i64 offset) {
    i64 r = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    i64 at = target_at(target[r], offset, v);
    picked[r] = at < 0 ? 0 : load(x[r * v + at]);
}

extern "C" __global__ void nll(const float *m, const float *z, const float *picked, const int *target, float *l,
                               i64 rows) {
    i64 r = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (r < rows) l[r] = nll_of(m[r], z[r], picked[r], target[r]);
}

extern "C" __global__ void cross_entropy(const T *x, const int *target, float *m, float *z, float *l, i64 v,
                                         i64 offset) {
    __shared__ float part[32];
    const T *row = x + blockIdx.x * v;
    float most = MINUS_INFINITY, sum = 0;
    auto raise = [&](float here) {
        if (here <= most) return;
        sum *= exp_of(most - here); /* at first 0 times exp(-infinity) */
        most = here;
    };
    each_of_row(
        row, v,
        [&](i64, T value) {
            raise(load(value));
            if (most > MINUS_INFINITY) sum += exp_of(load(value) - most);
        },
        [&](i64, const pack &p) {
            raise(most_of(p));
            if (most == MINUS_INFINITY) return;
#pragma unroll
            for (int k = 0; k < VECTOR; k++) sum += exp_of(load(p.x[k]) - most);
        });
    float whole = block_max(most, part);
    sum = block_sum(most > MINUS_INFINITY ? sum * exp_of(most - whole) : 0, part);
    if (threadIdx.x) return;
    i64 at = target_at(target[blockIdx.x], offset, v);
    m[blockIdx.x] = whole;
    z[blockIdx.x] = sum;
    l[blockIdx.x] = nll_of(whole, sum, at < 0 ? 0 : load(row[at]), target[blockIdx.x]);
}

/* dx may be x: an element is read and written by one thread. Where x and dx lie differently between boundaries of 16
 * bytes, VECTORS is 0 and all goes by elements. */
extern "C" __global__ void nll_grad(const T *x, const float *m, const float *z, const int *target, const float *dl,
                                    T *dx, i64 v, i64 offset) {
    i64 first = blockIdx.x * v, at = target_at(target[blockIdx.x], offset, v);
    bool counts = target[blockIdx.x] >= 0;
    float most = m[blockIdx.x], sum = z[blockIdx.x], loss = dl[blockIdx.x], factor = sum > 0 ? loss / sum : 0;
    auto grad = [&](i64 j, T value) {
        return !counts ? 0 : exp_of(load(value) - most) * factor - (j == at ? loss : 0);
    };
#if VECTORS
    each_of_row(
        x + first, v, [&](i64 j, T value) { store(&dx[first + j], grad(j, value)); },
        [&](i64 j, const pack &p) {
            pack q;
            if (!counts) {
#pragma unroll
                for (int k = 0; k < VECTOR; k++) store(&q.x[k], 0);
            } else {
#pragma unroll
                for (int k = 0; k < VECTOR; k++) store(&q.x[k], exp_of(load(p.x[k]) - most) * factor);
                if (at >= j && at < j + VECTOR) {
#pragma unroll
                    for (int k = 0; k < VECTOR; k++)
                        if (j + k == at) store(&q.x[k], grad(at, p.x[k]));
                }
            }
            *(pack *)(dx + first + j) = q;
        });
#else
    for (i64 j = threadIdx.x; j < v; j += blockDim.x) store(&dx[first + j], grad(j, x[first + j]));
#endif
}
