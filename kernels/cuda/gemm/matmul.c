/* matmul and fused_matmul: groups of axes become one GEMM of cuBLASLt (gemm.h). */
#include <stdint.h>

#include "kernels/cuda/gemm/gemm.h"

enum gemm_epilogue gemm_epilogue_of(enum mt_op_kind epilogue) {
    switch (epilogue) {
    case MT_OP_add: return EPILOGUE_BIAS;
    case MT_OP_gelu: return EPILOGUE_GELU;
    case MT_OP_relu: return EPILOGUE_RELU;
    case MT_OP_gelu_grad: return EPILOGUE_GELU_GRAD;
    case MT_OP_relu_grad: return EPILOGUE_RELU_GRAD;
    case MT_OP_sum: return EPILOGUE_SUM;
    default: return EPILOGUE_NONE;
    }
}

/* The largest power of two, up to 16, that divides all addresses. */
static int32_t alignment(const struct mt_call *call) {
    uintptr_t bits = 16;
    for (int i = 0; i < call->nin; i++) bits |= (uintptr_t)call->in[i].data;
    for (int o = 0; o < call->nout; o++) bits |= (uintptr_t)call->out[o].data;
    return (int32_t)(bits & -bits);
}

static struct gemm_shape shape_of(const struct cuda *cuda, const struct mt_call *call) {
    const struct mt_attr *attr = call->attr;
    const struct mt_tensor *y = &call->out[0];
    return (struct gemm_shape){.m = mt_tensor_extent(y, 0, attr->nm),
                               .n = mt_tensor_extent(y, attr->nm, attr->nn),
                               .k = mt_tensor_extent(&call->in[0], attr->trans_a ? 0 : attr->nm, attr->nk),
                               .nsm = gemm_multiprocessors(cuda),
                               .align = alignment(call),
                               .in = (uint8_t)call->in[0].type,
                               .out = (uint8_t)y->type,
                               .trans_a = attr->trans_a,
                               .trans_b = attr->trans_b,
                               .accumulate = attr->accumulate,
                               .epilogue = (uint8_t)gemm_epilogue_of(attr->epilogue),
                               .tf32 = attr->tf32 && call->in[0].type == MT_F32};
}

static bool supports(const struct mt_call *call) {
    return gemm_types(call->in[0].type, call->out[0].type);
}

/* Scratch may be aligned less than GEMM_ALIGN. */
static void *scratch_of(const struct mt_call *call) {
    return (void *)(((uintptr_t)call->scratch + GEMM_ALIGN - 1) / GEMM_ALIGN * GEMM_ALIGN);
}

static int64_t scratch_bytes(const struct cuda *cuda, const struct mt_call *call) {
    struct gemm_shape shape = shape_of(cuda, call);
    bool sums = shape.epilogue == EPILOGUE_SUM && shape.n && shape.k;
    return (shape.m && shape.n && shape.k) || sums ? gemm_scratch_bytes(cuda, &shape) + GEMM_ALIGN : 0;
}

static struct gemm_data data_of(const struct mt_call *call, enum gemm_epilogue epilogue) {
    const struct mt_op_epilogue *info = epilogue ? mt_op_epilogue(call->attr->epilogue) : NULL;
    const void *third = call->nin > 2 ? call->in[2].data : NULL;
    void *second = call->nout > 1 ? call->out[1].data : NULL;
    return (struct gemm_data){.a = call->in[0].data,
                              .b = call->in[1].data,
                              .bias = info && info->bias ? third : NULL,
                              .x = info && !info->bias ? third : NULL,
                              .y = call->out[0].data,
                              .pre = info && info->whole ? second : NULL,
                              .sums = info && !info->whole ? second : NULL,
                              .scratch = scratch_of(call)};
}

static enum mt_status queue_gemm(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    struct gemm_shape shape = shape_of(queue->cuda, call);
    struct gemm_choice choice;
    const struct gemm_data data = data_of(call, shape.epilogue);
    if (!shape.n || (!shape.m && shape.epilogue != EPILOGUE_SUM)) return MT_OK;
    if (!shape.k) return gemm_zero_k(queue, &shape, &data, err);
    if (!shape.m) return gemm_before(queue, &shape, GEMM_PLAIN, &data, err); /* only the column sums */
    enum mt_status st = gemm_choose(queue, &shape, &choice, err);
    return st ? st : gemm_run(queue, &shape, &choice, &data, err);
}

const struct cuda_op cuda_matmul = {supports, scratch_bytes, queue_gemm};
const struct cuda_op cuda_fused_matmul = {supports, scratch_bytes, queue_gemm};
