/* Element-wise operators: memory-bound.
 *
 *   TYPE, TO   of the inputs, of the output
 *   VECTOR     elements of one access
 *   ACCESSES   of a thread; 2 if not defined
 *
 * A thread issues all of its U loads first. The remainder of an array that V does not divide is done by one thread,
 * element by element. Outputs may be inputs: a thread writes only elements that it has read. */
using T = TYPE;
using Y = TO;
#ifndef ACCESSES
#define ACCESSES 2
#endif
constexpr int V = VECTOR, U = ACCESSES;

/* to[i] = f(from[0][i], from[N - 1][i]) */
template <int N, class F> __device__ inline void each(i64 n, const T *const (&from)[N], Y *to, F f) {
    i64 first = ((i64)blockIdx.x * U * blockDim.x + threadIdx.x) * V, step = (i64)blockDim.x * V;
    vec<T, V> in[U][N];
#pragma unroll
    for (int u = 0; u < U; u++)
#pragma unroll
        for (int k = 0; k < N; k++)
            if (first + u * step + V <= n) in[u][k].read(from[k] + first + u * step);
#pragma unroll
    for (int u = 0; u < U; u++) {
        i64 at = first + u * step;
        if (at + V <= n) {
            float a[V], b[V];
            in[u][0].get(a), in[u][N - 1].get(b);
#pragma unroll
            for (int v = 0; v < V; v++) a[v] = f(a[v], b[v]);
            vec<Y, V> out;
            out.set(a);
            out.write(to + at);
        } else {
            for (i64 i = at; i < n; i++) store(to + i, f(load(from[0][i]), load(from[N - 1][i])));
        }
    }
}

/* The tanh form by one exponential: x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3). */
__device__ inline float sigmoid_of(float x) {
    float u2 = 1.5957691216057308f * (x + 0.044715f * x * x * x);
    return __fdividef(1.0f, 1.0f + __expf(-u2));
}

extern "C" __global__ void gelu(i64 n, const T *x, Y *y) {
    const T *const from[] = {x};
    each(n, from, y, [](float v, float) { return v * sigmoid_of(v); });
}

extern "C" __global__ void gelu_grad(i64 n, const T *dout, const T *x, Y *dinp) {
    const T *const from[] = {dout, x};
    each(n, from, dinp, [](float d, float v) {
        float s = sigmoid_of(v), slope = 1.5957691216057308f * (1.0f + 0.134145f * v * v);
        return d * (s + v * s * (1.0f - s) * slope);
    });
}

extern "C" __global__ void relu(i64 n, const T *x, Y *y) {
    const T *const from[] = {x};
    each(n, from, y, [](float v, float) { return v < 0 ? 0 : v; });
}

extern "C" __global__ void relu_grad(i64 n, const T *dout, const T *x, Y *dinp) {
    const T *const from[] = {dout, x};
    each(n, from, dinp, [](float d, float v) { return v > 0 ? d : 0; });
}

__device__ inline float logistic(float x) {
    return __fdividef(1.0f, 1.0f + __expf(-x));
}

extern "C" __global__ void silu_mul(i64 n, const T *gate, const T *up, Y *y) {
    const T *const from[] = {gate, up};
    each(n, from, y, [](float v, float u) { return v * logistic(v) * u; });
}

__device__ inline void silu_mul_slopes(float d, float v, float u, float &dgate, float &dup) {
    float s = logistic(v);
    dgate = d * u * (s + v * s * (1.0f - s));
    dup = d * (v * s);
}

/* As `each`, with two outputs, which may be gate and up. */
extern "C" __global__ void silu_mul_grad(i64 n, const T *dout, const T *gate, const T *up, Y *dgate, Y *dup) {
    const T *const from[3] = {dout, gate, up};
    i64 first = ((i64)blockIdx.x * U * blockDim.x + threadIdx.x) * V, step = (i64)blockDim.x * V;
    vec<T, V> in[U][3];
#pragma unroll
    for (int u = 0; u < U; u++)
#pragma unroll
        for (int k = 0; k < 3; k++)
            if (first + u * step + V <= n) in[u][k].read(from[k] + first + u * step);
#pragma unroll
    for (int u = 0; u < U; u++) {
        i64 at = first + u * step;
        if (at + V <= n) {
            float d[V], a[V], b[V];
            in[u][0].get(d), in[u][1].get(a), in[u][2].get(b);
#pragma unroll
            for (int v = 0; v < V; v++) silu_mul_slopes(d[v], a[v], b[v], a[v], b[v]);
            vec<Y, V> out;
            out.set(a);
            out.write(dgate + at);
            out.set(b);
            out.write(dup + at);
        } else {
            for (i64 i = at; i < n; i++) {
                float a, b;
                silu_mul_slopes(load(dout[i]), load(gate[i]), load(up[i]), a, b);
                store(dgate + i, a), store(dup + i, b);
            }
        }
    }
}

/* Casts and fills of several tensors (multi_tensor.h); struct as in element.c. */
struct move_tensor {
    const void *from;
    void *to;
    i64 n;
    u32 bits; /* fill: of an element */
};
struct move_tensors {
    move_tensor of[MOST_TENSORS];
};

extern "C" __global__ void cast(const __grid_constant__ batch table, const __grid_constant__ move_tensors all) {
    int which = tensor_of(table, blockIdx.x);
    const move_tensor &k = all.of[which];
    share mine = share_of(table, which, k.n);
    const T *x = (const T *)k.from;
    Y *y = (Y *)k.to;
    enum { AHEAD = 4 };
    i64 at = mine.begin + threadIdx.x * V, step = (i64)blockDim.x * V;
    for (; at + (AHEAD - 1) * step + V <= mine.end; at += AHEAD * step) {
        vec<T, V> in[AHEAD];
#pragma unroll
        for (int u = 0; u < AHEAD; u++) in[u].read(x + at + u * step);
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            float a[V];
            vec<Y, V> out;
            in[u].get(a);
            out.set(a);
            out.write(y + at + u * step);
        }
    }
    for (; at < mine.end; at += step)
        for (i64 i = at; i < at + V && i < mine.end; i++) store(y + i, load(x[i]));
}

extern "C" __global__ void fill(const __grid_constant__ batch table, const __grid_constant__ move_tensors all) {
    int which = tensor_of(table, blockIdx.x);
    const move_tensor &k = all.of[which];
    share mine = share_of(table, which, k.n);
    Y *y = (Y *)k.to;
    vec<Y, V> out;
#pragma unroll
    for (int w = 0; w < vec<Y, V>::words; w++) out.w[w] = sizeof(Y) == 4 ? k.bits : k.bits | k.bits << 16;
    for (i64 at = mine.begin + threadIdx.x * V; at < mine.end; at += (i64)blockDim.x * V) {
        if (at + V <= mine.end) {
            out.write(y + at);
            continue;
        }
        for (i64 i = at; i < mine.end; i++) {
            if constexpr (sizeof(Y) == 4)
                ((u32 *)y)[i] = k.bits;
            else
                ((u16 *)y)[i] = (u16)k.bits;
        }
    }
}

extern "C" __global__ void add(i64 n, const T *a, const T *b, Y *y) {
    const T *const from[] = {a, b};
    each(n, from, y, [](float v, float w) { return v + w; });
}

/* b has the strides of `walk`, of which the last is 1 or 0; V divides the last extent. */
extern "C" __global__ void add_along(i64 n, const T *a, const T *b, T *y, const __grid_constant__ axes walk) {
    bool together = walk.stride[walk.n - 1] == 1;
    i64 first = ((i64)blockIdx.x * U * blockDim.x + threadIdx.x) * V, step = (i64)blockDim.x * V;
    vec<T, V> left[U], right[U];
#pragma unroll
    for (int u = 0; u < U; u++) {
        i64 at = first + u * step;
        if (at >= n) break;
        left[u].read(a + at);
        const T *other = b + place(walk, at);
        float x[V];
        if (together) {
            right[u].read(other);
        } else {
#pragma unroll
            for (int v = 0; v < V; v++) x[v] = load(*other);
            right[u].set(x);
        }
    }
#pragma unroll
    for (int u = 0; u < U; u++) {
        i64 at = first + u * step;
        if (at >= n) break;
        float x[V], z[V];
        left[u].get(x), right[u].get(z);
#pragma unroll
        for (int v = 0; v < V; v++) x[v] += z[v];
        left[u].set(x);
        left[u].write(y + at);
    }
}

/* One instruction; the compiler makes more of it, of 64 bits. */
__device__ inline void multiply(u32 a, u32 b, u32 &high, u32 &low) {
    asm("{\n\t.reg .u64 product;\n\tmul.wide.u32 product, %2, %3;\n\tmov.b64 {%0, %1}, product;\n\t}"
        : "=r"(low), "=r"(high)
        : "r"(a), "r"(b));
}

/* Philox 4x32-10 (kernels/base/number/rng.h). */
__device__ inline void philox(u64 seed, u64 stream, u64 index, u32 *out) {
    u32 c0 = (u32)index, c1 = (u32)(index >> 32), c2 = (u32)stream, c3 = (u32)(stream >> 32);
    u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        u32 high0, low0, high1, low1;
        multiply(0xD2511F53u, c0, high0, low0), multiply(0xCD9E8D57u, c2, high1, low1);
        c0 = high1 ^ c1 ^ k0, c2 = high0 ^ c3 ^ k1;
        c1 = low1, c3 = low0;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

/* Element i has the global index base + its place. Where V is 4 or more, each four from a multiple of 4 on are one
 * Philox block. */
extern "C" __global__ void dropout(i64 n, const T *x, T *y, const clock_s *clock, const __grid_constant__ axes box,
                                   u64 base, u64 tag, u32 threshold, float factor) {
    u64 seed = threshold ? clock->seed : 0, stream = threshold ? tag + ((u64)clock->step << 20) : 0;
    i64 first = ((i64)blockIdx.x * blockDim.x + threadIdx.x) * V;
    u32 random[4];
    if (V >= 4 && first + V <= n) {
        vec<T, V> in;
        float v[V];
        in.read(x + first);
        in.get(v);
#pragma unroll
        for (int i = 0; i < V; i++) {
            if (i % 4 == 0) philox(seed, stream, (base + (u64)place(box, first + i)) >> 2, random);
            v[i] = random[i % 4] < threshold ? 0 : v[i] * factor;
        }
        in.set(v);
        in.write(y + first);
        return;
    }
    for (i64 i = first; i < n && i < first + V; i++) {
        u64 index = base + (u64)place(box, i);
        philox(seed, stream, index >> 2, random);
        u32 word = index & 2 ? (index & 1 ? random[3] : random[2]) : (index & 1 ? random[1] : random[0]);
        store(y + i, word < threshold ? 0 : load(x[i]) * factor);
    }
}
