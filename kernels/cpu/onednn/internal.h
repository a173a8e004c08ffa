/* What the module's files share. Each served kind has three functions: whether it takes a call (of a kind of its own),
 * the scratch that the call wants, and running it. */
#ifndef MT_ONEDNN_INTERNAL_H
#define MT_ONEDNN_INTERNAL_H

#include "kernels/base/clones.h"
#include "kernels/op/op.h"

bool onednn_matmul_supports(const struct mt_call *call);
int64_t onednn_matmul_scratch(const struct mt_call *call);
enum mt_status onednn_matmul_run(const struct mt_call *call, struct mt_err *err);

bool onednn_attention_supports(const struct mt_call *call);
int64_t onednn_attention_scratch(const struct mt_call *call);
enum mt_status onednn_attention_run(const struct mt_call *call, struct mt_err *err);

bool onednn_attention_grad_supports(const struct mt_call *call);
int64_t onednn_attention_grad_scratch(const struct mt_call *call);
enum mt_status onednn_attention_grad_run(const struct mt_call *call, struct mt_err *err);

/* The size of the OpenMP team that runs operators: the process's, when first asked. */
int onednn_threads(void);

static inline int64_t round_up(int64_t n, int64_t unit) {
    return (n + unit - 1) / unit * unit;
}
static inline int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

#endif
