/* The table of operators, one file a family: element, norm, rotary, cross_entropy, embedding, parts, sum, reduce and
 * update
 * here; attention/ and gemm/ have the others. */
#include "kernels/cuda/driver/driver.h"

/* Hidden: a kind without its row fails to link. */
#define MT_OP(kind, ...) extern __attribute__((visibility("hidden"))) const struct cuda_op cuda_##kind;
#include "kernels/op/ops.def"
#undef MT_OP

const struct cuda_op *const cuda_ops[MT_NOPS] = {
#define MT_OP(kind, ...) &cuda_##kind,
#include "kernels/op/ops.def"
#undef MT_OP
};

const bool cuda_merges[MT_NOPS] = {
    [MT_OP_adamw] = true, [MT_OP_sgd] = true, [MT_OP_cast] = true, [MT_OP_fill] = true, [MT_OP_sq_norm_add] = true};
