/* Scratch, the copies of heads to and from f32, and the passes over rows of scores. */
#include <dnnl.h>
#include <math.h>
#include <omp.h>

#include "kernels/base/number/rng.h"
#include "kernels/cpu/onednn/attention.h"
#include "kernels/cpu/onednn/exp.h"

struct attention attention_of(const struct mt_call *call) {
    const struct mt_attr *attr = call->attr;
    struct attention p = {.call = mt_attention_of(call),
                          .type = call->in[0].type,
                          .causal = attr->causal,
                          .scale = (float)attr->scale,
                          .keep = (float)(1 / (1 - attr->p)),
                          .threshold = mt_drop_threshold(attr->p)};
    p.ld_scores = round_up(p.call.t, 16) + 16; /* never a multiple of 4 KiB, for which rows would share cache sets */
    if (p.threshold && call->clock) {
        p.seed = call->clock->seed;
        p.stream = mt_drop_stream(attr, call->clock);
    }
    return p;
}

bool attention_fits(const struct mt_call *call) {
    enum mt_type type = call->in[0].type;
    const char *in = mt_op_info[call->kind].in_types, *out = mt_op_info[call->kind].out_types;
    if ((type != MT_F32 && type != MT_BF16) || mt_attention_of(call).window) return false;
    for (int i = 0; i < call->nin + call->nout; i++) {
        const struct mt_tensor *t = i < call->nin ? &call->in[i] : &call->out[i - call->nin];
        char letter = i < call->nin ? in[i] : out[i - call->nin];
        if (t->type != (letter == 'A' ? MT_F32 : type) || mt_tensor_count(t) == 0) return false;
    }
    return true;
}

/* Cut `count` floats from the scratch that *used_bytes has got to; null when the size alone is asked for. */
static float *cut(char *memory, int64_t *used_bytes, int64_t count) {
    float *at = memory ? (float *)(void *)(memory + *used_bytes) : NULL;
    *used_bytes += round_up(count * (int64_t)sizeof(float), 64);
    return at;
}

static int64_t lay_out(const struct attention *p, char *memory, struct room *room) {
    int64_t s = p->call.s, t = p->call.t, d = p->call.d, scores = least(BLOCK_ROWS, s) * p->ld_scores;
    int64_t drawn = p->threshold ? t + 8 : 0, bytes = 0;
    room->scores = cut(memory, &bytes, scores);
    room->factors = cut(memory, &bytes, drawn);
    room->random = cut(memory, &bytes, drawn);
    room->q = cut(memory, &bytes, s * d), room->o = cut(memory, &bytes, s * d);
    room->k = cut(memory, &bytes, t * d), room->v = cut(memory, &bytes, t * d);
    if (!p->call.gradient) return bytes;
    room->grads = cut(memory, &bytes, scores);
    room->delta = cut(memory, &bytes, s);
    room->dout = cut(memory, &bytes, s * d), room->dq = cut(memory, &bytes, s * d);
    room->dk = cut(memory, &bytes, t * d), room->dv = cut(memory, &bytes, t * d);
    return bytes;
}

static int64_t thread_bytes(const struct attention *p) {
    struct room room;
    return lay_out(p, NULL, &room);
}

int64_t onednn_attention_scratch(const struct mt_call *call) {
    struct attention p = attention_of(call);
    return thread_bytes(&p) * onednn_threads();
}

MT_CLONES static void widen(const mt_bf16 *restrict from, int64_t ld, float *restrict to, int64_t rows, int64_t n) {
    for (int64_t i = 0; i < rows; i++)
#pragma omp simd
        for (int64_t j = 0; j < n; j++) to[i * n + j] = mt_bf16_to_f32(from[i * ld + j]);
}

MT_CLONES static void gather(const float *restrict from, int64_t ld, float *restrict to, int64_t rows, int64_t n) {
    for (int64_t i = 0; i < rows; i++)
#pragma omp simd
        for (int64_t j = 0; j < n; j++) to[i * n + j] = from[i * ld + j];
}

MT_CLONES static void scatter(const float *restrict from, float *restrict to, int64_t ld, int64_t rows, int64_t n) {
    for (int64_t i = 0; i < rows; i++)
#pragma omp simd
        for (int64_t j = 0; j < n; j++) to[i * ld + j] = from[i * n + j];
}

MT_CLONES static void narrow(const float *restrict from, mt_bf16 *restrict to, int64_t ld, int64_t rows, int64_t n) {
    for (int64_t i = 0; i < rows; i++)
#pragma omp simd
        for (int64_t j = 0; j < n; j++) to[i * ld + j] = mt_bf16_from_f32(from[i * n + j]);
}

struct matrix rows_load(struct rows r, float *copy) {
    if (r.tensor->type == MT_F32)
        gather((const float *)r.tensor->data + r.at, r.stride, copy, r.n, r.d);
    else
        widen((const mt_bf16 *)r.tensor->data + r.at, r.stride, copy, r.n, r.d);
    return (struct matrix){copy, r.d};
}

void rows_store(struct rows r, const float *copy) {
    if (r.tensor->type == MT_F32)
        scatter(copy, (float *)r.tensor->data + r.at, r.stride, r.n, r.d);
    else
        narrow(copy, (mt_bf16 *)r.tensor->data + r.at, r.stride, r.n, r.d);
}

struct rows query_rows(const struct attention *p, const struct mt_tensor *q, int64_t sample, int64_t head) {
    const struct mt_attention *a = &p->call;
    return (struct rows){q, sample * a->s * a->q_row + head * a->d, a->q_row, a->s, a->d};
}

struct rows output_rows(const struct attention *p, const struct mt_tensor *o, int64_t sample, int64_t head) {
    const struct mt_attention *a = &p->call;
    int64_t row = a->heads * a->d;
    return (struct rows){o, sample * a->s * row + head * a->d, row, a->s, a->d};
}

struct rows key_rows(const struct attention *p, const struct mt_tensor *kv, bool v, int64_t sample, int64_t group) {
    const struct mt_attention *a = &p->call;
    int64_t at = sample * a->t * a->kv_row + (v ? a->v_at : a->k_at) + group * a->d;
    return (struct rows){kv, at, a->kv_row, a->t, a->d};
}

enum mt_status attention_each_head(const struct mt_call *call,
                                   enum mt_status (*one)(const struct attention *p, const struct mt_call *call,
                                                         const struct room *room, int64_t sample, int64_t head,
                                                         struct mt_err *err),
                                   struct mt_err *err) {
    struct attention p = attention_of(call);
    int64_t bytes = thread_bytes(&p), heads = p.call.gradient ? p.call.groups : p.call.heads;
    enum mt_status status = MT_OK;
#pragma omp parallel for schedule(dynamic, 1) num_threads(onednn_threads())
    for (int64_t task = 0; task < p.call.b * heads; task++) {
        struct room room = {0};
        struct mt_err mine;
        lay_out(&p, (char *)call->scratch + omp_get_thread_num() * bytes, &room);
        enum mt_status st = one(&p, call, &room, task / heads, task % heads, &mine);
        if (!st) continue;
#pragma omp critical(onednn_attention)
        if (!status) status = st, *err = mine;
    }
    return status;
}

enum mt_status attention_gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha, struct matrix a,
                              struct matrix b, float beta, struct matrix c, struct mt_err *err) {
    dnnl_status_t st = dnnl_sgemm(trans_a ? 'T' : 'N', trans_b ? 'T' : 'N', m, n, k, alpha, a.data, a.ld, b.data, b.ld,
                                  beta, c.data, c.ld);
    if (!st) return MT_OK;
    return mt_fail(err, st == dnnl_out_of_memory ? MT_ESYSTEM : MT_EBUG, "oneDNN: sgemm m=%lld n=%lld k=%lld: %s",
                   (long long)m, (long long)n, (long long)k, st == dnnl_out_of_memory ? "out of memory" : "refused");
}

MT_CLONES void row_exponentials(float *x, int64_t n, int64_t padded, float *max, float *sum) {
    float m = -INFINITY, s = 0;
#pragma omp simd reduction(max : m)
    for (int64_t j = 0; j < n; j++) m = x[j] > m ? x[j] : m;
#pragma omp simd reduction(+ : s)
    for (int64_t j = 0; j < n; j++) s += x[j] = fast_exp(x[j] - m);
    for (int64_t j = n; j < padded; j++) x[j] = 0;
    *max = m, *sum = s;
}

MT_CLONES static void threshold_factors(const uint32_t *random, uint32_t threshold, float keep, int64_t n,
                                        float *factor) {
#pragma omp simd
    for (int64_t j = 0; j < n; j++) factor[j] = random[j] < threshold ? 0 : keep;
}

void row_factors(const struct attention *p, int64_t sample, int64_t head, int64_t row, int64_t n, uint32_t *random,
                 float *factor) {
    const struct mt_attention *a = &p->call;
    int64_t whole = (a->first_sample + sample) * a->all_heads + mt_attention_head(a, head);
    uint64_t first = (uint64_t)((whole * a->all_s + a->first + row) * a->t), last = first + (uint64_t)n - 1;
    mt_philox_blocks(p->seed, p->stream, first >> 2, (int64_t)((last >> 2) - (first >> 2)) + 1, random);
    threshold_factors(random + (first & 3), p->threshold, p->keep, n, factor);
}

MT_CLONES void row_multiply(float *x, const float *factor, int64_t n) {
#pragma omp simd
    for (int64_t j = 0; j < n; j++) x[j] *= factor[j];
}

MT_CLONES void row_gradient(float *x, float *d, const float *factor, int64_t n, int64_t padded, float lse, float delta,
                            float scale) {
    if (factor) {
#pragma omp simd
        for (int64_t j = 0; j < n; j++) {
            float p = fast_exp(x[j] - lse);
            x[j] = p * factor[j];
            d[j] = p * (d[j] * factor[j] - delta) * scale;
        }
    } else {
#pragma omp simd
        for (int64_t j = 0; j < n; j++) {
            float p = fast_exp(x[j] - lse);
            x[j] = p;
            d[j] = p * (d[j] - delta) * scale;
        }
    }
    for (int64_t j = n; j < padded; j++) x[j] = d[j] = 0;
}

MT_CLONES void row_scale(float *x, float factor, int64_t n) {
#pragma omp simd
    for (int64_t j = 0; j < n; j++) x[j] *= factor;
}

MT_CLONES float row_dot(const float *x, const float *y, int64_t n) {
    float s = 0;
#pragma omp simd reduction(+ : s)
    for (int64_t j = 0; j < n; j++) s += x[j] * y[j];
    return s;
}
