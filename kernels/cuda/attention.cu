/* Attention and its gradient, a tile of queries by a tile of keys at a time; scores live in registers only.
 *
 * Each kernel has tiles that its block keeps (OWN rows: queries, or keys in DKDV) and tiles that pass by. Forward: with
 * running maxima and sums (Dao, "FlashAttention-2", 2023). Backward, with P the probabilities, made again from lse, and
 * M the dropout factors (0 or 1 / (1 - p)):
 *
 *   dv = (P M)' do    dS = P (M (do v') - delta)    dq = scale dS k    dk = scale dS' q    delta = rowsum(do o)
 *
 * DQ keeps queries and leaves {lse, delta} of each for DKDV, which keeps keys and works on transposed scores, so that
 * in both what was a result is the next product's left operand where it lies. That is seven products of tiles; one
 * kernel would do with five, but had to hand scores between warps and to add dq up in memory, in order.
 *
 * Definitions: FORWARD, DQ or DKDV; D (head size), HEAD (D padded), CAUSAL, DROP (0: none; 4: rows of scores are whole
 * Philox blocks; 1: any), and for tensor cores (sm_80) TENSOR, HALF (bf16 or f16), BLOCK_M, BLOCK_N, WARPS, STAGES,
 * BLOCKS (at least, of a multiprocessor) and KEEP (own fragments stay in registers); else TYPE, BLOCK and VECTOR
 * (elements a load).
 *
 * Long, as both halves, with and without tensor cores, share the beginning, and device code includes nothing. */
#ifndef DKDV
#define DKDV 0
#endif
#define LOG2E 1.4426950408889634f
#define LN2 0.6931471805599453f
#define INF __int_as_float(0x7f800000)

/* As struct shape in attention.c. */
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

/* As mt_philox (kernels/base/rng.h), whose words below the threshold are bits of the answer. */
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

/* The random numbers of one head's scores. Seed and step are read where they are used: registers are short. */
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

#ifdef TYPE
typedef TYPE T;
#endif

/* Where a block is: heavy tiles of a causal head first. */
struct where {
    int b, h, from; /* first own row */
    i64 head;       /* in the box */
};
__device__ inline where place_of(const shape &g, int own, bool backwards) {
    int tiles = (g.s + own - 1) / own, tile = (int)(blockIdx.x % (u32)tiles), head = (int)(blockIdx.x / (u32)tiles);
    return {head / g.h, head % g.h, (backwards ? tiles - 1 - tile : tile) * own, head};
}

#ifdef TENSOR
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#if DKDV
#define OWN BLOCK_N
#define PASS BLOCK_M
#else
#define OWN BLOCK_M
#define PASS BLOCK_N
#endif
#define TILES (OWN / WARPS / 16) /* of 16 rows: what a warp keeps */
#define COLUMNS (PASS / 8)       /* of 8: of scores */
#define PARTS (HEAD / 8)         /* of 8 elements, 16 bytes: of a row */
#define WORDS ((COLUMNS + 7) / 8)
#define THREADS (32 * WARPS)

/* Rows of tiles in shared memory are 16-byte parts, permuted so that eight rows' same part lies in all banks. */
__device__ inline u32 permuted(int row) {
    return (u32)(HEAD % 64 ? row >> 1 & 3 : row & 7);
}
__device__ inline u32 part_at(u32 tile, int row, int part) {
    return tile + (u32)row * (HEAD * 2) + (((u32)part ^ permuted(row)) << 4);
}

/* Queue the copy of rows [row, row + N) of a matrix of s rows; what is outside it becomes zero. */
template <int N> __device__ inline void copy_tile(u32 tile, const HALF *from, int stride, int row, int s) {
    for (int i = threadIdx.x; i < N * PARTS; i += THREADS) {
        int r = i / PARTS, part = i % PARTS;
        bool there = row + r < s && part * 8 < D;
        const HALF *source = there ? from + (i64)(row + r) * stride + part * 8 : from;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(part_at(tile, r, part)), "l"(source),
                     "r"(there ? 16 : 0)
                     : "memory");
    }
}
__device__ inline void copies_end() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int LATER> __device__ inline void copies_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory");
}

__device__ inline void load_fragment(u32 (&f)[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3])
                 : "r"(at));
}
__device__ inline void load_transposed(u32 (&f)[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3])
                 : "r"(at));
}
__device__ inline void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32." TEXT(HALF) "." TEXT(HALF) ".f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline u32 pack(float low, float high) {
    u32 x;
    asm("cvt.rn." TEXT(HALF) "x2.f32 %0, %1, %2;" : "=r"(x) : "f"(high), "f"(low));
    return x;
}

/* Of what a lane holds of 16 x 8 results: element i is in row lane / 4 + (i & 2 ? 8 : 0), column lane % 4 * 2 + i % 2.
 */
#define LANE (threadIdx.x % 32)
#define WARP_ROW (int)(threadIdx.x / 32 * (TILES * 16))
#define LANE_ROW (int)(LANE / 4)
#define LANE_COLUMN (int)(LANE % 4 * 2)

/* A warp's own rows of a tile, as left operand. */
struct own_rows {
    u32 at, flip;
#if KEEP
    u32 kept[TILES][HEAD / 16][4];
#endif
    __device__ inline void fetch(u32 (&f)[4], int m, int k) const {
        load_fragment(f, at + (u32)(m * 16 * HEAD * 2) + (flip ^ (u32)(k << 5)));
    }
    __device__ inline own_rows(u32 tile) {
        int row = WARP_ROW + (int)(LANE % 16);
        at = tile + (u32)row * (HEAD * 2), flip = (LANE / 16 ^ permuted(row)) << 4;
    }
    /* When the tile is there. */
    __device__ inline void keep() {
#if KEEP
#pragma unroll
        for (int m = 0; m < TILES; m++)
#pragma unroll
            for (int k = 0; k < HEAD / 16; k++) fetch(kept[m][k], m, k);
#endif
    }
    __device__ inline void get(u32 (&f)[4], int m, int k) const {
#if KEEP
        for (int i = 0; i < 4; i++) f[i] = kept[m][k][i];
#else
        fetch(f, m, k);
#endif
    }
};

typedef float scores[TILES][COLUMNS][4];
typedef float results[TILES][PARTS][4];
typedef u32 operands[TILES][COLUMNS / 2][4]; /* scores as left operand */

/* x[row][column] = the sum over e of own[row][e] tile[column][e] */
__device__ inline void rows_by_rows(scores &x, const own_rows &own, u32 tile) {
    int row = (int)(LANE % 8 + LANE / 16 * 8);
    u32 at = tile + (u32)row * (HEAD * 2), flip = (LANE / 8 % 2 ^ permuted(row)) << 4;
#pragma unroll
    for (int m = 0; m < TILES; m++)
#pragma unroll
        for (int n = 0; n < COLUMNS; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) x[m][n][i] = 0;
#pragma unroll
    for (int k = 0; k < HEAD / 16; k++) {
        u32 a[TILES][4];
#pragma unroll
        for (int m = 0; m < TILES; m++) own.get(a[m], m, k);
#pragma unroll
        for (int n = 0; n < COLUMNS; n += 2) {
            u32 b[4];
            load_fragment(b, at + (u32)(n * 8 * HEAD * 2) + (flip ^ (u32)(k << 5)));
#pragma unroll
            for (int m = 0; m < TILES; m++) {
                multiply(x[m][n], a[m], b[0], b[1]);
                multiply(x[m][n + 1], a[m], b[2], b[3]);
            }
        }
    }
}

/* y[row][e] += the sum over columns of x[row][column] tile[column][e] */
__device__ inline void add_scores_by_rows(results &y, const operands &x, u32 tile) {
    int row = (int)(LANE % 16);
    u32 at = tile + (u32)row * (HEAD * 2), flip = (LANE / 16 ^ permuted(row)) << 4;
#pragma unroll
    for (int k = 0; k < COLUMNS / 2; k++)
#pragma unroll
        for (int e = 0; e < PARTS; e += 2) {
            u32 b[4];
            load_transposed(b, at + (u32)(k * 16 * HEAD * 2) + (flip ^ (u32)(e << 4)));
#pragma unroll
            for (int m = 0; m < TILES; m++) {
                multiply(y[m][e], x[m][k], b[0], b[1]);
                multiply(y[m][e + 1], x[m][k], b[2], b[3]);
            }
        }
}

__device__ inline void as_operands(operands &to, const scores &x) {
#pragma unroll
    for (int m = 0; m < TILES; m++)
#pragma unroll
        for (int n = 0; n < COLUMNS; n++) {
            to[m][n / 2][n % 2 * 2] = pack(x[m][n][0], x[m][n][1]);
            to[m][n / 2][n % 2 * 2 + 1] = pack(x[m][n][2], x[m][n][3]);
        }
}

__device__ inline void clear(results &y) {
#pragma unroll
    for (int m = 0; m < TILES; m++)
#pragma unroll
        for (int e = 0; e < PARTS; e++)
#pragma unroll
            for (int i = 0; i < 4; i++) y[m][e][i] = 0;
}

/* Results of a warp's own rows, which begin at `from` of s, times a factor each, to memory by way of its own rows of a
 * tile, which nobody needs any more. */
__device__ inline void store_rows(const results &y, const float (&factor)[TILES][2], u32 tile, HALF *to, int stride,
                                  int from, int s) {
    __syncwarp();
#pragma unroll
    for (int m = 0; m < TILES; m++)
#pragma unroll
        for (int e = 0; e < PARTS; e++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                u32 at = part_at(tile, WARP_ROW + m * 16 + i * 8 + LANE_ROW, e) + (u32)LANE_COLUMN * 2;
                u32 both = pack(y[m][e][2 * i] * factor[m][i], y[m][e][2 * i + 1] * factor[m][i]);
                asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(both) : "memory");
            }
    __syncwarp();
    for (int i = LANE; i < TILES * 16 * PARTS; i += 32) {
        int row = WARP_ROW + i / PARTS, part = i % PARTS;
        if (from + row >= s || part * 8 >= D) continue;
        uint4 x;
        asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];"
                     : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                     : "r"(part_at(tile, row, part))
                     : "memory");
        *(uint4 *)(to + (i64)(from + row) * stride + part * 8) = x;
    }
}

#if DROP
/* A bit for each score of 16 rows from `own` on that is dropped, four a column of 8. Where Philox blocks are whole, the
 * lanes that share some make one each. */
__device__ inline void drop_bits(u32 (&bits)[WORDS], const dropping &r, int own, int pass) {
#pragma unroll
    for (int w = 0; w < WORDS; w++) {
        u32 mine = 0;
#pragma unroll 1
        for (int n = 0; n < (COLUMNS < 8 ? COLUMNS : 8); n++) {
            int column = pass + (w * 8 + n) * 8;
            u32 four = 0;
#if DROP == 4 && DKDV
            int query = column + LANE_COLUMN + (int)(LANE / 4 % 2), key = own + (int)(LANE / 8 % 2 * 8 + LANE / 16 * 4);
            four = r.below(r.index(query, key) >> 2);
#elif DROP == 4
            int query = own + LANE_ROW + (int)(LANE % 2 * 8), key = column + (int)(LANE / 2 % 2 * 4);
            four = r.below(r.index(query, key) >> 2);
#else
#pragma unroll 1
            for (int i = 0; i < 4; i++) {
                int row = own + LANE_ROW + (i & 2) * 4, at = column + LANE_COLUMN + (i & 1);
                four |= (DKDV ? r.one(at, row) : r.one(row, at)) << i;
            }
#endif
            mine |= four << (4 * n);
        }
#if DROP == 4 && DKDV
        bits[w] = 0;
#pragma unroll
        for (int i = 0; i < 4; i++)
            bits[w] |= (__shfl_sync(~0u, mine, (LANE & ~12u) | i << 2) >> LANE / 4 % 4 & 0x11111111u) << i;
#elif DROP == 4
        u32 other = __shfl_xor_sync(~0u, mine, 1), low = 0x33333333u;
        bits[w] = LANE % 2 ? (other >> 2 & low) | (mine & ~low) : (mine & low) | (other & low) << 2;
#else
        bits[w] = mine;
#endif
    }
}
#define IS_DROPPED(bits, n, i) ((bits)[(n) / 8] >> (4 * ((n) % 8) + (i)) & 1u)
#endif

/* The ring of tiles that pass: STAGES of two each, the next ones on their way. */
#define TILE_BYTES(rows) ((u32)(rows)*HEAD * 2)
__device__ inline u32 shared_memory() {
    extern __shared__ __align__(128) char memory[];
    return (u32)__cvta_generic_to_shared(memory);
}

#if FORWARD
/* Brings maxima and sums of the rows up to date, fades their results, and turns scores into probabilities that lack
 * their sum. */
__device__ inline void softmax(scores &x, results &o, float (&most)[TILES][2], float (&sum)[TILES][2], float scale2) {
#pragma unroll
    for (int m = 0; m < TILES; m++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float old = most[m][i], now = old;
#pragma unroll
            for (int n = 0; n < COLUMNS; n++) now = fmaxf(now, fmaxf(x[m][n][2 * i], x[m][n][2 * i + 1]));
            now = fmaxf(now, __shfl_xor_sync(~0u, now, 1));
            now = fmaxf(now, __shfl_xor_sync(~0u, now, 2));
            float fade = power_of_2((old - now) * scale2), less = now * scale2, all = 0;
#pragma unroll
            for (int n = 0; n < COLUMNS; n++)
#pragma unroll
                for (int j = 2 * i; j < 2 * i + 2; j++) all += x[m][n][j] = power_of_2(fmaf(x[m][n][j], scale2, -less));
#pragma unroll
            for (int e = 0; e < PARTS; e++) o[m][e][2 * i] *= fade, o[m][e][2 * i + 1] *= fade;
            most[m][i] = now, sum[m][i] = sum[m][i] * fade + all;
        }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    attention_forward(const HALF *qkv, HALF *out, float *lse, shape g, const clock_s *clock) {
    where at = place_of(g, OWN, true);
    int stride = 3 * g.h * D, out_stride = g.h * D;
    const HALF *q = qkv + (i64)at.b * g.s * stride + at.h * D, *k = q + out_stride, *v = k + out_stride;
    u32 q_tile = shared_memory(), ring = q_tile + TILE_BYTES(OWN);
    int n = ((CAUSAL ? min(g.s, at.from + OWN) : g.s) + PASS - 1) / PASS;
    copy_tile<OWN>(q_tile, q, stride, at.from, g.s);
#pragma unroll
    for (int t = 0; t < STAGES - 1; t++) {
        if (t < n) {
            copy_tile<PASS>(ring + t * TILE_BYTES(2 * PASS), k, stride, t * PASS, g.s);
            copy_tile<PASS>(ring + t * TILE_BYTES(2 * PASS) + TILE_BYTES(PASS), v, stride, t * PASS, g.s);
        }
        copies_end();
    }
    own_rows own(q_tile);
    results o;
    float most[TILES][2], sum[TILES][2];
    clear(o);
#pragma unroll
    for (int m = 0; m < TILES; m++) most[m][0] = most[m][1] = -INF, sum[m][0] = sum[m][1] = 0;
    int first = at.from + WARP_ROW, last = first + TILES * 16 - 1; /* the warp's queries */
#if DROP
    dropping random = dropping_of(g, clock, at.b, at.h);
#endif
    for (int t = 0; t < n; t++) {
        copies_wait<STAGES - 2>();
        __syncthreads();
        int next = t + STAGES - 1, key = t * PASS;
        if (next < n) {
            u32 to = ring + next % STAGES * TILE_BYTES(2 * PASS);
            copy_tile<PASS>(to, k, stride, next * PASS, g.s);
            copy_tile<PASS>(to + TILE_BYTES(PASS), v, stride, next * PASS, g.s);
        }
        copies_end();
        if (t == 0) own.keep();
        if (CAUSAL && key > last) continue;
        u32 k_tile = ring + t % STAGES * TILE_BYTES(2 * PASS);
        scores x;
        rows_by_rows(x, own, k_tile);
        if (key + PASS > g.s || (CAUSAL && key + PASS - 1 > first)) {
#pragma unroll
            for (int m = 0; m < TILES; m++)
#pragma unroll
                for (int c = 0; c < COLUMNS; c++)
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        int query = first + m * 16 + LANE_ROW + (i & 2) * 4, of = key + c * 8 + LANE_COLUMN + (i & 1);
                        if (of >= g.s || (CAUSAL && of > query)) x[m][c][i] = -INF;
                    }
        }
        softmax(x, o, most, sum, g.scale2);
#if DROP
#pragma unroll
        for (int m = 0; m < TILES; m++) {
            u32 bits[WORDS];
            drop_bits(bits, random, first + m * 16, key);
#pragma unroll
            for (int c = 0; c < COLUMNS; c++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    if (IS_DROPPED(bits, c, i)) x[m][c][i] = 0;
        }
#endif
        operands p;
        as_operands(p, x);
        add_scores_by_rows(o, p, k_tile + TILE_BYTES(PASS));
    }
    float factor[TILES][2];
#pragma unroll
    for (int m = 0; m < TILES; m++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float all = sum[m][i];
            all += __shfl_xor_sync(~0u, all, 1);
            all += __shfl_xor_sync(~0u, all, 2);
            factor[m][i] = (DROP ? g.grow : 1.0f) / all;
            int query = first + m * 16 + LANE_ROW + i * 8;
            if (LANE % 4 == 0 && query < g.s) lse[at.head * g.s + query] = most[m][i] * g.scale + logf(all);
        }
    store_rows(o, factor, q_tile, out + (i64)at.b * g.s * out_stride + at.h * D, out_stride, at.from, g.s);
}
#endif

#if DQ
/* delta of the warp's own queries, as their lanes hold it; lse and delta of each also go to `rows`. */
__device__ inline void query_rows(float (&lse2)[TILES][2], float (&delta)[TILES][2], const HALF *dout, const HALF *o,
                                  const float *lse, float2 *rows, int stride, int first, int s) {
#pragma unroll
    for (int m = 0; m < TILES; m++) {
        int query = first + m * 16 + (int)(LANE / 2); /* two lanes a row */
        float sum = 0, log2 = 0;
        if (query < s) {
            for (int e = (int)(LANE % 2) * 8; e < D; e += 16) {
                uint4 a = *(const uint4 *)(dout + (i64)query * stride + e),
                      b = *(const uint4 *)(o + (i64)query * stride + e);
                const u32 x[4] = {a.x, a.y, a.z, a.w}, y[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    float xl, xh, yl, yh;
                    unpair((const HALF *)0, x[i], xl, xh), unpair((const HALF *)0, y[i], yl, yh);
                    sum = fmaf(xl, yl, sum);
                    sum = fmaf(xh, yh, sum);
                }
            }
            log2 = lse[query] * LOG2E;
        }
        sum += __shfl_xor_sync(~0u, sum, 1);
        if (LANE % 2 == 0 && query < s) rows[query] = make_float2(log2, sum);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            lse2[m][i] = __shfl_sync(~0u, log2, LANE_ROW * 2 + i * 16);
            delta[m][i] = __shfl_sync(~0u, sum, LANE_ROW * 2 + i * 16);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    attention_dq(const HALF *dout, const HALF *qkv, const HALF *o, const float *lse, HALF *dqkv, float2 *rows, shape g,
                 const clock_s *clock) {
    where at = place_of(g, OWN, true);
    int stride = 3 * g.h * D, out_stride = g.h * D;
    i64 base = (i64)at.b * g.s * stride + at.h * D, out_base = (i64)at.b * g.s * out_stride + at.h * D;
    const HALF *q = qkv + base, *k = q + out_stride, *v = k + out_stride;
    u32 q_tile = shared_memory(), dout_tile = q_tile + TILE_BYTES(OWN), ring = dout_tile + TILE_BYTES(OWN);
    int n = ((CAUSAL ? min(g.s, at.from + OWN) : g.s) + PASS - 1) / PASS;
    copy_tile<OWN>(q_tile, q, stride, at.from, g.s);
    copy_tile<OWN>(dout_tile, dout + out_base, out_stride, at.from, g.s);
#pragma unroll
    for (int t = 0; t < STAGES - 1; t++) {
        if (t < n) {
            copy_tile<PASS>(ring + t * TILE_BYTES(2 * PASS), k, stride, t * PASS, g.s);
            copy_tile<PASS>(ring + t * TILE_BYTES(2 * PASS) + TILE_BYTES(PASS), v, stride, t * PASS, g.s);
        }
        copies_end();
    }
    own_rows own_q(q_tile), own_dout(dout_tile);
    int first = at.from + WARP_ROW, last = first + TILES * 16 - 1;
    float lse2[TILES][2], delta[TILES][2];
    query_rows(lse2, delta, dout + out_base, o + out_base, lse + at.head * g.s, rows + at.head * g.s, out_stride, first,
               g.s);
    results dq;
    clear(dq);
#if DROP
    dropping random = dropping_of(g, clock, at.b, at.h);
#endif
    for (int t = 0; t < n; t++) {
        copies_wait<STAGES - 2>();
        __syncthreads();
        int next = t + STAGES - 1, key = t * PASS;
        if (next < n) {
            u32 to = ring + next % STAGES * TILE_BYTES(2 * PASS);
            copy_tile<PASS>(to, k, stride, next * PASS, g.s);
            copy_tile<PASS>(to + TILE_BYTES(PASS), v, stride, next * PASS, g.s);
        }
        copies_end();
        if (t == 0) own_q.keep(), own_dout.keep();
        if (CAUSAL && key > last) continue;
        u32 k_tile = ring + t % STAGES * TILE_BYTES(2 * PASS);
#if DROP
        u32 bits[TILES][WORDS];
#pragma unroll
        for (int m = 0; m < TILES; m++) drop_bits(bits[m], random, first + m * 16, key);
#endif
        scores x, dx;
        rows_by_rows(x, own_q, k_tile);
        rows_by_rows(dx, own_dout, k_tile + TILE_BYTES(PASS));
        bool masked = key + PASS > g.s || (CAUSAL && key + PASS - 1 > first);
#pragma unroll
        for (int m = 0; m < TILES; m++) {
            if (masked) {
#pragma unroll
                for (int c = 0; c < COLUMNS; c++)
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        int query = first + m * 16 + LANE_ROW + (i & 2) * 4, of = key + c * 8 + LANE_COLUMN + (i & 1);
                        if (of >= g.s || (CAUSAL && of > query)) x[m][c][i] = -INF;
                    }
            }
#pragma unroll
            for (int c = 0; c < COLUMNS; c++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    float p = power_of_2(fmaf(x[m][c][i], g.scale2, -lse2[m][i / 2])), d = dx[m][c][i];
#if DROP
                    d = IS_DROPPED(bits[m], c, i) ? 0 : d * g.grow;
#endif
                    x[m][c][i] = p * (d - delta[m][i / 2]);
                }
        }
        operands ds;
        as_operands(ds, x);
        add_scores_by_rows(dq, ds, k_tile);
    }
    float factor[TILES][2];
#pragma unroll
    for (int m = 0; m < TILES; m++) factor[m][0] = factor[m][1] = g.scale;
    store_rows(dq, factor, q_tile, dqkv + base, stride, at.from, g.s);
}
#endif

#if DKDV
/* {lse, delta} of the queries that pass. */
__device__ inline void copy_rows(u32 to, const float2 *rows, int query, int s) {
    for (int i = threadIdx.x; i < PASS; i += THREADS) {
        bool there = query + i < s;
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to + 8 * (u32)i),
                     "l"(there ? rows + query + i : rows), "r"(there ? 8 : 0)
                     : "memory");
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    attention_dkdv(const HALF *dout, const HALF *qkv, HALF *dqkv, const float2 *rows, shape g, const clock_s *clock) {
    where at = place_of(g, OWN, false);
    int stride = 3 * g.h * D, out_stride = g.h * D;
    i64 base = (i64)at.b * g.s * stride + at.h * D;
    const HALF *q = qkv + base, *k = q + out_stride, *v = k + out_stride;
    dout += (i64)at.b * g.s * out_stride + at.h * D, rows += at.head * g.s;
    u32 k_tile = shared_memory(), v_tile = k_tile + TILE_BYTES(OWN), ring = v_tile + TILE_BYTES(OWN);
    const u32 stage_bytes = TILE_BYTES(2 * PASS) + 8 * PASS;
    int begin = CAUSAL ? at.from / PASS : 0, n = (g.s + PASS - 1) / PASS - begin;
    copy_tile<OWN>(k_tile, k, stride, at.from, g.s);
    copy_tile<OWN>(v_tile, v, stride, at.from, g.s);
    auto copy_stage = [&](int t) {
        u32 to = ring + t % STAGES * stage_bytes;
        int query = (begin + t) * PASS;
        copy_tile<PASS>(to, q, stride, query, g.s);
        copy_tile<PASS>(to + TILE_BYTES(PASS), dout, out_stride, query, g.s);
        copy_rows(to + TILE_BYTES(2 * PASS), rows, query, g.s);
    };
#pragma unroll
    for (int t = 0; t < STAGES - 1; t++) {
        if (t < n) copy_stage(t);
        copies_end();
    }
    own_rows own_k(k_tile), own_v(v_tile);
    int first = at.from + WARP_ROW, last = first + TILES * 16 - 1; /* the warp's keys */
    results dk, dv;
    clear(dk), clear(dv);
#if DROP
    dropping random = dropping_of(g, clock, at.b, at.h);
#endif
    for (int t = 0; t < n; t++) {
        copies_wait<STAGES - 2>();
        __syncthreads();
        if (t + STAGES - 1 < n) copy_stage(t + STAGES - 1);
        copies_end();
        if (t == 0) own_k.keep(), own_v.keep();
        int query = (begin + t) * PASS;
        if (CAUSAL && query + PASS - 1 < first) continue;
        u32 q_tile = ring + t % STAGES * stage_bytes, dout_tile = q_tile + TILE_BYTES(PASS);
        u32 numbers = dout_tile + TILE_BYTES(PASS) + (u32)LANE_COLUMN * 8;
#if DROP
        u32 bits[TILES][WORDS];
#pragma unroll
        for (int m = 0; m < TILES; m++) drop_bits(bits[m], random, first + m * 16, query);
#endif
        scores x, dx;
        rows_by_rows(x, own_k, q_tile);
        rows_by_rows(dx, own_v, dout_tile);
        bool masked = CAUSAL && query < last;
        operands p;
#pragma unroll
        for (int m = 0; m < TILES; m++) {
            if (masked) {
#pragma unroll
                for (int c = 0; c < COLUMNS; c++)
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        int key = first + m * 16 + LANE_ROW + (i & 2) * 4, of = query + c * 8 + LANE_COLUMN + (i & 1);
                        if (key > of) x[m][c][i] = -INF;
                    }
            }
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) {
                float lse2[2], delta[2], kept[4];
                asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
                             : "=f"(lse2[0]), "=f"(delta[0]), "=f"(lse2[1]), "=f"(delta[1])
                             : "r"(numbers + c * 64));
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    float all = power_of_2(fmaf(x[m][c][i], g.scale2, -lse2[i % 2])), d = dx[m][c][i];
                    kept[i] = all;
#if DROP
                    bool drop = IS_DROPPED(bits[m], c, i);
                    kept[i] = drop ? 0 : all, d = drop ? 0 : d * g.grow;
#endif
                    x[m][c][i] = all * (d - delta[i % 2]);
                }
                p[m][c / 2][c % 2 * 2] = pack(kept[0], kept[1]), p[m][c / 2][c % 2 * 2 + 1] = pack(kept[2], kept[3]);
            }
        }
        add_scores_by_rows(dv, p, dout_tile);
        as_operands(p, x);
        add_scores_by_rows(dk, p, q_tile);
    }
    float k_factor[TILES][2], v_factor[TILES][2];
#pragma unroll
    for (int m = 0; m < TILES; m++)
        k_factor[m][0] = k_factor[m][1] = g.scale, v_factor[m][0] = v_factor[m][1] = DROP ? g.grow : 1.0f;
    store_rows(dk, k_factor, k_tile, dqkv + base + out_stride, stride, at.from, g.s);
    store_rows(dv, v_factor, v_tile, dqkv + base + 2 * out_stride, stride, at.from, g.s);
}
#endif

#else                    /* without tensor cores */
#define SIDE (BLOCK / 4) /* threads are SIDE by SIDE, each with 4 own rows by every SIDE-th row that passes */
#define THREADS (SIDE * SIDE)
#define ROW (HEAD + 4) /* of a tile in shared memory: parts of 16 bytes in all banks */
#define SCORE_ROW (BLOCK + 4)
#define PARTS (HEAD / BLOCK) /* of 4 elements: of a thread's result, SIDE of them apart */
#define OWN_ROW (int)(threadIdx.x / SIDE * 4)
#define ACROSS (int)(threadIdx.x % SIDE)

typedef float scores[4][4];
typedef float results[4][PARTS][4];

__device__ inline void load_tile(float *tile, const T *from, i64 stride, int row, int s) {
    for (int i = threadIdx.x; i < BLOCK * (HEAD / VECTOR); i += THREADS) {
        int r = i / (HEAD / VECTOR), e = i % (HEAD / VECTOR) * VECTOR;
        struct alignas(sizeof(T) * VECTOR) vector {
            T x[VECTOR];
        };
        bool there = row + r < s && e < D;
        vector x;
        if (there) x = *(const vector *)(from + (row + r) * stride + e);
#pragma unroll
        for (int j = 0; j < VECTOR; j++) tile[r * ROW + e + j] = there ? load(x.x[j]) : 0;
    }
}

/* x[i][j] = own row i times row j that passes */
__device__ inline void rows_by_rows(scores &x, const float *own, const float *tile) {
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) x[i][j] = 0;
#pragma unroll 4
    for (int e = 0; e < HEAD; e += 4) {
        float4 a[4], b[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            a[i] = *(const float4 *)(own + (OWN_ROW + i) * ROW + e);
            b[i] = *(const float4 *)(tile + (ACROSS + SIDE * i) * ROW + e);
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                x[i][j] = fmaf(a[i].x, b[j].x, x[i][j]);
                x[i][j] = fmaf(a[i].y, b[j].y, x[i][j]);
                x[i][j] = fmaf(a[i].z, b[j].z, x[i][j]);
                x[i][j] = fmaf(a[i].w, b[j].w, x[i][j]);
            }
    }
}

__device__ inline void put_scores(float *to, const scores &x) {
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) to[(OWN_ROW + i) * SCORE_ROW + ACROSS + SIDE * j] = x[i][j];
}

/* y[i] += the sum over the rows that pass of x[i][row] tile[row] */
__device__ inline void add_scores_by_rows(results &y, const float *x, const float *tile) {
#pragma unroll 2
    for (int k = 0; k < BLOCK; k += 4) {
        float a[4][4];
#pragma unroll
        for (int i = 0; i < 4; i++) *(float4 *)a[i] = *(const float4 *)(x + (OWN_ROW + i) * SCORE_ROW + k);
#pragma unroll
        for (int c = 0; c < 4; c++)
#pragma unroll
            for (int p = 0; p < PARTS; p++) {
                float4 b = *(const float4 *)(tile + (k + c) * ROW + p * BLOCK + ACROSS * 4);
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    y[i][p][0] = fmaf(a[i][c], b.x, y[i][p][0]);
                    y[i][p][1] = fmaf(a[i][c], b.y, y[i][p][1]);
                    y[i][p][2] = fmaf(a[i][c], b.z, y[i][p][2]);
                    y[i][p][3] = fmaf(a[i][c], b.w, y[i][p][3]);
                }
            }
    }
}

__device__ inline void clear(results &y) {
    for (int i = 0; i < 4; i++)
        for (int p = 0; p < PARTS; p++)
            for (int c = 0; c < 4; c++) y[i][p][c] = 0;
}

__device__ inline void store_rows(const results &y, const float (&factor)[4], T *to, i64 stride, int from, int s) {
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int p = 0; p < PARTS; p++)
#pragma unroll
            for (int c = 0; c < 4; c++) {
                int row = from + OWN_ROW + i, e = p * BLOCK + ACROSS * 4 + c;
                if (row < s && e < D) store(to + row * stride + e, y[i][p][c] * factor[i]);
            }
}

/* Over the threads that have the same own rows. */
__device__ inline float row_max(float x) {
    for (int i = SIDE / 2; i; i /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, i));
    return x;
}
__device__ inline float row_sum(float x) {
    for (int i = SIDE / 2; i; i /= 2) x += __shfl_xor_sync(~0u, x, i);
    return x;
}

#if FORWARD
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    attention_forward(const T *qkv, T *out, float *lse, shape g, const clock_s *clock) {
    extern __shared__ __align__(16) float own[];
    float *passing = own + BLOCK * ROW, *probs = passing + BLOCK * ROW;
    where at = place_of(g, BLOCK, true);
    i64 stride = 3 * (i64)g.h * D, out_stride = (i64)g.h * D;
    const T *q = qkv + at.b * g.s * stride + at.h * D, *k = q + out_stride, *v = k + out_stride;
    load_tile(own, q, stride, at.from, g.s);
    results o;
    float most[4], sum[4];
    clear(o);
    for (int i = 0; i < 4; i++) most[i] = -INF, sum[i] = 0;
#if DROP
    dropping random = dropping_of(g, clock, at.b, at.h);
#endif
    int end = CAUSAL ? min(g.s, at.from + BLOCK) : g.s;
    for (int from = 0; from < end; from += BLOCK) {
        __syncthreads();
        load_tile(passing, k, stride, from, g.s);
        __syncthreads();
        scores x;
        rows_by_rows(x, own, passing);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int query = at.from + OWN_ROW + i;
            float now = most[i], all = 0;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                int key = from + ACROSS + SIDE * j;
                if (key >= g.s || (CAUSAL && key > query)) x[i][j] = -INF;
                now = fmaxf(now, x[i][j]);
            }
            now = row_max(now);
            float fade = power_of_2((most[i] - now) * g.scale2);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                all += x[i][j] = power_of_2((x[i][j] - now) * g.scale2);
#if DROP
                if (random.one(query, from + ACROSS + SIDE * j)) x[i][j] = 0;
#endif
            }
            most[i] = now, sum[i] = sum[i] * fade + all;
#pragma unroll
            for (int p = 0; p < PARTS; p++)
#pragma unroll
                for (int c = 0; c < 4; c++) o[i][p][c] *= fade;
        }
        put_scores(probs, x);
        __syncthreads();
        load_tile(passing, v, stride, from, g.s);
        __syncthreads();
        add_scores_by_rows(o, probs, passing);
    }
    float factor[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float all = row_sum(sum[i]);
        int query = at.from + OWN_ROW + i;
        factor[i] = (DROP ? g.grow : 1.0f) / all;
        if (ACROSS == 0 && query < g.s) lse[at.head * g.s + query] = most[i] * g.scale + logf(all);
    }
    store_rows(o, factor, out + at.b * g.s * out_stride + at.h * D, out_stride, at.from, g.s);
}
#endif

#if DQ
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    attention_dq(const T *dout, const T *qkv, const T *o, const float *lse, T *dqkv, float2 *rows, shape g,
                 const clock_s *clock) {
    extern __shared__ __align__(16) float own[];
    float *own_dout = own + BLOCK * ROW, *passing = own_dout + BLOCK * ROW, *grads = passing + BLOCK * ROW;
    where at = place_of(g, BLOCK, true);
    i64 stride = 3 * (i64)g.h * D, out_stride = (i64)g.h * D;
    i64 base = at.b * g.s * stride + at.h * D, out_base = at.b * g.s * out_stride + at.h * D;
    const T *q = qkv + base, *k = q + out_stride, *v = k + out_stride;
    load_tile(own, q, stride, at.from, g.s);
    load_tile(own_dout, dout + out_base, out_stride, at.from, g.s);
    __syncthreads();
    results dq;
    float lse2[4], delta[4];
    clear(dq);
    for (int i = 0; i < 4; i++) {
        int query = at.from + OWN_ROW + i;
        float sum = 0;
        lse2[i] = 0;
        if (query < g.s) {
            for (int e = ACROSS; e < D; e += SIDE)
                sum = fmaf(own_dout[(OWN_ROW + i) * ROW + e], load(o[out_base + query * out_stride + e]), sum);
            lse2[i] = lse[at.head * g.s + query] * LOG2E;
        }
        delta[i] = row_sum(sum);
        if (ACROSS == 0 && query < g.s) rows[at.head * g.s + query] = make_float2(lse2[i], delta[i]);
    }
#if DROP
    dropping random = dropping_of(g, clock, at.b, at.h);
#endif
    int end = CAUSAL ? min(g.s, at.from + BLOCK) : g.s;
    for (int from = 0; from < end; from += BLOCK) {
        scores x, dx;
        __syncthreads();
        load_tile(passing, v, stride, from, g.s);
        __syncthreads();
        rows_by_rows(dx, own_dout, passing);
        __syncthreads();
        load_tile(passing, k, stride, from, g.s);
        __syncthreads();
        rows_by_rows(x, own, passing);
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                int query = at.from + OWN_ROW + i, key = from + ACROSS + SIDE * j;
                bool seen = key < g.s && (!CAUSAL || key <= query);
                float p = seen ? power_of_2(fmaf(x[i][j], g.scale2, -lse2[i])) : 0;
#if DROP
                dx[i][j] = random.one(query, key) ? 0 : dx[i][j] * g.grow;
#endif
                x[i][j] = p * (dx[i][j] - delta[i]);
            }
        put_scores(grads, x);
        __syncthreads();
        add_scores_by_rows(dq, grads, passing);
    }
    const float factor[4] = {g.scale, g.scale, g.scale, g.scale};
    store_rows(dq, factor, dqkv + base, stride, at.from, g.s);
}
#endif

#if DKDV
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    attention_dkdv(const T *dout, const T *qkv, T *dqkv, const float2 *rows, shape g, const clock_s *clock) {
    extern __shared__ __align__(16) float own[];
    float *own_v = own + BLOCK * ROW, *passing = own_v + BLOCK * ROW, *turned = passing + BLOCK * ROW;
    where at = place_of(g, BLOCK, false);
    i64 stride = 3 * (i64)g.h * D, out_stride = (i64)g.h * D, base = at.b * g.s * stride + at.h * D;
    const T *q = qkv + base, *k = q + out_stride, *v = k + out_stride;
    dout += at.b * g.s * out_stride + at.h * D, rows += at.head * g.s;
    load_tile(own, k, stride, at.from, g.s);
    load_tile(own_v, v, stride, at.from, g.s);
    results dk, dv;
    clear(dk), clear(dv);
#if DROP
    dropping random = dropping_of(g, clock, at.b, at.h);
#endif
    for (int from = CAUSAL ? at.from : 0; from < g.s; from += BLOCK) {
        scores x, dx, p;
        __syncthreads();
        load_tile(passing, q, stride, from, g.s);
        __syncthreads();
        rows_by_rows(x, own, passing);
        __syncthreads();
        load_tile(passing, dout, out_stride, from, g.s);
        __syncthreads();
        rows_by_rows(dx, own_v, passing);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int query = from + ACROSS + SIDE * j;
            float2 number = query < g.s ? rows[query] : make_float2(0, 0);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int key = at.from + OWN_ROW + i;
                bool seen = query < g.s && (!CAUSAL || key <= query);
                float all = seen ? power_of_2(fmaf(x[i][j], g.scale2, -number.x)) : 0;
                p[i][j] = all;
#if DROP
                bool drop = random.one(query, key);
                p[i][j] = drop ? 0 : all * g.grow, dx[i][j] = drop ? 0 : dx[i][j] * g.grow;
#endif
                x[i][j] = all * (dx[i][j] - number.y);
            }
        }
        put_scores(turned, p);
        __syncthreads();
        add_scores_by_rows(dv, turned, passing);
        __syncthreads();
        put_scores(turned, x);
        load_tile(passing, q, stride, from, g.s);
        __syncthreads();
        add_scores_by_rows(dk, turned, passing);
    }
    const float k_factor[4] = {g.scale, g.scale, g.scale, g.scale}, v_factor[4] = {1, 1, 1, 1};
    store_rows(dk, k_factor, dqkv + base + out_stride, stride, at.from, g.s);
    store_rows(dv, v_factor, dqkv + base + 2 * out_stride, stride, at.from, g.s);
}
#endif
#endif
