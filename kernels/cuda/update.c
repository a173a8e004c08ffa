/* grad_scale, loss_scale, adamw and sgd: exact, one pass each. */
#include <stdio.h>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/shape.h"

enum { THREADS = 256, BLOCKS_EACH = 16 /* at most, of a multiprocessor: each block makes the step's constants */ };

static enum mt_status find(const struct cuda_queue *queue, const struct mt_call *call, int v, CUfunction *kernel,
                           struct mt_err *err) {
    char definitions[64];
    snprintf(definitions, sizeof definitions, "-DVECTOR=%d -fmad=false -ftz=true", v);
    return cuda_kernel(queue->cuda, "update", definitions, mt_op_info[call->kind].name, 0, kernel, err);
}

static int64_t block_count(const struct cuda_queue *queue, int64_t n, int v) {
    return least(divide_up(n, (int64_t)THREADS * v), (int64_t)queue->cuda->nsm * BLOCKS_EACH);
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

static enum mt_status run_adamw(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    const struct mt_attr *t = call->attr;
    struct {
        double beta1, beta2, lr_scale;
        float eps, decay;
    } constants = {t->beta1, t->beta2, t->lr_scale, (float)t->eps, (float)t->decay};
    int64_t n = mt_tensor_count(&call->out[0]);
    int v = cuda_vector(MT_F32, 0, cuda_alignment(call));
    const void *in[6];
    void *out[3];
    for (int i = 0; i < 6; i++) in[i] = i < call->nin ? call->in[i].data : NULL;
    for (int o = 0; o < 3; o++) out[o] = call->out[o].data;
    CUfunction kernel;
    enum mt_status st = find(queue, call, v, &kernel, err);
    if (st) return st;
    return cuda_launch(queue, kernel, block_count(queue, n, v), THREADS, 0,
                       (void *[]){&n, &in[0], &in[1], &in[2], &in[3], &in[4], &in[5], &out[0], &out[1], &out[2],
                                  (void *)&queue->clock, &constants},
                       err);
}

static enum mt_status run_sgd(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    const struct mt_attr *t = call->attr;
    struct {
        double lr_scale;
        float momentum, decay;
        int nesterov;
    } constants = {t->lr_scale, (float)t->momentum, (float)t->decay, t->nesterov};
    int64_t n = mt_tensor_count(&call->out[0]);
    int v = cuda_vector(MT_F32, 0, cuda_alignment(call));
    const void *in[4];
    void *out[2];
    for (int i = 0; i < 4; i++) in[i] = call->in[i].data;
    for (int o = 0; o < 2; o++) out[o] = call->out[o].data;
    CUfunction kernel;
    enum mt_status st = find(queue, call, v, &kernel, err);
    if (st) return st;
    return cuda_launch(
        queue, kernel, block_count(queue, n, v), THREADS, 0,
        (void *[]){&n, &in[0], &in[1], &in[2], &in[3], &out[0], &out[1], (void *)&queue->clock, &constants}, err);
}

const struct cuda_op cuda_grad_scale = {NULL, NULL, run_grad_scale};
const struct cuda_op cuda_loss_scale = {NULL, NULL, run_loss_scale};
const struct cuda_op cuda_adamw = {NULL, NULL, run_adamw};
const struct cuda_op cuda_sgd = {NULL, NULL, run_sgd};
