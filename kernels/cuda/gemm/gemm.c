/* One GEMM: descriptors, and the call of the library. */
#include "kernels/cuda/gemm/gemm.h"

#include <pthread.h>
#include <stdio.h>

const char *const gemm_impl_names[GEMM_NIMPLS] = {"whole", "bias", "plain", "strips", "tiles"};
const char *const gemm_epilogue_names[NEPILOGUES] = {
    "", ", bias", ", bias gelu", ", bias relu", ", gelu slope", ", relu slope", ", column sums"};

static const struct {
    bool known;
    cudaDataType_t type;
    bool half; /* two bytes: the library rounds results of its epilogues to it */
} types[MT_NTYPES] = {
    [MT_F32] = {true, CUDA_R_32F, false}, [MT_BF16] = {true, CUDA_R_16BF, true}, [MT_F16] = {true, CUDA_R_16F, true}};

bool gemm_types(enum mt_type in, enum mt_type out) {
    return types[in].known && (out == in || out == MT_F32);
}

int32_t gemm_multiprocessors(const struct cuda *cuda) {
    int all = 0;
    bool part = !cuDeviceGetAttribute(&all, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, cuda->handle) && all > cuda->nsm;
    return part ? cuda->nsm : 0;
}

/* A handle of the library belongs to a context; a device that was closed and opened again has another one. */
enum mt_status gemm_library(cublasLtHandle_t *handle, struct mt_err *err) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static cublasLtHandle_t made;
    static unsigned long long made_in;
    unsigned long long context;
    CUDA_TRY(cuCtxGetId(NULL, &context), err, "cuCtxGetId");
    pthread_mutex_lock(&lock);
    cublasStatus_t st = CUBLAS_STATUS_SUCCESS;
    if (!made || made_in != context) st = cublasLtCreate(&made), made_in = context;
    if (st) made = NULL;
    *handle = made;
    pthread_mutex_unlock(&lock);
    return st ? mt_fail(err, MT_ESYSTEM, "cuBLASLt does not start: %s", cublasLtGetStatusName(st)) : MT_OK;
}

void gemm_describe(const struct gemm_shape *s, char *text, size_t room) {
    snprintf(text, room, "product m=%lld n=%lld k=%lld %s to %s%s%s%s%s%s", (long long)s->m, (long long)s->n,
             (long long)s->k, mt_type_name(s->in), mt_type_name(s->out), s->tf32 ? ", tf32" : "",
             s->trans_a ? ", a transposed" : "", s->trans_b ? ", b transposed" : "",
             s->accumulate ? ", accumulated" : "", gemm_epilogue_names[s->epilogue]);
}

enum mt_status gemm_failed(cublasStatus_t st, const struct gemm_shape *shape, const char *doing, struct mt_err *err) {
    char text[200];
    gemm_describe(shape, text, sizeof text);
    return mt_fail(err, MT_ESYSTEM, "cuBLASLt: %s: %s: %s", text, doing, cublasLtGetStatusName(st));
}

/* ---- descriptors ---- */

static cublasLtEpilogue_t epilogue_of(const struct gemm_shape *shape, enum gemm_impl impl) {
    static const cublasLtEpilogue_t whole[NEPILOGUES] = {
        [EPILOGUE_NONE] = CUBLASLT_EPILOGUE_DEFAULT,       [EPILOGUE_BIAS] = CUBLASLT_EPILOGUE_BIAS,
        [EPILOGUE_GELU] = CUBLASLT_EPILOGUE_GELU_AUX_BIAS, [EPILOGUE_RELU] = CUBLASLT_EPILOGUE_RELU_BIAS,
        [EPILOGUE_GELU_GRAD] = CUBLASLT_EPILOGUE_DGELU,    [EPILOGUE_RELU_GRAD] = CUBLASLT_EPILOGUE_DRELU,
        [EPILOGUE_SUM] = CUBLASLT_EPILOGUE_BGRADA}; /* its A is our b */
    if (impl == GEMM_BIAS) return CUBLASLT_EPILOGUE_BIAS;
    return impl == GEMM_WHOLE ? whole[shape->epilogue] : CUBLASLT_EPILOGUE_DEFAULT;
}

/* The library's GELU is used only where its result is rounded to half precision anyway: the accuracy of its tanh is not
 * documented. It needs rows of `pre` and `x` that begin at multiples of 16 bytes. Its column sums are of y's type. */
bool gemm_possible(const struct gemm_shape *s, enum gemm_impl impl) {
    bool aligned = s->n * mt_type_size(s->out) % 16 == 0 && s->align >= 16;
    switch (impl) {
    case GEMM_WHOLE:
        switch (s->epilogue) {
        case EPILOGUE_GELU:
        case EPILOGUE_GELU_GRAD: return types[s->out].half && aligned;
        case EPILOGUE_SUM: return s->out == MT_F32 && types[s->in].half && aligned;
        case EPILOGUE_RELU:
        case EPILOGUE_RELU_GRAD: return false;
        default: return true;
        }
    case GEMM_BIAS: return s->epilogue == EPILOGUE_GELU || s->epilogue == EPILOGUE_RELU;
    case GEMM_TILES: return false; /* as far as the library goes: gemm_tiles_possible */
    case GEMM_STRIPS: return s->epilogue == EPILOGUE_NONE && gemm_strips_possible(s);
    default: return s->epilogue != EPILOGUE_NONE;
    }
}

int64_t gemm_scratch_bytes(const struct cuda *cuda, const struct gemm_shape *shape) {
    int64_t passes = gemm_pass_bytes(cuda, shape), strips = 0;
    if (gemm_possible(shape, GEMM_STRIPS)) strips = gemm_strips_bytes(shape);
    return GEMM_WORKSPACE_BYTES + (passes > strips ? passes : strips);
}

static cublasStatus_t set(struct gemm_problem *p, cublasLtMatmulDescAttributes_t attribute, const void *value,
                          size_t size_bytes) {
    return cublasLtMatmulDescSetAttribute(&p->desc, attribute, value, size_bytes);
}

/* Without data, addresses that have the alignment. */
static cublasStatus_t set_epilogue(struct gemm_problem *p, const struct gemm_shape *shape, enum gemm_impl impl,
                                   const struct gemm_data *data) {
    cublasLtEpilogue_t epilogue = epilogue_of(shape, impl);
    const void *bias = (const void *)(uintptr_t)shape->align, *aux = bias;
    bool slope = shape->epilogue == EPILOGUE_GELU_GRAD, sums = shape->epilogue == EPILOGUE_SUM;
    if (epilogue == CUBLASLT_EPILOGUE_DEFAULT) return CUBLAS_STATUS_SUCCESS;
    if (data) aux = slope ? data->x : data->pre;
    if (data && sums) /* the library cannot add to sums */
        bias = shape->accumulate ? (char *)data->scratch + GEMM_WORKSPACE_BYTES : data->sums;
    else if (data)
        bias = data->bias;
    cublasStatus_t st = set(p, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (!st && !slope) st = set(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    if (st || (epilogue != CUBLASLT_EPILOGUE_GELU_AUX_BIAS && !slope)) return st;
    st = set(p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &aux, sizeof aux);
    return st ? st : set(p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &shape->n, sizeof shape->n);
}

/* A row-major [rows, columns] matrix. */
static cublasStatus_t layout(cublasLtMatrixLayoutOpaque_t *l, enum mt_type type, int64_t rows, int64_t columns,
                             int64_t ld, int batches, int64_t step) {
    cublasStatus_t st = cublasLtMatrixLayoutInit(l, types[type].type, (uint64_t)columns, (uint64_t)rows, ld);
    int32_t count = batches;
    if (st || batches == 1) return st;
    st = cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
    return st ? st
              : cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step);
}

struct gemm_view gemm_whole_view(const struct gemm_shape *s, enum gemm_impl impl) {
    bool prepared = impl == GEMM_PLAIN && s->epilogue != EPILOGUE_SUM && s->epilogue < EPILOGUE_GELU_GRAD;
    return (struct gemm_view){.m = s->m,
                              .n = s->n,
                              .k = s->k,
                              .lda = s->trans_a ? s->m : s->k,
                              .ldb = s->trans_b ? s->k : s->n,
                              .ldy = s->n,
                              .batches = 1,
                              .beta = s->accumulate || prepared};
}

static cublasStatus_t describe(const struct gemm_shape *shape, enum gemm_impl impl, const struct gemm_view *v,
                               const struct gemm_data *data, struct gemm_problem *p) {
    bool tf32 = shape->tf32 && shape->in == MT_F32;
    cublasComputeType_t compute = tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cublasOperation_t op_a = shape->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t op_b = shape->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasStatus_t st = cublasLtMatmulDescInit(&p->desc, compute, CUDA_R_32F);
    /* The library's first operand is our b: y^T = b^T a^T. */
    if (!st) st = set(p, CUBLASLT_MATMUL_DESC_TRANSA, &op_b, sizeof op_b);
    if (!st) st = set(p, CUBLASLT_MATMUL_DESC_TRANSB, &op_a, sizeof op_a);
    if (!st && shape->nsm) st = set(p, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &shape->nsm, sizeof shape->nsm);
    if (!st) st = set_epilogue(p, shape, impl, data);
    if (!st)
        st = layout(&p->a, shape->in, shape->trans_a ? v->k : v->m, shape->trans_a ? v->m : v->k, v->lda, v->batches,
                    v->step_a);
    if (!st)
        st = layout(&p->b, shape->in, shape->trans_b ? v->n : v->k, shape->trans_b ? v->k : v->n, v->ldb, v->batches,
                    v->step_b);
    return st ? st : layout(&p->y, shape->out, v->m, v->n, v->ldy, v->batches, v->step_y);
}

enum mt_status gemm_describe_problem(const struct gemm_shape *shape, enum gemm_impl impl, const struct gemm_view *view,
                                     const struct gemm_data *data, struct gemm_problem *problem, struct mt_err *err) {
    cublasStatus_t st = describe(shape, impl, view, data, problem);
    return st ? gemm_failed(st, shape, "describing it", err) : MT_OK;
}

/* ---- running ---- */

enum mt_status gemm_multiply(const struct cuda_queue *queue, const struct gemm_shape *shape, enum gemm_impl impl,
                             const struct gemm_view *view, const cublasLtMatmulAlgo_t *algo,
                             const struct gemm_data *data, struct mt_err *err) {
    const float one = 1;
    struct gemm_problem p;
    cublasLtHandle_t handle;
    enum mt_status status = gemm_library(&handle, err);
    if (!status) status = gemm_describe_problem(shape, impl, view, data, &p, err);
    if (status) return status;
    const void *added = data->added ? data->added : data->y;
    cublasStatus_t st = cublasLtMatmul(handle, &p.desc, &one, data->b, &p.b, data->a, &p.a, &view->beta, added, &p.y,
                                       data->y, &p.y, algo, data->scratch, GEMM_WORKSPACE_BYTES, queue->stream);
    return st ? gemm_failed(st, shape, gemm_impl_names[impl], err) : MT_OK;
}

enum mt_status gemm_run(const struct cuda_queue *queue, const struct gemm_shape *shape,
                        const struct gemm_choice *choice, const struct gemm_data *data, struct mt_err *err) {
    if (choice->impl == GEMM_STRIPS) return gemm_strips_run(queue, shape, choice, data, err);
    bool own = choice->impl == GEMM_TILES;
    enum gemm_impl passes = own ? GEMM_PLAIN : choice->impl;
    struct gemm_view view = gemm_whole_view(shape, passes);
    struct gemm_data target = *data;
    target.y = gemm_target(shape, passes, data);
    enum mt_status st = gemm_before(queue, shape, passes, data, err);
    if (!st)
        st = own ? gemm_tiles_run(queue, shape, choice, &target, err)
                 : gemm_multiply(queue, shape, choice->impl, &view, &choice->algo, &target, err);
    return st ? st : gemm_after(queue, shape, passes, data, err);
}

enum mt_status gemm_zero_k(const struct cuda_queue *queue, const struct gemm_shape *shape, const struct gemm_data *data,
                           struct mt_err *err) {
    size_t row_bytes = (size_t)(shape->n * mt_type_size(shape->out)), y_bytes = (size_t)shape->m * row_bytes;
    if (shape->accumulate) return MT_OK;
    if (shape->epilogue == EPILOGUE_SUM && shape->n)
        CUDA_TRY(cuMemsetD32Async((CUdeviceptr)data->sums, 0, (size_t)shape->n, queue->stream), err, "zeroing sums");
    if (shape->epilogue >= EPILOGUE_BIAS && shape->epilogue <= EPILOGUE_RELU) {
        enum mt_status st = gemm_before(queue, shape, GEMM_PLAIN, data, err);
        return st ? st : gemm_after(queue, shape, GEMM_PLAIN, data, err);
    }
    if (y_bytes) CUDA_TRY(cuMemsetD8Async((CUdeviceptr)data->y, 0, y_bytes, queue->stream), err, "zeroing y");
    return MT_OK;
}
