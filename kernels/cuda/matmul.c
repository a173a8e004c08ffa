/* matmul and fused_matmul: groups of axes become one product of cuBLASLt (product.h). */
#include <stdint.h>

#include "kernels/cuda/product.h"

static int64_t extent(const struct mt_tensor *t, int first, int count) {
    int64_t n = 1;
    for (int a = first; a < first + count; a++) n *= t->extent[a];
    return n;
}

static enum product_finish finish_of(const struct mt_call *call) {
    if (call->kind != MT_OP_fused_matmul) return FINISH_NONE;
    switch (call->attr->epilogue) {
    case MT_OP_gelu: return FINISH_GELU;
    case MT_OP_relu: return FINISH_RELU;
    default: return FINISH_BIAS;
    }
}

/* The largest power of two, up to 16, that divides all addresses. */
static int32_t alignment(const struct mt_call *call) {
    uintptr_t bits = 16;
    for (int i = 0; i < call->nin; i++) bits |= (uintptr_t)call->in[i].data;
    for (int o = 0; o < call->nout; o++) bits |= (uintptr_t)call->out[o].data;
    return (int32_t)(bits & -bits);
}

static struct product_shape shape_of(const struct cuda *cuda, const struct mt_call *call) {
    const struct mt_attr *attr = call->attr;
    const struct mt_tensor *y = &call->out[0];
    int nsm = 0;
    bool part = !cuDeviceGetAttribute(&nsm, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, cuda->handle) && nsm > cuda->nsm;
    return (struct product_shape){.m = extent(y, 0, attr->nm),
                                  .n = extent(y, attr->nm, attr->nn),
                                  .k = extent(&call->in[0], attr->trans_a ? 0 : attr->nm, attr->nk),
                                  .nsm = part ? cuda->nsm : 0,
                                  .align = alignment(call),
                                  .in = (uint8_t)call->in[0].type,
                                  .out = (uint8_t)y->type,
                                  .trans_a = attr->trans_a,
                                  .trans_b = attr->trans_b,
                                  .accumulate = attr->accumulate,
                                  .finish = (uint8_t)finish_of(call),
                                  .tf32 = attr->tf32 && call->in[0].type == MT_F32};
}

static bool supports(const struct mt_call *call) {
    enum mt_type in = call->in[0].type, out = call->out[0].type;
    if (in != MT_F32 && !mt_type_is_half(in)) return false;
    if (call->kind == MT_OP_fused_matmul) return out == in && !call->attr->accumulate;
    return out == in || out == MT_F32;
}

/* cuBLASLt takes no workspace that is aligned less; scratch is to 64 bytes. */
enum { WORKSPACE_ALIGN = 256 };

static void *workspace_of(const struct mt_call *call) {
    return (void *)(((uintptr_t)call->scratch + WORKSPACE_ALIGN - 1) / WORKSPACE_ALIGN * WORKSPACE_ALIGN);
}

static int64_t scratch_bytes(const struct cuda *cuda, const struct mt_call *call) {
    struct product_shape shape = shape_of(cuda, call);
    return shape.m && shape.n && shape.k ? PRODUCT_WORKSPACE_BYTES + WORKSPACE_ALIGN : 0;
}

static enum mt_status queue_product(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    struct product_shape shape = shape_of(queue->cuda, call);
    struct product_choice choice;
    const struct product_data data = {.a = call->in[0].data,
                                      .b = call->in[1].data,
                                      .bias = shape.finish ? call->in[2].data : NULL,
                                      .y = call->out[0].data,
                                      .pre = call->nout > 1 ? call->out[1].data : NULL,
                                      .workspace = workspace_of(call)};
    if (!shape.m || !shape.n) return MT_OK;
    if (!shape.k) return product_of_nothing(queue, &shape, &data, err);
    enum mt_status st = product_choose(queue, &shape, &choice, err);
    return st ? st : product_run(queue, &shape, &choice, &data, err);
}

const struct cuda_op cuda_matmul = {supports, scratch_bytes, queue_product};
const struct cuda_op cuda_fused_matmul = {supports, scratch_bytes, queue_product};
