/* Attention on queries apart from keys and values, on one rank's box: a part of the queries, heads in groups. What an
 * implementation gives is compared with plain C in f64 on the same numbers, which test_op_reference.c compares with the
 * formulas. */
#ifndef MT_TESTS_KERNELS_OP_ATTENTION_BOX_H
#define MT_TESTS_KERNELS_OP_ATTENTION_BOX_H

#include "kernels/base/number/rng.h"
#include "tests/kernels/op/calls.h"

struct attention_box {
    int64_t b, s, t, g, n, d;         /* samples, queries, keys, heads of keys, query heads of each, elements */
    int64_t first, all_s;             /* the box's first query, and all queries */
    int64_t b0, g0, n0, all_g, all_n; /* the box's first sample and heads, and all heads */
    bool apart;                       /* heads are two axes, [g, n] */
    bool causal;
    int64_t window; /* if causal; or 0 */
    double p;
};

/* Inputs in the order of attention_grad, dout q kv o lse, then dq dkv, in memory of their own. */
enum { BOX_DOUT, BOX_Q, BOX_KV, BOX_O, BOX_LSE, BOX_DQ, BOX_DKV, BOX_TENSORS };

static inline void box_axis(struct mt_tensor *t, int64_t extent, int64_t offset, int64_t all) {
    t->extent[t->naxes] = extent, t->offset[t->naxes] = offset, t->global[t->naxes++] = all;
}

static inline void box_heads(const struct attention_box *x, struct mt_tensor *t) {
    if (x->apart) {
        box_axis(t, x->g, x->g0, x->all_g);
        box_axis(t, x->n, x->n0, x->all_n);
    } else {
        box_axis(t, x->g * x->n, x->g0 * x->n, x->all_g * x->n);
    }
}

static inline void box_tensors(const struct attention_box *x, enum mt_type type, struct mt_tensor t[BOX_TENSORS]) {
    for (int k = 0; k < BOX_TENSORS; k++) {
        t[k] = (struct mt_tensor){.type = k == BOX_LSE ? mt_type_acc(type) : type};
        box_axis(&t[k], x->b, x->b0, x->b0 + x->b + 1);
        if (k == BOX_KV || k == BOX_DKV) {
            box_axis(&t[k], x->t, 0, x->t), box_axis(&t[k], 2, 0, 2), box_axis(&t[k], x->g, x->g0, x->all_g);
        } else {
            if (k != BOX_LSE) box_axis(&t[k], x->s, x->first, x->all_s);
            box_heads(x, &t[k]);
        }
        if (k == BOX_LSE)
            box_axis(&t[k], x->s, x->first, x->all_s);
        else
            box_axis(&t[k], x->d, 0, x->d);
        size_t bytes = (size_t)(mt_tensor_count(&t[k]) * mt_type_size(t[k].type));
        t[k].data = memset(malloc(bytes + 1), 0xff, bytes);
    }
}

/* dout, q and kv, of numbers that every type holds. */
static inline void box_fill(struct mt_tensor t[BOX_TENSORS], uint64_t seed) {
    for (int k = BOX_DOUT; k <= BOX_KV; k++)
        for (int64_t i = 0; i < mt_tensor_count(&t[k]); i++) {
            float x = (float)mt_random_normal(seed, (uint64_t)k, (uint64_t)i);
            mt_type_store(t[k].type, t[k].data, i, (double)mt_bf16_to_f32(mt_bf16_from_f32(x)));
        }
}

static inline struct mt_attr box_attr(const struct attention_box *x) {
    return (struct mt_attr){
        .scale = 1 / sqrt((double)x->d), .causal = x->causal, .window = x->window, .p = x->p, .tag = x->p > 0 ? 77 : 0};
}

/* Forward, or backward. */
static inline struct mt_call box_call(const struct mt_attr *attr, const struct mt_clock *clock, bool gradient,
                                      struct mt_tensor t[BOX_TENSORS]) {
    return gradient ? call_of(MT_OP_attention_grad, attr, clock, 5, t, 2, t + BOX_DQ)
                    : call_of(MT_OP_attention, attr, clock, 2, t + BOX_Q, 2, t + BOX_O);
}

/* The relative error; `zeros`: where it must be zero, as of keys that no query sees, it is, but for the rounding of a
 * difference that vanishes (a query that sees one key). */
static inline void box_compare(const struct attention_box *x, const struct mt_tensor *got, const struct mt_tensor *want,
                               const char *what, bool zeros, double allowed) {
    double diff = 0, norm = 0, rounding = 1e-6 * sqrt((double)mt_tensor_count(got)); /* where 0 is wanted */
    for (int64_t i = 0; i < mt_tensor_count(got); i++) {
        double is = mt_type_load(got->type, got->data, i), shall = mt_type_load(want->type, want->data, i);
        CHECK(isfinite(is), "%s[%lld] is %g", what, (long long)i, is);
        CHECK(!zeros || shall != 0 || fabs(is) < 1e-5, "%s[%lld] is %g, not 0", what, (long long)i, is);
        diff += (is - shall) * (is - shall), norm += shall * shall;
    }
    CHECK(sqrt(diff) <= allowed * sqrt(norm) + rounding,
          "%s in %s: relative error %g; b=%lld s=%lld of %lld from %lld t=%lld g=%lld n=%lld d=%lld%s window=%lld p=%g",
          what, mt_type_name(got->type), sqrt(diff / norm), (long long)x->b, (long long)x->s, (long long)x->all_s,
          (long long)x->first, (long long)x->t, (long long)x->g, (long long)x->n, (long long)x->d,
          x->causal ? " causal" : "", (long long)x->window, x->p);
}

/* Runs a call on the host's memory; false: it cannot, and there is nothing to compare. */
typedef bool box_run(void *context, struct mt_call *call);

/* o and lse of plain C are what the gradient reads. */
static inline void box_check(const struct attention_box *x, enum mt_type type, box_run *run, void *context) {
    static const char *const names[BOX_TENSORS] = {
        [BOX_O] = "o", [BOX_LSE] = "lse", [BOX_DQ] = "dq", [BOX_DKV] = "dkv"};
    const struct mt_attr attr = box_attr(x);
    const struct mt_clock clock = {.step = 3, .seed = 20261121};
    struct mt_tensor want[BOX_TENSORS], got[BOX_TENSORS];
    double allowed = type == MT_F32 ? 1e-5 : type == MT_F16 ? 2e-3 : 1e-2;
    box_tensors(x, MT_F64, want), box_tensors(x, type, got);
    box_fill(want, 11), box_fill(got, 11);
    for (int gradient = 0; gradient < 2; gradient++) {
        call_run(box_call(&attr, &clock, gradient, want));
        struct mt_call call = box_call(&attr, &clock, gradient, got);
        bool ran = run(context, &call);
        for (int k = gradient ? BOX_DQ : BOX_O; k < (gradient ? BOX_TENSORS : BOX_DQ) && ran; k++)
            box_compare(x, &got[k], &want[k], names[k], k == BOX_DKV, allowed);
        for (int k = BOX_O; k <= BOX_LSE; k++)
            mt_type_convert(got[k].type, got[k].data, want[k].type, want[k].data, mt_tensor_count(&got[k]));
    }
    for (int k = 0; k < BOX_TENSORS; k++) free(want[k].data), free(got[k].data);
}

/* Boxes of all queries and of some, before the end of the keys and up to it, of one head a group and of several. */
static const struct attention_box attention_boxes[] = {
    {.b = 1, .s = 1, .t = 1, .g = 1, .n = 1, .d = 8, .all_s = 1, .all_g = 1, .all_n = 1},
    {.b = 2, .s = 37, .t = 37, .g = 3, .n = 1, .d = 16, .all_s = 37, .b0 = 3, .g0 = 1, .all_g = 5, .all_n = 1},
    {.b = 2, .s = 50, .t = 167, .g = 2, .n = 1, .d = 64, .first = 60, .all_s = 167, .all_g = 2, .all_n = 1},
    {.b = 1, .s = 133, .t = 300, .g = 2, .n = 3, .d = 32, .first = 167, .all_s = 300, .g0 = 2, .all_g = 6, .all_n = 3},
    {.b = 1, .s = 130, .t = 260, .g = 2, .n = 2, .d = 64, .all_s = 260, .n0 = 1, .all_g = 2, .all_n = 5, .apart = true},
    {.b = 1, .s = 5, .t = 200, .g = 1, .n = 4, .d = 128, .first = 64, .all_s = 200, .g0 = 1, .all_g = 3, .all_n = 4},
    {.b = 1, .s = 70, .t = 90, .g = 2, .n = 2, .d = 24, .first = 7, .all_s = 90, .all_g = 2, .all_n = 2},
};

/* All boxes, full and causal, with and without dropout. */
static inline void each_attention_box(enum mt_type type, box_run *run, void *context) {
    for (size_t i = 0; i < sizeof attention_boxes / sizeof *attention_boxes; i++)
        for (int bits = 0; bits < 4; bits++) {
            struct attention_box x = attention_boxes[i];
            x.causal = bits & 1, x.p = bits & 2 ? 0.2 : 0;
            if (x.t == 1 && x.p > 0) continue; /* a single element: nothing to drop relative to */
            box_check(&x, type, run, context);
        }
}

/* All boxes in windows: of the query's own key alone, within a tile, at and around its edge, and of more than a tile;
 * the widest hide nothing from some boxes. */
static inline void each_attention_window(enum mt_type type, box_run *run, void *context) {
    static const int64_t windows[] = {1, 2, 7, 33, 63, 64, 65, 129, 200};
    for (size_t i = 0; i < sizeof attention_boxes / sizeof *attention_boxes; i++)
        for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
            struct attention_box x = attention_boxes[i];
            x.causal = true, x.window = windows[w], x.p = w % 3 == 1 ? 0.2 : 0;
            if (x.t > 1 && windows[w] < x.t) box_check(&x, type, run, context);
        }
}

#endif
