/* attention: a task for each head of each sample, in f32. A block of query rows at a time: scores by one GEMM over the
 * keys that the block may see, softmax in place, output by one GEMM. So with a causal mask the blocks above the
 * diagonal are skipped, and the scores stay in the L2 cache. */
#include <math.h>

#include "kernels/cpu/onednn/attention.h"

bool onednn_attention_supports(const struct mt_call *call) {
    return attention_types_fit(call, 1, 2);
}

static enum mt_status one_block(const struct attention *p, const struct mt_call *call, const struct room *room,
                                int64_t sample, int64_t head, int64_t row0, const struct matrix qkvo[4],
                                struct mt_err *err) {
    int64_t rows = least(BLOCK_ROWS, p->seq - row0), keys = p->causal ? row0 + rows : p->seq;
    struct matrix scores = {room->scores, p->ld_scores}, o = rows_from(qkvo[3], row0);
    float *lse = (float *)call->out[1].data + (sample * p->heads + head) * p->seq + row0, inverse[BLOCK_ROWS];
    enum mt_status st =
        attention_gemm(false, true, rows, keys, p->size, p->scale, rows_from(qkvo[0], row0), qkvo[1], 0, scores, err);
    if (st) return st;
    for (int64_t r = 0; r < rows; r++) {
        int64_t seen = p->causal ? row0 + r + 1 : keys;
        float *x = scores.data + r * scores.ld, max, sum;
        row_exponentials(x, seen, keys, &max, &sum);
        lse[r] = max + logf(sum);
        inverse[r] = 1 / sum;
        if (!p->threshold) continue;
        row_factors(p, sample, head, row0 + r, seen, (uint32_t *)room->random, room->factors);
        row_multiply(x, room->factors, seen);
    }
    st = attention_gemm(false, false, rows, p->size, keys, 1, scores, qkvo[2], 0, o, err);
    for (int64_t r = 0; r < rows; r++) row_scale(o.data + r * o.ld, inverse[r], p->size);
    return st;
}

static enum mt_status one_head(const struct attention *p, const struct mt_call *call, const struct room *room,
                               int64_t sample, int64_t head, struct mt_err *err) {
    const struct mt_tensor *qkv = &call->in[0], *o = &call->out[0];
    struct matrix qkvo[4] = {head_of(p, qkv, 3, 0, sample, head, room->q),
                             head_of(p, qkv, 3, 1, sample, head, room->k),
                             head_of(p, qkv, 3, 2, sample, head, room->v),
                             {room->o, p->size}};
    enum mt_status st = MT_OK;
    for (int64_t row = 0; !st && row < p->seq; row += BLOCK_ROWS)
        st = one_block(p, call, room, sample, head, row, qkvo, err);
    if (!st) head_store(p, o, 1, 0, sample, head, 0, p->seq, room->o);
    return st;
}

enum mt_status onednn_attention_run(const struct mt_call *call, struct mt_err *err) {
    return attention_each_head(call, one_head, err);
}
