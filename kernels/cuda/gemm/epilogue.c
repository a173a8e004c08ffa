/* Our own passes around a GEMM: the bias before it; the activation, its slope, and column sums after it. */
#include <stdio.h>

#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/jit/shape.h"
#include "kernels/cuda/ops/sum.h"

enum { THREADS = 256 };

void *gemm_target(const struct gemm_shape *shape, enum gemm_impl impl, const struct gemm_data *data) {
    bool activated = shape->epilogue == EPILOGUE_GELU || shape->epilogue == EPILOGUE_RELU;
    return impl != GEMM_WHOLE && activated ? data->pre : data->y;
}

/* ---- bias, activation, slope ---- */

static enum mt_status spread_kernel(const struct cuda_queue *queue, const struct gemm_shape *shape, CUfunction *kernel,
                                    struct mt_err *err) {
    char definitions[32];
    snprintf(definitions, sizeof definitions, "-DTYPE=%s", cuda_type(shape->out));
    return cuda_kernel(queue->cuda, "matmul_epilogue", definitions, "spread", 0, kernel, err);
}

static enum mt_status spread(const struct cuda_queue *queue, const struct gemm_shape *shape, const void *bias, void *y,
                             struct mt_err *err) {
    enum { ROWS = 1024 };
    CUfunction kernel;
    int64_t m = shape->m, n = shape->n;
    enum mt_status st = spread_kernel(queue, shape, &kernel, err);
    const int64_t blocks[3] = {divide_up(n, THREADS), least(m, ROWS), 1};
    return st ? st : cuda_launch3(queue, kernel, blocks, THREADS, 0, (void *[]){&bias, &y, &m, &n}, err);
}

/* Elements of a thread of `each`. */
static int64_t vector_of(const struct gemm_shape *shape) {
    return shape->align >= 16 ? 16 / mt_type_size(shape->out) : 1;
}

static enum mt_status each_kernel(const struct cuda_queue *queue, const struct gemm_shape *shape, const char *name,
                                  CUfunction *kernel, struct mt_err *err) {
    char definitions[64];
    bool gelu = shape->epilogue == EPILOGUE_GELU || shape->epilogue == EPILOGUE_GELU_GRAD;
    snprintf(definitions, sizeof definitions, "-DTYPE=%s -DVEC=%d -DGELU=%d", cuda_type(shape->out),
             (int)vector_of(shape), gelu);
    return cuda_kernel(queue->cuda, "matmul_epilogue", definitions, name, 0, kernel, err);
}

/* `name` of matmul_epilogue.cu, over all elements: y from x, or from y and x. */
static enum mt_status each(const struct cuda_queue *queue, const struct gemm_shape *shape, const char *name,
                           const void *x, void *y, struct mt_err *err) {
    CUfunction kernel;
    int64_t count = shape->m * shape->n;
    enum mt_status st = each_kernel(queue, shape, name, &kernel, err);
    return st ? st
              : cuda_launch(queue, kernel, divide_up(count, THREADS * vector_of(shape)), THREADS, 0,
                            (void *[]){&x, &y, &count}, err);
}

/* ---- column sums ---- */

/* The call of the operator `sum`; tensors[2]. */
static struct mt_call sum_call(const struct gemm_shape *s, const struct gemm_data *data, struct mt_attr *attr,
                               struct mt_tensor *tensors) {
    *attr = (struct mt_attr){.axes = s->trans_b ? 2 : 1, .accumulate = s->accumulate};
    tensors[0] = (struct mt_tensor){.type = s->in, .naxes = 2, .data = data ? (void *)(uintptr_t)data->b : NULL};
    tensors[0].extent[0] = s->trans_b ? s->n : s->k, tensors[0].extent[1] = s->trans_b ? s->k : s->n;
    tensors[1] = (struct mt_tensor){.type = MT_F32, .naxes = 1, .extent = {s->n}, .data = data ? data->sums : NULL};
    return (struct mt_call){.kind = MT_OP_sum,
                            .attr = attr,
                            .nin = 1,
                            .nout = 1,
                            .in = tensors,
                            .out = tensors + 1,
                            .scratch = data ? (char *)data->scratch + GEMM_WORKSPACE_BYTES : NULL,
                            .what = "column sums of a GEMM"};
}

int64_t gemm_pass_bytes(const struct cuda *cuda, const struct gemm_shape *shape) {
    struct mt_attr attr;
    struct mt_tensor tensors[2];
    if (shape->epilogue != EPILOGUE_SUM) return 0;
    const struct mt_call call = sum_call(shape, NULL, &attr, tensors);
    int64_t sum = cuda_ops[MT_OP_sum]->scratch_bytes(cuda, &call);
    return largest(sum, shape->n * mt_type_size(MT_F32));
}

static enum mt_status column_sums(const struct cuda_queue *queue, const struct gemm_shape *shape,
                                  const struct gemm_data *data, struct mt_err *err) {
    struct mt_attr attr;
    struct mt_tensor tensors[2];
    const struct mt_call call = sum_call(shape, data, &attr, tensors);
    return cuda_ops[MT_OP_sum]->queue(queue, &call, err);
}

/* The library cannot add to sums: it writes its own to scratch. */
static enum mt_status add_sums(const struct cuda_queue *queue, const struct gemm_shape *shape,
                               const struct gemm_data *data, struct mt_err *err) {
    const void *made = (char *)data->scratch + GEMM_WORKSPACE_BYTES;
    return cuda_add_partials(queue, 1, 1, shape->n, made, true, &data->sums, err);
}

/* ---- before and after ---- */

enum mt_status gemm_before(const struct cuda_queue *queue, const struct gemm_shape *shape, enum gemm_impl impl,
                           const struct gemm_data *data, struct mt_err *err) {
    if (impl != GEMM_PLAIN) return MT_OK;
    switch (shape->epilogue) {
    case EPILOGUE_BIAS:
    case EPILOGUE_GELU:
    case EPILOGUE_RELU: return spread(queue, shape, data->bias, gemm_target(shape, impl, data), err);
    case EPILOGUE_SUM: return column_sums(queue, shape, data, err); /* b may still be in the cache */
    default: return MT_OK;
    }
}

enum mt_status gemm_after(const struct cuda_queue *queue, const struct gemm_shape *shape, enum gemm_impl impl,
                          const struct gemm_data *data, struct mt_err *err) {
    switch (shape->epilogue) {
    case EPILOGUE_GELU:
    case EPILOGUE_RELU: return impl == GEMM_WHOLE ? MT_OK : each(queue, shape, "activate", data->pre, data->y, err);
    case EPILOGUE_GELU_GRAD:
    case EPILOGUE_RELU_GRAD: return impl == GEMM_WHOLE ? MT_OK : each(queue, shape, "slope", data->x, data->y, err);
    case EPILOGUE_SUM: return impl == GEMM_WHOLE && shape->accumulate ? add_sums(queue, shape, data, err) : MT_OK;
    default: return MT_OK;
    }
}

enum mt_status gemm_load_passes(const struct cuda_queue *queue, const struct gemm_shape *shape,
                                const struct gemm_choice *choice, struct mt_err *err) {
    bool biased = shape->epilogue >= EPILOGUE_BIAS && shape->epilogue <= EPILOGUE_RELU;
    bool activated = shape->epilogue == EPILOGUE_GELU || shape->epilogue == EPILOGUE_RELU;
    bool sloped = shape->epilogue == EPILOGUE_GELU_GRAD || shape->epilogue == EPILOGUE_RELU_GRAD;
    CUfunction kernel;
    enum mt_status st = MT_OK;
    if (choice->impl == GEMM_WHOLE) return MT_OK;
    if (biased && choice->impl != GEMM_BIAS) st = spread_kernel(queue, shape, &kernel, err);
    if (!st && activated) st = each_kernel(queue, shape, "activate", &kernel, err);
    if (!st && sloped) st = each_kernel(queue, shape, "slope", &kernel, err);
    return st;
}
