/* The table of attention's implementations. */
#include "kernels/cuda/attention/attention.h"

const struct attention_impl *const attention_impls[ATTENTION_NIMPLS] = {
#define IMPL(name) &attention_impl_##name,
#include "kernels/cuda/attention/implementations.def"
#undef IMPL
};
