/* attention_grad: as in attention.c, a task for each head and a block of query rows at a time; five GEMMs for each
 * block, with the scores recomputed from q and k. With P the probabilities, D the dropout factors and o = (P D) v:
 *
 *     dv = (P D)' do    dP = (do v') D    dS = P (dP - rowsum(do o))    dq = scale dS k    dk = scale dS' q
 *
 * Blocks are processed from the last to the first: the last sees all keys, so it overwrites dk and dv, and the others
 * add. */

#include "kernels/cpu/onednn/attention.h"

bool onednn_attention_grad_supports(const struct mt_call *call) {
    return attention_types_fit(call, 3, 1) && call->in[3].type == MT_F32;
}

struct head {
    int64_t sample, head;
    struct matrix q, k, v, dout, dq, dk, dv;
    const float *lse;
};

static enum mt_status one_block(const struct attention *p, const struct room *room, const struct head *h, int64_t row0,
                                struct mt_err *err) {
    int64_t rows = least(BLOCK_ROWS, p->seq - row0), keys = p->causal ? row0 + rows : p->seq, d = p->size;
    struct matrix s = {room->scores, p->ld_scores}, g = {room->grads, p->ld_scores};
    struct matrix q = rows_from(h->q, row0), dout = rows_from(h->dout, row0);
    float old = row0 + rows < p->seq ? 1 : 0;
    enum mt_status st = attention_gemm(false, true, rows, keys, d, p->scale, q, h->k, 0, s, err);
    if (!st) st = attention_gemm(false, true, rows, keys, d, 1, dout, h->v, 0, g, err);
    if (st) return st;
    for (int64_t r = 0; r < rows; r++) {
        int64_t row = row0 + r, seen = p->causal ? row + 1 : keys;
        if (p->threshold) row_factors(p, h->sample, h->head, row, seen, (uint32_t *)room->random, room->factors);
        row_gradient(s.data + r * s.ld, g.data + r * g.ld, p->threshold ? room->factors : NULL, seen, keys, h->lse[row],
                     room->delta[row], p->scale);
    }
    st = attention_gemm(true, false, keys, d, rows, 1, s, dout, old, h->dv, err);
    if (!st) st = attention_gemm(true, false, keys, d, rows, 1, g, q, old, h->dk, err);
    if (!st) st = attention_gemm(false, false, rows, d, keys, 1, g, h->k, 0, rows_from(h->dq, row0), err);
    return st;
}

static enum mt_status one_head(const struct attention *p, const struct mt_call *call, const struct room *room,
                               int64_t sample, int64_t head, struct mt_err *err) {
    const struct mt_tensor *dout = &call->in[0], *qkv = &call->in[1], *o = &call->in[2], *dqkv = &call->out[0];
    struct head h = {.sample = sample, .head = head, .dout = head_of(p, dout, 1, 0, sample, head, room->dout)};
    struct matrix *parts[] = {&h.q, &h.k, &h.v}, *grads[] = {&h.dq, &h.dk, &h.dv};
    float *copies[] = {room->q, room->k, room->v}, *results[] = {room->dq, room->dk, room->dv};
    for (int i = 0; i < 3; i++) {
        *parts[i] = head_of(p, qkv, 3, i, sample, head, copies[i]);
        *grads[i] = (struct matrix){results[i], p->size};
    }
    struct matrix out = head_of(p, o, 1, 0, sample, head, room->o);
    h.lse = (const float *)call->in[3].data + (sample * p->heads + head) * p->seq;
    for (int64_t i = 0; i < p->seq; i++)
        room->delta[i] = row_dot(h.dout.data + i * h.dout.ld, out.data + i * out.ld, p->size);
    enum mt_status st = MT_OK;
    for (int64_t row = (p->seq - 1) / BLOCK_ROWS * BLOCK_ROWS; !st && row >= 0; row -= BLOCK_ROWS)
        st = one_block(p, room, &h, row, err);
    for (int i = 0; !st && i < 3; i++) head_store(p, dqkv, 3, i, sample, head, 0, p->seq, results[i]);
    return st;
}

enum mt_status onednn_attention_grad_run(const struct mt_call *call, struct mt_err *err) {
    return attention_each_head(call, one_head, err);
}
