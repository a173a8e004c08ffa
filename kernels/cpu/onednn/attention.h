/* What attention and its gradient share: where a head's matrices lie, and the passes over rows of scores. */
#ifndef MT_ONEDNN_ATTENTION_H
#define MT_ONEDNN_ATTENTION_H

#include "kernels/cpu/onednn/internal.h"

enum { BLOCK_ROWS = 128 }; /* query rows whose scores are held at a time */

/* A single precision matrix: rows `ld` elements apart. */
struct matrix {
    float *data;
    int64_t ld;
};

struct attention {
    int64_t batch, seq, heads, size;             /* of this rank's box */
    int64_t first_sample, first_head, all_heads; /* where the box is */
    int64_t ld_scores;                           /* row to row in a block of scores */
    enum mt_type type;
    bool causal;
    float scale, keep;  /* keep: 1 / (1 - p) */
    uint32_t threshold; /* elements whose random number is below are dropped; 0: none are */
    uint64_t seed, stream;
};
struct attention attention_of(const struct mt_call *call);
bool attention_types_fit(const struct mt_call *call, int nin, int nout);

/* A thread's scratch is cut up in turn; with `at` null only the size is counted. */
struct cutter {
    char *at;
    int64_t used_bytes;
};
float *cut(struct cutter *cutter, int64_t count);

/* Head `head` of sample `sample` in part `part` of `parts` of t[b, s, parts, h, d], copied (dense, [s, d]) in single
 * precision: products of dense matrices are a tenth faster than of those in place. */
struct matrix head_of(const struct attention *p, const struct mt_tensor *t, int parts, int part, int64_t sample,
                      int64_t head, float *copy);
/* The way back, for rows [row, row + rows). */
void head_store(const struct attention *p, const struct mt_tensor *t, int parts, int part, int64_t sample, int64_t head,
                int64_t row, int64_t rows, const float *copy);
static inline struct matrix rows_from(struct matrix m, int64_t row) {
    return (struct matrix){m.data + row * m.ld, m.ld};
}

/* Run `one` for every head of every sample, each thread with `thread_bytes` of the call's scratch. */
enum mt_status attention_each_head(const struct mt_call *call, int64_t thread_bytes,
                                   enum mt_status (*one)(const struct attention *p, const struct mt_call *call,
                                                         char *memory, int64_t sample, int64_t head,
                                                         struct mt_err *err),
                                   struct mt_err *err);

/* c[m, n] = alpha op(a) op(b) + beta c, in the calling thread when that is in a parallel region. */
enum mt_status attention_product(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha,
                                 struct matrix a, struct matrix b, float beta, struct matrix c, struct mt_err *err);

/* x[0, n) becomes exp(x - max); x[n, padded) becomes 0. Gives the maximum and the sum. */
void row_exponentials(float *x, int64_t n, int64_t padded, float *max, float *sum);
/* factor[0, n) = 0 where query `row` of the head drops the key, else 1 / (1 - p). `random` has room
 * for n + 8. */
void row_factors(const struct attention *p, int64_t sample, int64_t head, int64_t row, int64_t n, uint32_t *random,
                 float *factor);
void row_multiply(float *x, const float *factor, int64_t n);
/* x: scores, becomes the dropped probabilities; d: the gradient of those, becomes the scores' gradient (times scale).
 * Both become 0 in [n, padded). factor is null when nothing is dropped. */
void row_gradient(float *x, float *d, const float *factor, int64_t n, int64_t padded, float lse, float delta,
                  float scale);
void row_scale(float *x, float factor, int64_t n);
float row_dot(const float *x, const float *y, int64_t n);

#endif
