/* Attention and its gradient by cuDNN: the composite graphs of primitive operations that its engines know. */
#ifndef MT_KERNELS_CUDA_ATTENTION_CUDNN_ATTENTION_GRAPH_H
#define MT_KERNELS_CUDA_ATTENTION_CUDNN_ATTENTION_GRAPH_H

#include "kernels/cuda/driver/driver.h"

/* q[b, s, h, d] and kv[b, s, 2, g, d], or with g = h packed as qkv[b, s, 3, h, d]; of bf16 or f16. */
struct cudnn_attention_shape {
    int64_t b, s, h, g, d;
    int64_t window; /* keys that a query sees at most, with causal; 0: all before it */
    float scale;
    enum mt_type type;
    bool packed, causal, backward;
    bool any_order; /* backward: other bits each time */
};

struct cudnn_attention_data {
    const void *q, *kv, *dout, *o_in; /* packed: q and kv are qkv; the last two: backward */
    void *o, *dq, *dkv;               /* forward; backward, packed: both are dqkv */
    void *lse;                        /* written forward, read backward */
    void *scratch;                    /* cudnn_attention_bytes of it */
};

/* An upper bound of what a plan needs, without the library or a GPU: backward, the scores' gradients of all heads; in
 * any order, only sums of q's gradient; with fewer heads of keys and values, their gradients by query head. */
int64_t cudnn_attention_bytes(const struct cudnn_attention_shape *shape);

struct cudnn_attention;

#ifdef MOTLEY_HAS_CUDNN
#include "kernels/cuda/attention/cudnn/cudnn.h"
/* The caller's to free. Fails where the library is missing or has no engine (that gives the same bits every time,
 * unless any order will do). */
enum mt_status cudnn_attention_new(const struct cudnn_attention_shape *shape, const struct cudnn_device *device,
                                   struct cudnn_attention **attention, struct mt_err *err);
void cudnn_attention_free(struct cudnn_attention *attention); /* or null */
int64_t cudnn_attention_workspace(const struct cudnn_attention *attention);
enum mt_status cudnn_attention_run(const struct cudnn_attention *attention, CUstream stream,
                                   const struct cudnn_attention_data *data, struct mt_err *err);
#endif

#endif
