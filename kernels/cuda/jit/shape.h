/* Shapes in the form that kernels take. */
#ifndef MT_KERNELS_CUDA_JIT_SHAPE_H
#define MT_KERNELS_CUDA_JIT_SHAPE_H

#include "kernels/op/op.h"

/* Axes in row-major order: the offset of element i is the sum of its indices times `stride`. Axes of extent 1 are left
 * out, and neighbours that are contiguous are merged. As struct axes of prelude.cuh. */
struct cuda_axes {
    int64_t n, extent[MT_MAX_AXES], stride[MT_MAX_AXES];
};
void cuda_axes_add(struct cuda_axes *axes, int64_t extent, int64_t stride); /* an axis inside those there */
int64_t cuda_axes_count(const struct cuda_axes *axes);

/* The number of elements of one access: a power of two that divides `row` (0: anything does), of no more bytes than
 * addresses are aligned to. */
enum { CUDA_ACCESS_BYTES = 16 };
int cuda_vector(enum mt_type type, int64_t row, int64_t alignment_bytes);
int64_t cuda_alignment(const struct mt_call *call); /* of the addresses of all operands; at most CUDA_ACCESS_BYTES */

/* Puts pointers to the addresses of a call's operands into a kernel's arguments, from arguments[count] on: the inputs
 * of its kind (null addresses for optional ones that the call lacks), then so many outputs. Returns the new count. */
int cuda_operand_arguments(const struct mt_call *call, int outputs, void **arguments, int count);

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
