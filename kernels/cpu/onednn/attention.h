/* What attention and its gradient share: the head's matrices, scratch, and the passes over rows of scores. */
#ifndef MT_ONEDNN_ATTENTION_H
#define MT_ONEDNN_ATTENTION_H

#include "kernels/cpu/onednn/internal.h"

enum { BLOCK_ROWS = 128 }; /* query rows whose scores are held at a time */

/* A matrix of f32 with leading dimension ld (elements from row to row). */
struct matrix {
    float *data;
    int64_t ld;
};

struct attention {
    struct mt_attention call; /* of this rank's box */
    int64_t ld_scores;        /* leading dimension of a block of scores */
    enum mt_type type;
    bool causal;
    float scale, keep;  /* keep: 1 / (1 - p) */
    uint32_t threshold; /* an element whose random number is below it is dropped; 0: none */
    uint64_t seed, stream;
};
struct attention attention_of(const struct mt_call *call);
/* Whether inputs and outputs have types that fit, none is empty, and no window hides keys. */
bool attention_fits(const struct mt_call *call);

/* A thread's scratch: blocks of scores and of their gradients; dropout factors and random numbers of a row;
 * delta = rowsum(do o); the head's matrices [s, d], and [t, d] of k and v. Of attention only the first line and q, k,
 * v, o are there. */
struct room {
    float *scores, *factors, *random, *q, *k, *v, *o;
    float *grads, *delta, *dout, *dq, *dk, *dv;
};

/* A copy, contiguous and in f32, of rows[n, d] that are `stride` elements apart, from element `at` of a tensor on:
 * GEMMs of contiguous matrices are a tenth faster than of strided ones. */
struct rows {
    const struct mt_tensor *tensor;
    int64_t at, stride, n, d;
};
struct matrix rows_load(struct rows rows, float *copy);
void rows_store(struct rows rows, const float *copy); /* the reverse */
/* The rows of a query head: of q or dq, and of o or dout. */
struct rows query_rows(const struct attention *p, const struct mt_tensor *q, int64_t sample, int64_t head);
struct rows output_rows(const struct attention *p, const struct mt_tensor *o, int64_t sample, int64_t head);
/* The rows of a head of keys (v: of values) in kv or dkv. */
struct rows key_rows(const struct attention *p, const struct mt_tensor *kv, bool v, int64_t sample, int64_t group);
static inline struct matrix rows_from(struct matrix m, int64_t row) {
    return (struct matrix){m.data + row * m.ld, m.ld};
}

/* How many of the keys [0, keys) the query sees. */
static inline int64_t keys_seen(const struct attention *p, int64_t query, int64_t keys) {
    return p->causal ? least(p->call.first + query + 1, keys) : keys;
}

/* Run `one` for every head (of keys and values, for the gradient) of every sample, with the scratch of the thread that
 * runs it. */
enum mt_status attention_each_head(const struct mt_call *call,
                                   enum mt_status (*one)(const struct attention *p, const struct mt_call *call,
                                                         const struct room *room, int64_t sample, int64_t head,
                                                         struct mt_err *err),
                                   struct mt_err *err);

/* c[m, n] = alpha op(a) op(b) + beta c, in the calling thread when that is in a parallel region. */
enum mt_status attention_gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha, struct matrix a,
                              struct matrix b, float beta, struct matrix c, struct mt_err *err);

/* x[0, n) = exp(x - max), x[n, padded) = 0; *max and *sum: of x[0, n), before and after. */
void row_exponentials(float *x, int64_t n, int64_t padded, float *max, float *sum);
/* Dropout: factor[j] = 0 if query `row` of the head drops key j, else 1 / (1 - p); j < n. random[n + 8]: scratch. */
void row_factors(const struct attention *p, int64_t sample, int64_t head, int64_t row, int64_t n, uint32_t *random,
                 float *factor);
void row_multiply(float *x, const float *factor, int64_t n);
/* With P = exp(x - lse) and M = factor (null: all 1): x = P M and d = scale P (M d - delta) in [0, n); both 0 in
 * [n, padded). On entry x: scores, d: gradient of P M. */
void row_gradient(float *x, float *d, const float *factor, int64_t n, int64_t padded, float lse, float delta,
                  float scale);
void row_scale(float *x, float factor, int64_t n);
float row_dot(const float *x, const float *y, int64_t n);

#endif
