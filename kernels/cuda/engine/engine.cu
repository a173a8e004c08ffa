/* Kernels of messages by copy engines: begin, waits, sums and copies of segments.
 *
 *   TYPE   engine_sum alone: of elements */
#include "kernels/cuda/window/window.cuh"

constexpr int RANKS = 8, PIECE_BITS = 20, SEGMENTS = 96, THREADS = 256;
constexpr u64 END = (1 << PIECE_BITS) - 1;

/* Count the epoch up, and write flags' values to words: of the end, and of `pieces` pieces; or zeros, if someone has
 * given up: then nothing more is told. One block. */
extern "C" __global__ void engine_begin(u64 *epoch, u64 *words, i64 pieces, const __grid_constant__ watch w) {
    __shared__ bool tells;
    u64 now = *epoch + 1;
    if (threadIdx.x == 0) tells = !word_load(w.aborted);
    __syncthreads();
    if (threadIdx.x == 0) *epoch = now;
    for (i64 i = threadIdx.x; i <= pieces; i += blockDim.x)
        words[i] = tells ? now << PIECE_BITS | (i ? (u64)i : END) : 0;
}

struct flags {
    u64 *flag[RANKS];
};

/* Until each flag has `piece` of this epoch; or the end of the one before (`before`), which the first has not. A
 * message that has been given up goes on at once: its results are not used, and words[pieces + 1] are 0, so that peers
 * are told nothing more. One warp. */
extern "C" __global__ void __launch_bounds__(32)
    engine_await(const __grid_constant__ flags f, int n, const u64 *epoch, u64 piece, int before, u64 *words,
                 i64 pieces, const __grid_constant__ watch w) {
    __shared__ u32 claims;
    int i = threadIdx.x, fine = 1;
    if (!i) claims = 0;
    __syncthreads();
    u64 now = *epoch, least = before ? (now - 1) << PIECE_BITS | END : now << PIECE_BITS | piece;
    if (i < n && !(before && now == 1))
        fine = wait<THREAD>(f.flag[i], least, w, [] { return !atomicAdd(&claims, 1); });
    if (__all_sync(~0u, fine)) return;
    for (i64 at = i; at <= pieces; at += 32) words[at] = 0;
}

struct segment {
    char *to;
    const char *mine;
    i64 bytes;
    u32 at;   /* in slots */
    u32 unit; /* of the launch: its first */
};
struct merge {
    const char *slot[RANKS]; /* of each rank; null: it has none */
    int n, me;               /* me: whose place `mine` has; -1: nobody's */
    int nsegments, nunits;
    segment segments[SEGMENTS];
};
constexpr int ACCESSES = 4, UNIT = THREADS * 16 * ACCESSES; /* bytes */

/* The segment of a unit: the last that begins at it or before. */
__device__ inline const segment &segment_of(const merge &m, u32 unit) {
    int low = 0, high = m.nsegments - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (m.segments[middle].unit <= unit)
            low = middle;
        else
            high = middle - 1;
    }
    return m.segments[low];
}

/* A thread's accesses of `WIDTH` bytes within a unit: each(byte, end) is for ACCESSES of them, STEP apart. */
template <int WIDTH> constexpr int STEP = THREADS * WIDTH;
template <int WIDTH, class E> __device__ inline void accesses(const segment &s, u32 unit, E each) {
    i64 begin = (i64)(unit - s.unit) * UNIT, end = begin + UNIT < s.bytes ? begin + UNIT : s.bytes;
    for (i64 b = begin + threadIdx.x * WIDTH; b < end; b += STEP<WIDTH> * ACCESSES) each(b, end);
}
template <int WIDTH> __device__ inline bool aligned(const segment &s, const merge &m) {
    u64 bits = (u64)s.to | (u64)s.bytes | s.at | (m.me >= 0 ? (u64)s.mine : 0);
    return bits % WIDTH == 0;
}

#ifdef TYPE
using element = TYPE;

/* In the order of ranks, in float. */
template <int V> __device__ inline void add(const merge &m, const segment &s, i64 b, i64 end) {
    constexpr int step = STEP<V * (int)sizeof(element)>;
    float sum[ACCESSES][V] = {{0}};
    for (int r = 0; r < m.n; r++) {
        vec<element, V> in[ACCESSES];
        if (r != m.me && !m.slot[r]) continue;
        const char *from = (r == m.me ? s.mine : m.slot[r] + s.at) + b;
#pragma unroll
        for (int a = 0; a < ACCESSES; a++)
            if (b + a * step < end) in[a].read((const element *)(from + a * step));
#pragma unroll
        for (int a = 0; a < ACCESSES; a++) {
            float v[V];
            if (b + a * step >= end) continue;
            in[a].get(v);
#pragma unroll
            for (int j = 0; j < V; j++) sum[a][j] += v[j];
        }
    }
#pragma unroll
    for (int a = 0; a < ACCESSES; a++) {
        vec<element, V> out;
        if (b + a * step >= end) continue;
        out.set(sum[a]);
        out.write((element *)(s.to + b + a * step));
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) engine_sum(const __grid_constant__ merge m) {
    constexpr int V = 16 / (int)sizeof(element);
    for (u32 unit = blockIdx.x; unit < m.nunits; unit += gridDim.x) {
        const segment &s = segment_of(m, unit);
        if (aligned<16>(s, m))
            accesses<16>(s, unit, [&](i64 b, i64 end) { add<V>(m, s, b, end); });
        else
            accesses<(int)sizeof(element)>(s, unit, [&](i64 b, i64 end) { add<1>(m, s, b, end); });
    }
}
#else
template <class W> __device__ inline void copy(const merge &m, const segment &s, u32 unit) {
    const char *from = m.me >= 0 ? s.mine : m.slot[0] + s.at;
    accesses<(int)sizeof(W)>(s, unit, [&](i64 b, i64 end) {
        constexpr int step = STEP<(int)sizeof(W)>;
        W w[ACCESSES];
#pragma unroll
        for (int a = 0; a < ACCESSES; a++)
            if (b + a * step < end) w[a] = *(const W *)(from + b + a * step);
#pragma unroll
        for (int a = 0; a < ACCESSES; a++)
            if (b + a * step < end) *(W *)(s.to + b + a * step) = w[a];
    });
}

/* From this rank's own (me >= 0), or from slot 0. */
extern "C" __global__ void __launch_bounds__(THREADS) engine_copy(const __grid_constant__ merge m) {
    for (u32 unit = blockIdx.x; unit < m.nunits; unit += gridDim.x) {
        const segment &s = segment_of(m, unit);
        if (aligned<16>(s, m))
            copy<uint4>(m, s, unit);
        else if (aligned<4>(s, m))
            copy<u32>(m, s, unit);
        else if (aligned<2>(s, m))
            copy<u16>(m, s, unit);
        else
            copy<u8>(m, s, unit);
    }
}
#endif
