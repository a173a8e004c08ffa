/* Attention and its gradient, by blocks of queries and keys, with memory linear in the sequence length.
 *
 * Forward: for each block of queries, the scores of one block of keys at a time, with running maxima and sums (Milakov
 * and Gimelshein, "Online normalizer calculation for softmax", 2018). Backward: probabilities are recomputed from the
 * scores and lse. With P the probabilities, M the dropout factors (0 or 1 / (1 - p)) and o = (P M) v:
 *
 *   dv = (P M)' do    dP = M (do v')    dS = P (dP - rowsum(do o))    dq = scale dS k    dk = scale dS' q
 *
 * The unit of work of a thread is a block of queries of a head forward; backward a head of keys and values, with the
 * query heads that it serves. */
#ifndef T
#include <omp.h>

#include "kernels/cpu/c/internal.h"

enum { QUERIES = 96, KEYS = 192, WIDTH = KEYS + 8 /* of a row of scores: not a power of two */ };

struct heads {
    struct mt_attention a;
    const void *q, *k, *v; /* of the box */
    void *dq, *dk, *dv;
    uint64_t seed, stream;
    uint32_t threshold;
};

/* The address of an element; of an empty tensor, which may have no memory, one that takes offsets but is not used. */
static void *element(const struct mt_tensor *t, int64_t at) {
    static char nothing;
    return (t->data ? (char *)t->data : &nothing) + at * mt_type_size(t->type);
}

static struct heads heads_of(const struct mt_call *call) {
    struct heads g = {.a = mt_attention_of(call)};
    const struct mt_attention *a = &g.a;
    g.q = element(a->q, 0), g.k = element(a->kv, a->k_at), g.v = element(a->kv, a->v_at);
    if (a->gradient) g.dq = element(a->dq, 0), g.dk = element(a->dkv, a->k_at), g.dv = element(a->dkv, a->v_at);
    if (call->attr->p > 0) {
        g.seed = call->clock->seed;
        g.stream = mt_drop_stream(call->attr, call->clock);
        g.threshold = mt_drop_threshold(call->attr->p);
    }
    return g;
}

/* Which of the keys [key, key + keys) are not masked for a query of the box: [from, end) of them. */
struct seen {
    int64_t from, end;
};
static struct seen seen(const struct mt_attr *attr, const struct heads *g, int64_t query, int64_t key, int64_t keys) {
    int64_t behind = g->a.first + query + 1 - key;
    int64_t end = attr->causal ? largest(0, least(keys, behind)) : keys;
    return (struct seen){g->a.window ? largest(0, least(end, behind - g->a.window)) : 0, end};
}

/* The end of the keys that queries before `end` see. */
static int64_t key_end(const struct mt_attr *attr, const struct heads *g, int64_t end) {
    return attr->causal ? least(g->a.t, g->a.first + end) : g->a.t;
}

/* The first block of keys that queries from `query` on see. */
static int64_t key_begin(const struct heads *g, int64_t query) {
    return g->a.window ? largest(0, g->a.first + query + 1 - g->a.window) / KEYS * KEYS : 0;
}

/* The first block of queries that sees `key`. */
static int64_t query_begin(const struct mt_attr *attr, const struct heads *g, int64_t key) {
    return attr->causal ? largest(0, key - g->a.first) / QUERIES * QUERIES : 0;
}

/* The end of the queries that see keys before `end`. */
static int64_t query_end(const struct heads *g, int64_t end) {
    return g->a.window ? least(g->a.s, end - 1 + g->a.window - g->a.first) : g->a.s;
}

/* The random numbers of query i's keys from `key` on, of head h of sample b. */
static const uint32_t *drops(const struct heads *g, int64_t head, int64_t query, int64_t key, int64_t keys,
                             uint32_t *buffer) {
    const struct mt_attention *a = &g->a;
    int64_t whole = (a->first_sample + head / a->heads) * a->all_heads + mt_attention_head(a, head % a->heads);
    uint64_t first = (uint64_t)((whole * a->all_s + a->first + query) * a->t + key);
    return mt_c_random(g->seed, g->stream, first, keys, buffer);
}

#define TYPED_SOURCE "kernels/cpu/c/attention.c"
#include "kernels/cpu/c/each_type.h"

static int64_t forward_bytes(const struct mt_call *call) {
    struct mt_attention a = mt_attention_of(call);
    return mt_c_type(call) == MT_F64 ? forward_space_f64(a.d, NULL, NULL) : forward_space_f32(a.d, NULL, NULL);
}
static int64_t backward_bytes(const struct mt_call *call) {
    struct mt_attention a = mt_attention_of(call);
    return mt_c_type(call) == MT_F64 ? backward_space_f64(&a, NULL, NULL) : backward_space_f32(&a, NULL, NULL);
}
C_OP_WITH(attention, NULL, forward_bytes);
C_OP_WITH(attention_grad, NULL, backward_bytes);
const struct mt_c_op mt_c_attention_packed = {{attention_f64, attention_f32, attention_bf16, attention_f16},
                                              .thread_bytes = forward_bytes};
const struct mt_c_op mt_c_attention_packed_grad = {
    {attention_grad_f64, attention_grad_f32, attention_grad_bf16, attention_grad_f16}, .thread_bytes = backward_bytes};

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

/* x[from, end) = exp(scale x - m), the rest of x[0, all) = 0; returns the sum. */
MT_CLONES static A TYPED(exponentials)(struct seen seen, int64_t all, A scale, A m, A *x) {
    A sum = 0;
    for (int64_t j = 0; j < seen.from; j++) x[j] = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = seen.from; j < seen.end; j++) {
        x[j] = EXP(scale * x[j] - m);
        sum += x[j];
    }
    for (int64_t j = seen.end; j < all; j++) x[j] = 0;
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
        struct seen n = seen(t, g, at[0] + i, at[1], size[1]);
        A *x = w->scores + i * WIDTH, old = w->most[i];
        A most = n.end > n.from ? TYPED(max_of)(n.end - n.from, x + n.from, (A)-INFINITY) * (A)t->scale : old;
        most = most > old ? most : old;
        A fade = old == (A)-INFINITY ? 0 : EXP(old - most);
        w->sum[i] = w->sum[i] * fade + TYPED(exponentials)(n, size[1], (A)t->scale, most, x);
        w->most[i] = most;
        if (fade != 1) TYPED(scale_row)(g->a.d, fade, w->o + i * w->width);
        if (g->threshold) {
            uint32_t buffer[KEYS + 8];
            const uint32_t *random = drops(g, head, at[0] + i, at[1], size[1], buffer);
            TYPED(drop_row)(size[1], random, g->threshold, (A)(1 / (1 - t->p)), x, x);
        }
    }
}

/* Output and lse of the queries from `query` on, of one head of one sample. A query that sees no key has zeros and
 * -inf. */
static void TYPED(forward_block)(const struct mt_call *call, const struct heads *g, int64_t head, int64_t query,
                                 struct TYPED(forward) * w) {
    const struct mt_attention *a = &g->a;
    int64_t b = head / a->heads, h = head % a->heads, queries = least(QUERIES, a->s - query), d = a->d;
    int64_t of_group = b * a->t * a->kv_row + h / a->share * d;
    const T *q = (const T *)g->q + (b * a->s + query) * a->q_row + h * d;
    const T *k = (const T *)g->k + of_group, *v = (const T *)g->v + of_group;
    const int64_t rows[2] = {a->kv_row, 1}, columns[2] = {1, a->kv_row};
    TYPED(load_block)(q, a->q_row, queries, d, w->q, d);
    memset(w->o, 0, (size_t)(QUERIES * w->width) * sizeof(A));
    for (int i = 0; i < QUERIES; i++) w->most[i] = (A)-INFINITY, w->sum[i] = 0;
    int64_t end = key_end(call->attr, g, query + queries);
    for (int64_t key = key_begin(g, query); key < end; key += KEYS) {
        int64_t keys = least(KEYS, end - key);
        TYPED(pack)(k + key * a->kv_row, columns, d, keys, w->k);
        memset(w->scores, 0, QUERIES * WIDTH * sizeof(A));
        TYPED(multiply)
        (&(struct TYPED(gemm)){queries, keys, d, w->q, d, 1, w->k, d, w->scores, WIDTH});
        TYPED(softmax_block)(call, g, head, (int64_t[2]){query, key}, (int64_t[2]){queries, keys}, w);
        TYPED(pack)(v + key * a->kv_row, rows, keys, d, w->v);
        TYPED(multiply)
        (&(struct TYPED(gemm)){queries, d, keys, w->scores, WIDTH, 1, w->v, keys, w->o, w->width});
    }
    T *o = (T *)call->out[0].data + ((b * a->s + query) * a->heads + h) * d;
    A *lse = (A *)call->out[1].data + head * a->s + query;
    for (int64_t i = 0; i < queries; i++) {
        A sum = w->sum[i];
        TYPED(store_scaled)(d, sum == 0 ? 0 : 1 / sum, w->o + i * w->width, o + i * a->heads * d);
        lse[i] = w->most[i] + LOG(sum);
    }
}

static void TYPED(attention)(const struct mt_call *call) {
    const struct heads g = heads_of(call);
    const struct mt_attention *a = &g.a;
    int64_t size_bytes = TYPED(forward_space)(a->d, NULL, NULL), blocks = (a->s + QUERIES - 1) / QUERIES;
#pragma omp parallel if (a->b * a->heads * a->s * a->t * a->d >= WORTH_A_TEAM)
    {
        struct TYPED(forward) w;
        TYPED(forward_space)(a->d, (char *)call->scratch + omp_get_thread_num() * size_bytes, &w);
#pragma omp for collapse(2) schedule(dynamic)
        for (int64_t head = 0; head < a->b * a->heads; head++)
            for (int64_t i = 0; i < blocks; i++) TYPED(forward_block)(call, &g, head, i * QUERIES, &w);
    }
}

/* A thread's memory backward: a block of q and dout, plain and packed; k and v packed along and across, as the GEMMs
 * need them; blocks of P M (p) and dS (ds); dq of the group's heads, dk and dv of the block of keys; dot = rowsum(do o)
 * of the group's heads. */
struct TYPED(backward) {
    A *q, *dout, *q_packed, *dout_packed, *k_across, *v_across, *k_along, *p, *ds, *dq, *dk, *dv, *dot;
    int64_t width, keys; /* of rows of headsize elements; in the packed block */
};

static int64_t TYPED(backward_space)(const struct mt_attention *a, char *memory, struct TYPED(backward) * w) {
    struct TYPED(backward) none;
    if (!w) w = &none;
    int64_t d = a->d, s = a->share * round_up(a->s, QUERIES);
    w->width = round_up(d, NR);
    int64_t across = round_up(KEYS, NR) * d, along = KEYS * w->width, scores = QUERIES * WIDTH;
    return TYPED(lay_out)(13,
                          (int64_t[]){QUERIES * d, QUERIES * d, QUERIES * w->width, QUERIES * w->width, across, across,
                                      along, scores, scores, s * w->width, along, along, s},
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

/* One query head: its number in the box with all samples, and its part of the group's dq and dot. */
struct TYPED(member) {
    int64_t head;
    A *dq, *dot;
};

/* Turn scores p and ds = do v', [size[0], size[1]] at (query, key) = at, into P M and dS. */
static void TYPED(softmax_grad_block)(const struct mt_call *call, const struct heads *g,
                                      const struct TYPED(member) * member, const int64_t at[2], const int64_t size[2],
                                      struct TYPED(backward) * w) {
    const struct mt_attr *t = call->attr;
    const A *lse = (const A *)call->in[call->nin - 1].data + member->head * g->a.s;
    for (int64_t i = 0; i < size[0]; i++) {
        A *p = w->p + i * WIDTH, *ds = w->ds + i * WIDTH;
        TYPED(exponentials)(seen(t, g, at[0] + i, at[1], size[1]), size[1], (A)t->scale, lse[at[0] + i], p);
        uint32_t buffer[KEYS + 8];
        const uint32_t *random = NULL;
        A factor = (A)(1 / (1 - t->p));
        if (g->threshold) {
            random = drops(g, member->head, at[0] + i, at[1], size[1], buffer);
            TYPED(drop_row)(size[1], random, g->threshold, factor, ds, ds);
        }
        TYPED(score_grad)(size[1], member->dot[at[0] + i], p, ds);
        if (random) TYPED(drop_row)(size[1], random, g->threshold, factor, p, p);
    }
}

/* Add the contribution of one block of queries and the packed block of keys to dq, dk and dv. */
static void TYPED(backward_block)(const struct mt_call *call, const struct heads *g,
                                  const struct TYPED(member) * member, const int64_t at[2], const int64_t size[2],
                                  struct TYPED(backward) * w) {
    const struct mt_attention *a = &g->a;
    int64_t b = member->head / a->heads, h = member->head % a->heads, queries = size[0], keys = size[1], d = a->d;
    const T *q = (const T *)g->q + (b * a->s + at[0]) * a->q_row + h * d;
    const T *dout = (const T *)call->in[0].data + ((b * a->s + at[0]) * a->heads + h) * d;
    const int64_t q_rows[2] = {a->q_row, 1}, o_rows[2] = {a->heads * d, 1};
    TYPED(load_block)(q, a->q_row, queries, d, w->q, d);
    TYPED(load_block)(dout, a->heads * d, queries, d, w->dout, d);
    TYPED(pack)(q, q_rows, queries, d, w->q_packed);
    TYPED(pack)(dout, o_rows, queries, d, w->dout_packed);
    memset(w->p, 0, QUERIES * WIDTH * sizeof(A));
    memset(w->ds, 0, QUERIES * WIDTH * sizeof(A));
    TYPED(multiply)(&(struct TYPED(gemm)){queries, keys, d, w->q, d, 1, w->k_across, d, w->p, WIDTH});
    TYPED(multiply)(&(struct TYPED(gemm)){queries, keys, d, w->dout, d, 1, w->v_across, d, w->ds, WIDTH});
    TYPED(softmax_grad_block)(call, g, member, at, size, w);
    TYPED(multiply)
    (&(struct TYPED(gemm)){keys, d, queries, w->p, 1, WIDTH, w->dout_packed, queries, w->dv, w->width});
    TYPED(multiply)(&(struct TYPED(gemm)){keys, d, queries, w->ds, 1, WIDTH, w->q_packed, queries, w->dk, w->width});
    TYPED(multiply)
    (&(struct TYPED(gemm)){queries, d, keys, w->ds, WIDTH, 1, w->k_along, w->keys, member->dq + at[0] * w->width,
                           w->width});
}

/* All blocks of queries of one query head with the packed block of keys. Behind the last key that a block sees come
 * masked ones up to whole rows of the GEMMs, which would otherwise add to dk and dv what is no number of theirs. */
static void TYPED(backward_queries)(const struct mt_call *call, const struct heads *g,
                                    const struct TYPED(member) * member, int64_t key, int64_t keys,
                                    struct TYPED(backward) * w) {
    int64_t last = query_end(g, key + keys);
    for (int64_t query = query_begin(call->attr, g, key); query < last; query += QUERIES) {
        int64_t queries = least(QUERIES, g->a.s - query), end = key_end(call->attr, g, query + queries);
        int64_t sees = least(keys, round_up(end - key, MR)), at[2] = {query, key}, size[2] = {queries, sees};
        if (end > key) TYPED(backward_block)(call, g, member, at, size, w);
    }
}

static struct TYPED(member)
    TYPED(member_of)(const struct heads *g, int64_t group, int64_t i, const struct TYPED(backward) * w) {
    int64_t s = round_up(g->a.s, QUERIES);
    return (struct TYPED(member)){group * g->a.share + i, w->dq + i * s * w->width, w->dot + i * s};
}

/* Zero the group's dq, and compute rowsum(do o). */
static void TYPED(begin_queries)(const struct mt_call *call, const struct heads *g, const struct TYPED(member) * member,
                                 const struct TYPED(backward) * w) {
    const struct mt_attention *a = &g->a;
    const T *dout = call->in[0].data, *o = call->in[call->nin - 2].data;
    int64_t b = member->head / a->heads, h = member->head % a->heads;
    memset(member->dq, 0, (size_t)(round_up(a->s, QUERIES) * w->width) * sizeof(A));
    for (int64_t i = 0; i < a->s; i++) {
        int64_t at = ((b * a->s + i) * a->heads + h) * a->d;
        member->dot[i] = TYPED(dot)(a->d, dout + at, o + at);
    }
}

/* A head of keys and values of one sample, with its query heads. */
static void TYPED(backward_group)(const struct mt_call *call, const struct heads *g, int64_t group,
                                  struct TYPED(backward) * w) {
    const struct mt_attention *a = &g->a;
    int64_t b = group / a->groups, d = a->d, base = b * a->t * a->kv_row + group % a->groups * d;
    const T *k = (const T *)g->k + base, *v = (const T *)g->v + base;
    T *dk = (T *)g->dk + base, *dv = (T *)g->dv + base;
    const int64_t rows[2] = {a->kv_row, 1}, columns[2] = {1, a->kv_row};
    A scale = (A)call->attr->scale;
    for (int64_t i = 0; i < a->share; i++) {
        const struct TYPED(member) member = TYPED(member_of)(g, group, i, w);
        TYPED(begin_queries)(call, g, &member, w);
    }
    for (int64_t key = 0; key < a->t; key += KEYS) {
        int64_t keys = least(KEYS, a->t - key);
        w->keys = keys;
        TYPED(pack)(k + key * a->kv_row, columns, d, keys, w->k_across);
        TYPED(pack)(v + key * a->kv_row, columns, d, keys, w->v_across);
        TYPED(pack)(k + key * a->kv_row, rows, keys, d, w->k_along);
        memset(w->dk, 0, (size_t)(KEYS * w->width) * sizeof(A));
        memset(w->dv, 0, (size_t)(KEYS * w->width) * sizeof(A));
        for (int64_t i = 0; i < a->share; i++) {
            const struct TYPED(member) member = TYPED(member_of)(g, group, i, w);
            TYPED(backward_queries)(call, g, &member, key, keys, w);
        }
        for (int64_t j = 0; j < keys; j++) {
            TYPED(store_scaled)(d, scale, w->dk + j * w->width, dk + (key + j) * a->kv_row);
            TYPED(store_scaled)(d, 1, w->dv + j * w->width, dv + (key + j) * a->kv_row);
        }
    }
    for (int64_t i = 0; i < a->share; i++) {
        const struct TYPED(member) member = TYPED(member_of)(g, group, i, w);
        T *dq = (T *)g->dq + b * a->s * a->q_row + member.head % a->heads * d;
        for (int64_t j = 0; j < a->s; j++) TYPED(store_scaled)(d, scale, member.dq + j * w->width, dq + j * a->q_row);
    }
}

static void TYPED(attention_grad)(const struct mt_call *call) {
    const struct heads g = heads_of(call);
    const struct mt_attention *a = &g.a;
    int64_t size_bytes = TYPED(backward_space)(a, NULL, NULL);
#pragma omp parallel if (a->b * a->heads * a->s * a->t * a->d >= WORTH_A_TEAM)
    {
        struct TYPED(backward) w;
        TYPED(backward_space)(a, (char *)call->scratch + omp_get_thread_num() * size_bytes, &w);
#pragma omp for schedule(dynamic)
        for (int64_t group = 0; group < a->b * a->groups; group++) TYPED(backward_group)(call, &g, group, &w);
    }
}
#endif
