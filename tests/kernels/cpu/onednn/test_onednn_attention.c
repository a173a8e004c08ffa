/* Attention and its gradient by the oneDNN module against whole matrices in double: ragged lengths, one block of rows
 * and several, causal or not, dropped or not, boxes that begin in the middle of the batch and of the heads; and queries
 * apart from keys and values (attention_box.h). */
#include "kernels/base/arena.h"
#include "kernels/base/number/rng.h"
#include "kernels/op/op.h"
#include "tests/kernels/op/attention_box.h"

/* Several blocks of query rows, the last one ragged. */
#ifdef MOTLEY_SANITIZE
enum { LONG = 141 };
#else
enum { LONG = 301 };
#endif

static const uint64_t seed = 20261121;
static uint64_t drawn;
static const struct mt_backend *onednn;

struct problem {
    int64_t b, s, h, d, b0, h0, all_b, all_h;
    bool causal;
    double p;
    enum mt_type type;
};

static struct mt_tensor tensor(enum mt_type type, int naxes, const int64_t *extent) {
    struct mt_tensor t = {.type = type, .naxes = naxes};
    for (int a = 0; a < naxes; a++) t.extent[a] = t.global[a] = extent[a];
    int64_t n = mt_tensor_count(&t);
    t.data = mt_malloc((size_t)(n * mt_type_size(type)));
    for (int64_t i = 0; i < n; i++) mt_type_store(type, t.data, i, NAN);
    return t;
}

static void draw(struct mt_tensor *t, double spread) {
    for (int64_t i = 0; i < mt_tensor_count(t); i++)
        mt_type_store(t->type, t->data, i, spread * mt_random_normal(seed, 1, drawn++));
}

static void run(const struct mt_backend *backend, struct mt_call *call) {
    struct mt_err err = MT_ERR_INIT;
    CHECK(backend->supports(call), "%s declined", backend->name);
    int64_t bytes = backend->scratch_bytes(call);
    call->scratch = bytes ? aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64) : NULL;
    if (bytes) memset(call->scratch, 0xff, (size_t)bytes);
    CHECK_OK(backend->run(call, &err), err);
    free(call->scratch);
}

static void check_close(const struct mt_tensor *got, const double *want, const char *what) {
    double diff = 0, norm = 0;
    for (int64_t i = 0; i < mt_tensor_count(got); i++) {
        double g = mt_type_load(got->type, got->data, i);
        CHECK(isfinite(g), "%s[%lld] is %g", what, (long long)i, g);
        diff += (g - want[i]) * (g - want[i]), norm += want[i] * want[i];
    }
    double error = sqrt(diff / norm), allowed = got->type == MT_F32 ? 1e-5 : 1e-2;
    CHECK(error <= allowed, "%s: relative error %g", what, error);
}

/* One head of one sample, whole: probs[s, s] before, kept[s, s] the factors of dropout. */
struct reference {
    const struct problem *p;
    double *probs, *kept, *o, *lse, *dqkv;
};

static double at(const struct mt_tensor *t, int64_t i) {
    return mt_type_load(t->type, t->data, i);
}

static int64_t qkv_at(const struct problem *p, int64_t b, int64_t i, int part, int64_t h, int64_t e) {
    return (((b * p->s + i) * 3 + part) * p->h + h) * p->d + e;
}

static void forward(struct reference *r, const struct mt_tensor *qkv, double scale, uint64_t stream, int64_t b,
                    int64_t h) {
    const struct problem *p = r->p;
    for (int64_t i = 0; i < p->s; i++) {
        int64_t seen = p->causal ? i + 1 : p->s;
        double *row = r->probs + i * p->s, max = -INFINITY, sum = 0;
        for (int64_t j = 0; j < seen; j++) {
            row[j] = 0;
            for (int64_t e = 0; e < p->d; e++)
                row[j] += scale * at(qkv, qkv_at(p, b, i, 0, h, e)) * at(qkv, qkv_at(p, b, j, 1, h, e));
            max = fmax(max, row[j]);
        }
        for (int64_t j = 0; j < seen; j++) sum += row[j] = exp(row[j] - max);
        r->lse[(b * p->h + h) * p->s + i] = max + log(sum);
        for (int64_t j = 0; j < p->s; j++) {
            int64_t index = (((p->b0 + b) * p->all_h + p->h0 + h) * p->s + i) * p->s + j;
            bool drop = p->p > 0 && mt_random_u32(seed, stream, (uint64_t)index) < p->p * 4294967296.0;
            row[j] = j < seen ? row[j] / sum : 0;
            r->kept[i * p->s + j] = drop ? 0 : 1 / (1 - p->p);
        }
        for (int64_t e = 0; e < p->d; e++) {
            double o = 0;
            for (int64_t j = 0; j < seen; j++) o += row[j] * r->kept[i * p->s + j] * at(qkv, qkv_at(p, b, j, 2, h, e));
            r->o[((b * p->s + i) * p->h + h) * p->d + e] = o;
        }
    }
}

static void backward(struct reference *r, const struct mt_tensor *dout, const struct mt_tensor *qkv, double scale,
                     int64_t b, int64_t h) {
    const struct problem *p = r->p;
    double *grad = mt_calloc((size_t)p->s, sizeof *grad);
    for (int64_t i = 0; i < p->s; i++) {
        const double *row = r->probs + i * p->s, *kept = r->kept + i * p->s;
        double mean = 0;
        for (int64_t j = 0; j < p->s; j++) {
            grad[j] = 0;
            for (int64_t e = 0; e < p->d; e++) {
                double d = at(dout, ((b * p->s + i) * p->h + h) * p->d + e);
                grad[j] += kept[j] * d * at(qkv, qkv_at(p, b, j, 2, h, e));
                r->dqkv[qkv_at(p, b, j, 2, h, e)] += row[j] * kept[j] * d;
            }
            mean += row[j] * grad[j];
        }
        for (int64_t j = 0; j < p->s; j++) {
            double d = scale * row[j] * (grad[j] - mean);
            for (int64_t e = 0; e < p->d; e++) {
                r->dqkv[qkv_at(p, b, i, 0, h, e)] += d * at(qkv, qkv_at(p, b, j, 1, h, e));
                r->dqkv[qkv_at(p, b, j, 1, h, e)] += d * at(qkv, qkv_at(p, b, i, 0, h, e));
            }
        }
    }
    free(grad);
}

static void one(const struct problem *p) {
    struct mt_attr attr = {.scale = 1 / sqrt((double)p->d), .causal = p->causal, .p = p->p, .tag = 77};
    struct mt_clock clock = {.step = 3, .seed = seed};
    int64_t qkv_extent[5] = {p->b, p->s, 3, p->h, p->d}, o_extent[4] = {p->b, p->s, p->h, p->d};
    int64_t lse_extent[3] = {p->b, p->h, p->s};
    struct mt_tensor out[2] = {tensor(p->type, 4, o_extent), tensor(MT_F32, 3, lse_extent)};
    struct mt_tensor in[4] = {tensor(p->type, 4, o_extent), tensor(p->type, 5, qkv_extent), out[0], out[1]};
    struct mt_tensor dqkv = tensor(p->type, 5, qkv_extent);
    out[1].offset[0] = p->b0, out[1].offset[1] = p->h0, out[1].global[0] = p->all_b, out[1].global[1] = p->all_h;
    in[3] = out[1];
    in[1].offset[0] = p->b0, in[1].offset[3] = p->h0, in[1].global[0] = p->all_b, in[1].global[3] = p->all_h;
    draw(&in[1], 1.5), draw(&in[0], 1);
    size_t squares = (size_t)(p->s * p->s), n = (size_t)mt_tensor_count(&in[1]);
    struct reference r = {
        p, mt_calloc(squares, 8), mt_calloc(squares, 8), mt_calloc(n, 8), mt_calloc(n, 8), mt_calloc(n, 8)};
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t h = 0; h < p->h; h++) {
            forward(&r, &in[1], attr.scale, 77 + (UINT64_C(3) << 20), b, h);
            backward(&r, &in[0], &in[1], attr.scale, b, h);
        }
    char what[200];
    snprintf(what, sizeof what, "b=%lld s=%lld h=%lld d=%lld causal=%d p=%g %s", (long long)p->b, (long long)p->s,
             (long long)p->h, (long long)p->d, p->causal, p->p, mt_type_name(p->type));
    struct mt_call call = {
        .kind = MT_OP_attention_packed, .attr = &attr, .nin = 1, .nout = 2, .in = &in[1], .out = out, .clock = &clock};
    run(onednn, &call);
    check_close(&out[0], r.o, what);
    check_close(&out[1], r.lse, what);
    struct mt_call gradient = {.kind = MT_OP_attention_packed_grad,
                               .attr = &attr,
                               .nin = 4,
                               .nout = 1,
                               .in = in,
                               .out = &dqkv,
                               .clock = &clock};
    run(onednn, &gradient);
    check_close(&dqkv, r.dqkv, what);
    if (p->type == MT_F32) { /* plain C drops the same elements: its output has the same reference */
        run(&mt_backend_c, &call);
        check_close(&out[0], r.o, "plain C");
    }
    free(r.probs), free(r.kept), free(r.o), free(r.lse), free(r.dqkv);
    free(in[0].data), free(in[1].data), free(out[0].data), free(out[1].data), free(dqkv.data);
}

static bool run_onednn(void *context, struct mt_call *call) {
    (void)context;
    run(onednn, call);
    return true;
}

int main(void) {
    struct mt_err err = MT_ERR_INIT;
    onednn = mt_backend_onednn(&err);
    if (!onednn) {
        printf("skipped: %s\n", err.text);
        return 77;
    }
    printf("seed %llu\n", (unsigned long long)seed);
    static const struct problem sizes[] = {
        {.b = 1, .s = 1, .h = 1, .d = 1, .all_b = 1, .all_h = 1},
        {.b = 2, .s = 7, .h = 3, .d = 5, .b0 = 4, .h0 = 2, .all_b = 9, .all_h = 6},
        {.b = 1, .s = 128, .h = 2, .d = 16, .all_b = 1, .all_h = 2},
        {.b = 2, .s = LONG, .h = 1, .d = 64, .b0 = 1, .h0 = 1, .all_b = 3, .all_h = 4}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int bits = 0; bits < 8; bits++) {
            struct problem p = sizes[i];
            p.causal = bits & 1, p.p = bits & 2 ? 0.2 : 0, p.type = bits & 4 ? MT_BF16 : MT_F32;
            if (p.s == 1 && p.p > 0) continue; /* a single element: nothing to drop relative to */
            one(&p);
        }
    each_attention_box(MT_F32, run_onednn, NULL);
    each_attention_box(MT_BF16, run_onednn, NULL);
    return 0;
}
