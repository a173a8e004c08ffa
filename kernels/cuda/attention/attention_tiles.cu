/* Attention and its gradient on tensor cores, a tile of queries by a tile of keys at a time; scores are in registers
 * only.
 *
 * A block keeps the tiles of its own rows (OWN of them: queries, or keys in DKDV) and loops over tiles of the other
 * side (PASS rows each). Forward: with running maxima and sums (Dao, "FlashAttention-2", 2023). Backward, with P the
 * probabilities, recomputed from lse, and M the dropout factors (0 or 1 / (1 - p)):
 *
 *   dv = (P M)' do    dS = scale P (M (do v') - delta)    dq = dS k    dk = dS' q    delta = rowsum(do o)
 *
 * (dS has its scale before it becomes a HALF: f16 ends at 65504.) DQ keeps queries and leaves {lse, scale delta} of
 * each query for DKDV, which keeps keys and works on transposed scores; so in both, the registers of one
 * multiplication's result are the left operand of the next. That is seven multiplications of tiles; a single kernel
 * would need five, but would have to pass scores between warps and to sum dq in memory, in order.
 *
 * Definitions: FORWARD, DQ or DKDV; HALF (bf16 or f16); WGMMA (1: warpgroups multiply, sm_90a; 0: warps); D (head
 * size), HEAD (D padded), PACKED and WINDOW (attention.cuh), CAUSAL, DROP (0: none; 4: rows of scores are whole
 * Philox blocks; 1: any), BLOCK_M, BLOCK_N (queries and keys of a tile), WARPS, STAGES, BLOCKS (at least, of a multiprocessor) and KEEP
 * (own fragments stay in registers; not with WGMMA). */
#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/attention/attention_tile.cuh"
#if WGMMA
#include "kernels/cuda/attention/attention_wgmma.cuh"
#else
#include "kernels/cuda/attention/attention_mma.cuh"
#endif
#include "kernels/cuda/attention/attention_ring.cuh"

__device__ inline u32 shared_memory() {
    extern __shared__ __align__(1024) char memory[];
    return (u32)__cvta_generic_to_shared(memory);
}

/* Whether no query of the positions [first, last] sees a key of [key, last_key]. */
__device__ inline bool sees_none(const shape &g, int first, int last, int key, int last_key) {
    return CAUSAL && (key > last || (WINDOW && last_key + g.window <= first));
}

#if FORWARD || DQ
/* The tiles of keys that the block's queries see: the first, and how many. */
__device__ inline void key_tiles(int &begin, int &n, const shape &g, const where &at) {
    const range keys = keys_seen(g, at.from, OWN);
    begin = keys.from / PASS, n = max(0, (keys.end + PASS - 1) / PASS - begin);
}
#endif

#if FORWARD
/* Update the maxima and sums of the rows, scale their results down to the new maxima, and turn scores into
 * probabilities times their row's sum. */
__device__ inline void softmax(scores &x, results &o, float (&most)[TILES][2], float (&sum)[TILES][2], float scale2) {
    EACH(m, TILES)
        EACH(i, 2) {
            float old = most[m][i], now = old;
            EACH(n, COLUMNS) now = fmaxf(now, fmaxf(x[m][n][2 * i], x[m][n][2 * i + 1]));
            now = fmaxf(now, __shfl_xor_sync(~0u, now, 1));
            now = fmaxf(now, __shfl_xor_sync(~0u, now, 2));
            float base = base_of(now), fade = power_of_2((old - base) * scale2), less = base * scale2, all = 0;
            EACH(n, COLUMNS)
#pragma unroll
                for (int j = 2 * i; j < 2 * i + 2; j++) all += x[m][n][j] = power_of_2(fmaf(x[m][n][j], scale2, -less));
            EACH(e, PARTS) o[m][e][2 * i] *= fade, o[m][e][2 * i + 1] *= fade;
            most[m][i] = now, sum[m][i] = sum[m][i] * fade + all;
        }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    attention_forward(PARAMETERS(const HALF, q, kv), HALF *out, float *lse, shape g, const clock_s *clock) {
    where at = place_of(g, OWN, true);
    const heads<int, const HALF> of = heads_of<int>(g, at, ARGUMENTS(q, kv));
    int out_stride = g.h * D;
    u32 q_tile = shared_memory();
    int begin, n;
    key_tiles(begin, n, g, at);
    const passing ring = {of.k, of.v, of.kv_stride, of.kv_stride, KEYS(g), begin, n, q_tile + TILE_BYTES(OWN), NULL};
    copy_tile<OWN>(q_tile, of.q, of.q_stride, at.from, g.s);
    ring.start();
    own_rows own(q_tile);
    results o;
    float most[TILES][2], sum[TILES][2];
    clear(o);
    EACH(m, TILES) most[m][0] = most[m][1] = -INF, sum[m][0] = sum[m][1] = 0;
    int first = at.from + WARP_ROW; /* the warp's queries */
#if DROP
    dropping random = dropping_of(g, clock, at.b, at.h);
#endif
    ring.arrive(0);
    own.keep();
    for (int t = 0; t < n; t++) {
        if (t) ring.arrive(t);
        int key = ring.row(t);
        if (sees_none(g, BEFORE(g) + GROUP_FIRST(first), BEFORE(g) + GROUP_LAST(first), key, key + PASS - 1)) continue;
        scores x;
        rows_by_rows(x, own, ring.tile(t)), mma_commit();
        mma_wait<0>(), mma_barrier(x);
        hide(x, BEFORE(g) + first, key, g);
        softmax(x, o, most, sum, g.scale2);
#if DROP
        EACH(m, TILES) {
            u32 bits[WORDS];
            drop_bits(bits, random, first + m * 16, key);
            EACH(c, COLUMNS)
                EACH(i, 4)
                    if (IS_DROPPED(bits, c, i)) x[m][c][i] = 0;
        }
#endif
        operands p;
        as_operands(p, x);
        add_scores_by_rows(o, p, ring.tile(t) + TILE_BYTES(PASS)), mma_commit();
        mma_wait<0>(), mma_barrier(o), mma_barrier(p);
    }
    float factor[TILES][2];
    EACH(m, TILES)
        EACH(i, 2) {
            float all = sum[m][i];
            all += __shfl_xor_sync(~0u, all, 1);
            all += __shfl_xor_sync(~0u, all, 2);
            factor[m][i] = WINDOW && all == 0 ? 0 : (DROP ? g.grow : 1.0f) / all;
            int query = first + m * 16 + LANE_ROW + i * 8;
            if (LANE % 4 == 0 && query < g.s) lse[at.head * g.s + query] = most[m][i] * g.scale + logf(all);
        }
    store_rows(o, factor, q_tile, out + (i64)at.b * g.s * out_stride + at.h * D, out_stride, at.from, g.s);
}
#endif

#if DQ
/* lse (in base 2) and scaled delta of the warp's own queries, as lanes hold rows of scores; of each query both also go
 * to `rows`. */
__device__ inline void query_rows(float (&lse2)[TILES][2], float (&delta)[TILES][2], const HALF *dout, const HALF *o,
                                  const float *lse, float2 *rows, int stride, int first, const shape &g) {
    EACH(m, TILES) {
        int query = first + m * 16 + (int)(LANE / 2); /* two lanes a row */
        float sum = 0, log2 = 0;
        if (query < g.s) {
            for (int e = (int)(LANE % 2) * 8; e < D; e += 16) {
                uint4 a = *(const uint4 *)(dout + (i64)query * stride + e),
                      b = *(const uint4 *)(o + (i64)query * stride + e);
                const u32 x[4] = {a.x, a.y, a.z, a.w}, y[4] = {b.x, b.y, b.z, b.w};
                EACH(i, 4) {
                    float xl, xh, yl, yh;
                    unpair((const HALF *)0, x[i], xl, xh), unpair((const HALF *)0, y[i], yl, yh);
                    sum = fmaf(xl, yl, sum);
                    sum = fmaf(xh, yh, sum);
                }
            }
            log2 = lse[query] * LOG2E;
            if (WINDOW && log2 == -INF) log2 = 0; /* it sees no key */
        }
        sum = (sum + __shfl_xor_sync(~0u, sum, 1)) * g.scale;
        if (LANE % 2 == 0 && query < g.s) rows[query] = make_float2(log2, sum);
        EACH(i, 2) {
            lse2[m][i] = __shfl_sync(~0u, log2, LANE_ROW * 2 + i * 16);
            delta[m][i] = __shfl_sync(~0u, sum, LANE_ROW * 2 + i * 16);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    attention_dq(const HALF *dout, PARAMETERS(const HALF, q, kv), const HALF *o, const float *lse, HALF *dq_out,
                 float2 *rows, shape g, const clock_s *clock) {
    where at = place_of(g, OWN, true);
    const heads<int, const HALF> of = heads_of<int>(g, at, ARGUMENTS(q, kv));
    int out_stride = g.h * D;
    i64 out_base = (i64)at.b * g.s * out_stride + at.h * D;
    u32 q_tile = shared_memory(), dout_tile = q_tile + TILE_BYTES(OWN);
    int begin, n;
    key_tiles(begin, n, g, at);
    const passing ring = {of.k, of.v, of.kv_stride, of.kv_stride, KEYS(g), begin, n, dout_tile + TILE_BYTES(OWN), NULL};
    copy_tile<OWN>(q_tile, of.q, of.q_stride, at.from, g.s);
    copy_tile<OWN>(dout_tile, dout + out_base, out_stride, at.from, g.s);
    ring.start();
    own_rows own_q(q_tile), own_dout(dout_tile);
    int first = at.from + WARP_ROW;
    float lse2[TILES][2], delta[TILES][2];
    query_rows(lse2, delta, dout + out_base, o + out_base, lse + at.head * g.s, rows + at.head * g.s, out_stride, first,
               g);
    results dq;
    clear(dq);
#if DROP
    dropping random = dropping_of(g, clock, at.b, at.h);
#endif
    ring.arrive(0);
    own_q.keep(), own_dout.keep();
    for (int t = 0; t < n; t++) {
        if (t) ring.arrive(t);
        int key = ring.row(t);
        if (sees_none(g, BEFORE(g) + GROUP_FIRST(first), BEFORE(g) + GROUP_LAST(first), key, key + PASS - 1)) continue;
        scores x, dx;
        rows_by_rows(x, own_q, ring.tile(t)), mma_commit();
        rows_by_rows(dx, own_dout, ring.tile(t) + TILE_BYTES(PASS)), mma_commit();
#if DROP
        u32 bits[TILES][WORDS];
        EACH(m, TILES) drop_bits(bits[m], random, first + m * 16, key);
#endif
        mma_wait<1>(), mma_barrier(x);
        hide(x, BEFORE(g) + first, key, g);
        EACH(m, TILES) EACH(c, COLUMNS) EACH(i, 4) x[m][c][i] = power_of_2(fmaf(x[m][c][i], g.scale2, -lse2[m][i / 2]));
        mma_wait<0>(), mma_barrier(dx);
        EACH(m, TILES) EACH(c, COLUMNS) EACH(i, 4) {
                    float d = dx[m][c][i];
#if DROP
                    d = IS_DROPPED(bits[m], c, i) ? 0 : d * g.grow;
#endif
                    x[m][c][i] *= fmaf(d, g.scale, -delta[m][i / 2]);
                }
        operands ds;
        as_operands(ds, x);
        add_scores_by_rows(dq, ds, ring.tile(t)), mma_commit();
        mma_wait<0>(), mma_barrier(dq), mma_barrier(ds);
    }
    float factor[TILES][2];
    EACH(m, TILES) factor[m][0] = factor[m][1] = 1;
    const heads<int, HALF> to = heads_of<int>(g, at, ARGUMENTS(dq_out, (HALF *)NULL));
    store_rows(dq, factor, q_tile, to.q, to.q_stride, at.from, g.s);
}
#endif

#if DKDV
/* {lse, scale delta} of the lane's two queries of the 8 of column block c. */
__device__ inline void query_numbers(float (&lse2)[2], float (&delta)[2], u32 numbers, int c) {
    asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(lse2[0]), "=f"(delta[0]), "=f"(lse2[1]), "=f"(delta[1])
                 : "r"(numbers + (u32)(c * 64 + LANE_COLUMN * 8)));
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    attention_dkdv(const HALF *dout, PARAMETERS(const HALF, q, kv), HALF *dkv_out, const float2 *rows, shape g,
                   const clock_s *clock) {
    where at = place_of(g, OWN, false);
    const heads<int, const HALF> of = heads_of<int>(g, at, ARGUMENTS(q, kv));
    int out_stride = g.h * D;
    dout += (i64)at.b * g.s * out_stride + at.h * SHARE(g) * D, rows += query_head(g, at, 0) * g.s;
    u32 k_tile = shared_memory(), v_tile = k_tile + TILE_BYTES(OWN);
    const range queries = queries_seeing(g, at.from, OWN);
    int begin = queries.from / PASS, n = (queries.end + PASS - 1) / PASS - begin;
#if !PACKED
    int each = max(0, n);
    n = each * g.share;
#endif
    const passing ring = {of.q, dout, of.q_stride, out_stride, g.s, begin, n, v_tile + TILE_BYTES(OWN), rows OF_EACH};
    copy_tile<OWN>(k_tile, of.k, of.kv_stride, at.from, KEYS(g));
    copy_tile<OWN>(v_tile, of.v, of.kv_stride, at.from, KEYS(g));
    ring.start();
    own_rows own_k(k_tile), own_v(v_tile);
    int first = at.from + WARP_ROW; /* the warp's keys */
    results dk, dv;
    clear(dk), clear(dv);
#if DROP
    dropping random = dropping_of(g, clock, at.b, at.h * SHARE(g));
#endif
    ring.arrive(0);
    own_k.keep(), own_v.keep();
    for (int t = 0; t < n; t++) {
        if (t) ring.arrive(t);
        int query = ring.row(t);
        if (sees_none(g, BEFORE(g) + query, BEFORE(g) + query + PASS - 1, GROUP_FIRST(first), GROUP_LAST(first))) continue;
#if DROP && !PACKED
        random = dropping_of(g, clock, at.b, at.h * g.share + t / each);
#endif
        u32 q_tile = ring.tile(t), dout_tile = q_tile + TILE_BYTES(PASS), numbers = ring.numbers(t);
        scores x, dx;
        rows_by_rows(x, own_k, q_tile), mma_commit();
        rows_by_rows(dx, own_v, dout_tile), mma_commit();
#if DROP
        u32 bits[TILES][WORDS];
        EACH(m, TILES) drop_bits(bits[m], random, first + m * 16, query);
#endif
        mma_wait<1>(), mma_barrier(x);
        hide(x, first, BEFORE(g) + query, g);
        operands p, ds;
        EACH(m, TILES)
            EACH(c, COLUMNS) {
                float lse2[2], delta[2], kept[4];
                query_numbers(lse2, delta, numbers, c);
                EACH(i, 4) {
                    kept[i] = x[m][c][i] = power_of_2(fmaf(x[m][c][i], g.scale2, -lse2[i % 2]));
#if DROP
                    if (IS_DROPPED(bits[m], c, i)) kept[i] = 0;
#endif
                }
                p[m][c / 2][c % 2 * 2] = pack(kept[0], kept[1]), p[m][c / 2][c % 2 * 2 + 1] = pack(kept[2], kept[3]);
            }
        add_scores_by_rows(dv, p, dout_tile), mma_commit();
        mma_wait<1>(), mma_barrier(dx);
        EACH(m, TILES)
            EACH(c, COLUMNS) {
                float lse2[2], delta[2];
                query_numbers(lse2, delta, numbers, c);
                EACH(i, 4) {
                    float d = dx[m][c][i];
#if DROP
                    d = IS_DROPPED(bits[m], c, i) ? 0 : d * g.grow;
#endif
                    x[m][c][i] *= fmaf(d, g.scale, -delta[i % 2]);
                }
            }
        as_operands(ds, x);
        add_scores_by_rows(dk, ds, q_tile), mma_commit();
        mma_wait<0>(), mma_barrier(dk), mma_barrier(dv), mma_barrier(p), mma_barrier(ds);
    }
    float k_factor[TILES][2], v_factor[TILES][2];
    EACH(m, TILES)
        k_factor[m][0] = k_factor[m][1] = 1, v_factor[m][0] = v_factor[m][1] = DROP ? g.grow : 1.0f;
    const heads<int, HALF> to = heads_of<int>(g, at, ARGUMENTS((PACKED ? dkv_out : NULL), dkv_out));
    store_rows(dk, k_factor, k_tile, to.k, to.kv_stride, at.from, KEYS(g));
    store_rows(dv, v_factor, v_tile, to.v, to.kv_stride, at.from, KEYS(g));
}
#endif
