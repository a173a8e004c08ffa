/* The table of operators. */
#include "kernels/cuda/cuda.h"

#define MT_OP(kind, ...) extern const struct cuda_op cuda_##kind;
#include "kernels/ops.def"
#undef MT_OP

const struct cuda_op *const cuda_ops[MT_NOPS] = {
#define MT_OP(kind, ...) &cuda_##kind,
#include "kernels/ops.def"
#undef MT_OP
};
