/* Cross entropy over the last axis, of V logits. A block works on a row. The kernels are memory-bound, so each reads
 * the logits once: a thread keeps a running maximum and the sum of exponentials relative to it, and rescales the sum
 * when a larger maximum comes (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018).
 *
 * Rows may begin at any element: elements before the first and after the last boundary of 16 bytes are read one by
 * one. */
typedef TYPE T;
#define VECTOR (16 / (int)sizeof(T))
#define MINUS_INFINITY __int_as_float(0xff800000)

struct __align__(16) pack {
    T x[VECTOR];
};

/* For halves, the error of the fast exponential is far below that of rounding. */
__device__ inline float exp_of(float x) {
    return sizeof(T) == 2 ? __expf(x) : expf(x);
}

/* Call one(j, x[j]) or whole(j, x[j...j + VECTOR - 1]) for all elements of the row that are this thread's. UNROLL packs
 * are loaded at a time. */
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
    return reduce_warps(warp_max(x), part, MINUS_INFINITY, [](float a, float b) { return fmaxf(a, b); });
}

__device__ inline float nll_of(float m, float z, float picked, int target) {
    return target < 0 ? 0 : logf(z) + (m - picked);
}

/* The target's index among this rank's logits, or -1. */
__device__ inline i64 target_at(int target, i64 offset, i64 V) {
    i64 at = target - offset;
    return target >= 0 && at >= 0 && at < V ? at : -1;
}

extern "C" __global__ void row_max(const T *x, float *m, i64 V) {
    __shared__ float part[32];
    float most = MINUS_INFINITY;
    each_of_row(
        x + blockIdx.x * V, V, [&](i64, T value) { most = fmaxf(most, load(value)); },
        [&](i64, const pack &p) { most = fmaxf(most, most_of(p)); });
    most = block_max(most, part);
    if (threadIdx.x == 0) m[blockIdx.x] = most;
}

extern "C" __global__ void exp_sum(const T *x, const float *m, float *z, i64 V) {
    __shared__ float part[32];
    float most = m[blockIdx.x], sum = 0;
    if (most > MINUS_INFINITY)
        each_of_row(
            x + blockIdx.x * V, V, [&](i64, T value) { sum += exp_of(load(value) - most); },
            [&](i64, const pack &p) {
#pragma unroll
                for (int k = 0; k < VECTOR; k++) sum += exp_of(load(p.x[k]) - most);
            });
    sum = block_sum(sum, part);
    if (threadIdx.x == 0) z[blockIdx.x] = sum;
}

extern "C" __global__ void pick(const T *x, const int *target, float *picked, i64 rows, i64 V, i64 offset) {
    i64 r = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    i64 at = target_at(target[r], offset, V);
    picked[r] = at < 0 ? 0 : load(x[r * V + at]);
}

extern "C" __global__ void nll(const float *m, const float *z, const float *picked, const int *target, float *l,
                               i64 rows) {
    i64 r = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (r < rows) l[r] = nll_of(m[r], z[r], picked[r], target[r]);
}

extern "C" __global__ void cross_entropy(const T *x, const int *target, float *m, float *z, float *l, i64 V,
                                         i64 offset) {
    __shared__ float part[32];
    const T *row = x + blockIdx.x * V;
    float most = MINUS_INFINITY, sum = 0;
    auto raise = [&](float here) {
        if (here <= most) return;
        sum *= exp_of(most - here); /* at first 0 times exp(-infinity) */
        most = here;
    };
    each_of_row(
        row, V,
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
    i64 at = target_at(target[blockIdx.x], offset, V);
    m[blockIdx.x] = whole;
    z[blockIdx.x] = sum;
    l[blockIdx.x] = nll_of(whole, sum, at < 0 ? 0 : load(row[at]), target[blockIdx.x]);
}

/* ---- gradients ----
 *
 * A block copies the row, or the first `held` packs of it, to shared memory, all copies in flight at once, and so
 * before it writes (dlogits may be x). The rest is read twice. A thread reads and writes the same packs, counted from
 * the boundary of 16 bytes at or before the row's first element. */
#define LOG2_E 1.4426950408889634f
#define GRAD_VECTOR (VECTORS ? VECTOR : 1)

struct __align__(GRAD_VECTOR * sizeof(T)) grad_pack {
    T x[GRAD_VECTOR];
};

__device__ inline void fetch(grad_pack *to, const grad_pack *from) {
#if __CUDA_ARCH__ >= 800 && VECTORS
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((u32)__cvta_generic_to_shared(to)), "l"(from));
#else
    *to = *from;
#endif
}
__device__ inline void fetched() {
#if __CUDA_ARCH__ >= 800 && VECTORS
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

/* exp(x - m) of a pack's elements; shift = -m log2(e), for bf16. */
__device__ inline float exp_under(float x, float m, float shift) {
    if (sizeof(T) == 4) return expf(x - m);
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(fmaf(x, LOG2_E, shift)));
    return y;
}

struct row_of {
    const grad_pack *from;
    grad_pack *to, *room;
    i64 n;         /* elements */
    int ahead;     /* elements of the first pack that are the row's before */
    int packs, held;

    __device__ row_of(const T *x, T *dlogits, i64 first, i64 V, int most, void *shared)
        : n(V), ahead(VECTORS ? (int)((u64)(x + first) % 16 / sizeof(T)) : 0), room((grad_pack *)shared) {
        from = (const grad_pack *)(x + first - ahead), to = (grad_pack *)(dlogits + first - ahead);
        packs = (int)((V + ahead + GRAD_VECTOR - 1) / GRAD_VECTOR);
        held = packs < most ? packs : most;
    }
    __device__ void start() const {
#pragma unroll 4
        for (int p = threadIdx.x; p < held; p += blockDim.x) fetch(room + p, from + p);
    }
    __device__ grad_pack read(int p) const { return p < held ? room[p] : from[p]; }
    /* The index in the row of element k of pack p, and whether it is in the row. */
    __device__ i64 place(int p, int k) const { return (i64)p * GRAD_VECTOR + k - ahead; }
    __device__ bool whole(int p) const {
        return (p > 0 || !ahead) && (i64)(p + 1) * GRAD_VECTOR - ahead <= n;
    }
    __device__ bool has(int p, int k) const {
        i64 j = place(p, k);
        return j >= 0 && j < n;
    }
    __device__ void write(int p, const float (&y)[GRAD_VECTOR]) const {
        if (whole(p)) {
            vec<T, GRAD_VECTOR> out;
            out.set(y);
            out.write((T *)(to + p));
            return;
        }
#pragma unroll
        for (int k = 0; k < GRAD_VECTOR; k++)
            if (has(p, k)) store(&to[p].x[k], y[k]);
    }
};

/* dlogits = exp(x - m) factor - [the target] dl. `at`: of the target in the row, or -1. */
__device__ inline void write_grad(const row_of &row, i64 at, float m, float factor, float dl) {
    float shift = -m * LOG2_E;
    int there = at < 0 ? -1 : (int)((at + row.ahead) / GRAD_VECTOR);
#pragma unroll 2
    for (int p = threadIdx.x; p < row.packs; p += blockDim.x) {
        grad_pack in = row.read(p);
        float y[GRAD_VECTOR];
#pragma unroll
        for (int k = 0; k < GRAD_VECTOR; k++) y[k] = exp_under(load(in.x[k]), m, shift) * factor;
        if (p == there) {
#pragma unroll
            for (int k = 0; k < GRAD_VECTOR; k++)
                if (row.place(p, k) == at) y[k] -= dl;
        }
        row.write(p, y);
    }
}

__device__ inline void write_zeros(const row_of &row) {
    const float zeros[GRAD_VECTOR] = {0};
    for (int p = threadIdx.x; p < row.packs; p += blockDim.x) row.write(p, zeros);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    nll_grad(const T *x, const float *m, const float *z, const int *target, const float *dl, T *dlogits, i64 V,
             i64 offset, int most) {
    extern __shared__ __align__(16) u8 shared[];
    row_of row(x, dlogits, blockIdx.x * V, V, most, shared);
    if (target[blockIdx.x] < 0) return write_zeros(row);
    row.start();
    float sum = z[blockIdx.x], loss = dl[blockIdx.x];
    i64 at = target_at(target[blockIdx.x], offset, V);
    fetched();
    write_grad(row, at, m[blockIdx.x], sum > 0 ? loss / sum : 0, loss);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    cross_entropy_grad(const T *x, const int *target, const float *more, T *dlogits, float *l, i64 V, i64 offset,
                       float dl, int most) {
    extern __shared__ __align__(16) u8 shared[];
    __shared__ float part[32], picked;
    row_of row(x, dlogits, blockIdx.x * V, V, most, shared);
    int wanted = target[blockIdx.x];
    if (wanted < 0) {
        if (threadIdx.x == 0) l[blockIdx.x] = 0;
        return write_zeros(row);
    }
    row.start();
    if (more) dl += *more;
    i64 at = target_at(wanted, offset, V);
    if (threadIdx.x == 0) picked = at < 0 ? 0 : load(x[blockIdx.x * V + at]);
    fetched();
    float m = MINUS_INFINITY, sum = 0, shift = 0;
#pragma unroll 2
    for (int p = threadIdx.x; p < row.packs; p += blockDim.x) {
        grad_pack in = row.read(p);
        float y[GRAD_VECTOR], here = MINUS_INFINITY;
        bool whole = row.whole(p);
#pragma unroll
        for (int k = 0; k < GRAD_VECTOR; k++) {
            y[k] = whole || row.has(p, k) ? load(in.x[k]) : MINUS_INFINITY;
            here = fmaxf(here, y[k]);
        }
        if (here > m) {
            sum *= exp_under(m, here, -here * LOG2_E); /* at first 0 times exp(-infinity) */
            m = here, shift = -m * LOG2_E;
        }
        if (m == MINUS_INFINITY) continue;
#pragma unroll
        for (int k = 0; k < GRAD_VECTOR; k++) sum += exp_under(y[k], m, shift);
    }
    float most_of_row = block_max(m, part);
    sum = block_sum(m > MINUS_INFINITY ? sum * exp_under(m, most_of_row, -most_of_row * LOG2_E) : 0, part);
    write_grad(row, at, most_of_row, sum > 0 ? dl / sum : 0, dl);
    if (threadIdx.x == 0) l[blockIdx.x] = nll_of(most_of_row, sum, picked, wanted);
}
