/* matmul and fused_matmul: groups of axes become one product of cuBLASLt (product.h). */
#include <stdint.h>

#include "kernels/cuda/gemm/gemm.h"

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
    case MT_OP_gelu_grad: return FINISH_GELU_GRAD;
    case MT_OP_relu_grad: return FINISH_RELU_GRAD;
    case MT_OP_sum: return FINISH_SUM;
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
    return product_types(call->in[0].type, call->out[0].type);
}

/* Scratch is aligned less. */
static void *scratch_of(const struct mt_call *call) {
    return (void *)(((uintptr_t)call->scratch + PRODUCT_ALIGN - 1) / PRODUCT_ALIGN * PRODUCT_ALIGN);
}

static int64_t scratch_bytes(const struct cuda *cuda, const struct mt_call *call) {
    struct product_shape shape = shape_of(cuda, call);
    bool sums = shape.finish == FINISH_SUM && shape.n && shape.k;
    return (shape.m && shape.n && shape.k) || sums ? product_scratch_bytes(cuda, &shape) + PRODUCT_ALIGN : 0;
}

static struct product_data data_of(const struct mt_call *call, enum product_finish finish) {
    const struct mt_op_epilogue *epilogue = finish ? mt_op_epilogue(call->attr->epilogue) : NULL;
    const void *third = call->nin > 2 ? call->in[2].data : NULL;
    void *second = call->nout > 1 ? call->out[1].data : NULL;
    return (struct product_data){.a = call->in[0].data,
                                 .b = call->in[1].data,
                                 .bias = epilogue && epilogue->bias ? third : NULL,
                                 .x = epilogue && !epilogue->bias ? third : NULL,
                                 .y = call->out[0].data,
                                 .pre = epilogue && epilogue->whole ? second : NULL,
                                 .sums = epilogue && !epilogue->whole ? second : NULL,
                                 .scratch = scratch_of(call)};
}

static enum mt_status queue_product(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    struct product_shape shape = shape_of(queue->cuda, call);
    struct product_choice choice;
    const struct product_data data = data_of(call, shape.finish);
    if (!shape.n || (!shape.m && shape.finish != FINISH_SUM)) return MT_OK;
    if (!shape.k) return product_of_nothing(queue, &shape, &data, err);
    if (!shape.m) return product_before(queue, &shape, HOW_PLAIN, &data, err); /* the sums alone */
    enum mt_status st = product_choose(queue, &shape, &choice, err);
    return st ? st : product_run(queue, &shape, &choice, &data, err);
}

const struct cuda_op cuda_matmul = {supports, scratch_bytes, queue_product};
const struct cuda_op cuda_fused_matmul = {supports, scratch_bytes, queue_product};
