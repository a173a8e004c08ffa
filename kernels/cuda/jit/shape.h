/* Shapes as kernels take them. */
#ifndef MT_KERNELS_CUDA_JIT_SHAPE_H
#define MT_KERNELS_CUDA_JIT_SHAPE_H

#include "kernels/op/op.h"

/* Axes that are walked in row-major order: element i lies at the sum of its indices times `stride`. Those of extent 1
 * are left out, and neighbours joined where that changes nothing. As struct axes of prelude.cuh. */
struct cuda_axes {
    int64_t n, extent[MT_MAX_AXES], stride[MT_MAX_AXES];
};
void cuda_axes_add(struct cuda_axes *axes, int64_t extent, int64_t stride); /* an axis inside those there */
int64_t cuda_axes_count(const struct cuda_axes *axes);

/* How many neighbours one access takes: a power of two, of which `row` is a multiple (0: of any), in no more bytes than
 * memory is aligned to. */
enum { CUDA_ACCESS_BYTES = 16 };
int cuda_vector(enum mt_type type, int64_t row, int64_t alignment_bytes);
int64_t cuda_alignment(const struct mt_call *call); /* of all of its memory; CUDA_ACCESS_BYTES at most */

static inline int64_t divide_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}
static inline int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static inline int64_t largest(int64_t a, int64_t b) {
    return a > b ? a : b;
}

#endif
