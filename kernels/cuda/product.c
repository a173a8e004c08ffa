/* One product: descriptors, the call, and the passes around it. */
#include "kernels/cuda/product.h"

#include <pthread.h>
#include <stdio.h>

const char *const product_how_names[NHOWS] = {"whole", "bias", "spread"};

/* The library's handle belongs to a context; a device that was closed and opened again has another. */
static enum mt_status library(cublasLtHandle_t *handle, struct mt_err *err) {
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

void product_describe(const struct product_shape *s, char *text, size_t room) {
    static const char *const finishes[] = {"", ", bias", ", bias gelu", ", bias relu"};
    snprintf(text, room, "product m=%lld n=%lld k=%lld %s to %s%s%s%s%s%s", (long long)s->m, (long long)s->n,
             (long long)s->k, mt_type_name(s->in), mt_type_name(s->out), s->tf32 ? ", tf32" : "",
             s->trans_a ? ", a transposed" : "", s->trans_b ? ", b transposed" : "",
             s->accumulate ? ", accumulated" : "", finishes[s->finish]);
}

static enum mt_status failed(cublasStatus_t st, const struct product_shape *shape, const char *doing,
                             struct mt_err *err) {
    char text[200];
    product_describe(shape, text, sizeof text);
    return mt_fail(err, MT_ESYSTEM, "cuBLASLt: %s: %s: %s", text, doing, cublasLtGetStatusName(st));
}

static bool activates(const struct product_shape *shape) {
    return shape->finish == FINISH_GELU || shape->finish == FINISH_RELU;
}

/* Where the sums go, with the bias. */
static void *sums_of(const struct product_shape *shape, enum product_how how, const struct product_data *data) {
    return how != HOW_WHOLE && activates(shape) ? data->pre : data->y;
}

/* ---- descriptors ---- */

struct problem {
    cublasLtMatmulDescOpaque_t desc;
    cublasLtMatrixLayoutOpaque_t a, b, y; /* ours, not in the library's order */
    float beta;
};

static cublasStatus_t set(struct problem *p, cublasLtMatmulDescAttributes_t attribute, const void *value,
                          size_t size_bytes) {
    return cublasLtMatmulDescSetAttribute(&p->desc, attribute, value, size_bytes);
}

static cublasLtEpilogue_t epilogue_of(const struct product_shape *shape, enum product_how how) {
    if (how == HOW_SPREAD || shape->finish == FINISH_NONE) return CUBLASLT_EPILOGUE_DEFAULT;
    return how == HOW_WHOLE && shape->finish == FINISH_GELU ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_BIAS;
}

/* data: null when only an algorithm is asked for; addresses then tell their alignment. */
static cublasStatus_t set_epilogue(struct problem *p, const struct product_shape *shape, enum product_how how,
                                   const struct product_data *data) {
    cublasLtEpilogue_t epilogue = epilogue_of(shape, how);
    if (epilogue == CUBLASLT_EPILOGUE_DEFAULT) return CUBLAS_STATUS_SUCCESS;
    const void *aligned = (const void *)(uintptr_t)shape->align;
    const void *bias = data ? data->bias : aligned, *pre = data ? data->pre : aligned;
    cublasStatus_t st = set(p, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (!st) st = set(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    if (st || epilogue == CUBLASLT_EPILOGUE_BIAS) return st;
    st = set(p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &pre, sizeof pre);
    return st ? st : set(p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &shape->n, sizeof shape->n);
}

static cublasStatus_t describe(const struct product_shape *shape, enum product_how how, const struct product_data *data,
                               struct problem *p) {
    static const cudaDataType_t types[MT_NTYPES] = {
        [MT_F32] = CUDA_R_32F, [MT_BF16] = CUDA_R_16BF, [MT_F16] = CUDA_R_16F};
    cudaDataType_t in = types[shape->in], out = types[shape->out];
    cublasComputeType_t compute =
        shape->tf32 && shape->in == MT_F32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cublasOperation_t turn_a = shape->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t turn_b = shape->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    uint64_t m = (uint64_t)shape->m, n = (uint64_t)shape->n, k = (uint64_t)shape->k;
    p->beta = shape->accumulate || how == HOW_SPREAD;
    cublasStatus_t st = cublasLtMatmulDescInit(&p->desc, compute, CUDA_R_32F);
    /* The library's first operand is our b: y^T = b^T a^T. */
    if (!st) st = set(p, CUBLASLT_MATMUL_DESC_TRANSA, &turn_b, sizeof turn_b);
    if (!st) st = set(p, CUBLASLT_MATMUL_DESC_TRANSB, &turn_a, sizeof turn_a);
    if (!st && shape->nsm) st = set(p, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &shape->nsm, sizeof shape->nsm);
    if (!st) st = set_epilogue(p, shape, how, data);
    if (!st)
        st = cublasLtMatrixLayoutInit(&p->a, in, shape->trans_a ? m : k, shape->trans_a ? k : m,
                                      shape->trans_a ? shape->m : shape->k);
    if (!st)
        st = cublasLtMatrixLayoutInit(&p->b, in, shape->trans_b ? k : n, shape->trans_b ? n : k,
                                      shape->trans_b ? shape->k : shape->n);
    if (!st) st = cublasLtMatrixLayoutInit(&p->y, out, n, m, shape->n);
    return st;
}

/* ---- algorithms ---- */

/* Parts of a sum are not rounded to a half on the way. */
static cublasStatus_t prefer(const struct product_shape *shape, cublasLtMatmulPreferenceOpaque_t *preference) {
    static const cublasLtMatmulPreferenceAttributes_t alignments[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const uint64_t workspace = PRODUCT_WORKSPACE_BYTES;
    const uint32_t align = (uint32_t)shape->align;
    const uint32_t reductions =
        CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | (shape->out == MT_F32 ? CUBLASLT_REDUCTION_SCHEME_INPLACE : 0);
    cublasStatus_t st = cublasLtMatmulPreferenceInit(preference);
    if (!st)
        st = cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                                  sizeof workspace);
    if (!st)
        st = cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions,
                                                  sizeof reductions);
    for (int i = 0; !st && i < 4; i++)
        st = cublasLtMatmulPreferenceSetAttribute(preference, alignments[i], &align, sizeof align);
    return st;
}

/* The library's GELU is taken where its result is rounded to a half anyway: how exact its tanh is it does not say. It
 * asks that the rows of `pre` begin at multiples of 16 bytes. */
static bool possible(const struct product_shape *shape, enum product_how how) {
    bool gelu = shape->finish == FINISH_GELU && mt_type_is_half(shape->out) && shape->n % 8 == 0 && shape->align >= 16;
    switch (how) {
    case HOW_WHOLE: return gelu || !activates(shape);
    case HOW_BIAS: return activates(shape);
    default: return shape->finish != FINISH_NONE;
    }
}

enum mt_status product_candidates(const struct product_shape *shape, enum product_how how,
                                  struct product_choice *choices, int *count, struct mt_err *err) {
    struct problem p;
    cublasLtHandle_t handle;
    cublasLtMatmulPreferenceOpaque_t preference;
    cublasLtMatmulHeuristicResult_t found[PRODUCT_MOST];
    int nfound = 0;
    *count = 0;
    if (!possible(shape, how)) return MT_OK;
    enum mt_status status = library(&handle, err);
    if (status) return status;
    cublasStatus_t st = describe(shape, how, NULL, &p);
    if (!st) st = prefer(shape, &preference);
    if (st) return failed(st, shape, "describing it", err);
    st = cublasLtMatmulAlgoGetHeuristic(handle, &p.desc, &p.b, &p.a, &p.y, &p.y, &preference, PRODUCT_MOST, found,
                                        &nfound);
    if (st && st != CUBLAS_STATUS_NOT_SUPPORTED && st != CUBLAS_STATUS_INVALID_VALUE)
        return failed(st, shape, "asking for algorithms", err);
    for (int i = 0; !st && i < nfound; i++)
        if (found[i].state == CUBLAS_STATUS_SUCCESS && found[i].workspaceSize <= PRODUCT_WORKSPACE_BYTES)
            choices[(*count)++] = (struct product_choice){how, found[i].algo};
    return MT_OK;
}

bool product_usable(const struct product_shape *shape, const struct product_choice *choice) {
    struct problem p;
    struct mt_err err;
    cublasLtHandle_t handle;
    cublasLtMatmulHeuristicResult_t result;
    if (!possible(shape, choice->how) || library(&handle, &err) || describe(shape, choice->how, NULL, &p)) return false;
    return !cublasLtMatmulAlgoCheck(handle, &p.desc, &p.b, &p.a, &p.y, &p.y, &choice->algo, &result) &&
           result.state == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= PRODUCT_WORKSPACE_BYTES;
}

/* ---- running ---- */

static enum mt_status spread(const struct cuda_queue *queue, const struct product_shape *shape, const void *bias,
                             void *y, struct mt_err *err) {
    enum { THREADS = 256, ROWS = 1024 };
    char definitions[32];
    CUfunction kernel;
    int64_t m = shape->m, n = shape->n;
    snprintf(definitions, sizeof definitions, "-DTYPE=%s", cuda_type(shape->out));
    enum mt_status st = cuda_kernel(queue->cuda, "matmul_epilogue", definitions, "spread", 0, &kernel, err);
    const int64_t blocks[3] = {(n + THREADS - 1) / THREADS, m < ROWS ? m : ROWS, 1};
    return st ? st : cuda_launch3(queue, kernel, blocks, THREADS, 0, (void *[]){&bias, &y, &m, &n}, err);
}

static enum mt_status activate(const struct cuda_queue *queue, const struct product_shape *shape, const void *x,
                               void *y, struct mt_err *err) {
    enum { THREADS = 256 };
    char definitions[64];
    CUfunction kernel;
    int64_t vec = shape->align >= 16 ? 16 / mt_type_size(shape->out) : 1, count = shape->m * shape->n;
    snprintf(definitions, sizeof definitions, "-DTYPE=%s -DVEC=%d -DGELU=%d", cuda_type(shape->out), (int)vec,
             shape->finish == FINISH_GELU);
    enum mt_status st = cuda_kernel(queue->cuda, "matmul_epilogue", definitions, "activate", 0, &kernel, err);
    int64_t blocks = (count + THREADS * vec - 1) / (THREADS * vec);
    return st ? st : cuda_launch(queue, kernel, blocks, THREADS, 0, (void *[]){&x, &y, &count}, err);
}

static enum mt_status multiply(const struct cuda_queue *queue, const struct product_shape *shape,
                               const struct product_choice *choice, const struct product_data *data,
                               struct mt_err *err) {
    const float one = 1;
    struct problem p;
    cublasLtHandle_t handle;
    enum mt_status status = library(&handle, err);
    if (status) return status;
    void *y = sums_of(shape, choice->how, data);
    cublasStatus_t st = describe(shape, choice->how, data, &p);
    if (!st)
        st = cublasLtMatmul(handle, &p.desc, &one, data->b, &p.b, data->a, &p.a, &p.beta, y, &p.y, y, &p.y,
                            &choice->algo, data->workspace, PRODUCT_WORKSPACE_BYTES, queue->stream);
    return st ? failed(st, shape, product_how_names[choice->how], err) : MT_OK;
}

enum mt_status product_run(const struct cuda_queue *queue, const struct product_shape *shape,
                           const struct product_choice *choice, const struct product_data *data, struct mt_err *err) {
    enum mt_status st = MT_OK;
    void *sums = sums_of(shape, choice->how, data);
    if (choice->how == HOW_SPREAD) st = spread(queue, shape, data->bias, sums, err);
    if (!st) st = multiply(queue, shape, choice, data, err);
    return !st && sums != data->y ? activate(queue, shape, sums, data->y, err) : st;
}

enum mt_status product_of_nothing(const struct cuda_queue *queue, const struct product_shape *shape,
                                  const struct product_data *data, struct mt_err *err) {
    if (shape->accumulate) return MT_OK;
    if (shape->finish == FINISH_NONE) {
        size_t size_bytes = (size_t)(shape->m * shape->n * mt_type_size(shape->out));
        CUDA_TRY(cuMemsetD8Async((CUdeviceptr)data->y, 0, size_bytes, queue->stream), err, "zeroing a product");
        return MT_OK;
    }
    void *sums = sums_of(shape, HOW_SPREAD, data);
    enum mt_status st = spread(queue, shape, data->bias, sums, err);
    return !st && sums != data->y ? activate(queue, shape, sums, data->y, err) : st;
}
