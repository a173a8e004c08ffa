/* The operators attention and attention_grad, packed or not. */
#include "kernels/cuda/attention/attention.h"

enum { HEAD_MOST = 128 };

static bool supports(const struct mt_call *call) {
    const struct mt_attention a = mt_attention_of(call);
    return (a.q->type == MT_F32 || mt_type_is_half(a.q->type)) && a.d <= HEAD_MOST && a.s < INT32_MAX / 4 &&
           a.t < INT32_MAX / 4 && a.first < INT32_MAX / 4 && a.q_row < INT32_MAX / 4 && a.kv_row < INT32_MAX / 4;
}

/* Enough for every implementation: which one will run is not known yet. */
static int64_t scratch_bytes(const struct cuda *cuda, const struct mt_call *call) {
    int64_t most = attention_rows_bytes(call);
    for (int i = 0; i < ATTENTION_NIMPLS; i++) {
        const struct attention_impl *impl = attention_impls[i];
        int64_t bytes = impl->scratch_bytes && attention_can(impl, cuda, call) ? impl->scratch_bytes(call) : 0;
        if (bytes > most) most = bytes;
    }
    return most;
}

static enum mt_status queue_attention(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    const struct attention_impl *impl;
    const struct mt_attention a = mt_attention_of(call);
    if (!mt_tensor_count(a.q) || !mt_tensor_count(a.kv)) return attention_impl_row.queue(queue, call, err);
    enum mt_status st = attention_choose(queue, call, &impl, err);
    return st ? st : impl->queue(queue, call, err);
}

const struct cuda_op cuda_attention = {supports, scratch_bytes, queue_attention};
const struct cuda_op cuda_attention_grad = {supports, scratch_bytes, queue_attention};
const struct cuda_op cuda_attention_packed = {supports, scratch_bytes, queue_attention};
const struct cuda_op cuda_attention_packed_grad = {supports, scratch_bytes, queue_attention};
