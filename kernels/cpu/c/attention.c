/* Attention and its gradient, by blocks of queries and keys, with memory linear in the sequence length.
 *
 * Forward: for each block of queries, the scores of one block of keys at a time, with running maxima and sums (Milakov
 * and Gimelshein, "Online normalizer calculation for softmax", 2018). Backward: probabilities are recomputed from the
 * scores and lse. With P the probabilities, M the dropout factors (0 or 1 / (1 - p)) and o = (P M) v:
 *
 *   dv = (P M)' do    dP = M (do v')    dS = P (dP - rowsum(do o))    dq = scale dS k    dk = scale dS' q
 *
 * The unit of work of a thread is a block of queries forward, a head backward. */
#ifndef T
#include <omp.h>

#include "kernels/cpu/c/internal.h"

enum { QUERIES = 96, KEYS = 192, WIDTH = KEYS + 8 /* of a row of scores: not a power of two */ };

struct heads {
    int64_t b, s, h, d;
    int64_t b0, h0, hglobal; /* offsets of the box, and all heads */
    int64_t row;             /* stride of a position in qkv, elements */
    uint64_t seed, stream;
    uint32_t threshold;
};

static void heads_of(const struct mt_call *call, const struct mt_tensor *qkv, struct heads *g) {
    *g = (struct heads){.b = qkv->extent[0],
                        .s = qkv->extent[1],
                        .h = qkv->extent[3],
                        .d = qkv->extent[4],
                        .b0 = qkv->offset[0],
                        .h0 = qkv->offset[3],
                        .hglobal = qkv->global[3],
                        .row = 3 * qkv->extent[3] * qkv->extent[4]};
    if (call->attr->p > 0) {
        g->seed = call->clock->seed;
        g->stream = mt_drop_stream(call->attr, call->clock);
        g->threshold = mt_drop_threshold(call->attr->p);
    }
}

/* How many of the keys [key, key + keys) are not masked for a query. */
static int64_t seen(const struct mt_attr *attr, int64_t query, int64_t key, int64_t keys) {
    return attr->causal ? largest(0, least(keys, query + 1 - key)) : keys;
}

/* The end of the keys that queries before `end` see. */
static int64_t key_end(const struct mt_attr *attr, const struct heads *g, int64_t end) {
    return attr->causal ? least(g->s, end) : g->s;
}

/* The random numbers of query i's keys from `key` on, of head h of sample b. */
static const uint32_t *drops(const struct heads *g, int64_t head, int64_t query, int64_t key, int64_t keys,
                             uint32_t *buffer) {
    int64_t global = (g->b0 + head / g->h) * g->hglobal + g->h0 + head % g->h;
    return mt_c_random(g->seed, g->stream, (uint64_t)((global * g->s + query) * g->s + key), keys, buffer);
}

#define TYPED_SOURCE "kernels/cpu/c/attention.c"
#include "kernels/cpu/c/each_type.h"

static int64_t forward_bytes(const struct mt_call *call) {
    int64_t d = call->in[0].extent[4];
    return mt_c_type(call) == MT_F64 ? forward_space_f64(d, NULL, NULL) : forward_space_f32(d, NULL, NULL);
}
static int64_t backward_bytes(const struct mt_call *call) {
    int64_t s = call->in[1].extent[1], d = call->in[1].extent[4];
    return mt_c_type(call) == MT_F64 ? backward_space_f64(s, d, NULL, NULL) : backward_space_f32(s, d, NULL, NULL);
}
C_OP_WITH(attention, NULL, forward_bytes);
C_OP_WITH(attention_grad, NULL, backward_bytes);

#else
#include "kernels/cpu/c/gemm.h"

/* Lay out parts of `counts` elements one after the other; returns their bytes. */
static int64_t TYPED(lay_out)(int n, const int64_t *counts, A **const *parts, char *memory) {
    int64_t size_bytes = 0;
    for (int i = 0; i < n; i++) {
        if (memory) *parts[i] = (A *)(void *)(memory + size_bytes);
        size_bytes += lines(counts[i], sizeof(A));
    }
    return size_bytes;
}

/* A thread's memory forward: a block of queries, keys and values packed, scores, the output so far, maxima and sums. */
struct TYPED(forward) {
    A *q, *k, *v, *scores, *o, *most, *sum;
    int64_t width; /* of o's rows */
};

static int64_t TYPED(forward_space)(int64_t d, char *memory, struct TYPED(forward) * w) {
    struct TYPED(forward) none;
    if (!w) w = &none;
    w->width = round_up(d, NR);
    return TYPED(lay_out)(7,
                          (int64_t[]){QUERIES * d, round_up(KEYS, NR) * d, KEYS * w->width, QUERIES * WIDTH,
                                      QUERIES * w->width, QUERIES, QUERIES},
                          (A * *const[]){&w->q, &w->k, &w->v, &w->scores, &w->o, &w->most, &w->sum}, memory);
}

MT_CLONES static A TYPED(max_of)(int64_t n, const A *x, A m) {
#pragma omp simd reduction(max : m)
    for (int64_t j = 0; j < n; j++) m = x[j] > m ? x[j] : m;
    return m;
}

/* x[0, n) = exp(scale x - m), x[n, all) = 0; returns the sum. */
MT_CLONES static A TYPED(exponentials)(int64_t n, int64_t all, A scale, A m, A *x) {
    A sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++) {
        x[j] = EXP(scale * x[j] - m);
        sum += x[j];
    }
    for (int64_t j = n; j < all; j++) x[j] = 0;
    return sum;
}

MT_CLONES static void TYPED(scale_row)(int64_t n, A factor, A *x) {
#pragma omp simd
    for (int64_t j = 0; j < n; j++) x[j] *= factor;
}

MT_CLONES static void TYPED(drop_row)(int64_t n, const uint32_t *random, uint32_t threshold, A factor, const A *x,
                                      A *y) {
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        A kept = x[j] * factor;
        y[j] = random[j] < threshold ? 0 : kept;
    }
}

MT_CLONES static void TYPED(store_scaled)(int64_t n, A factor, const A *x, T *y) {
#pragma omp simd
    for (int64_t j = 0; j < n; j++) y[j] = STORE(x[j] * factor);
}

/* Turn scores [size[0], size[1]] at (query, key) = at into unnormalised probabilities, and update the running maxima
 * and sums. */
static void TYPED(softmax_block)(const struct mt_call *call, const struct heads *g, int64_t head, const int64_t at[2],
                                 const int64_t size[2], struct TYPED(forward) * w) {
    const struct mt_attr *t = call->attr;
    for (int64_t i = 0; i < size[0]; i++) {
        int64_t n = seen(t, at[0] + i, at[1], size[1]);
        A *x = w->scores + i * WIDTH, old = w->most[i];
        A most = n ? TYPED(max_of)(n, x, (A)-INFINITY) * (A)t->scale : old;
        most = most > old ? most : old;
        A fade = old == (A)-INFINITY ? 0 : EXP(old - most);
        w->sum[i] = w->sum[i] * fade + TYPED(exponentials)(n, size[1], (A)t->scale, most, x);
        w->most[i] = most;
        if (fade != 1) TYPED(scale_row)(g->d, fade, w->o + i * w->width);
        if (g->threshold) {
            uint32_t buffer[KEYS + 8];
            const uint32_t *random = drops(g, head, at[0] + i, at[1], size[1], buffer);
            TYPED(drop_row)(size[1], random, g->threshold, (A)(1 / (1 - t->p)), x, x);
        }
    }
}

/* Output and lse of the queries from `query` on, of one head of one sample. */
static void TYPED(forward_block)(const struct mt_call *call, const struct heads *g, int64_t head, int64_t query,
                                 struct TYPED(forward) * w) {
    int64_t b = head / g->h, h = head % g->h, queries = least(QUERIES, g->s - query);
    const T *q = (const T *)call->in[0].data + b * g->s * g->row + h * g->d, *k = q + g->h * g->d, *v = k + g->h * g->d;
    const int64_t rows[2] = {g->row, 1}, columns[2] = {1, g->row};
    TYPED(load_block)(q + query * g->row, g->row, queries, g->d, w->q, g->d);
    memset(w->o, 0, (size_t)(QUERIES * w->width) * sizeof(A));
    for (int i = 0; i < QUERIES; i++) w->most[i] = (A)-INFINITY, w->sum[i] = 0;
    int64_t end = key_end(call->attr, g, query + queries);
    for (int64_t key = 0; key < end; key += KEYS) {
        int64_t keys = least(KEYS, end - key);
        TYPED(pack)(k + key * g->row, columns, g->d, keys, w->k);
        memset(w->scores, 0, QUERIES * WIDTH * sizeof(A));
        TYPED(multiply)
        (&(struct TYPED(gemm)){queries, keys, g->d, w->q, g->d, 1, w->k, g->d, w->scores, WIDTH});
        TYPED(softmax_block)(call, g, head, (int64_t[2]){query, key}, (int64_t[2]){queries, keys}, w);
        TYPED(pack)(v + key * g->row, rows, keys, g->d, w->v);
        TYPED(multiply)
        (&(struct TYPED(gemm)){queries, g->d, keys, w->scores, WIDTH, 1, w->v, keys, w->o, w->width});
    }
    T *o = call->out[0].data;
    A *lse = call->out[1].data;
    for (int64_t i = 0; i < queries; i++) {
        TYPED(store_scaled)(g->d, 1 / w->sum[i], w->o + i * w->width, o + (((b * g->s + query + i) * g->h) + h) * g->d);
        lse[head * g->s + query + i] = w->most[i] + LOG(w->sum[i]);
    }
}

static void TYPED(attention)(const struct mt_call *call) {
    struct heads g;
    heads_of(call, &call->in[0], &g);
    int64_t size_bytes = TYPED(forward_space)(g.d, NULL, NULL), blocks = (g.s + QUERIES - 1) / QUERIES;
#pragma omp parallel if (g.b * g.h * g.s * g.s * g.d >= WORTH_A_TEAM)
    {
        struct TYPED(forward) w;
        TYPED(forward_space)(g.d, (char *)call->scratch + omp_get_thread_num() * size_bytes, &w);
#pragma omp for collapse(2) schedule(dynamic)
        for (int64_t head = 0; head < g.b * g.h; head++)
            for (int64_t i = 0; i < blocks; i++) TYPED(forward_block)(call, &g, head, i * QUERIES, &w);
    }
}

/* A thread's memory backward: a block of q and dout, plain and packed; k and v packed along and across, as the GEMMs
 * need them; blocks of P M (p) and dS (ds); dq of the head, dk and dv of the block of keys; dot = rowsum(do o). */
struct TYPED(backward) {
    A *q, *dout, *q_packed, *dout_packed, *k_across, *v_across, *k_along, *p, *ds, *dq, *dk, *dv, *dot;
    int64_t width, keys; /* of rows of headsize elements; in the packed block */
};

static int64_t TYPED(backward_space)(int64_t s, int64_t d, char *memory, struct TYPED(backward) * w) {
    struct TYPED(backward) none;
    if (!w) w = &none;
    w->width = round_up(d, NR);
    int64_t across = round_up(KEYS, NR) * d, along = KEYS * w->width, scores = QUERIES * WIDTH;
    return TYPED(lay_out)(13,
                          (int64_t[]){QUERIES * d, QUERIES * d, QUERIES * w->width, QUERIES * w->width, across, across,
                                      along, scores, scores, round_up(s, QUERIES) * w->width, along, along, s},
                          (A * *const[]){&w->q, &w->dout, &w->q_packed, &w->dout_packed, &w->k_across, &w->v_across,
                                         &w->k_along, &w->p, &w->ds, &w->dq, &w->dk, &w->dv, &w->dot},
                          memory);
}

/* ds = p (ds - dot); on entry ds is M (do v'). */
MT_CLONES static void TYPED(score_grad)(int64_t n, A dot, A *p, A *ds) {
#pragma omp simd
    for (int64_t j = 0; j < n; j++) ds[j] = p[j] * (ds[j] - dot);
}

MT_CLONES static A TYPED(dot)(int64_t n, const T *a, const T *b) {
    A s = 0;
#pragma omp simd reduction(+ : s)
    for (int64_t j = 0; j < n; j++) s += LOAD(a[j]) * LOAD(b[j]);
    return s;
}

/* Turn scores p and ds = do v', [size[0], size[1]] at (query, key) = at, into P M and dS. */
static void TYPED(softmax_grad_block)(const struct mt_call *call, const struct heads *g, int64_t head,
                                      const int64_t at[2], const int64_t size[2], struct TYPED(backward) * w) {
    const struct mt_attr *t = call->attr;
    const A *lse = (const A *)call->in[3].data + head * g->s;
    for (int64_t i = 0; i < size[0]; i++) {
        A *p = w->p + i * WIDTH, *ds = w->ds + i * WIDTH;
        TYPED(exponentials)(seen(t, at[0] + i, at[1], size[1]), size[1], (A)t->scale, lse[at[0] + i], p);
        uint32_t buffer[KEYS + 8];
        const uint32_t *random = NULL;
        A factor = (A)(1 / (1 - t->p));
        if (g->threshold) {
            random = drops(g, head, at[0] + i, at[1], size[1], buffer);
            TYPED(drop_row)(size[1], random, g->threshold, factor, ds, ds);
        }
        TYPED(score_grad)(size[1], w->dot[at[0] + i], p, ds);
        if (random) TYPED(drop_row)(size[1], random, g->threshold, factor, p, p);
    }
}

/* Add the contribution of one block of queries and the packed block of keys to dq, dk and dv. */
static void TYPED(backward_block)(const struct mt_call *call, const struct heads *g, int64_t head, const int64_t at[2],
                                  const int64_t size[2], struct TYPED(backward) * w) {
    int64_t b = head / g->h, h = head % g->h, queries = size[0], keys = size[1], d = g->d;
    const T *q = (const T *)call->in[1].data + (b * g->s + at[0]) * g->row + h * d;
    const T *dout = (const T *)call->in[0].data + ((b * g->s + at[0]) * g->h + h) * d;
    const int64_t q_rows[2] = {g->row, 1}, o_rows[2] = {g->h * d, 1};
    TYPED(load_block)(q, g->row, queries, d, w->q, d);
    TYPED(load_block)(dout, g->h * d, queries, d, w->dout, d);
    TYPED(pack)(q, q_rows, queries, d, w->q_packed);
    TYPED(pack)(dout, o_rows, queries, d, w->dout_packed);
    memset(w->p, 0, QUERIES * WIDTH * sizeof(A));
    memset(w->ds, 0, QUERIES * WIDTH * sizeof(A));
    TYPED(multiply)(&(struct TYPED(gemm)){queries, keys, d, w->q, d, 1, w->k_across, d, w->p, WIDTH});
    TYPED(multiply)(&(struct TYPED(gemm)){queries, keys, d, w->dout, d, 1, w->v_across, d, w->ds, WIDTH});
    TYPED(softmax_grad_block)(call, g, head, at, size, w);
    TYPED(multiply)
    (&(struct TYPED(gemm)){keys, d, queries, w->p, 1, WIDTH, w->dout_packed, queries, w->dv, w->width});
    TYPED(multiply)(&(struct TYPED(gemm)){keys, d, queries, w->ds, 1, WIDTH, w->q_packed, queries, w->dk, w->width});
    TYPED(multiply)
    (&(struct TYPED(gemm)){queries, d, keys, w->ds, WIDTH, 1, w->k_along, w->keys, w->dq + at[0] * w->width, w->width});
}

static void TYPED(backward_head)(const struct mt_call *call, const struct heads *g, int64_t head,
                                 struct TYPED(backward) * w) {
    int64_t b = head / g->h, h = head % g->h, d = g->d, part = g->h * d, base = b * g->s * g->row + h * d;
    const T *k = (const T *)call->in[1].data + base + part, *v = k + part;
    const T *dout = call->in[0].data, *o = call->in[2].data;
    T *dq = (T *)call->out[0].data + base;
    const int64_t rows[2] = {g->row, 1}, columns[2] = {1, g->row};
    A scale = (A)call->attr->scale;
    memset(w->dq, 0, (size_t)(round_up(g->s, QUERIES) * w->width) * sizeof(A));
    for (int64_t i = 0; i < g->s; i++) {
        int64_t at = ((b * g->s + i) * g->h + h) * d;
        w->dot[i] = TYPED(dot)(d, dout + at, o + at);
    }
    for (int64_t key = 0; key < g->s; key += KEYS) {
        int64_t keys = least(KEYS, g->s - key);
        w->keys = keys;
        TYPED(pack)(k + key * g->row, columns, d, keys, w->k_across);
        TYPED(pack)(v + key * g->row, columns, d, keys, w->v_across);
        TYPED(pack)(k + key * g->row, rows, keys, d, w->k_along);
        memset(w->dk, 0, (size_t)(KEYS * w->width) * sizeof(A));
        memset(w->dv, 0, (size_t)(KEYS * w->width) * sizeof(A));
        for (int64_t query = call->attr->causal ? key / QUERIES * QUERIES : 0; query < g->s; query += QUERIES) {
            int64_t queries = least(QUERIES, g->s - query), end = key_end(call->attr, g, query + queries);
            TYPED(backward_block)
            (call, g, head, (int64_t[2]){query, key}, (int64_t[2]){queries, least(keys, end - key)}, w);
        }
        for (int64_t j = 0; j < keys; j++) {
            T *to = dq + part + (key + j) * g->row;
            TYPED(store_scaled)(d, scale, w->dk + j * w->width, to);
            TYPED(store_scaled)(d, 1, w->dv + j * w->width, to + part);
        }
    }
    for (int64_t i = 0; i < g->s; i++) TYPED(store_scaled)(d, scale, w->dq + i * w->width, dq + i * g->row);
}

static void TYPED(attention_grad)(const struct mt_call *call) {
    struct heads g;
    heads_of(call, &call->in[1], &g);
    int64_t size_bytes = TYPED(backward_space)(g.s, g.d, NULL, NULL);
#pragma omp parallel if (g.b * g.h * g.s * g.s * g.d >= WORTH_A_TEAM)
    {
        struct TYPED(backward) w;
        TYPED(backward_space)(g.s, g.d, (char *)call->scratch + omp_get_thread_num() * size_bytes, &w);
#pragma omp for schedule(dynamic)
        for (int64_t head = 0; head < g.b * g.h; head++) TYPED(backward_head)(call, &g, head, &w);
    }
}
#endif
