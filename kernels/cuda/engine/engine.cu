/* Kernels of messages by copy engines: begin, waits, sums and copies of segments.
 *
 *   TYPE   engine_sum alone: of elements */
#include "kernels/cuda/window/window.cuh"

constexpr int RANKS = 8, PIECE_BITS = 20, SEGMENTS = 96, THREADS = 256;
constexpr u64 END = (1 << PIECE_BITS) - 1;

/* Count the epoch up, and write flags' values to words: of the end, and of `pieces` pieces. One block. */
extern "C" __global__ void engine_begin(u64 *epoch, u64 *words, i64 pieces) {
    u64 now = *epoch + 1;
    __syncthreads();
    if (threadIdx.x == 0) *epoch = now;
    for (i64 i = threadIdx.x; i <= pieces; i += blockDim.x) words[i] = now << PIECE_BITS | (i ? (u64)i : END);
}

struct flags {
    u64 *flag[RANKS];
};

/* Until each flag has `piece` of this epoch; or the end of the one before (`before`), which the first has not. A
 * message that has been given up goes on at once: its results are not used. One warp. */
extern "C" __global__ void __launch_bounds__(32)
    engine_await(const __grid_constant__ flags f, int n, const u64 *epoch, u64 piece, int before,
                 const __grid_constant__ watch w) {
    __shared__ u32 claims;
    int i = threadIdx.x;
    if (!i) claims = 0;
    __syncthreads();
    u64 now = *epoch, least = before ? (now - 1) << PIECE_BITS | END : now << PIECE_BITS | piece;
    if (i >= n || (before && now == 1)) return;
    wait<THREAD>(f.flag[i], least, w, [] { return !atomicAdd(&claims, 1); });
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

/* Where `each(byte)` is called for all accesses of `width` bytes of a unit. */
template <int WIDTH, class E> __device__ inline void accesses(const segment &s, u32 unit, E each) {
    i64 begin = (i64)(unit - s.unit) * UNIT, end = begin + UNIT < s.bytes ? begin + UNIT : s.bytes;
    for (i64 b = begin + threadIdx.x * WIDTH; b + WIDTH <= end; b += THREADS * WIDTH) each(b);
}
template <int WIDTH> __device__ inline bool aligned(const segment &s, const merge &m) {
    u64 bits = (u64)s.to | (u64)s.bytes | s.at | (m.me >= 0 ? (u64)s.mine : 0);
    return bits % WIDTH == 0;
}

#ifdef TYPE
using element = TYPE;

/* In the order of ranks, in float. */
template <int V> __device__ inline void add(const merge &m, const segment &s, i64 b) {
    float sum[V] = {0};
    for (int r = 0; r < m.n; r++) {
        vec<element, V> in;
        float v[V];
        if (r != m.me && !m.slot[r]) continue;
        in.read((const element *)((r == m.me ? s.mine : m.slot[r] + s.at) + b));
        in.get(v);
#pragma unroll
        for (int j = 0; j < V; j++) sum[j] += v[j];
    }
    vec<element, V> out;
    out.set(sum);
    out.write((element *)(s.to + b));
}

extern "C" __global__ void __launch_bounds__(THREADS) engine_sum(const __grid_constant__ merge m) {
    constexpr int V = 16 / (int)sizeof(element);
    for (u32 unit = blockIdx.x; unit < m.nunits; unit += gridDim.x) {
        const segment &s = segment_of(m, unit);
        if (aligned<16>(s, m))
            accesses<16>(s, unit, [&](i64 b) { add<V>(m, s, b); });
        else
            accesses<(int)sizeof(element)>(s, unit, [&](i64 b) { add<1>(m, s, b); });
    }
}
#else
template <class W> __device__ inline void copy(const merge &m, const segment &s, u32 unit) {
    const char *from = m.me >= 0 ? s.mine : m.slot[0] + s.at;
    accesses<(int)sizeof(W)>(s, unit, [&](i64 b) { *(W *)(s.to + b) = *(const W *)(from + b); });
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
