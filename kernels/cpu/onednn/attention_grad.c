/* attention_grad: as in attention.c, a task for each head of keys and values and a block of query rows at a time; five
 * GEMMs for each block, with the scores recomputed from q and k. With P the probabilities, D the dropout factors and
 * o = (P D) v:
 *
 *     dv = (P D)' do    dP = (do v') D    dS = P (dP - rowsum(do o))    dq = scale dS k    dk = scale dS' q
 *
 * The query heads of a head of keys come one after another. Blocks are processed from the last to the first: the first
 * head's last block overwrites dk and dv of the keys that it sees, behind which they are zero, and the others add. */

#include "kernels/cpu/onednn/attention.h"

bool onednn_attention_grad_supports(const struct mt_call *call) {
    return attention_fits(call);
}

struct head {
    int64_t sample, head;
    bool first; /* of its head of keys */
    struct matrix q, k, v, dout, dq, dk, dv;
    const float *lse;
};

static enum mt_status one_block(const struct attention *p, const struct room *room, const struct head *h, int64_t row0,
                                struct mt_err *err) {
    int64_t rows = least(BLOCK_ROWS, p->call.s - row0), keys = keys_seen(p, row0 + rows - 1, p->call.t), d = p->call.d;
    struct matrix s = {room->scores, p->ld_scores}, g = {room->grads, p->ld_scores};
    struct matrix q = rows_from(h->q, row0), dout = rows_from(h->dout, row0);
    float old = h->first && row0 + rows == p->call.s ? 0 : 1;
    enum mt_status st = attention_gemm(false, true, rows, keys, d, p->scale, q, h->k, 0, s, err);
    if (!st) st = attention_gemm(false, true, rows, keys, d, 1, dout, h->v, 0, g, err);
    if (st) return st;
    for (int64_t r = 0; r < rows; r++) {
        int64_t row = row0 + r, seen = keys_seen(p, row, keys);
        if (p->threshold) row_factors(p, h->sample, h->head, row, seen, (uint32_t *)room->random, room->factors);
        row_gradient(s.data + r * s.ld, g.data + r * g.ld, p->threshold ? room->factors : NULL, seen, keys, h->lse[row],
                     room->delta[row], p->scale);
    }
    st = attention_gemm(true, false, keys, d, rows, 1, s, dout, old, h->dv, err);
    if (!st) st = attention_gemm(true, false, keys, d, rows, 1, g, q, old, h->dk, err);
    if (!st) st = attention_gemm(false, false, rows, d, keys, 1, g, h->k, 0, rows_from(h->dq, row0), err);
    return st;
}

/* One query head: dq, and its part of dk and dv. */
static enum mt_status one_head(const struct attention *p, const struct mt_call *call, const struct room *room,
                               struct head *h, struct mt_err *err) {
    const struct mt_attention *a = &p->call;
    h->q = rows_load(query_rows(p, a->q, h->sample, h->head), room->q);
    h->dout = rows_load(output_rows(p, &call->in[0], h->sample, h->head), room->dout);
    struct matrix out = rows_load(output_rows(p, &call->in[call->nin - 2], h->sample, h->head), room->o);
    h->lse = (const float *)call->in[call->nin - 1].data + (h->sample * a->heads + h->head) * a->s;
    for (int64_t i = 0; i < a->s; i++)
        room->delta[i] = row_dot(h->dout.data + i * h->dout.ld, out.data + i * out.ld, a->d);
    enum mt_status st = MT_OK;
    for (int64_t row = (a->s - 1) / BLOCK_ROWS * BLOCK_ROWS; !st && row >= 0; row -= BLOCK_ROWS)
        st = one_block(p, room, h, row, err);
    if (!st) rows_store(query_rows(p, a->dq, h->sample, h->head), room->dq);
    return st;
}

static enum mt_status one_group(const struct attention *p, const struct mt_call *call, const struct room *room,
                                int64_t sample, int64_t group, struct mt_err *err) {
    const struct mt_attention *a = &p->call;
    struct head h = {.sample = sample, .dq = {room->dq, a->d}, .dk = {room->dk, a->d}, .dv = {room->dv, a->d}};
    h.k = rows_load(key_rows(p, a->kv, false, sample, group), room->k);
    h.v = rows_load(key_rows(p, a->kv, true, sample, group), room->v);
    int64_t keys = keys_seen(p, a->s - 1, a->t);
    memset(room->dk + keys * a->d, 0, (size_t)((a->t - keys) * a->d) * sizeof(float));
    memset(room->dv + keys * a->d, 0, (size_t)((a->t - keys) * a->d) * sizeof(float));
    enum mt_status st = MT_OK;
    for (int64_t i = 0; !st && i < a->share; i++) {
        h.head = group * a->share + i, h.first = i == 0;
        st = one_head(p, call, room, &h, err);
    }
    if (st) return st;
    rows_store(key_rows(p, a->dkv, false, sample, group), room->dk);
    rows_store(key_rows(p, a->dkv, true, sample, group), room->dv);
    return MT_OK;
}

enum mt_status onednn_attention_grad_run(const struct mt_call *call, struct mt_err *err) {
    return attention_each_head(call, one_group, err);
}
