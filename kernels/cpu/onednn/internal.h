/* The oneDNN backend: matmul, fused_matmul, attention and its gradient, packed or not, in f32 and bf16 (module.h is its
 * interface). Each kind has three functions, one row of backend.c: whether it supports a call of that kind, how many
 * bytes of scratch the call needs, and running it. */
#ifndef MT_ONEDNN_INTERNAL_H
#define MT_ONEDNN_INTERNAL_H

#include "kernels/base/clones.h"
#include "kernels/op/op.h"

bool onednn_matmul_supports(const struct mt_call *call);
int64_t onednn_matmul_scratch(const struct mt_call *call);
enum mt_status onednn_matmul_run(const struct mt_call *call, struct mt_err *err);

bool onednn_attention_supports(const struct mt_call *call);
int64_t onednn_attention_scratch(const struct mt_call *call); /* of attention_grad too */
enum mt_status onednn_attention_run(const struct mt_call *call, struct mt_err *err);

bool onednn_attention_grad_supports(const struct mt_call *call);
enum mt_status onednn_attention_grad_run(const struct mt_call *call, struct mt_err *err);

/* The size of the OpenMP teams that run operators: omp_get_max_threads() at the first call. */
int onednn_threads(void);

static inline int64_t round_up(int64_t n, int64_t unit) {
    return (n + unit - 1) / unit * unit;
}
static inline int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

#endif
