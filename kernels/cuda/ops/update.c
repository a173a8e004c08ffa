/* grad_scale, loss_scale, adamw and sgd: exact, in one pass; many tensors are updated by few multi-tensor launches. */
#include <stdio.h>

#include "kernels/cuda/driver/driver.h"
#include "kernels/cuda/ops/multi_tensor.h"
#include "kernels/cuda/jit/shape.h"
#include "kernels/cuda/tune/variant.h"

enum { THREADS = 256, CHUNK = 16384 /* elements of a block, which computes the step's constants once */ };

static int variants(const struct cuda *cuda, const struct mt_call *call, struct cuda_variant *list) {
    static const int threads[] = {128, 256, 512, 0}, chunks[] = {2048, 4096, 8192, 16384, 32768, 0};
    (void)cuda, (void)call;
    return cuda_variant_pairs((struct cuda_variant){{THREADS, CHUNK}}, threads, chunks, list);
}
static const struct cuda_family family = {"updates", "update", {"threads", "chunk"}, variants, NULL};

static enum mt_status find(const struct cuda_queue *queue, const struct mt_call *call, int v, CUfunction *kernel,
                           struct mt_err *err) {
    char definitions[80];
    bool casts = call->kind == MT_OP_adamw && call->nout > 3;
    snprintf(definitions, sizeof definitions, "%s%s%s-DVECTOR=%d -fmad=false -ftz=true", casts ? "-DTO=" : "",
             casts ? cuda_type(call->out[3].type) : "", casts ? " " : "", v);
    return cuda_kernel(queue->cuda, "update", definitions, mt_op_info[call->kind].name, 0, kernel, err);
}

static enum mt_status run_grad_scale(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    const void *sq = call->in[0].data, *count = call->in[1].data, *loss_scale = call->nin > 2 ? call->in[2].data : NULL;
    void *to = call->out[0].data;
    double clip = call->attr->clip;
    CUfunction kernel;
    enum mt_status st = find(queue, call, 1, &kernel, err);
    if (st) return st;
    return cuda_launch(queue, kernel, 1, 1, 0, (void *[]){&sq, &count, &loss_scale, &to, &clip}, err);
}

static enum mt_status run_loss_scale(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    struct {
        double least, most;
        int64_t interval;
    } constants = {MT_LOSS_SCALE_LEAST, MT_LOSS_SCALE_MOST, call->attr->interval};
    const void *in[4];
    void *out[3];
    for (int i = 0; i < 4; i++) in[i] = call->in[i].data;
    for (int o = 0; o < 3; o++) out[o] = call->out[o].data;
    CUfunction kernel;
    enum mt_status st = find(queue, call, 1, &kernel, err);
    if (st) return st;
    return cuda_launch(queue, kernel, 1, 1, 0,
                       (void *[]){&in[0], &in[1], &in[2], &in[3], &out[0], &out[1], &out[2], &constants}, err);
}

/* A tensor of a multi-tensor launch, as in update.cu. */
struct adamw_tensor {
    const void *in[6]; /* w m v g factor skipped */
    void *out[4];      /* w m v cast; the last null where it is not wanted */
    int64_t n;
    double beta1, beta2, lr_scale;
    float eps, decay;
};
struct sgd_tensor {
    const void *in[4]; /* w m g factor */
    void *out[2];
    int64_t n;
    double lr_scale;
    float momentum, decay;
    int nesterov;
};

static struct adamw_tensor adamw_tensor(const struct mt_call *call) {
    const struct mt_attr *t = call->attr;
    struct adamw_tensor tensor = {.n = mt_tensor_count(&call->out[0]),
                                  .beta1 = t->beta1,
                                  .beta2 = t->beta2,
                                  .lr_scale = t->lr_scale,
                                  .eps = (float)t->eps,
                                  .decay = (float)t->decay};
    for (int i = 0; i < call->nin; i++) tensor.in[i] = call->in[i].data;
    for (int o = 0; o < call->nout; o++) tensor.out[o] = call->out[o].data;
    return tensor;
}

static struct sgd_tensor sgd_tensor(const struct mt_call *call) {
    const struct mt_attr *t = call->attr;
    struct sgd_tensor tensor = {.n = mt_tensor_count(&call->out[0]),
                                .lr_scale = t->lr_scale,
                                .momentum = (float)t->momentum,
                                .decay = (float)t->decay,
                                .nesterov = t->nesterov};
    for (int i = 0; i < 4; i++) tensor.in[i] = call->in[i].data;
    for (int o = 0; o < 2; o++) tensor.out[o] = call->out[o].data;
    return tensor;
}

/* adamw or sgd. */
static enum mt_status run_updates(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    struct cuda_variant variant;
    union {
        struct adamw_tensor adamw[CUDA_MOST_TENSORS];
        struct sgd_tensor sgd[CUDA_MOST_TENSORS];
    } all;
    struct cuda_multi_tensor batch;
    CUfunction kernel;
    enum mt_status st = cuda_choose_variant(queue, &family, call, &variant, err);
    if (!st) st = find(queue, call, cuda_vector(MT_F32, 0, cuda_alignment(call)), &kernel, err);
    if (st) return st;
    const struct cuda_multi_tensor_shape shape = {.operand = -1, .chunk = variant.p[1]};
    for (int next = 0; !st && cuda_multi_tensor_next(call, &next, &shape, &batch);) {
        for (int t = 0; t < batch.count; t++) {
            struct mt_call one = mt_call_nth(call, batch.call[t]);
            if (call->kind == MT_OP_adamw)
                all.adamw[t] = adamw_tensor(&one);
            else
                all.sgd[t] = sgd_tensor(&one);
        }
        st = cuda_launch(queue, kernel, batch.table.first[batch.count], variant.p[0], 0,
                         (void *[]){&batch.table, &all, (void *)&queue->clock}, err);
    }
    return st;
}

const struct cuda_op cuda_grad_scale = {NULL, NULL, run_grad_scale};
const struct cuda_op cuda_loss_scale = {NULL, NULL, run_loss_scale};
const struct cuda_op cuda_adamw = {NULL, NULL, run_updates};
const struct cuda_op cuda_sgd = {NULL, NULL, run_updates};
