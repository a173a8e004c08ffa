/* attention: a task for each head of each sample, in f32. A block of query rows at a time: scores by one GEMM over the
 * keys that the block may see, softmax in place, output by one GEMM. So with a causal mask the blocks above the
 * diagonal are skipped, and the scores stay in the L2 cache. */
#include <math.h>

#include "kernels/cpu/onednn/attention.h"

bool onednn_attention_supports(const struct mt_call *call) {
    return attention_fits(call);
}

static enum mt_status one_block(const struct attention *p, const struct mt_call *call, const struct room *room,
                                int64_t sample, int64_t head, int64_t row0, const struct matrix qkvo[4],
                                struct mt_err *err) {
    int64_t s = p->call.s, d = p->call.d, rows = least(BLOCK_ROWS, s - row0);
    int64_t keys = keys_seen(p, row0 + rows - 1, p->call.t);
    struct matrix scores = {room->scores, p->ld_scores}, o = rows_from(qkvo[3], row0);
    float *lse = (float *)call->out[1].data + (sample * p->call.heads + head) * s + row0, inverse[BLOCK_ROWS];
    enum mt_status st =
        attention_gemm(false, true, rows, keys, d, p->scale, rows_from(qkvo[0], row0), qkvo[1], 0, scores, err);
    if (st) return st;
    for (int64_t r = 0; r < rows; r++) {
        int64_t seen = keys_seen(p, row0 + r, keys);
        float *x = scores.data + r * scores.ld, max, sum;
        row_exponentials(x, seen, keys, &max, &sum);
        lse[r] = max + logf(sum);
        inverse[r] = 1 / sum;
        if (!p->threshold) continue;
        row_factors(p, sample, head, row0 + r, seen, (uint32_t *)room->random, room->factors);
        row_multiply(x, room->factors, seen);
    }
    st = attention_gemm(false, false, rows, d, keys, 1, scores, qkvo[2], 0, o, err);
    for (int64_t r = 0; r < rows; r++) row_scale(o.data + r * o.ld, inverse[r], d);
    return st;
}

static enum mt_status one_head(const struct attention *p, const struct mt_call *call, const struct room *room,
                               int64_t sample, int64_t head, struct mt_err *err) {
    int64_t group = head / p->call.share;
    struct matrix qkvo[4] = {rows_load(query_rows(p, p->call.q, sample, head), room->q),
                             rows_load(key_rows(p, p->call.kv, false, sample, group), room->k),
                             rows_load(key_rows(p, p->call.kv, true, sample, group), room->v),
                             {room->o, p->call.d}};
    enum mt_status st = MT_OK;
    for (int64_t row = 0; !st && row < p->call.s; row += BLOCK_ROWS)
        st = one_block(p, call, room, sample, head, row, qkvo, err);
    if (!st) rows_store(output_rows(p, &call->out[0], sample, head), room->o);
    return st;
}

enum mt_status onednn_attention_run(const struct mt_call *call, struct mt_err *err) {
    return attention_each_head(call, one_head, err);
}
