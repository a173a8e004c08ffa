/* What ops.def promises beyond formulas: in-place outputs, exact rounding, dropout's statistics, refusals of calls that
 * are not well formed; and the exponentials that all of it uses. */
#include <ctype.h>

#include "kernels/cpu/c/internal.h"
#include "tests/kernels/op/samples.h"

static const uint64_t seed = 99;

/* Outputs in the memory of the inputs that the table allows are the same bit by bit. */
static void in_place(const struct sample *s, enum mt_type type, double **want) {
    const struct mt_op_info *info = sample_info(s);
    struct mt_tensor t[MT_MAX_IN + MT_MAX_OUT];
    bool any = false;
    for (int o = 0; o < s->nin + s->nout; o++) t[o] = sample_tensor(s, o, type, NULL);
    for (int o = 0; o < s->nout; o++)
        if (info->in_place[o] >= 0) {
            free(t[s->nin + o].data);
            t[s->nin + o].data = t[info->in_place[o]].data;
            any = true;
        }
    if (any) {
        sample_run(s, type, NULL, want);
        call_run(call_of(s->spec->kind, &s->spec->attr, &s->clock, s->nin, t, s->nout, t + s->nin));
    }
    for (int o = 0; o < s->nout; o++) {
        const struct mt_tensor *y = &t[s->nin + o];
        for (int64_t i = 0; any && i < mt_tensor_count(y); i++)
            CHECK(mt_type_load(y->type, y->data, i) == want[o][i], "%s in place: output %d [%lld]", sample_text(s), o,
                  (long long)i);
        if (info->in_place[o] < 0) free(y->data);
    }
    for (int i = 0; i < s->nin; i++) free(t[i].data);
}

/* A damaged copy of a good call must be refused. */
static void refused(const struct mt_call *call, const char *what, const struct sample *s) {
    struct mt_err err = MT_ERR_INIT;
    CHECK(mt_call_check(call, &err) == MT_EBUG, "%s: %s", sample_text(s), what);
    CHECK(strlen(err.text) > 10, "%s: no message", sample_text(s));
}

static int occurrences(const struct sample *s, char letter) {
    int n = 0;
    for (int o = 0; o < s->nin + s->nout; o++)
        for (const char *l = s->axes[o]; *l; l++) n += *l == letter;
    return n;
}

static void refusals(const struct sample *s) {
    struct mt_tensor t[MT_MAX_IN + MT_MAX_OUT];
    int n = s->nin + s->nout;
    for (int o = 0; o < n; o++) t[o] = sample_tensor(s, o, MT_F64, NULL);
    struct mt_call call = call_of(s->spec->kind, &s->spec->attr, &s->clock, s->nin, t, s->nout, t + s->nin);
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_call_check(&call, &err), err);
    for (int o = 0; o < n; o++) {
        struct mt_tensor good = t[o];
        char letter = o < s->nin ? sample_info(s)->in_types[o] : sample_info(s)->out_types[o - s->nin];
        for (int a = 0; a < good.naxes; a++) {
            if (occurrences(s, s->axes[o][a]) < 2 && !isdigit((unsigned char)s->axes[o][a])) continue;
            t[o].extent[a]++;
            refused(&call, "an extent that differs", s);
            t[o].extent[a] = -1;
            refused(&call, "a negative extent", s);
            t[o] = good;
        }
        t[o].naxes = MT_MAX_AXES + 1;
        refused(&call, "too many axes", s);
        t[o] = good;
        bool like = s->spec->kind == MT_OP_fill && o == 0;
        t[o].data = NULL;
        if (!like) refused(&call, "no memory", s);
        t[o] = good;
        t[o].type = good.type == MT_I32 ? MT_F64 : MT_I32;
        if (!like) refused(&call, "a wrong kind of type", s);
        t[o].type = good.type == MT_F64 ? MT_F32 : MT_F64;
        if (letter != '*' && n > 1 && s->spec->kind != MT_OP_count) refused(&call, "a wrong type", s);
        t[o] = good;
    }
    call.nin++;
    if (call.nin > sample_info(s)->max_in) refused(&call, "too many inputs", s);
    call.nin = sample_info(s)->min_in - 1;
    refused(&call, "too few inputs", s);
    for (int o = 0; o < n; o++) free(t[o].data);
}

static void attributes(void) {
    static const struct spec bad[] = {
        {MT_OP_dropout, "xyz>xyz", {.p = 1}, 0},
        {MT_OP_dropout, "xyz>xyz", {.p = NAN}, 0},
        {MT_OP_attention_packed, "bs3hd>bshd,bhs", {.scale = 0}, 0},
        {MT_OP_attention, "bshd,bt2hd>bshd,bhs", {.scale = 0}, 0},
        {MT_OP_attention, "bskd,bt2gd>bskd,bks", {.scale = 1}, 0}, /* 7 query heads for 2 */
        {MT_OP_attention, "bsrgd,bt2ed>bsrgd,brgs", {.scale = 1}, 0},
        {MT_OP_attention, "bsrgzd,bt2rd>bsrgzd,brgzs", {.scale = 1}, 0},
        {MT_OP_attention, "bshd,bt2hd>bshd,bhs", {.scale = 1, .window = 3}, 0}, /* a window, but not causal */
        {MT_OP_attention, "bshd,bt2hd>bshd,bhs", {.scale = 1, .causal = true, .window = -1}, 0},
        {MT_OP_rotary, "bshu>bshu", {.rope_base = 0}, 0},
        {MT_OP_rotary, "bshu>bshu", {.rope_base = 100, .rope_factor = -1}, 0},
        {MT_OP_rotary, "bsuh>bsuh", {.rope_base = 100}, 0}, /* 3 elements a head */
        {MT_OP_separate, "7xz>2xz,3xz,xz,xz", {.axis = 0, .parts = 3}, 0},
        {MT_OP_separate, "7xz>2xz,3xz", {.axis = 0, .parts = 2}, 0},
        {MT_OP_separate, "7xz>2xz,3xz,xz,xz", {.axis = 1, .parts = 4}, 0},
        {MT_OP_separate, "7xz>2xz,3xz,xz,xz", {.axis = 3, .parts = 4}, 0},
        {MT_OP_join, "2xz,2xz>3xz", {.axis = 0}, 0},
        {MT_OP_add, "xyz,xy>xyz", {.axes = 5}, 0},
        {MT_OP_add, "xyz,xyz>xyz", {.axes = 15}, 0},
        {MT_OP_sum, "xyz>xy", {.axes = 2}, 0},
        {MT_OP_matmul, "mk,kn>mn", {.nm = 1, .nn = 1, .nk = 1, .trans_a = true}, 0},
        {MT_OP_matmul, "mk,kn>mn", {.nm = 2, .nn = 1, .nk = 0}, 0},
        {MT_OP_fused_matmul, "mk,kn,n>mn,mn", {.nm = 1, .nn = 1, .nk = 1, .epilogue = MT_OP_cast}, 0},
        {MT_OP_fused_matmul, "mk,kn,n>mn", {.nm = 1, .nn = 1, .nk = 1, .epilogue = MT_OP_gelu}, 0},
        {MT_OP_fused_matmul, "mk,kn,n>mn", {.nm = 1, .nn = 1, .nk = 1, .epilogue = MT_OP_gelu_grad}, 0},
        {MT_OP_fused_matmul, "mk,kn>mn", {.nm = 1, .nn = 1, .nk = 1, .epilogue = MT_OP_relu_grad}, 0},
        {MT_OP_fused_matmul, "mk,kn>mn", {.nm = 1, .nn = 1, .nk = 1, .epilogue = MT_OP_sum}, 0},
        {MT_OP_fused_matmul, "mk,kn>mn,m", {.nm = 1, .nn = 1, .nk = 1, .epilogue = MT_OP_sum}, 0},
        {MT_OP_fused_matmul, "mk,kn,n>mn,n", {.nm = 1, .nn = 1, .nk = 1, .epilogue = MT_OP_sum}, 0},
        {MT_OP_fused_matmul, "mk,kn,n>mn", {.nm = 1, .nn = 1, .nk = 1, .epilogue = MT_OP_add, .accumulate = true}, 0},
        {MT_OP_layer_norm_grad, "xye,xye,xy,xy,e>xye,e,e", {.eps = 1e-5, .epilogue = MT_OP_sum}, 0},
        {MT_OP_layer_norm_grad, "xye,xye,xy,xy,e>xye,e,e,e", {.eps = 1e-5}, 0},
        {MT_OP_layer_norm_grad, "xye,xye,xy,xy,e>xye,e,e", {.eps = 1e-5, .epilogue = MT_OP_add}, 0},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct sample s;
        struct mt_tensor t[MT_MAX_IN + MT_MAX_OUT];
        sample_make(&bad[i], 0, seed, &s);
        sample_fill(&s, seed);
        for (int o = 0; o < s.nin + s.nout; o++) t[o] = sample_tensor(&s, o, MT_F64, NULL);
        struct mt_call call = call_of(bad[i].kind, &bad[i].attr, &s.clock, s.nin, t, s.nout, t + s.nin);
        refused(&call, "a wrong attribute", &s);
        for (int o = 0; o < s.nin + s.nout; o++) free(t[o].data);
        sample_free(&s);
    }
}

/* Bit by bit what one rounding after each operation gives; this file is compiled for a CPU without fused
 * multiply-adds. */
static void exact_updates(void) {
    enum { N = 1003 };
    const struct mt_attr attr = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .decay = 0.1, .lr_scale = 0.5};
    const struct mt_clock clock = {.step = 17, .seed = 1, .lr = 3e-4};
    struct mt_tensor t[4], y[3], scale = call_tensor(MT_F32, 0, NULL);
    for (int i = 0; i < 4; i++) {
        t[i] = call_tensor(MT_F32, 1, (int64_t[]){N});
        for (uint64_t k = 0; k < N; k++) {
            float x = (float)mt_random_normal(seed, (uint64_t)i, k);
            ((float *)t[i].data)[k] = i == 2 ? x * x : x;
        }
    }
    for (int i = 0; i < 3; i++) y[i] = call_tensor(MT_F32, 1, (int64_t[]){N});
    *(float *)scale.data = 0.37f;
    CALL(adamw, &attr, &clock, (t[0], t[1], t[2], t[3], scale), (y[0], y[1], y[2]));

    double p1 = 1, p2 = 1;
    for (int i = 0; i < 17; i++) p1 *= 0.9, p2 *= 0.95;
    float c1 = (float)(1 / (1 - p1)), c2 = (float)(1 / (1 - p2)), lr = (float)(3e-4 * 0.5);
    for (int k = 0; k < N; k++) {
        volatile float g = ((float *)t[3].data)[k] * 0.37f, w = ((float *)t[0].data)[k];
        volatile float old = 0.9f * ((float *)t[1].data)[k], now = (float)(1 - 0.9) * g, m = old + now;
        volatile float old2 = 0.95f * ((float *)t[2].data)[k], now2 = (float)(1 - 0.95) * g;
        now2 = now2 * g;
        volatile float v = old2 + now2, mhat = m * c1, vhat = v * c2;
        volatile float below = sqrtf(vhat) + 1e-8f, move = mhat / below, decay = 0.1f * w;
        move = move + decay;
        move = lr * move;
        CHECK(((float *)y[0].data)[k] == w - move, "adamw: weight %d", k);
        CHECK(((float *)y[1].data)[k] == m && ((float *)y[2].data)[k] == v, "adamw: moments %d", k);
    }
    for (int i = 0; i < 4; i++) free(t[i].data);
    for (int i = 0; i < 3; i++) free(y[i].data);
    free(scale.data);
}

/* cast to bf16 takes the nearest, and of two the even one. */
static void exact_casts(void) {
    enum { N = 4001 };
    struct mt_tensor x = call_tensor(MT_F32, 1, (int64_t[]){N}), y = call_tensor(MT_BF16, 1, (int64_t[]){N});
    float *f = x.data;
    for (uint64_t i = 0; i < N; i++) f[i] = (float)mt_random_normal(seed, 3, i) * (i % 2 ? 1e-3f : 1e20f);
    f[0] = 1 + 0x1p-8f, f[1] = 1 + 0x3p-8f, f[2] = -INFINITY, f[3] = NAN, f[4] = 3.4e38f, f[5] = -0.0f;
    CALL(cast, (&(struct mt_attr){.to = MT_BF16}), NULL, (x), (y));
    CHECK(mt_type_load(MT_BF16, y.data, 0) == 1 && mt_type_load(MT_BF16, y.data, 1) == 1 + 0x1p-6, "ties to even");
    CHECK(mt_type_load(MT_BF16, y.data, 2) == -INFINITY && isnan(mt_type_load(MT_BF16, y.data, 3)), "infinity, NaN");
    CHECK(mt_type_load(MT_BF16, y.data, 4) == INFINITY && signbit(mt_type_load(MT_BF16, y.data, 5)), "overflow, -0");
    for (int i = 6; i < N; i++) {
        double got = mt_type_load(MT_BF16, y.data, i), off = fabs((double)f[i] - got);
        for (int step = -1; step <= 1; step += 2) {
            mt_bf16 other = (mt_bf16)(((mt_bf16 *)y.data)[i] + step);
            CHECK(off <= fabs((double)f[i] - (double)mt_bf16_to_f32(other)), "cast of %g: %g", (double)f[i], got);
        }
    }
    free(x.data), free(y.data);
}

/* layer_norm_grad with its sum against the operators that it is made of, which see dx as it is stored: in f64, and in
 * bf16, where a sum of what was not rounded yet would be far off. */
static void summed_gradient(enum mt_type type, int64_t rows, int64_t e, bool adds, double limit) {
    const struct mt_attr attr = {.eps = 1e-5}, summing = {.eps = 1e-5, .epilogue = MT_OP_sum};
    const struct mt_attr leading = {.axes = 3}, whole = {.axes = 7};
    const int64_t shape[3] = {rows, 3, e};
    enum mt_type acc = mt_type_acc(type);
    struct mt_tensor dy, x, s, q, gamma, add, d1, d2, dx, sum, params[2], total, fused[4];
    struct mt_tensor *wide[] = {&dy, &x, &add, &dx, &sum, &fused[0]}, *rowwise[] = {&s, &q, &d1, &d2};
    struct mt_tensor *columns[] = {&params[0], &params[1], &total, &fused[1], &fused[2], &fused[3]};
    for (int i = 0; i < 6; i++) *wide[i] = call_tensor(type, 3, shape), *columns[i] = call_tensor(acc, 1, &e);
    for (int i = 0; i < 4; i++) *rowwise[i] = call_tensor(acc, 2, shape);
    gamma = call_tensor(type, 1, &e);
    struct mt_tensor *in[] = {&dy, &x, &add, &gamma, &s, &q};
    for (int k = 0; k < 6; k++)
        for (int64_t i = 0; i < mt_tensor_count(in[k]); i++) {
            double value = mt_random_normal(seed, (uint64_t)k, (uint64_t)i);
            mt_type_store(in[k]->type, in[k]->data, i, k == 5 ? (double)e * (1 + value * value) : value);
        }
    CALL(norm_dots, &attr, NULL, (dy, x, s, q, gamma), (d1, d2));
    CALL(norm_grad, &attr, NULL, (dy, x, s, q, gamma, d1, d2), (dx));
    CALL(norm_param_grad, &attr, NULL, (dy, x, s, q), (params[0], params[1]));
    CALL(add, &whole, NULL, (dx, add), (sum));
    if (adds)
        CALL(layer_norm_grad, &summing, NULL, (dy, x, s, q, gamma, add), (fused[0], fused[1], fused[2], fused[3]));
    else
        CALL(layer_norm_grad, &summing, NULL, (dy, x, s, q, gamma), (fused[0], fused[1], fused[2], fused[3]));
    CALL(sum, &leading, NULL, (fused[0]), (total)); /* of dx as it is stored */
    for (int o = 0; o < 4; o++) {
        const struct mt_tensor *want = o == 0 ? adds ? &sum : &dx : o == 3 ? &total : &params[o - 1];
        /* with add the fused kernel rounds once, the others twice */
        double near = o == 0 && mt_type_is_half(type) ? 2e-2 : limit;
        for (int64_t i = 0; i < mt_tensor_count(want); i++) {
            double a = mt_type_load(want->type, want->data, i), b = mt_type_load(want->type, fused[o].data, i);
            CHECK(fabs(a - b) <= near * (1 + fabs(a)), "%s, %lld x %lld: output %d [%lld] is %.9g, not %.9g",
                  mt_type_name(type), (long long)rows, (long long)e, o, (long long)i, b, a);
        }
    }
    for (int i = 0; i < 6; i++) free(wide[i]->data), free(columns[i]->data);
    for (int i = 0; i < 4; i++) free(rowwise[i]->data);
    free(gamma.data);
}

static void summed_gradients(void) {
    static const int64_t rows[] = {1, 11, 67, 300}, widths[] = {1, 7, 24, 131, 768};
    for (int r = 0; r < 4; r++)
        for (int w = 0; w < 5; w++)
            for (int adds = 0; adds < 2; adds++) {
                summed_gradient(MT_F64, rows[r], widths[w], adds, 1e-12);
                summed_gradient(MT_BF16, rows[r], widths[w], adds, 2e-5);
            }
}

static float number(const struct mt_tensor *t) {
    return ((const float *)t->data)[0];
}

/* A gradient that overflowed: the scale of the step is 0, the loss's is halved down to the least; else it grows up to
 * the most. Without scaling of the loss the norm's NaN goes on. */
static void overflows(void) {
    static const float norms[] = {INFINITY, NAN, 4};
    struct mt_tensor t[8];
    for (int i = 0; i < 8; i++) t[i] = call_tensor(MT_F32, 0, NULL);
    const struct mt_attr clip = {.clip = 1}, interval = {.interval = 2};
    for (int i = 0; i < 3; i++) {
        *(float *)t[0].data = norms[i], *(float *)t[1].data = 8, *(float *)t[2].data = 16;
        CALL(grad_scale, &clip, NULL, (t[0], t[1]), (t[3]));
        CHECK(i < 2 ? isnan(number(&t[3])) : number(&t[3]) == 0.125F, "%g", (double)number(&t[3]));
        CALL(grad_scale, &clip, NULL, (t[0], t[1], t[2]), (t[3]));
        CHECK_NEAR(number(&t[3]), i < 2 ? 0 : 1. / 128, 0);
        for (int good = 0; good < 2; good++) {
            *(float *)t[3].data = (float)good, *(float *)t[4].data = 5;
            CALL(loss_scale, &interval, NULL, (t[2], t[3], t[4], t[0]), (t[5], t[6], t[7]));
            CHECK_NEAR(number(&t[5]), i < 2 ? 8 : good ? 32 : 16, 0);
            CHECK_NEAR(number(&t[6]), i < 2 || good ? 0 : 1, 0);
            CHECK_NEAR(number(&t[7]), i < 2 ? 6 : 5, 0);
        }
        for (int most = 0; most < 2; most++) {
            *(float *)t[2].data = most ? (float)MT_LOSS_SCALE_MOST : (float)MT_LOSS_SCALE_LEAST;
            CALL(loss_scale, &interval, NULL, (t[2], t[3], t[4], t[0]), (t[5], t[6], t[7]));
            CHECK_NEAR(number(&t[5]) / number(&t[2]), most ? (i < 2 ? 0.5 : 1) : (i < 2 ? 1 : 2), 0);
        }
    }
    for (int i = 0; i < 8; i++) free(t[i].data);
}

/* With a scale of 0 nothing changes, whatever the gradient is, also weights that decay. */
static void skipped_updates(void) {
    enum { N = 20000 };
    const struct mt_attr attr = {
        .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .decay = 0.1, .lr_scale = 1, .momentum = 0.9};
    const struct mt_clock clock = {.step = 1, .lr = 0.1};
    struct mt_tensor t[8];
    for (int i = 0; i < 7; i++) t[i] = call_tensor(MT_F32, 1, (int64_t[]){N});
    t[7] = call_tensor(MT_F32, 0, NULL);
    *(float *)t[7].data = 0;
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < 3; k++) ((float *)t[k].data)[i] = (float)mt_random_normal(seed, (uint64_t)k, (uint64_t)i);
        ((float *)t[3].data)[i] = i % 3 ? i % 2 ? INFINITY : NAN : 1;
    }
    CALL(adamw, &attr, &clock, (t[0], t[1], t[2], t[3], t[7]), (t[4], t[5], t[6]));
    for (int k = 0; k < 3; k++) CHECK(!memcmp(t[k].data, t[4 + k].data, N * sizeof(float)), "adamw %d", k);
    memset(t[4].data, 0xff, N * sizeof(float)), memset(t[5].data, 0xff, N * sizeof(float));
    CALL(sgd, &attr, &clock, (t[0], t[1], t[3], t[7]), (t[4], t[5]));
    for (int k = 0; k < 2; k++) CHECK(!memcmp(t[k].data, t[4 + k].data, N * sizeof(float)), "sgd %d", k);
    for (int i = 0; i < 8; i++) free(t[i].data);
}

/* Of the operands of tf32 GEMMs only 10 bits after the point count, and of two as near the even one does. */
static void tf32_products(void) {
    const struct mt_attr attr = {.nm = 1, .nn = 1, .nk = 1, .tf32 = true};
    static const float from[] = {1 + 0x1p-11F, 1 + 0x1.8p-10F, 1 + 0x1.2p-11F, 0x1p-100F, -3 - 0x1p-10F, 1e30F},
                       want[] = {1, 1 + 0x1p-9F, 1 + 0x1p-10F, 0x1p-100F, -3, 0};
    enum { N = sizeof from / sizeof *from };
    struct mt_tensor one = call_tensor(MT_F32, 2, (int64_t[]){1, 1}), x = call_tensor(MT_F32, 2, (int64_t[]){1, N});
    struct mt_tensor y = call_tensor(MT_F32, 2, (int64_t[]){1, N});
    *(float *)one.data = 1;
    memcpy(x.data, from, sizeof from);
    CALL(matmul, &attr, NULL, (one, x), (y));
    for (int i = 0; i < N - 1; i++) CHECK_NEAR(((float *)y.data)[i], want[i], 0);
    CHECK_NEAR(((float *)y.data)[N - 1] / 1e30, 1, 0x1p-11);
    free(one.data), free(x.data), free(y.data);
}

static void dropout_statistics(void) {
    enum { N = 1000000 };
    struct mt_tensor x = call_tensor(MT_F32, 1, (int64_t[]){N}), y[4];
    for (int i = 0; i < N; i++) ((float *)x.data)[i] = 1;
    const struct mt_attr attr[2] = {{.p = 0.3, .tag = 1}, {.p = 0.3, .tag = 2}};
    const struct mt_clock clock[3] = {{.step = 1, .seed = 5}, {.step = 2, .seed = 5}, {.step = 1, .seed = 6}};
    for (int i = 0; i < 4; i++) {
        y[i] = call_tensor(MT_F32, 1, (int64_t[]){N});
        CALL(dropout, &attr[i == 3], &clock[i % 3], (x), (y[i]));
        int dropped = 0, together = 0, neighbours = 0;
        for (int k = 0; k < N; k++) {
            float v = ((float *)y[i].data)[k];
            CHECK(v == 0 || fabs((double)v - 1 / 0.7) < 1e-6, "kept: %g", (double)v);
            dropped += v == 0;
            together += v == 0 && ((float *)y[0].data)[k] == 0;
            neighbours += k > 0 && v == 0 && ((float *)y[i].data)[k - 1] == 0;
        }
        CHECK_NEAR(dropped, 0.3 * N, 5 * sqrt(N * 0.3 * 0.7));
        CHECK_NEAR(neighbours, 0.09 * N, 5 * sqrt(N * 0.09));
        if (i) CHECK_NEAR(together, 0.09 * N, 5 * sqrt(N * 0.09 * 0.91)); /* other step, seed, tag: independent */
    }
    for (int i = 0; i < 4; i++) free(y[i].data);
    free(x.data);
}

/* What bounds ids: a table's rows, or classes, whole, in an input or an output, behind axes that '*' matches. */
static void bounds_of_ids(void) {
    static const struct mt_tensor ids = {.type = MT_I32, .naxes = 2, .extent = {2, 3}, .global = {4, 3}},
                                  table = {.naxes = 2, .extent = {7, 5}, .global = {11, 5}},
                                  rows = {.naxes = 3, .extent = {2, 3, 5}, .global = {4, 3, 5}},
                                  statistics = {.naxes = 2, .extent = {2, 3}, .global = {4, 3}};
    static const struct mt_attr attr = {0};
    const struct mt_tensor embedding[] = {table, ids}, grad[] = {rows, ids}, pick[] = {rows, ids},
                           nll[] = {statistics, statistics, statistics, ids};
    const struct mt_call calls[] = {call_of(MT_OP_embedding, &attr, NULL, 2, embedding, 1, &rows),
                                    call_of(MT_OP_embedding_grad, &attr, NULL, 2, grad, 1, &table),
                                    call_of(MT_OP_pick, &attr, NULL, 2, pick, 1, &statistics),
                                    call_of(MT_OP_nll, &attr, NULL, 4, nll, 1, &statistics)};
    static const int64_t want[] = {11, 11, 5, 0};
    for (int i = 0; i < 4; i++) CHECK_EQ(mt_call_ids_below(&calls[i]), want[i]);
}

static void exponentials(void) {
    for (double x = -700; x < 709; x += 0.0371) CHECK_NEAR(mt_c_exp(x) / exp(x), 1, 5e-16);
    for (double x = -87; x < 88.5; x += 0.00371)
        CHECK_NEAR((double)mt_c_expf((float)x) / exp((double)(float)x), 1, 1.5e-7);
    CHECK(mt_c_exp(-INFINITY) == 0 && mt_c_exp(INFINITY) == INFINITY && isnan(mt_c_exp(NAN)), "ends");
    CHECK(mt_c_expf(-INFINITY) == 0 && mt_c_expf(INFINITY) == INFINITY && isnan(mt_c_expf(NAN)), "ends");
    CHECK(mt_c_exp(0) == 1 && mt_c_expf(0) == 1, "at zero");
    CHECK_NEAR(mt_c_exp(-740), exp(-740), 1e-323);
    CHECK_NEAR(mt_c_expf(-100), exp(-100), 2e-45);
}

int main(void) {
    fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < NSPECS; i++) {
        struct sample s;
        double *want[MT_MAX_OUT];
        for (int sizes = 0; sizes < NSIZES; sizes++) {
            sample_make(&specs[i], sizes, seed, &s);
            sample_fill(&s, seed);
            sample_outputs(&s, want);
            for (int type = MT_F64; type < MT_I32; type++) in_place(&s, (enum mt_type)type, want);
            if (sizes == 0) refusals(&s);
            outputs_free(&s, want);
            sample_free(&s);
        }
    }
    attributes();
    exact_updates();
    exact_casts();
    summed_gradients();
    overflows();
    skipped_updates();
    tf32_products();
    dropout_statistics();
    bounds_of_ids();
    exponentials();
    return 0;
}
