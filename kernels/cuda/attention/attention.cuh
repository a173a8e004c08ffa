/* What attention's kernels share: the shape of a call, where its heads are, the random numbers of dropout, and which
 * rows a block works on.
 *
 * PACKED (1 where it is not defined): queries, keys and values are one tensor, with as many positions and heads each.
 * 0: queries apart from keys and values. There may be fewer queries than keys, from some position on, and several query
 * heads for each head of keys and values: a block of DKDV then works on a head of keys and values, and on all tiles of
 * queries of one of its query heads after another.
 *
 * WINDOW (0 where it is not defined): a query sees the last g.window keys up to its own, no others; with CAUSAL. Tiles
 * that no query of a block sees are left out; in others a query may see no key, so that a maximum may be -inf. */
#ifndef DKDV
#define DKDV 0
#endif
#ifndef PACKED
#define PACKED 1
#endif
#ifndef WINDOW
#define WINDOW 0
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
    int window;                /* with WINDOW */
#if !PACKED
    /* Keys; the first query's position in the value; heads of keys, and query heads of each; query heads of each in the
     * value, and the box's first of them. `first` is without the box's first head; s and h are of queries. */
    int t, before, groups, share, all_share, first_group, first_in_group;
    i64 all_s; /* queries of the value */
#endif
};
#if PACKED
#define KEYS(g) (g).s
#define BEFORE(g) 0
#define SHARE(g) 1
#define PARAMETERS(E, q, kv) E *q
#define ARGUMENTS(q, kv) q
#else
#define KEYS(g) (g).t
#define BEFORE(g) (g).before
#define SHARE(g) (g).share
#define PARAMETERS(E, q, kv) E *q, E *kv
#define ARGUMENTS(q, kv) q, kv
#endif

/* The keys [from, end) that queries [first, first + n) of the box see, and the queries that see keys [first, first + n):
 * of the box, but not rounded to tiles. The second may be empty. */
struct range {
    int from, end;
};
__device__ inline range keys_seen(const shape &g, int first, int n) {
    int from = WINDOW ? max(0, BEFORE(g) + first + 1 - g.window) : 0;
    return {from, CAUSAL ? min(KEYS(g), BEFORE(g) + first + n) : KEYS(g)};
}
__device__ inline range queries_seeing(const shape &g, int first, int n) {
    int end = WINDOW ? min(g.s, max(0, first + n - 1 + g.window - BEFORE(g))) : g.s;
    return {CAUSAL ? max(0, first - BEFORE(g)) : 0, end};
}
/* Whether a query at `position` of the value sees the key, if there is one. */
__device__ inline bool is_seen(const shape &g, int position, int key) {
    return !CAUSAL || (key <= position && !(WINDOW && key + g.window <= position));
}
/* What is subtracted from scores whose maximum is `most`. */
__device__ inline float base_of(float most) {
    return WINDOW && most == -INF ? 0 : most;
}

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
/* h: a query head of the box. */
__device__ inline dropping dropping_of(const shape &g, const clock_s *clock, int b, int h) {
#if PACKED
    return {clock, g.tag, (u64)(g.first + b * g.heads + h) * (u64)g.s * (u64)g.s, g.threshold, g.s};
#else
    int head = (g.first_group + h / g.share) * g.all_share + g.first_in_group + h % g.share;
    u64 row = (u64)(g.first + b * g.heads + head) * (u64)g.all_s + (u64)g.before;
    return {clock, g.tag, row * (u64)g.t, g.threshold, g.t};
#endif
}

/* The rows of a block. Tiles of a causal head with more work come first. */
struct where {
    int b, h, from; /* a head of queries, or of keys in DKDV; the first own row */
    i64 head;       /* in the box */
};
__device__ inline where place_of(const shape &g, int own, bool backwards) {
#if PACKED || !DKDV
    int rows = g.s, heads = g.h;
#else
    int rows = g.t, heads = g.groups;
#endif
    int tiles = (rows + own - 1) / own, tile = (int)(blockIdx.x % (u32)tiles), head = (int)(blockIdx.x / (u32)tiles);
    return {head / heads, head % heads, (backwards ? tiles - 1 - tile : tile) * own, head};
}

/* Of the block's head (in DKDV, of the first query head of its group): the first rows, and elements from one row to the
 * next. I: the type that they are counted in. */
template <class I, class E> struct heads {
    E *q, *k, *v;
    I q_stride, kv_stride;
};
#if PACKED
template <class I, class E> __device__ inline heads<I, E> heads_of(const shape &g, const where &at, E *qkv) {
    I stride = 3 * (I)g.h * D, part = (I)g.h * D;
    i64 base = (i64)at.b * g.s * stride + at.h * D;
    E *q = qkv + base, *k = q + part;
    return {q, k, k + part, stride, stride};
}
#else
template <class I, class E> __device__ inline heads<I, E> heads_of(const shape &g, const where &at, E *q, E *kv) {
    I q_stride = (I)g.h * D, part = (I)g.groups * D, kv_stride = 2 * part;
    int head = DKDV ? at.h * g.share : at.h, group = DKDV ? at.h : at.h / g.share;
    E *k = kv + ((i64)at.b * g.t * kv_stride + group * D);
    return {q + ((i64)at.b * g.s * q_stride + head * D), k, k + part, q_stride, kv_stride};
}
#endif
/* The number in the box of the block's head; in DKDV, of query head i of its group. */
__device__ inline i64 query_head(const shape &g, const where &at, int i) {
    return DKDV ? at.head * SHARE(g) + i : at.head;
}
