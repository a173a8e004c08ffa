/* What attention's kernels share: the shape of a call, the random numbers of dropout, and which rows a block works
 * on. */
#ifndef DKDV
#define DKDV 0
#endif
#define LOG2E 1.4426950408889634f
#define LN2 0.6931471805599453f
#define INF __int_as_float(0x7f800000)

/* As struct shape in kernels.c. */
struct shape {
    i64 first, heads; /* the box's first head in [b, h] of the value; heads of a sample there */
    u64 tag;
    int s, h;
    u32 threshold;
    float scale, scale2, grow; /* of scores; times log2 e; 1 / (1 - p) */
};

__device__ inline float power_of_2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* As mt_philox (kernels/base/number/rng.h), whose words below the threshold are bits of the answer. */
__device__ inline u32 philox_below(u64 seed, u64 stream, u64 block, u32 threshold) {
    u32 c0 = (u32)block, c1 = (u32)(block >> 32), c2 = (u32)stream, c3 = (u32)(stream >> 32);
    u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        u32 n0 = __umulhi(0xCD9E8D57u, c2) ^ c1 ^ k0, n2 = __umulhi(0xD2511F53u, c0) ^ c3 ^ k1;
        c1 = 0xCD9E8D57u * c2, c3 = 0xD2511F53u * c0;
        c0 = n0, c2 = n2;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    return (u32)(c0 < threshold) | (u32)(c1 < threshold) << 1 | (u32)(c2 < threshold) << 2 | (u32)(c3 < threshold) << 3;
}

/* The random numbers of one head's scores. Seed and step are read where they are used, to save registers. */
struct dropping {
    const clock_s *clock;
    u64 tag, first;
    u32 threshold;
    int s;
    __device__ inline u64 index(int query, int key) const {
        return first + (u64)query * (u64)s + (u64)key;
    }
    __device__ inline u32 below(u64 block) const {
        return philox_below(clock->seed, tag + ((u64)clock->step << 20), block, threshold);
    }
    __device__ inline u32 one(int query, int key) const {
        u64 i = index(query, key);
        return below(i >> 2) >> (i & 3) & 1u;
    }
};
__device__ inline dropping dropping_of(const shape &g, const clock_s *clock, int b, int h) {
    return {clock, g.tag, (u64)(g.first + b * g.heads + h) * (u64)g.s * (u64)g.s, g.threshold, g.s};
}

/* The rows of a block. Tiles of a causal head with more work come first. */
struct where {
    int b, h, from; /* first own row */
    i64 head;       /* in the box */
};
__device__ inline where place_of(const shape &g, int own, bool backwards) {
    int tiles = (g.s + own - 1) / own, tile = (int)(blockIdx.x % (u32)tiles), head = (int)(blockIdx.x / (u32)tiles);
    return {head / g.h, head % g.h, (backwards ? tiles - 1 - tile : tile) * own, head};
}
