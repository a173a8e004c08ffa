/* cuDNN's attention as implementations: of all queries (its engines take none from some position on), without dropout,
 * for rows of heads that are multiples of 16 bytes. A plan is made once for each shape, which takes seconds, as the
 * library compiles. Where the scores of all samples would want too much memory, samples go in equal parts, one after
 * the other. */
#include <pthread.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/base/wait.h"
#include "kernels/base/log.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/cudnn/attention_graph.h"
#include "kernels/device/cuda_scratch.h"

#ifdef MOTLEY_HAS_CUDNN

static struct cudnn_attention_shape shape_of(const struct mt_call *call, bool any_order) {
    const struct mt_attention a = mt_attention_of(call);
    struct cudnn_attention_shape s;
    memset(&s, 0, sizeof s); /* compared by its bytes */
    s.b = a.b, s.s = a.s, s.h = a.heads, s.g = a.groups, s.d = a.d;
    s.window = a.window;
    s.packed = a.packed;
    s.scale = (float)call->attr->scale;
    s.type = a.q->type;
    s.causal = call->attr->causal;
    s.backward = a.gradient;
    s.any_order = any_order;
    return s;
}

/* Leaves in the shape the samples of one run: the most that divide all of them and want no more memory than is allowed;
 * false: one wants more. */
static bool divide(struct cudnn_attention_shape *s) {
    int64_t b = s->b;
    for (int64_t runs = 1; runs <= b; runs++) {
        if (b % runs) continue;
        s->b = b / runs;
        if (cudnn_attention_bytes(s) <= MT_CUDA_MOST_CUDNN_BYTES) return true;
    }
    return false;
}

/* Backward, engines of some versions for sm_90 take positions behind the last key, up to whole tiles, for keys with a
 * score of 0. Where the scores of all keys are far below (lse < -88), exponentials of those overflow, and dq is NaN;
 * random operands do not show it. A causal mask hides them. */
static bool sees_only_keys(const struct cudnn_attention_shape *s) {
    return !s->backward || s->causal || s->s % 128 == 0;
}

static bool can(const struct cuda *cuda, const struct mt_call *call, bool any_order) {
    const struct mt_attention a = mt_attention_of(call);
    struct cudnn_attention_shape s = shape_of(call, any_order);
    return !a.first && a.s == a.t && a.groups && sees_only_keys(&s) && mt_type_is_half(s.type) && cuda->sm >= 80 &&
           s.d && s.d % 8 == 0 && s.s > 1 && call->attr->p <= 0 && attention_aligned(call, 16) && divide(&s);
}

static int64_t bytes_of(const struct mt_call *call, bool any_order) {
    struct cudnn_attention_shape s = shape_of(call, any_order);
    divide(&s);
    return cudnn_attention_bytes(&s);
}

struct known {
    struct cudnn_attention_shape shape;
    cudnnHandle_t handle;              /* that the plan is for */
    struct cudnn_attention *attention; /* null: refused */
    struct mt_err err;
    struct known *next;
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct known *plans;

static enum mt_status find(const struct cuda *cuda, const struct cudnn_attention_shape *shape,
                           const struct cudnn_attention **attention, struct mt_err *err) {
    struct cudnn_device device;
    enum mt_status st = cudnn_device_here(&device, err);
    if (st) return st;
    int nsm = 0;
    if (!cuDeviceGetAttribute(&nsm, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, cuda->handle) && nsm > cuda->nsm)
        device.nsm = cuda->nsm;
    pthread_mutex_lock(&lock);
    struct known *k = plans;
    while (k && (k->handle != device.handle || memcmp(&k->shape, shape, sizeof *shape))) k = k->next;
    if (!k) {
        k = mt_calloc(1, sizeof *k);
        *k = (struct known){*shape, device.handle, NULL, MT_ERR_INIT, plans};
        plans = k;
        double began_s = mt_now_s();
        if (!cudnn_attention_new(shape, &device, &k->attention, &k->err))
            mt_log(MT_LOG_DEBUG,
                   "cuDNN: a plan for attention%s%s, b=%lld s=%lld h=%lld of %lld d=%lld: %.2f s, %lld bytes",
                   shape->backward ? "'s gradient" : "", shape->any_order ? " in any order" : "", (long long)shape->b,
                   (long long)shape->s, (long long)shape->h, (long long)shape->g, (long long)shape->d,
                   mt_now_s() - began_s, (long long)cudnn_attention_workspace(k->attention));
    }
    pthread_mutex_unlock(&lock);
    *attention = k->attention;
    if (!k->attention) *err = k->err;
    return k->attention ? MT_OK : err->status;
}

static void *sample(const struct mt_tensor *t, int64_t i) {
    return (char *)t->data + i * (mt_tensor_count(t) / t->extent[0]) * mt_type_size(t->type);
}

static enum mt_status run(const struct cuda_queue *queue, const struct mt_call *call, bool any_order,
                          struct mt_err *err) {
    const struct mt_attention a = mt_attention_of(call);
    struct cudnn_attention_shape shape = shape_of(call, any_order);
    const struct cudnn_attention *attention;
    divide(&shape);
    enum mt_status st = find(queue->cuda, &shape, &attention, err);
    for (int64_t from = 0; !st && from < a.b; from += shape.b) {
        struct cudnn_attention_data data = {.q = sample(a.q, from), .kv = sample(a.kv, from), .scratch = call->scratch};
        if (shape.backward)
            data.dout = sample(&call->in[0], from), data.o_in = sample(&call->in[call->nin - 2], from),
            data.lse = sample(&call->in[call->nin - 1], from), data.dq = sample(a.dq, from),
            data.dkv = sample(a.dkv, from);
        else
            data.o = sample(&call->out[0], from), data.lse = sample(&call->out[1], from);
        st = cudnn_attention_run(attention, queue->stream, &data, err);
    }
    return st;
}

/* The library loads code when a plan is made and first run, which must not disturb a capture. */
static enum mt_status queue_plan(const struct cuda_queue *queue, const struct mt_call *call, bool any_order,
                                 struct mt_err *err) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUDA_TRY(cuThreadExchangeStreamCaptureMode(&mode), err, "cuThreadExchangeStreamCaptureMode");
    enum mt_status st = run(queue, call, any_order, err);
    cuThreadExchangeStreamCaptureMode(&mode);
    return st;
}

#define CUDNN_IMPL(name, any_order)                                                                                    \
    static bool name##_possible(const struct cuda *cuda, const struct mt_call *call) {                                 \
        return can(cuda, call, any_order);                                                                             \
    }                                                                                                                  \
    static int64_t name##_bytes(const struct mt_call *call) {                                                          \
        return bytes_of(call, any_order);                                                                              \
    }                                                                                                                  \
    static enum mt_status queue_##name(const struct cuda_queue *queue, const struct mt_call *call,                     \
                                       struct mt_err *err) {                                                           \
        return queue_plan(queue, call, any_order, err);                                                                \
    }                                                                                                                  \
    const struct attention_impl attention_impl_##name = {#name,        name##_possible, cudnn_missing,                 \
                                                         name##_bytes, queue_##name,    any_order};

#else

static bool never(const struct cuda *cuda, const struct mt_call *call) {
    (void)cuda, (void)call;
    return false;
}
static const char *missing(void) {
    return "this build has no cuDNN: its headers were not found when it was configured";
}
static enum mt_status refuse(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    (void)queue, (void)call;
    return mt_fail(err, MT_EMISSING, "%s", missing());
}
#define CUDNN_IMPL(name, any_order)                                                                                    \
    const struct attention_impl attention_impl_##name = {#name, never, missing, NULL, refuse, any_order};
#endif

CUDNN_IMPL(cudnn, false)
CUDNN_IMPL(cudnn_any_order, true)
