/* Attention and its gradient without tensor cores, in f32: for every device and every shape, and the reference for the
 * other implementations. The kernels and their formulas are those of attention_tiles.cu.
 *
 * Definitions: FORWARD, DQ or DKDV; TYPE; D (head size), HEAD (D padded), PACKED and WINDOW (attention.cuh), CAUSAL, DROP,
 * BLOCK (rows of a tile) and VECTOR (elements a load). */
#include "kernels/cuda/attention/attention.cuh"

typedef TYPE T;

#define SIDE (BLOCK / 4) /* threads are SIDE by SIDE, each with 4 own rows by every SIDE-th row of the other tile */
#define THREADS (SIDE * SIDE)
#define ROW (HEAD + 4) /* of a tile in shared memory: padded, so that rows begin in different banks */
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

/* After all threads have read the tile's old rows; returns when they see the new ones. */
__device__ inline void replace_tile(float *tile, const T *from, i64 stride, int row, int s) {
    __syncthreads();
    load_tile(tile, from, stride, row, s);
    __syncthreads();
}

/* x[i][j] = the dot product of own row i and row j of the tile */
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

/* y[i] += the sum over the rows of the tile of x[i][row] tile[row] */
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
    attention_forward(PARAMETERS(const T, q, kv), T *out, float *lse, shape g, const clock_s *clock) {
    extern __shared__ __align__(16) float own[];
    float *passing = own + BLOCK * ROW, *probs = passing + BLOCK * ROW;
    where at = place_of(g, BLOCK, true);
    const heads<i64, const T> of = heads_of<i64>(g, at, ARGUMENTS(q, kv));
    i64 out_stride = (i64)g.h * D;
    load_tile(own, of.q, of.q_stride, at.from, g.s);
    results o;
    float most[4], sum[4];
    clear(o);
    for (int i = 0; i < 4; i++) most[i] = -INF, sum[i] = 0;
#if DROP
    dropping random = dropping_of(g, clock, at.b, at.h);
#endif
    const range keys = keys_seen(g, at.from, BLOCK);
    for (int from = keys.from / BLOCK * BLOCK; from < keys.end; from += BLOCK) {
        replace_tile(passing, of.k, of.kv_stride, from, KEYS(g));
        scores x;
        rows_by_rows(x, own, passing);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int query = at.from + OWN_ROW + i;
            float now = most[i], all = 0;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                int key = from + ACROSS + SIDE * j;
                if (key >= KEYS(g) || !is_seen(g, BEFORE(g) + query, key)) x[i][j] = -INF;
                now = fmaxf(now, x[i][j]);
            }
            now = row_max(now);
            float base = base_of(now), fade = power_of_2((most[i] - base) * g.scale2);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                all += x[i][j] = power_of_2((x[i][j] - base) * g.scale2);
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
        replace_tile(passing, of.v, of.kv_stride, from, KEYS(g));
        add_scores_by_rows(o, probs, passing);
    }
    float factor[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float all = row_sum(sum[i]);
        int query = at.from + OWN_ROW + i;
        factor[i] = (DROP ? g.grow : 1.0f) / all;
#if !PACKED
        if (!KEYS(g) || (WINDOW && all == 0)) factor[i] = 0;
#endif
        if (ACROSS == 0 && query < g.s) lse[at.head * g.s + query] = most[i] * g.scale + logf(all);
    }
    store_rows(o, factor, out + at.b * g.s * out_stride + at.h * D, out_stride, at.from, g.s);
}
#endif

#if DQ
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    attention_dq(const T *dout, PARAMETERS(const T, q, kv), const T *o, const float *lse, T *dq_out, float2 *rows,
                 shape g, const clock_s *clock) {
    extern __shared__ __align__(16) float own[];
    float *own_dout = own + BLOCK * ROW, *passing = own_dout + BLOCK * ROW, *grads = passing + BLOCK * ROW;
    where at = place_of(g, BLOCK, true);
    const heads<i64, const T> of = heads_of<i64>(g, at, ARGUMENTS(q, kv));
    i64 out_stride = (i64)g.h * D, out_base = at.b * g.s * out_stride + at.h * D;
    load_tile(own, of.q, of.q_stride, at.from, g.s);
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
    const range keys = keys_seen(g, at.from, BLOCK);
    for (int from = keys.from / BLOCK * BLOCK; from < keys.end; from += BLOCK) {
        scores x, dx;
        replace_tile(passing, of.v, of.kv_stride, from, KEYS(g));
        rows_by_rows(dx, own_dout, passing);
        replace_tile(passing, of.k, of.kv_stride, from, KEYS(g));
        rows_by_rows(x, own, passing);
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                int query = at.from + OWN_ROW + i, key = from + ACROSS + SIDE * j;
                bool seen = key < KEYS(g) && is_seen(g, BEFORE(g) + query, key);
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
    const heads<i64, T> to = heads_of<i64>(g, at, ARGUMENTS(dq_out, (T *)NULL));
    store_rows(dq, factor, to.q, to.q_stride, at.from, g.s);
}
#endif

#if DKDV
/* Add what one query head's rows give to the block's keys and values. */
__device__ inline void add_queries(results &dk, results &dv, const float *own, const float *own_v, float *passing,
                                   float *turned, const heads<i64, const T> &of, const T *dout, const float2 *rows,
                                   const dropping &random, const where &at, const shape &g) {
    const range queries = queries_seeing(g, at.from, BLOCK);
    for (int from = queries.from / BLOCK * BLOCK; from < queries.end; from += BLOCK) {
        scores x, dx, p;
        replace_tile(passing, of.q, of.q_stride, from, g.s);
        rows_by_rows(x, own, passing);
        replace_tile(passing, dout, (i64)g.h * D, from, g.s);
        rows_by_rows(dx, own_v, passing);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int query = from + ACROSS + SIDE * j;
            float2 number = query < g.s ? rows[query] : make_float2(0, 0);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int key = at.from + OWN_ROW + i;
                bool seen = query < g.s && is_seen(g, BEFORE(g) + query, key);
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
        load_tile(passing, of.q, of.q_stride, from, g.s);
        __syncthreads();
        add_scores_by_rows(dk, turned, passing);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    attention_dkdv(const T *dout, PARAMETERS(const T, q, kv), T *dkv_out, const float2 *rows, shape g,
                   const clock_s *clock) {
    extern __shared__ __align__(16) float own[];
    float *own_v = own + BLOCK * ROW, *passing = own_v + BLOCK * ROW, *turned = passing + BLOCK * ROW;
    where at = place_of(g, BLOCK, false);
    heads<i64, const T> of = heads_of<i64>(g, at, ARGUMENTS(q, kv));
    dout += at.b * g.s * ((i64)g.h * D) + at.h * SHARE(g) * D, rows += query_head(g, at, 0) * g.s;
    load_tile(own, of.k, of.kv_stride, at.from, KEYS(g));
    load_tile(own_v, of.v, of.kv_stride, at.from, KEYS(g));
    results dk, dv;
    clear(dk), clear(dv);
    for (int i = 0; i < SHARE(g); i++, of.q += D, dout += D, rows += g.s) {
        dropping random = dropping_of(g, clock, at.b, at.h * SHARE(g) + i);
        add_queries(dk, dv, own, own_v, passing, turned, of, dout, rows, random, at, g);
    }
    const float k_factor[4] = {g.scale, g.scale, g.scale, g.scale}, v_factor[4] = {1, 1, 1, 1};
    const heads<i64, T> to = heads_of<i64>(g, at, ARGUMENTS((PACKED ? dkv_out : NULL), dkv_out));
    store_rows(dk, k_factor, to.k, to.kv_stride, at.from, KEYS(g));
    store_rows(dv, v_factor, to.v, to.kv_stride, at.from, KEYS(g));
}
#endif
