/* GEMMs by oneDNN: one primitive for each shape, created once and kept.
 *
 *     const struct gemm *p;
 *     gemm_get(&(struct gemm_shape){.m = 64, .n = 32, .k = 8, .lda = 8, .ldb = 32, .ldc = 32,
 *                                         .in = MT_F32, .out = MT_F32, .threads = 2}, &p, &err);
 *     gemm_run(p, a, b, NULL, c, scratch, &err);    // c = a b; scratch: gemm_scratch_bytes(p)
 *
 * Creating a primitive takes about a millisecond, since it generates code; finding it again takes well under a
 * microsecond. Primitives live as long as the process. All functions may be called from any thread. */
#ifndef MT_ONEDNN_GEMM_H
#define MT_ONEDNN_GEMM_H

#include <stdint.h>

#include "kernels/base/err.h"
#include "kernels/base/number/type.h"

/* c[m, n] = (accumulate ? c[m, n] : 0) + sum over k of a[m, k] b[k, n] + (bias ? bias[n] : 0) */
struct gemm_shape {
    int64_t m, n, k;
    int64_t lda, ldb, ldc; /* leading dimensions: elements from row to row as stored */
    bool trans_a, trans_b; /* a is stored as [k, m], b as [n, k] */
    bool accumulate, bias;
    enum mt_type in, out; /* in: of a, b and bias; out: of c */
    int threads;          /* of the team that runs it; 1 inside a parallel region */
};

struct gemm;
enum mt_status gemm_get(const struct gemm_shape *shape, const struct gemm **gemm, struct mt_err *err);
int64_t gemm_scratch_bytes(const struct gemm *gemm);
enum mt_status gemm_run(const struct gemm *gemm, const void *a, const void *b, const void *bias, void *c, void *scratch,
                        struct mt_err *err);

#endif
