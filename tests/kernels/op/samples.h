/* Calls of every operator on random data, for the tests of operators: whole or any box of them, in any precision.
 *
 *     struct sample s;
 *     sample_make(&specs[i], sizes, seed, &s);
 *     sample_run(&s, MT_F32, NULL, outputs);     // double[], poisoned before
 *     sample_free(&s);
 *
 * Axes have one letter each, the same letter wherever the extent is the same index. Inputs are such that every
 * precision holds them exactly, so that f64 is the right answer for all. */
#ifndef MT_TESTS_KERNELS_OP_SAMPLES_H
#define MT_TESTS_KERNELS_OP_SAMPLES_H

#include "kernels/base/number/rng.h"
#include "tests/kernels/op/calls.h"

struct spec {
    enum mt_op_kind kind;
    const char *shapes; /* "abk,kn>abn" */
    struct mt_attr attr;
    const char *whole; /* indices that cannot be split; null: none */
};

/* Attention and its gradient: full, causal, in a window, and with dropout. */
#define ATTENTIONS(forward, backward, whole)                                                                           \
    {MT_OP_attention, forward, {.scale = 0.25}, whole},                                                                \
        {MT_OP_attention, forward, {.scale = 0.25, .causal = true}, whole},                                            \
        {MT_OP_attention, forward, {.scale = 0.25, .causal = true, .p = 0.2, .tag = 9}, whole},                        \
        {MT_OP_attention, forward, {.scale = 0.25, .causal = true, .window = 5}, whole},                               \
        {MT_OP_attention_grad, backward, {.scale = 0.25, .causal = true, .window = 5, .p = 0.2, .tag = 9}, whole},     \
        {MT_OP_attention_grad, backward, {.scale = 0.25}, whole},                                                      \
        {MT_OP_attention_grad, backward, {.scale = 0.25, .causal = true}, whole},                                      \
        {MT_OP_attention_grad, backward, {.scale = 0.25, .causal = true, .p = 0.2, .tag = 9}, whole},

static const struct spec specs[] = {
    {MT_OP_matmul, "abk,kn>abn", {.nm = 2, .nn = 1, .nk = 1}, 0},
    {MT_OP_matmul, "abk,nck>abnc", {.nm = 2, .nn = 2, .nk = 1, .trans_b = true}, 0},
    {MT_OP_matmul, "abm,abn>mn", {.nm = 1, .nn = 1, .nk = 2, .trans_a = true, .out_acc = true}, 0},
    {MT_OP_matmul, "km,nk>mn", {.nm = 1, .nn = 1, .nk = 1, .trans_a = true, .trans_b = true}, 0},
    {MT_OP_matmul, "mk,kn>mn", {.nm = 1, .nn = 1, .nk = 1, .out_acc = true, .accumulate = true}, "k"},
    {MT_OP_add, "xyz,xyz>xyz", {.axes = 7}, 0},
    {MT_OP_add, "xyz,z>xyz", {.axes = 4}, 0},
    {MT_OP_add, "xyz,xy>xyz", {.axes = 3}, 0},
    {MT_OP_add, "xyz,xz>xyz", {.axes = 5}, 0},
    {MT_OP_add, "xyz,>xyz", {.axes = 0}, 0},
    {MT_OP_sum, "xyz>xy", {.axes = 4}, 0},
    {MT_OP_sum, "xyz>z", {.axes = 3}, 0},
    {MT_OP_sum, "xyz>", {.axes = 7}, 0},
    {MT_OP_sum, "xyz>y", {.axes = 5}, 0},
    {MT_OP_sum, "xyz>xz", {.axes = 2, .accumulate = true}, "y"},
    {MT_OP_sum, "xyz>xyz", {.axes = 0}, 0},
    {MT_OP_sum, ">", {.axes = 0}, 0},
    {MT_OP_gelu, "xyz>xyz", {0}, 0},
    {MT_OP_gelu_grad, "xyz,xyz>xyz", {0}, 0},
    {MT_OP_relu, "xyz>xyz", {0}, 0},
    {MT_OP_relu_grad, "xyz,xyz>xyz", {0}, 0},
    {MT_OP_dropout, "xyz>xyz", {.p = 0.3, .tag = 5}, 0},
    {MT_OP_dropout, "z>z", {.p = 0, .tag = 5}, 0},
    {MT_OP_norm_sqdev, "xye,xy>xy", {0}, 0},
    {MT_OP_norm_apply, "xye,xy,xy,e,e>xye", {.eps = 1e-5}, 0},
    {MT_OP_norm_apply, "xye,xy,xy,e>xye", {.eps = 1e-5}, 0},
    {MT_OP_norm_dots, "xye,xye,xy,xy,e>xy,xy", {.eps = 1e-5}, 0},
    {MT_OP_norm_grad, "xye,xye,xy,xy,e,xy,xy>xye", {.eps = 1e-5}, 0},
    {MT_OP_norm_param_grad, "xye,xye,xy,xy>e,e", {.eps = 1e-5}, 0},
    {MT_OP_norm_param_grad, "xye,xye,xy,xy>e,e", {.eps = 1e-5, .accumulate = true}, "xy"},
    {MT_OP_rms_sq, "xye>xy", {0}, 0},
    {MT_OP_rms_apply, "xye,xy,e>xye", {.eps = 1e-5}, 0},
    {MT_OP_rms_dot, "xye,xye,xy,e>xy", {.eps = 1e-5}, 0},
    {MT_OP_rms_grad, "xye,xye,xy,e,xy>xye", {.eps = 1e-5}, 0},
    {MT_OP_rms_param_grad, "xye,xye,xy>e", {.eps = 1e-5}, 0},
    {MT_OP_rms_param_grad, "xye,xye,xy>e", {.eps = 1e-5, .accumulate = true}, "xy"},
    {MT_OP_rotary, "bshu>bshu", {.rope_base = 10000}, "u"},
    {MT_OP_rotary, "bsgru>bsgru", {.rope_base = 500, .inverse = true}, "u"},
    {MT_OP_rotary,
     "bshu>bshu",
     {.rope_base = 100, .rope_factor = 8, .rope_low = 1, .rope_high = 4, .rope_context = 20},
     "u"},
    {MT_OP_silu_mul, "xyz,xyz>xyz", {0}, 0},
    {MT_OP_silu_mul_grad, "xyz,xyz,xyz>xyz,xyz", {0}, 0},
    {MT_OP_embedding, "ve,xy>xye", {0}, 0},
    {MT_OP_embedding_grad, "xye,xy>ve", {0}, 0},
    {MT_OP_embedding_grad, "xye,xy>ve", {.accumulate = true}, "xy"},
    {MT_OP_attention_packed, "bs3hd>bshd,bhs", {.scale = 0.25}, "s3d"},
    {MT_OP_attention_packed, "bs3hd>bshd,bhs", {.scale = 0.25, .causal = true}, "s3d"},
    {MT_OP_attention_packed, "bs3hd>bshd,bhs", {.scale = 0.25, .causal = true, .p = 0.2, .tag = 9}, "s3d"},
    {MT_OP_attention_packed, "bs3hd>bshd,bhs", {.scale = 0.25, .causal = true, .window = 1}, "s3d"},
    {MT_OP_attention_packed, "bs3hd>bshd,bhs", {.scale = 0.25, .causal = true, .window = 3}, "s3d"},
    {MT_OP_attention_packed_grad, "bshd,bs3hd,bshd,bhs>bs3hd", {.scale = 0.25, .causal = true, .window = 1}, "s3d"},
    {MT_OP_attention_packed_grad, "bshd,bs3hd,bshd,bhs>bs3hd", {.scale = 0.25, .causal = true, .window = 3}, "s3d"},
    {MT_OP_attention_packed_grad, "bshd,bs3hd,bshd,bhs>bs3hd", {.scale = 0.25}, "s3d"},
    {MT_OP_attention_packed_grad, "bshd,bs3hd,bshd,bhs>bs3hd", {.scale = 0.25, .causal = true}, "s3d"},
    {MT_OP_attention_packed_grad,
     "bshd,bs3hd,bshd,bhs>bs3hd",
     {.scale = 0.25, .causal = true, .p = 0.2, .tag = 9},
     "s3d"},
    ATTENTIONS("bshd,bt2hd>bshd,bhs", "bshd,bshd,bt2hd,bshd,bhs>bshd,bt2hd", "t2d")
        ATTENTIONS("bsgrd,bt2gd>bsgrd,bgrs", "bsgrd,bsgrd,bt2gd,bsgrd,bgrs>bsgrd,bt2gd", "t2d")
            ATTENTIONS("bsud,bt2gd>bsud,bus", "bsud,bsud,bt2gd,bsud,bus>bsud,bt2gd",
                       "tu2gd"){MT_OP_separate, "xyz>xyz", {.axis = 1, .parts = 1}, "y"},
    {MT_OP_separate, "bs3hd>bshd,bs2hd", {.axis = 2, .parts = 2}, "32"},
    {MT_OP_separate, "3xz>xz,xz,xz", {.axis = 0, .parts = 3}, "3"},
    {MT_OP_separate, "zx7>zx3,zx,zx2,zx", {.axis = 2, .parts = 4}, "7"},
    {MT_OP_join, "bshd,bs2hd>bs3hd", {.axis = 2}, "32"},
    {MT_OP_join, "2xz,3xz,xz,xz>7xz", {.axis = 0}, "7"},
    {MT_OP_row_max, "xyv>xy", {0}, 0},
    {MT_OP_exp_sum, "xyv,xy>xy", {0}, 0},
    {MT_OP_pick, "xyv,xy>xy", {0}, 0},
    {MT_OP_nll, "xy,xy,xy,xy>xy", {0}, 0},
    {MT_OP_nll_grad, "xyv,xy,xy,xy,xy>xyv", {0}, 0},
    {MT_OP_count, "xyz>", {0}, 0},
    {MT_OP_fill, "xyz>xyz", {.value = 1.25, .to = MT_F32}, 0},
    {MT_OP_fill, "xyz>xyz", {.value = 1.25, .to = MT_BF16}, 0},
    {MT_OP_fill, "xyz>xyz", {.value = 1.25, .to = MT_F16}, 0},
    {MT_OP_fill, "xyz>xyz", {.value = -3, .to = MT_F64}, 0},
    {MT_OP_cast, "xyz>xyz", {.to = MT_F64}, 0},
    {MT_OP_cast, "xyz>xyz", {.to = MT_F32}, 0},
    {MT_OP_cast, "xyz>xyz", {.to = MT_BF16}, 0},
    {MT_OP_cast, "xyz>xyz", {.to = MT_F16}, 0},
    {MT_OP_sq_norm, "xyz>", {0}, 0},
    {MT_OP_sq_norm_add, "xyz,>", {0}, "xyz"},
    {MT_OP_grad_scale, ",>", {.clip = 0}, 0},
    {MT_OP_grad_scale, ",>", {.clip = 0.125}, 0},
    {MT_OP_grad_scale, ",,>", {.clip = 0.125}, 0},
    {MT_OP_loss_scale, ",,,>,,", {.interval = 3}, 0},
    {MT_OP_loss_scale, ",,,>,,", {.interval = 2000}, 0},
    {MT_OP_adamw,
     "xyz,xyz,xyz,xyz,>xyz,xyz,xyz",
     {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .decay = 0.1, .lr_scale = 0.5},
     0},
    {MT_OP_adamw,
     "xyz,xyz,xyz,xyz,,>xyz,xyz,xyz",
     {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .decay = 0.1, .lr_scale = 0.5},
     0},
    {MT_OP_adamw,
     "xyz,xyz,xyz,xyz,>xyz,xyz,xyz,xyz",
     {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .decay = 0.1, .lr_scale = 0.5, .epilogue = MT_OP_cast, .to = MT_BF16},
     0},
    {MT_OP_adamw,
     "xyz,xyz,xyz,xyz,,>xyz,xyz,xyz,xyz",
     {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .decay = 0.1, .lr_scale = 0.5, .epilogue = MT_OP_cast, .to = MT_F16},
     0},
    {MT_OP_sgd, "xyz,xyz,xyz,>xyz,xyz", {.momentum = 0.9, .decay = 0.1, .lr_scale = 1}, 0},
    {MT_OP_sgd, "xyz,xyz,xyz,>xyz,xyz", {.momentum = 0.9, .decay = 0.1, .lr_scale = 1, .nesterov = true}, 0},
    {MT_OP_fused_matmul, "abk,kn,n>abn,abn", {.nm = 2, .nn = 1, .nk = 1, .epilogue = MT_OP_gelu}, "k"},
    {MT_OP_fused_matmul, "mk,nk,n>mn,mn", {.nm = 1, .nn = 1, .nk = 1, .trans_b = true, .epilogue = MT_OP_relu}, "k"},
    {MT_OP_fused_matmul, "mk,kn,n>mn", {.nm = 1, .nn = 1, .nk = 1, .epilogue = MT_OP_add}, "k"},
    {MT_OP_fused_matmul,
     "abk,nk,abn>abn",
     {.nm = 2, .nn = 1, .nk = 1, .trans_b = true, .epilogue = MT_OP_gelu_grad},
     "k"},
    {MT_OP_fused_matmul, "mk,knc,mnc>mnc", {.nm = 1, .nn = 2, .nk = 1, .epilogue = MT_OP_relu_grad}, "k"},
    {MT_OP_fused_matmul, "abm,abn>mn,n", {.nm = 1, .nn = 1, .nk = 2, .trans_a = true, .epilogue = MT_OP_sum}, "m"},
    {MT_OP_fused_matmul,
     "abm,abnc>mnc,nc",
     {.nm = 1, .nn = 2, .nk = 2, .trans_a = true, .out_acc = true, .accumulate = true, .epilogue = MT_OP_sum},
     "mab"},
    {MT_OP_fused_matmul,
     "mk,nk>mn,n",
     {.nm = 1, .nn = 1, .nk = 1, .trans_b = true, .out_acc = true, .epilogue = MT_OP_sum},
     "m"},
    {MT_OP_layer_norm, "xye,e,e>xye,xy,xy", {.eps = 1e-5}, "e"},
    {MT_OP_layer_norm, "xye,e>xye,xy,xy", {.eps = 1e-5}, "e"},
    {MT_OP_residual_norm, "xye,xye,e,e>xye,xye,xy,xy", {.eps = 1e-5}, "e"},
    {MT_OP_layer_norm_grad, "xye,xye,xy,xy,e,xye>xye,e,e", {.eps = 1e-5}, "e"},
    {MT_OP_layer_norm_grad, "xye,xye,xy,xy,e>xye,e,e", {.eps = 1e-5, .accumulate = true}, "exy"},
    {MT_OP_layer_norm_grad, "xye,xye,xy,xy,e>xye,e,e,e", {.eps = 1e-5, .epilogue = MT_OP_sum}, "e"},
    {MT_OP_layer_norm_grad, "xye,xye,xy,xy,e,xye>xye,e,e,e", {.eps = 1e-5, .epilogue = MT_OP_sum}, "e"},
    {MT_OP_layer_norm_grad,
     "xye,xye,xy,xy,e,xye>xye,e,e,e",
     {.eps = 1e-5, .accumulate = true, .epilogue = MT_OP_sum},
     "exy"},
    {MT_OP_rms_norm, "xye,e>xye,xy", {.eps = 1e-5}, "e"},
    {MT_OP_residual_rms, "xye,xye,e>xye,xye,xy", {.eps = 1e-5}, "e"},
    {MT_OP_rms_norm_grad, "xye,xye,xy,e,xye>xye,e", {.eps = 1e-5}, "e"},
    {MT_OP_rms_norm_grad, "xye,xye,xy,e>xye,e", {.eps = 1e-5, .accumulate = true}, "exy"},
    {MT_OP_cross_entropy, "xyv,xy>xy,xy,xy", {0}, "v"},
    {MT_OP_cross_entropy_grad, "xyv,xy>xyv,xy", {.value = 1}, "v"},
    {MT_OP_cross_entropy_grad, "xyv,xy>xyv,xy", {.value = -0.375}, "v"},
    {MT_OP_cross_entropy_grad, "xyv,xy,>xyv,xy", {.value = 0.25}, "v"},
};
enum { NSPECS = sizeof specs / sizeof *specs, NSIZES = 2 };

/* Small sizes, and sizes that no block divides; of the rows of GEMMs, and of samples, fewer where sanitizers make them
 * slow. */
#ifdef MOTLEY_SANITIZE
enum { ROWS = 17, SAMPLES = 1 };
#else
enum { ROWS = 67, SAMPLES = 4 };
#endif
static const char size_letters[] = "abckmnxyzevshd237tgru";
static const int64_t sizes_of[NSIZES][sizeof size_letters - 1] = {
    {3, 2, 2, 7, 5, 9, 3, 4, 6, 11, 13, 9, 3, 5, 2, 3, 7, 8, 2, 2, 6},
    {ROWS, SAMPLES, 3, 259, 203, 101, 5, 31, 263, 1037, 2503, 205, 3, 20, 2, 3, 7, 201, 3, 2, 6},
};

struct sample {
    const struct spec *spec;
    struct mt_clock clock;
    int nin, nout;
    char axes[MT_MAX_IN + MT_MAX_OUT][MT_MAX_AXES + 1]; /* inputs, then outputs */
    int64_t extent[128];
    double *values[MT_MAX_IN + MT_MAX_OUT]; /* inputs; outputs: what is there before */
};

/* A box: of each letter, [lo, hi). */
struct cut {
    int64_t lo[128], hi[128];
};

static int64_t sample_count(const struct sample *s, int operand) {
    int64_t n = 1;
    for (const char *l = s->axes[operand]; *l; l++) n *= s->extent[(int)*l];
    return n;
}

static const struct mt_op_info *sample_info(const struct sample *s) {
    return &mt_op_info[s->spec->kind];
}

static bool sample_is_index(const struct sample *s, int operand) {
    return operand < s->nin && sample_info(s)->in_types[operand] == 'I';
}

/* Inputs that must be positive, as bits. */
static unsigned positive_inputs(enum mt_op_kind kind) {
    switch (kind) {
    case MT_OP_rms_apply: return 1u << 1;
    case MT_OP_norm_apply:
    case MT_OP_rms_dot:
    case MT_OP_rms_grad:
    case MT_OP_rms_param_grad:
    case MT_OP_rms_norm_grad: return 1u << 2;
    case MT_OP_norm_dots:
    case MT_OP_norm_grad:
    case MT_OP_norm_param_grad:
    case MT_OP_layer_norm_grad:
    case MT_OP_attention_packed_grad: return 1u << 3;
    case MT_OP_attention_grad: return 1u << 4;
    case MT_OP_exp_sum: return 1u << 1;
    case MT_OP_nll: return 1u << 1;
    case MT_OP_nll_grad: return 1u << 1 | 1u << 2;
    case MT_OP_grad_scale: return 7;
    case MT_OP_loss_scale: return 15;
    case MT_OP_adamw: return 1u << 2;
    default: return 0;
    }
}

static double sample_value(const struct sample *s, int operand, uint64_t seed, uint64_t i) {
    uint64_t stream = (uint64_t)operand;
    if (sample_is_index(s, operand)) {
        bool ids = s->spec->kind == MT_OP_embedding || s->spec->kind == MT_OP_embedding_grad;
        uint64_t v = s->extent['v'] ? (uint64_t)s->extent['v'] : 1;
        return ids ? (double)mt_random_below(seed, stream, i, v) : (double)mt_random_below(seed, stream, i, v + 1) - 1;
    }
    if (s->spec->kind == MT_OP_adamw && operand == 5) return 1; /* of three steps one was skipped */
    double x = mt_random_normal(seed, stream, i);
    if (operand < s->nin && positive_inputs(s->spec->kind) >> operand & 1) x = 3 + fabs(x);
    return (double)mt_bf16_to_f32(mt_bf16_from_f32((float)x));
}

static void sample_make(const struct spec *spec, int sizes, uint64_t seed, struct sample *s) {
    *s = (struct sample){.spec = spec, .clock = {.step = 3, .seed = seed, .lr = 0.01}};
    for (int i = 0; size_letters[i]; i++) s->extent[(int)size_letters[i]] = sizes_of[sizes][i];
    int operand = 0, axis = 0;
    for (const char *l = spec->shapes; *l; l++) {
        if (*l == '>') s->nin = operand + 1;
        if (*l == ',' || *l == '>')
            operand++, axis = 0;
        else
            s->axes[operand][axis++] = *l;
    }
    s->nout = operand + 1 - s->nin;
}

/* After any change of extents. */
static void sample_fill(struct sample *s, uint64_t seed) {
    for (int o = 0; o < s->nin + s->nout; o++) {
        int64_t n = sample_count(s, o);
        s->values[o] = malloc((size_t)(n + 1) * sizeof(double));
        for (int64_t i = 0; i < n; i++) s->values[o][i] = sample_value(s, o, seed, (uint64_t)i);
    }
}

static void sample_free(struct sample *s) {
    for (int o = 0; o < s->nin + s->nout; o++) free(s->values[o]);
}

static enum mt_type sample_type(const struct sample *s, int operand, enum mt_type type) {
    const struct mt_op_info *info = sample_info(s);
    char letter = operand < s->nin ? info->in_types[operand] : info->out_types[operand - s->nin];
    if (letter == 'I') return MT_I32;
    if (letter == 'A') return mt_type_acc(type);
    if (letter != '*' || operand < s->nin) return type;
    bool summand = operand > s->nin && s->spec->attr.epilogue == MT_OP_sum;
    if (s->spec->kind == MT_OP_matmul || s->spec->kind == MT_OP_fused_matmul)
        return s->spec->attr.out_acc || summand ? mt_type_acc(type) : type;
    return s->spec->attr.to;
}

/* The place in the whole operand of the box's element i. */
static int64_t whole_index(const struct mt_tensor *box, int64_t i) {
    int64_t at = 0, stride = 1;
    for (int a = box->naxes - 1; a >= 0; a--) {
        at += (box->offset[a] + i % box->extent[a]) * stride;
        stride *= box->global[a];
        i /= box->extent[a];
    }
    return at;
}

static struct mt_tensor sample_tensor(const struct sample *s, int operand, enum mt_type type, const struct cut *cut) {
    struct mt_tensor t = {.type = sample_type(s, operand, type)};
    for (const char *l = s->axes[operand]; *l; l++, t.naxes++) {
        t.global[t.naxes] = s->extent[(int)*l];
        t.offset[t.naxes] = cut ? cut->lo[(int)*l] : 0;
        t.extent[t.naxes] = cut ? cut->hi[(int)*l] - cut->lo[(int)*l] : s->extent[(int)*l];
    }
    int64_t n = mt_tensor_count(&t);
    if (n) t.data = malloc((size_t)(n * mt_type_size(t.type)));
    bool keep = operand < s->nin || s->spec->attr.accumulate;
    /* The gradients of norms accumulate into their sums only. */
    bool norm_grad = s->spec->kind == MT_OP_layer_norm_grad || s->spec->kind == MT_OP_rms_norm_grad;
    if (norm_grad && operand == s->nin) keep = false;
    if (keep)
        for (int64_t i = 0; i < n; i++) mt_type_store(t.type, t.data, i, s->values[operand][whole_index(&t, i)]);
    else if (n)
        memset(t.data, 0xff, (size_t)(n * mt_type_size(t.type)));
    return t;
}

/* Run on the box (null: whole); out[o] gets the box of output o as doubles, of the caller's memory or null. */
static void sample_run(const struct sample *s, enum mt_type type, const struct cut *cut, double **out) {
    struct mt_tensor t[MT_MAX_IN + MT_MAX_OUT];
    for (int o = 0; o < s->nin + s->nout; o++) t[o] = sample_tensor(s, o, type, cut);
    call_run(call_of(s->spec->kind, &s->spec->attr, &s->clock, s->nin, t, s->nout, t + s->nin));
    for (int o = 0; o < s->nout; o++) {
        const struct mt_tensor *y = &t[s->nin + o];
        for (int64_t i = 0; out[o] && i < mt_tensor_count(y); i++) out[o][i] = mt_type_load(y->type, y->data, i);
    }
    for (int o = 0; o < s->nin + s->nout; o++) free(t[o].data);
}

static void sample_outputs(const struct sample *s, double **out) {
    for (int o = 0; o < s->nout; o++) out[o] = malloc((size_t)(sample_count(s, s->nin + o) + 1) * sizeof(double));
}
static void outputs_free(const struct sample *s, double **out) {
    for (int o = 0; o < s->nout; o++) free(out[o]);
}

/* "attention bs3hd>bshd,bhs causal" */
static const char *sample_text(const struct sample *s) {
    static char text[256];
    snprintf(text, sizeof text, "%s %s%s%s%s", sample_info(s)->name, s->spec->shapes,
             s->spec->attr.causal ? " causal" : "", s->spec->attr.window ? " window" : "",
             s->spec->attr.p > 0 ? " p" : "");
    return text;
}

/* Call `check` with every kind in all sizes, with room for two sets of outputs. */
static inline void each_sample(uint64_t seed, void (*check)(struct sample *s, int sizes, double **want, double **got)) {
    fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < NSPECS; i++)
        for (int sizes = 0; sizes < NSIZES; sizes++) {
            struct sample s;
            double *want[MT_MAX_OUT], *got[MT_MAX_OUT];
            sample_make(&specs[i], sizes, seed, &s);
            if (s.spec->kind == MT_OP_embedding_grad && sizes) s.extent['v'] = 61, s.extent['x'] = 2; /* few ids */
            sample_fill(&s, seed);
            sample_outputs(&s, want), sample_outputs(&s, got);
            check(&s, sizes, want, got);
            outputs_free(&s, want), outputs_free(&s, got);
            sample_free(&s);
        }
}

#endif
