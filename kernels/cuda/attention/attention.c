/* Attention and its gradient: which way to go. */
#include "kernels/cuda/attention/attention.h"

enum { HEAD_MOST = 128 };

const struct attention_way *const attention_ways[ATTENTION_NWAYS] = {
#define WAY(name) &attention_way_##name,
#include "kernels/cuda/attention/attention_ways.def"
#undef WAY
};

bool attention_aligned(const struct mt_call *call, uintptr_t size_bytes) {
    uintptr_t all = 0;
    for (int i = 0; i < call->nin; i++) all |= (uintptr_t)call->in[i].data;
    for (int i = 0; i < call->nout; i++) all |= (uintptr_t)call->out[i].data;
    return all % size_bytes == 0;
}

bool attention_can(const struct attention_way *way, const struct cuda *cuda, const struct mt_call *call) {
    bool allowed = !way->any_order || (call->kind == MT_OP_attention_grad && call->attr->any_order);
    return allowed && way->possible(cuda, call) && !(way->missing && way->missing());
}

static bool supports(const struct mt_call *call) {
    const struct mt_tensor *x = attention_qkv(call);
    return (x->type == MT_F32 || mt_type_is_half(x->type)) && x->extent[4] <= HEAD_MOST &&
           x->extent[1] < INT32_MAX / 4 && 3 * x->extent[3] * x->extent[4] < INT32_MAX / 4;
}

int64_t attention_rows_bytes(const struct mt_call *call) {
    const struct mt_tensor *x = attention_qkv(call);
    return call->kind == MT_OP_attention ? 0 : x->extent[0] * x->extent[3] * x->extent[1] * 2 * (int64_t)sizeof(float);
}

/* Enough for any way: which it will be is not known yet. */
static int64_t scratch_bytes(const struct cuda *cuda, const struct mt_call *call) {
    int64_t most = attention_rows_bytes(call);
    for (int i = 0; i < ATTENTION_NWAYS; i++) {
        const struct attention_way *way = attention_ways[i];
        int64_t bytes = way->scratch_bytes && attention_can(way, cuda, call) ? way->scratch_bytes(call) : 0;
        if (bytes > most) most = bytes;
    }
    return most;
}

static enum mt_status queue_attention(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    const struct attention_way *way;
    if (!mt_tensor_count(attention_qkv(call))) return attention_way_row.queue(queue, call, err);
    enum mt_status st = attention_choose(queue, call, &way, err);
    return st ? st : way->queue(queue, call, err);
}

const struct cuda_op cuda_attention = {supports, scratch_bytes, queue_attention};
const struct cuda_op cuda_attention_grad = {supports, scratch_bytes, queue_attention};
