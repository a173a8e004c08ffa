/* Merged axes, the width of accesses, arguments. */
#include "kernels/cuda/jit/shape.h"

void cuda_axes_add(struct cuda_axes *axes, int64_t extent, int64_t stride) {
    if (extent == 1) return;
    int64_t last = axes->n - 1;
    if (axes->n && axes->stride[last] == stride * extent) {
        axes->extent[last] *= extent;
        axes->stride[last] = stride;
        return;
    }
    axes->extent[axes->n] = extent;
    axes->stride[axes->n++] = stride;
}

int64_t cuda_axes_count(const struct cuda_axes *axes) {
    int64_t count = 1;
    for (int64_t a = 0; a < axes->n; a++) count *= axes->extent[a];
    return count;
}

int64_t cuda_alignment(const struct mt_call *call) {
    uintptr_t addresses = CUDA_ACCESS_BYTES;
    int count = mt_call_count(call);
    for (int i = 0; i < count * call->nin; i++) addresses |= (uintptr_t)call->in[i].data;
    for (int o = 0; o < count * call->nout; o++) addresses |= (uintptr_t)call->out[o].data;
    return (int64_t)(addresses & -addresses);
}

int cuda_vector(enum mt_type type, int64_t row, int64_t alignment_bytes) {
    int64_t width = largest(alignment_bytes / mt_type_size(type), 1);
    while (row % width) width /= 2;
    return (int)width;
}

int cuda_operand_arguments(const struct mt_call *call, int outputs, void **arguments, int count) {
    static void *absent;
    for (int i = 0; i < mt_op_info[call->kind].max_in; i++)
        arguments[count++] = i < call->nin ? (void *)&call->in[i].data : (void *)&absent;
    for (int o = 0; o < outputs; o++) arguments[count++] = (void *)&call->out[o].data;
    return count;
}
