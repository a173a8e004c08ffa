/* add, gelu, gelu_grad, relu, relu_grad, silu_mul, silu_mul_grad, dropout, fill and cast.
 *
 * As on the CPU, numbers below the smallest normal one count as zero in arithmetic (device.h), and add rounds once:
 * the same bits everywhere. */
#include <stdio.h>

#include "kernels/cuda/driver/driver.h"
#include "kernels/cuda/ops/multi_tensor.h"
#include "kernels/cuda/jit/shape.h"
#include "kernels/cuda/tune/variant.h"

enum { THREADS = 256, ACCESSES = 2 /* of a thread */, MOVE_CHUNK = 16384 };

/* What is tuned: threads of a block, and accesses of a thread. */
static int variants(const struct cuda *cuda, const struct mt_call *call, struct cuda_variant *list) {
    static const int threads[] = {128, 256, 512, 1024, 0}, accesses[] = {1, 2, 4, 0};
    (void)cuda, (void)call;
    return cuda_variant_pairs((struct cuda_variant){{THREADS, ACCESSES}}, threads, accesses, list);
}
static const struct cuda_family each_family = {"each element", "element", {"threads", "accesses"}, variants, NULL};

static int move_variants(const struct cuda *cuda, const struct mt_call *call, struct cuda_variant *list) {
    static const int threads[] = {128, 256, 512, 0}, chunks[] = {4096, 8192, 16384, 32768, 0};
    (void)cuda, (void)call;
    return cuda_variant_pairs((struct cuda_variant){{THREADS, MOVE_CHUNK}}, threads, chunks, list);
}
static enum mt_status run_moves(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err);
static const struct cuda_family move_family = {"moves", "element", {"threads", "chunk"}, move_variants, run_moves};

/* The kernel `name` for the types of input and output 0, v elements at a time; `more`: further options. */
static enum mt_status find(const struct cuda_queue *queue, const struct mt_call *call, const char *name, int v,
                           const char *more, CUfunction *kernel, struct mt_err *err) {
    char definitions[128];
    snprintf(definitions, sizeof definitions, "-DTYPE=%s -DTO=%s -DVECTOR=%d -ftz=true%s", cuda_type(call->in[0].type),
             cuda_type(call->out[0].type), v, more);
    return cuda_kernel(queue->cuda, "element", definitions, name, 0, kernel, err);
}

/* Launches such a kernel as tuned for the call; its arguments begin with n. */
static enum mt_status launch_each(const struct cuda_queue *queue, const struct mt_call *call, const char *name, int v,
                                  const char *more, void **arguments, struct mt_err *err) {
    struct cuda_variant variant;
    char options[64];
    CUfunction kernel;
    enum mt_status st = cuda_choose_variant(queue, &each_family, call, &variant, err);
    if (st) return st;
    int threads = variant.p[0], accesses = variant.p[1];
    snprintf(options, sizeof options, " -DACCESSES=%d%s", accesses, more);
    st = find(queue, call, name, v, accesses == ACCESSES ? more : options, &kernel, err);
    int64_t n = mt_tensor_count(&call->out[0]);
    return st ? st
              : cuda_launch(queue, kernel, divide_up(n, (int64_t)threads * accesses * v), threads, 0, arguments, err);
}

/* All operands of one shape. */
static enum mt_status run_each(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    int64_t n = mt_tensor_count(&call->out[0]);
    int v = cuda_vector(call->in[0].type, 0, cuda_alignment(call));
    void *arguments[1 + MT_MAX_IN + MT_MAX_OUT] = {&n};
    cuda_operand_arguments(call, call->nout, arguments, 1);
    return launch_each(queue, call, mt_op_info[call->kind].name, v, "", arguments, err);
}

static enum mt_status run_add(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    const struct mt_tensor *whole = &call->in[0];
    int64_t n = mt_tensor_count(whole), stride = 1, strides[MT_MAX_AXES];
    const void *a = whole->data, *b = call->in[1].data;
    void *y = call->out[0].data;
    struct cuda_axes walk = {0}; /* of b, along a */
    for (int i = whole->naxes - 1; i >= 0; i--) {
        bool has = call->attr->axes >> i & 1u;
        strides[i] = has ? stride : 0;
        if (has) stride *= whole->extent[i];
    }
    for (int i = 0; i < whole->naxes; i++) cuda_axes_add(&walk, whole->extent[i], strides[i]);
    bool same = !walk.n || (walk.n == 1 && walk.stride[0] == 1);
    int v = cuda_vector(whole->type, same ? 0 : walk.extent[walk.n - 1], cuda_alignment(call));
    return launch_each(queue, call, same ? "add" : "add_along", v, " -fmad=false", (void *[]){&n, &a, &b, &y, &walk},
                       err);
}

/* Whether each four elements from a multiple of 4 on have global indices from a multiple of 4 on. */
static bool in_fours(const struct cuda_axes *box, uint64_t base) {
    if (!box->n) return false;
    int64_t last = box->n - 1;
    bool fours = base % 4 == 0 && box->stride[last] == 1 && (box->n == 1 || box->extent[last] % 4 == 0);
    for (int64_t a = 0; a < last; a++) fours = fours && box->stride[a] % 4 == 0;
    return fours;
}

static enum mt_status run_dropout(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    const struct mt_tensor *x = &call->in[0];
    int64_t n = mt_tensor_count(x), strides[MT_MAX_AXES], stride = 1;
    const void *from = x->data;
    void *to = call->out[0].data;
    struct cuda_axes box = {0};
    uint64_t base = 0, tag = call->attr->tag;
    for (int a = x->naxes - 1; a >= 0; a--) {
        strides[a] = stride;
        base += (uint64_t)(x->offset[a] * stride);
        stride *= x->global[a];
    }
    for (int a = 0; a < x->naxes; a++) cuda_axes_add(&box, x->extent[a], strides[a]);
    uint32_t threshold = mt_drop_threshold(call->attr->p);
    float factor = (float)(1 / (1 - call->attr->p));
    int v = in_fours(&box, base) ? cuda_vector(x->type, 0, cuda_alignment(call)) : 1;
    CUfunction kernel;
    enum mt_status st = find(queue, call, "dropout", v, "", &kernel, err);
    if (st) return st;
    return cuda_launch(queue, kernel, divide_up(n, (int64_t)THREADS * v), THREADS, 0,
                       (void *[]){&n, &from, &to, (void *)&queue->clock, &box, &base, &tag, &threshold, &factor}, err);
}

static bool without_f64(const struct mt_call *call) {
    return call->out[0].type != MT_F64 && (call->kind == MT_OP_fill || call->in[0].type != MT_F64);
}

/* A tensor of a multi-tensor launch, as in element.cu. */
struct move_tensor {
    const void *from;
    void *to;
    int64_t n;
    uint32_t bits;
};

/* Casts and fills: of any number of calls, in few launches. */
static enum mt_status run_moves(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    struct cuda_multi_tensor batch;
    struct cuda_variant variant;
    enum mt_status st = cuda_choose_variant(queue, &move_family, call, &variant, err);
    if (st) return st;
    const struct cuda_multi_tensor_shape shape = {.operand = -1, .chunk = variant.p[1]};
    bool fills = call->kind == MT_OP_fill;
    enum mt_type from = call->in[0].type, to = call->out[0].type;
    if (fills) from = to = mt_type_size(to) == 2 ? MT_BF16 : MT_F32; /* bits of that size */
    int v = cuda_vector(fills ? to : MT_F32, 0, cuda_alignment(call));
    char definitions[128];
    CUfunction kernel;
    snprintf(definitions, sizeof definitions, "-DTYPE=%s -DTO=%s -DVECTOR=%d -ftz=true", cuda_type(from), cuda_type(to),
             v);
    st = cuda_kernel(queue->cuda, "element", definitions, fills ? "fill" : "cast", 0, &kernel, err);
    for (int next = 0; !st && cuda_multi_tensor_next(call, &next, &shape, &batch);) {
        struct move_tensor all[CUDA_MOST_TENSORS] = {0};
        for (int t = 0; t < batch.count; t++) {
            struct mt_call one = mt_call_nth(call, batch.call[t]);
            all[t] =
                (struct move_tensor){.from = one.in[0].data, .to = one.out[0].data, .n = mt_tensor_count(&one.out[0])};
            if (fills) mt_type_store(one.out[0].type, &all[t].bits, 0, one.attr->value);
        }
        st = cuda_launch(queue, kernel, batch.table.first[batch.count], variant.p[0], 0, (void *[]){&batch.table, all},
                         err);
    }
    return st;
}

static enum mt_status run_fill(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    const struct mt_tensor *y = &call->out[0];
    size_t n = (size_t)mt_tensor_count(y);
    if (call->ncalls) return run_moves(queue, call, err);
    uint32_t bits = 0;
    mt_type_store(y->type, &bits, 0, call->attr->value);
    if (!n) return MT_OK;
    if (mt_type_size(y->type) == 2)
        CUDA_TRY(cuMemsetD16Async((CUdeviceptr)y->data, (uint16_t)bits, n, queue->stream), err, "filling");
    else
        CUDA_TRY(cuMemsetD32Async((CUdeviceptr)y->data, bits, n, queue->stream), err, "filling");
    return MT_OK;
}

/* To the same type: copies, call by call. */
static enum mt_status run_cast(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    if (call->in[0].type != call->out[0].type) return run_moves(queue, call, err);
    for (int i = 0; i < mt_call_count(call); i++) {
        struct mt_call one = mt_call_nth(call, i);
        const struct mt_tensor *x = &one.in[0], *y = &one.out[0];
        size_t bytes = (size_t)(mt_tensor_bytes(y));
        if (x->data != y->data && bytes)
            CUDA_TRY(cuMemcpyDtoDAsync((CUdeviceptr)y->data, (CUdeviceptr)x->data, bytes, queue->stream), err,
                     "copying");
    }
    return MT_OK;
}

const struct cuda_op cuda_gelu = {NULL, NULL, run_each};
const struct cuda_op cuda_gelu_grad = {NULL, NULL, run_each};
const struct cuda_op cuda_relu = {NULL, NULL, run_each};
const struct cuda_op cuda_relu_grad = {NULL, NULL, run_each};
const struct cuda_op cuda_silu_mul = {NULL, NULL, run_each};
const struct cuda_op cuda_silu_mul_grad = {NULL, NULL, run_each};
const struct cuda_op cuda_add = {NULL, NULL, run_add};
const struct cuda_op cuda_dropout = {NULL, NULL, run_dropout};
const struct cuda_op cuda_fill = {without_f64, NULL, run_fill};
const struct cuda_op cuda_cast = {without_f64, NULL, run_cast};
