/* Matrix products of oneDNN, made once a shape and kept.
 *
 *     const struct product *p;
 *     product_get(&(struct product_shape){.m = 64, .n = 32, .k = 8, .lda = 8, .ldb = 32, .ldc = 32,
 *                                         .in = MT_F32, .out = MT_F32, .threads = 2}, &p, &err);
 *     product_run(p, a, b, NULL, c, scratch, &err);    // c = a b; scratch: product_scratch_bytes(p)
 *
 * Making one takes about a millisecond (it generates code), finding it again well under a microsecond. They live
 * as long as the process. All functions may be called from any thread. */
#ifndef MT_ONEDNN_GEMM_H
#define MT_ONEDNN_GEMM_H

#include <stdint.h>

#include "kernels/base/err.h"
#include "kernels/base/number/type.h"

/* c[m, n] = sum over k of a[m, k] b[k, n] + bias[n], or that added to c's old content. */
struct product_shape {
    int64_t m, n, k;
    int64_t lda, ldb, ldc; /* elements from row to row as stored */
    bool trans_a, trans_b; /* a is stored as [k, m], b as [n, k] */
    bool accumulate, bias;
    enum mt_type in, out; /* of a, b and bias; of c */
    int threads;          /* that run it: 1 inside a parallel region */
};

struct product;
enum mt_status product_get(const struct product_shape *shape, const struct product **product, struct mt_err *err);
int64_t product_scratch_bytes(const struct product *product);
enum mt_status product_run(const struct product *product, const void *a, const void *b, const void *bias, void *c,
                           void *scratch, struct mt_err *err);

#endif
