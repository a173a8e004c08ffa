/* Attention and its gradient on a CUDA device against the plain C backend in f64, on boxes of larger values: every head
 * size, ragged lengths, each way to run it, and every row of attention_tiles.def. Outputs and scratch are poisoned,
 * what lies behind outputs must stay as it was, and a second run must give the same bits, unless any order is allowed.
 * All failures are listed before the test fails. Some 600 kernels are compiled: minutes, the first time. One part runs
 * alone if it is named: shapes, rows, a way, cudnn_apart, parts, chosen, apart, boxes, which are of queries apart from
 * keys and values (attention_box.h), windows, or window_rows. */
#include <stdarg.h>

#include "kernels/base/number/rng.h"
#include "kernels/device/device.h"
#include "tests/kernels/op/attention_box.h"

enum { GUARD_BYTES = 256 };

static struct mt_device *device;
static struct mt_stream *stream;
static int cases, failures, refusals; /* of what this device, this build or the job does not let run */
static bool any_order;                /* allowed to gradients */
static bool apart;                    /* queries lie opposite to keys: all scores are far below zero */
static int64_t window;                /* of causal attention, or 0 */
static char doing[200];               /* the case, for messages */

static void failed(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void failed(const char *format, ...) {
    va_list args;
    va_start(args, format);
    printf("FAILED %s: ", doing);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
    failures++;
}

static int64_t bytes_of(const struct mt_tensor *t) {
    return mt_tensor_count(t) * mt_type_size(t->type);
}

/* Memory of the device with these bytes, or poison, and guards behind. */
static void *on_device(const void *data, int64_t size_bytes) {
    struct mt_err err = MT_ERR_INIT;
    void *memory, *poisoned = memset(malloc((size_t)size_bytes + GUARD_BYTES), 0xff, (size_t)size_bytes + GUARD_BYTES);
    if (data) memcpy(poisoned, data, (size_t)size_bytes);
    CHECK_OK(mt_device_alloc(device, size_bytes + GUARD_BYTES, &memory, &err), err);
    CHECK_OK(mt_device_copy_in(device, memory, poisoned, size_bytes + GUARD_BYTES, &err), err);
    free(poisoned);
    return memory;
}

/* Run on the device with outputs poisoned; false after reporting why it did not run. out[i].data is the host's. */
static bool run_once(const struct mt_call *call) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_tensor in[MT_MAX_IN], out[MT_MAX_OUT];
    for (int i = 0; i < call->nin; i++) in[i] = call->in[i], in[i].data = on_device(in[i].data, bytes_of(&in[i]));
    for (int i = 0; i < call->nout; i++) out[i] = call->out[i], out[i].data = on_device(NULL, bytes_of(&out[i]));
    struct mt_call here = *call;
    here.in = in, here.out = out;
    const struct mt_backend *backend = mt_device_backend(device, &here);
    int64_t scratch_bytes = backend->scratch_bytes ? backend->scratch_bytes(&here) : 0;
    here.scratch = scratch_bytes ? on_device(NULL, scratch_bytes) : NULL;
    bool ran = !mt_call_check(&here, &err);
    if (ran) {
        mt_stream_op(stream, backend, &here, NULL);
        ran = !mt_stream_sync(stream, 60, &err);
    }
    if (!ran && (strstr(err.text, "of shared memory") || strstr(err.text, "cannot run this call") ||
                 strstr(err.text, "cuDNN is not used") || strstr(err.text, "has no cuDNN") ||
                 (!any_order && strstr(err.text, "the same bits every time"))))
        refusals++, printf("does not run: %s: %s\n", doing, err.text);
    else if (!ran)
        failed("%s does not run: %s", mt_op_info[call->kind].name, err.text);
    for (int i = 0; i < call->nout; i++) {
        int64_t size_bytes = bytes_of(&out[i]);
        unsigned char *got = malloc((size_t)size_bytes + GUARD_BYTES);
        CHECK_OK(mt_device_copy_out(device, got, out[i].data, size_bytes + GUARD_BYTES, &err), err);
        for (int g = 0; g < GUARD_BYTES; g++)
            if (got[size_bytes + g] != 0xff) {
                failed("%s writes behind output %d, at byte %d", mt_op_info[call->kind].name, i, g);
                break;
            }
        memcpy(call->out[i].data, got, (size_t)size_bytes);
        free(got);
    }
    for (int i = 0; i < call->nin; i++) mt_device_free(device, in[i].data);
    for (int i = 0; i < call->nout; i++) mt_device_free(device, out[i].data);
    if (here.scratch) mt_device_free(device, here.scratch);
    return ran;
}

/* Twice; reports bits that differ and may not. */
static bool run(const struct mt_call *call) {
    struct mt_tensor again[MT_MAX_OUT];
    struct mt_call second = *call;
    second.out = again;
    for (int o = 0; o < call->nout; o++)
        again[o] = call->out[o], again[o].data = malloc((size_t)bytes_of(&again[o]) + 1);
    bool ran = run_once(call) && run_once(&second);
    for (int o = 0; o < call->nout; o++) {
        bool may = any_order && mt_op_is_attention_grad(call->kind);
        if (ran && !may && memcmp(again[o].data, call->out[o].data, (size_t)bytes_of(&again[o])))
            failed("%s: output %d has other bits the second time", mt_op_info[call->kind].name, o);
        free(again[o].data);
    }
    return ran;
}

/* Elements for which `part` of `parts` along axis 2 is theirs (parts 0: all): the norm of the difference by the norm of
 * all that is wanted. */
static void compare(const char *name, const struct mt_tensor *got, const struct mt_tensor *want, int part, int parts,
                    double allowed, bool absolute) {
    double diff = 0, norm = 0, most = 0;
    int64_t n = mt_tensor_count(got), worst = 0, inner = parts ? got->extent[3] * got->extent[4] : 1;
    for (int64_t i = 0; i < n; i++) {
        double g = mt_type_load(got->type, got->data, i), w = mt_type_load(want->type, want->data, i);
        norm += w * w;
        if (parts && i / inner % parts != part) continue;
        if (!isfinite(g)) {
            failed("%s[%lld] is %g, not %g", name, (long long)i, g, w);
            return;
        }
        diff += (g - w) * (g - w);
        if (fabs(g - w) > most) most = fabs(g - w), worst = i;
    }
    double error = absolute ? most : diff > 0 ? sqrt(diff / norm) : 0;
    if (error <= allowed) return;
    int64_t at[MT_MAX_AXES], rest = worst;
    for (int a = got->naxes - 1; a >= 0; a--) at[a] = rest % got->extent[a], rest /= got->extent[a];
    char where[120] = "";
    for (int a = 0, used = 0; a < got->naxes; a++)
        used += snprintf(where + used, sizeof where - (size_t)used, "%s%lld", a ? "," : "", (long long)at[a]);
    failed("%s: error %.3g, allowed %.3g; worst at [%s]: %g, not %g", name, error, allowed, where,
           mt_type_load(got->type, got->data, worst), mt_type_load(want->type, want->data, worst));
}

/* Normal numbers that bf16 holds. */
static void draw(struct mt_tensor *t, uint64_t seed, double size) {
    for (int64_t i = 0; i < mt_tensor_count(t); i++) {
        float x = (float)(size * mt_random_normal(seed, 0, (uint64_t)i));
        mt_type_store(t->type, t->data, i, (double)mt_bf16_to_f32(mt_bf16_from_f32(x)));
    }
}

/* q beyond zero on one side, k on the other. */
static void oppose(struct mt_tensor *qkv) {
    int64_t part = qkv->extent[3] * qkv->extent[4];
    for (int64_t i = 0; i < mt_tensor_count(qkv); i++) {
        double by = i / part % 3 == 0 ? 5 : i / part % 3 == 1 ? -5 : 0;
        float x = (float)(mt_type_load(qkv->type, qkv->data, i) / 3 + by);
        mt_type_store(qkv->type, qkv->data, i, (double)mt_bf16_to_f32(mt_bf16_from_f32(x)));
    }
}

static struct mt_tensor as_type(const struct mt_tensor *t, enum mt_type type) {
    struct mt_tensor y = call_tensor(type, t->naxes, t->extent);
    memcpy(y.offset, t->offset, sizeof y.offset), memcpy(y.global, t->global, sizeof y.global);
    mt_type_convert(type, y.data, t->type, t->data, mt_tensor_count(t));
    return y;
}

/* A box of a value: [b, s, 3, h, d], [b, s, h, d] or [b, h, s]. */
static struct mt_tensor box(enum mt_type type, int naxes, const int64_t *extent, int head_axis) {
    struct mt_tensor t = call_tensor(type, naxes, extent);
    t.offset[0] = 1, t.global[0] = extent[0] + 2;
    t.offset[head_axis] = 2, t.global[head_axis] = extent[head_axis] + 3;
    return t;
}

static void one(enum mt_type type, int64_t b, int64_t s, int64_t h, int64_t d, bool causal, double p,
                const char *tiles) {
    snprintf(doing, sizeof doing, "%s b=%lld s=%lld h=%lld d=%lld %s window=%lld p=%g%s%s%s", mt_type_name(type),
             (long long)b, (long long)s, (long long)h, (long long)d, causal ? "causal" : "full", (long long)window, p,
             tiles ? " tiles " : "", tiles ? tiles : "", apart ? ", far apart" : "");
    cases++;
    struct mt_attr attr = {
        .scale = 1 / sqrt((double)d), .causal = causal, .window = window, .p = p, .tag = 77, .any_order = any_order};
    struct mt_clock clock = {.step = 3, .seed = UINT64_C(0x123456789abcdef)};
    struct mt_tensor qkv = box(MT_F64, 5, (int64_t[]){b, s, 3, h, d}, 3),
                     o = box(MT_F64, 4, (int64_t[]){b, s, h, d}, 2);
    struct mt_tensor lse = box(MT_F64, 3, (int64_t[]){b, h, s}, 1), dout = box(MT_F64, 4, (int64_t[]){b, s, h, d}, 2);
    struct mt_tensor dqkv = box(MT_F64, 5, (int64_t[]){b, s, 3, h, d}, 3);
    draw(&qkv, 1, 1.5), draw(&dout, 2, 1);
    if (apart) oppose(&qkv);
    static const double limits[MT_NTYPES] = {[MT_F32] = 1e-5, [MT_BF16] = 1e-2, [MT_F16] = 2e-3};
    double near = limits[type];

    CALL(attention_packed, &attr, &clock, (qkv), (o, lse));
    struct mt_tensor in[4] = {as_type(&dout, type), as_type(&qkv, type), as_type(&o, type), as_type(&lse, MT_F32)};
    struct mt_tensor out[2] = {as_type(&o, type), as_type(&lse, MT_F32)}, grad = as_type(&qkv, type);
    struct mt_call forward = call_of(MT_OP_attention_packed, &attr, &clock, 1, &in[1], 2, out);
    if (run(&forward)) {
        compare("o", &out[0], &o, 0, 0, near, false);
        compare("lse", &out[1], &lse, 0, 0, type == MT_F32 ? 1e-5 : 1e-3, true);
    }

    /* The gradient of what the device can hold of o and lse. */
    struct mt_tensor o_held = as_type(&in[2], MT_F64), lse_held = as_type(&in[3], MT_F64);
    CALL(attention_packed_grad, &attr, &clock, (dout, qkv, o_held, lse_held), (dqkv));
    struct mt_call backward = call_of(MT_OP_attention_packed_grad, &attr, &clock, 4, in, 1, &grad);
    if (run(&backward)) {
        compare("dq", &grad, &dqkv, 0, 3, near, false);
        compare("dk", &grad, &dqkv, 1, 3, near, false);
        compare("dv", &grad, &dqkv, 2, 3, near, false);
    }
    struct mt_tensor *all[] = {&qkv,   &o,     &lse,    &dout,   &dqkv, &in[0],  &in[1],
                               &in[2], &in[3], &out[0], &out[1], &grad, &o_held, &lse_held};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]->data);
}

/* Causal or full, with or without dropout. */
static void four(enum mt_type type, int64_t b, int64_t s, int64_t h, int64_t d) {
    for (int bits = 0; bits < 4; bits++) one(type, b, s, h, d, bits & 1, bits & 2 ? 0.2 : 0, NULL);
}

/* The heads that the rows of attention_tiles.def are for. */
static const int tile_heads[] = {
#define TILES(kernel, head, ...) head,
#include "kernels/cuda/attention/attention_tiles.def"
#undef TILES
};

/* By default. */
static void all_shapes(void) {
    static const int64_t heads[] = {16, 32, 64, 80, 128}, lengths[] = {1, 17, 64, 100, 257};
    setenv("MOTLEY_TUNE", "off", 1);
    for (int type = MT_F32; type <= MT_F16; type++) {
        for (int d = 0; d < 5; d++)
            for (int s = 0; s < 5; s++) four((enum mt_type)type, 2, lengths[s], 3, heads[d]);
        four((enum mt_type)type, 1, 1024, 2, 64);
        four((enum mt_type)type, 1, 70, 2, 5); /* no whole parts of 16 bytes */
        four((enum mt_type)type, 1, 70, 0, 32);
    }
}

static void by_rows(void) {
    for (int i = 0; i < (int)(sizeof tile_heads / sizeof *tile_heads); i++) {
        char row[12];
        snprintf(row, sizeof row, "%d", i);
        setenv("MOTLEY_CUDA_ATTENTION", row, 1);
        one(MT_BF16, 1, 300, 2, tile_heads[i], true, 0.2, row);
        one(MT_BF16, 1, 515, 2, tile_heads[i], false, 0, row);
        one(MT_F16, 1, 300, 2, tile_heads[i], true, 0, row);
    }
}

static void by_way(const char *way) {
    static const int64_t heads[] = {40, 64, 80, 128}, lengths[] = {17, 64, 257};
    setenv("MOTLEY_CUDA_ATTENTION", way, 1);
    for (int d = 0; d < 4; d++)
        for (int s = 0; s < 3; s++)
            for (int bits = 0; bits < 4; bits++)
                one(MT_BF16, 2, lengths[s], 3, heads[d], bits & 1, bits & 2 ? 0.2 : 0, way);
    for (int d = 1; d < 4; d++) one(MT_F16, 2, 257, 3, heads[d], true, 0, way);
}
static void by_warpgroups(void) {
    by_way("warpgroups");
}
static void by_tiles(void) {
    by_way("tiles");
}
static void plainly(void) {
    by_way("row");
}

/* Scores of -150 to -200: what a kernel takes for scores of places without a key, if it does, is far above them. */
static void far_apart(void) {
    static const char *const ways[] = {
#define IMPL(name) #name,
#include "kernels/cuda/attention/implementations.def"
#undef IMPL
    };
    setenv("MOTLEY_TUNE", "off", 1);
    apart = any_order = true;
    for (int w = 0; w < (int)(sizeof ways / sizeof *ways); w++) {
        setenv("MOTLEY_CUDA_ATTENTION", ways[w], 1);
        for (int causal = 0; causal < 2; causal++)
            for (int s = 64; s <= 256; s += 64) one(MT_BF16, 2, s, 2, 64, causal, 0, ways[w]);
        one(MT_BF16, 2, 257, 2, 128, true, 0, ways[w]);
    }
    apart = any_order = false;
}

/* As training runs it: what is measured, compared and chosen is right. */
static void as_chosen(void) {
    unsetenv("MOTLEY_TUNE");
    for (int any = 0; any < 2; any++) {
        const char *how = any ? "chosen, any order" : "chosen";
        any_order = any;
        for (int d = 64; d <= 128; d += 64) {
            one(MT_BF16, 2, 1024, 3, d, true, 0, how);
            one(MT_BF16, 2, 257, 3, d, false, 0.2, how);
            one(MT_F16, 2, 300, 3, d, true, 0, how);
        }
        one(MT_F32, 2, 300, 3, 64, true, 0.2, how);
    }
    any_order = false;
}

/* Long enough that its kernels for long sequences run, short, and ragged. */
static void by_library(const char *way) {
    static const struct {
        int64_t b, s, h, d;
    } shapes[] = {{2, 128, 3, 64}, {2, 257, 3, 64}, {1, 1024, 2, 64},
                  {2, 17, 3, 32},  {2, 200, 3, 80}, {2, 300, 2, 128}};
    setenv("MOTLEY_CUDA_ATTENTION", way, 1);
    for (int i = 0; i < (int)(sizeof shapes / sizeof *shapes); i++)
        for (int causal = 0; causal < 2; causal++)
            for (int type = MT_BF16; type <= MT_F16; type++)
                one((enum mt_type)type, shapes[i].b, shapes[i].s, shapes[i].h, shapes[i].d, causal, 0, way);
}
static void by_cudnn(void) {
    by_library("cudnn");
}

/* Backward; forward goes its default way. Refused to a job that wants the same bits. */
static void by_cudnn_any_order(void) {
    static const char way[] = "cudnn_any_order";
    int before = refusals;
    setenv("MOTLEY_TUNE", "off", 1);
    setenv("MOTLEY_CUDA_ATTENTION", way, 1);
    one(MT_BF16, 2, 128, 3, 64, true, 0, way);
    if (refusals != before + 1) failed("it runs without being allowed to");
    any_order = true;
    by_library(way);
    any_order = false;
}

/* Queries apart from keys and values, on boxes of them (attention_box.h). */
static bool run_box(void *way, struct mt_call *call) {
    struct mt_attention a = mt_attention_of(call);
    struct mt_attr attr = *call->attr;
    attr.any_order = any_order && a.gradient;
    call->attr = &attr;
    snprintf(doing, sizeof doing, "%s %s of s=%lld from %lld t=%lld g=%lld n=%lld d=%lld window=%lld p=%g, %s",
             mt_op_info[call->kind].name, mt_type_name(call->in[0].type), (long long)a.s, (long long)a.first,
             (long long)a.t, (long long)a.groups, (long long)a.share, (long long)a.d, (long long)call->attr->window,
             call->attr->p, (const char *)way);
    cases++;
    return run(call);
}

static void boxes(void) {
    static char ways[][12] = {"row", "tiles", "warpgroups", "chosen"};
    for (int w = 0; w < 4; w++) {
        setenv("MOTLEY_CUDA_ATTENTION", ways[w], 1);
        if (w == 3) unsetenv("MOTLEY_CUDA_ATTENTION"), unsetenv("MOTLEY_TUNE");
        for (int type = w % 3 ? MT_BF16 : MT_F32; type <= MT_F16; type++)
            each_attention_box((enum mt_type)type, run_box, ways[w]);
    }
    setenv("MOTLEY_TUNE", "off", 1);
    for (int i = 0; i < (int)(sizeof tile_heads / sizeof *tile_heads); i++) {
        char row[12];
        struct attention_box x = attention_boxes[3];
        snprintf(row, sizeof row, "%d", i);
        setenv("MOTLEY_CUDA_ATTENTION", row, 1);
        x.d = tile_heads[i], x.causal = true;
        for (int drops = 0; drops < 2; drops++) {
            x.p = drops ? 0.2 : 0;
            box_check(&x, MT_BF16, run_box, row);
        }
    }
    unsetenv("MOTLEY_TUNE");
}

/* Of all queries, heads that share keys and values: in windows, long and ragged. */
static void by_library_apart(const char *given) {
    static const struct {
        int64_t b, s, g, n, d, window;
    } shapes[] = {{2, 128, 3, 1, 64, 0}, {2, 257, 2, 3, 64, 100}, {1, 1024, 1, 4, 64, 0},  {2, 17, 3, 2, 32, 3},
                  {2, 200, 1, 3, 80, 0}, {1, 300, 2, 2, 128, 70}, {1, 600, 2, 8, 128, 256}};
    char way[20];
    snprintf(way, sizeof way, "%s", given);
    setenv("MOTLEY_CUDA_ATTENTION", way, 1);
    for (int i = 0; i < (int)(sizeof shapes / sizeof *shapes); i++)
        for (int type = MT_BF16; type <= MT_F16; type++)
            for (int mask = 0; mask < 3; mask++) { /* full, causal, in a window */
                struct attention_box x = {.b = shapes[i].b, .s = shapes[i].s, .t = shapes[i].s, .g = shapes[i].g};
                x.n = shapes[i].n, x.d = shapes[i].d, x.all_s = x.s, x.all_g = x.g + 1, x.all_n = x.n;
                x.causal = mask > 0, x.window = mask == 2 ? shapes[i].window : 0;
                if (mask < 2 || x.window) box_check(&x, (enum mt_type)type, run_box, way);
            }
}
static void by_cudnn_apart(void) {
    by_library_apart("cudnn");
    setenv("MOTLEY_TUNE", "off", 1);
    any_order = true;
    by_library_apart("cudnn_any_order");
    any_order = false;
}

/* Too many scores for cuDNN's scratch, so that samples go in parts: against our own kernels. */
static void in_parts(void) {
    enum { B = 6, S = 2048, G = 4, N = 12, D = 64 };
    struct attention_box x = {.b = B, .s = S, .t = S, .g = G, .n = N, .d = D, .all_s = S, .all_g = G, .all_n = N};
    x.causal = true;
    const struct mt_attr attr = box_attr(&x);
    const struct mt_clock clock = {.step = 1, .seed = 1};
    struct mt_tensor ours[BOX_TENSORS], theirs[BOX_TENSORS];
    box_tensors(&x, MT_BF16, ours), box_tensors(&x, MT_BF16, theirs);
    box_fill(ours, 5), box_fill(theirs, 5);
    for (int gradient = 0; gradient < 2; gradient++) {
        struct mt_call call = box_call(&attr, &clock, gradient, ours),
                       other = box_call(&attr, &clock, gradient, theirs);
        setenv("MOTLEY_CUDA_ATTENTION", "tiles", 1);
        bool ran = run_box((char[]){"tiles, for parts"}, &call);
        setenv("MOTLEY_CUDA_ATTENTION", "cudnn", 1);
        ran = run_box((char[]){"cudnn, in parts"}, &other) && ran;
        for (int k = gradient ? BOX_DQ : BOX_O; k < (gradient ? BOX_TENSORS : BOX_DQ) && ran; k++)
            box_compare(&x, &theirs[k], &ours[k], "a tensor of parts", false, 1e-2);
        if (!ran && !refusals) failed("there is no result");
        memcpy(theirs[BOX_O].data, ours[BOX_O].data, (size_t)bytes_of(&ours[BOX_O]));
        memcpy(theirs[BOX_LSE].data, ours[BOX_LSE].data, (size_t)bytes_of(&ours[BOX_LSE]));
    }
    for (int k = 0; k < BOX_TENSORS; k++) free(ours[k].data), free(theirs[k].data);
}

/* Windows narrower and wider than tiles: by each of our implementations, on boxes and packed; and as chosen. */
static void in_windows(void) {
    static const struct {
        char way[12];
        enum mt_type of_boxes, packed;
    } ways[] = {{"row", MT_F32, MT_F32}, {"tiles", MT_BF16, MT_F16}, {"warpgroups", MT_BF16, MT_F16}};
    static const int64_t widths[] = {1, 3, 64, 100, 130};
    setenv("MOTLEY_TUNE", "off", 1);
    for (int w = 0; w < 3; w++) {
        char way[12];
        memcpy(way, ways[w].way, sizeof way);
        setenv("MOTLEY_CUDA_ATTENTION", way, 1);
        each_attention_window(ways[w].of_boxes, run_box, way);
        for (int i = 0; i < 10; i++) {
            window = widths[i / 2];
            one(ways[w].packed, 2, 257, 3, i % 2 ? 128 : 64, true, i / 2 == 3 ? 0.2 : 0, way);
        }
        window = 0;
    }
    unsetenv("MOTLEY_CUDA_ATTENTION"), unsetenv("MOTLEY_TUNE");
    struct attention_box x = attention_boxes[4];
    x.causal = true, x.window = 100;
    box_check(&x, MT_BF16, run_box, (char[]){"chosen"});
}

/* Each row of attention_tiles.def, with windows that begin within a tile. */
static void rows_in_windows(void) {
    setenv("MOTLEY_TUNE", "off", 1);
    for (int i = 0; i < (int)(sizeof tile_heads / sizeof *tile_heads); i++) {
        char row[12];
        struct attention_box x = attention_boxes[3];
        snprintf(row, sizeof row, "%d", i);
        setenv("MOTLEY_CUDA_ATTENTION", row, 1);
        x.d = tile_heads[i], x.causal = true, x.window = i % 2 ? 70 : 150;
        box_check(&x, MT_BF16, run_box, row);
    }
    unsetenv("MOTLEY_TUNE");
}

int main(int argc, char **argv) {
    struct mt_err err = MT_ERR_INIT;
    if (mt_device_open("cuda", &device, &err)) {
        printf("skipped: %s\n", err.text);
        return 77;
    }
    printf("%s\n", mt_device_describe(device));
    CHECK_OK(mt_stream_new(device, "compute", &stream, &err), err);
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"shapes", all_shapes},
                 {"rows", by_rows},
                 {"warpgroups", by_warpgroups},
                 {"tiles", by_tiles},
                 {"row", plainly},
                 {"cudnn", by_cudnn},
                 {"cudnn_any_order", by_cudnn_any_order},
                 {"cudnn_apart", by_cudnn_apart},
                 {"parts", in_parts},
                 {"chosen", as_chosen},
                 {"apart", far_apart},
                 {"boxes", boxes},
                 {"windows", in_windows},
                 {"window_rows", rows_in_windows}};
    for (int i = 0; i < (int)(sizeof parts / sizeof *parts); i++)
        if (argc < 2 || !strcmp(argv[1], parts[i].name)) {
            parts[i].run();
            unsetenv("MOTLEY_CUDA_ATTENTION");
        }
    mt_stream_free(stream);
    mt_device_close(device);
    printf("%d cases, %d failures\n", cases, failures);
    return failures > 0;
}
