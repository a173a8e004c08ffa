#include "kernels/cuda/tune/signature.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/number/hash.h"
#include "kernels/cuda/jit/shape.h"

static const struct mt_tensor *operand_of(const struct mt_call *call, int i) {
    return i < call->nin ? &call->in[i] : &call->out[i - call->nin];
}

/* The number of axes that the '*' of an operand matches. */
static int group_axes(const char *pattern, int letters, const struct mt_tensor *t) {
    return memchr(pattern, '*', (size_t)letters) ? t->naxes - (letters - 1) : 0;
}

int cuda_leading_axis(const struct mt_call *call, int operand) {
    int letters;
    const char *pattern = mt_call_pattern(call, operand, &letters);
    if (!pattern || !letters) return -1;
    if (*pattern == 'b') return 0;
    return *pattern == '*' && group_axes(pattern, letters, operand_of(call, operand)) > 0 ? 0 : -1;
}

/* ---- text ---- */

struct text {
    char *to;
    size_t room, used;
};

static void put(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(struct text *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(t->to + t->used, t->room - t->used, format, args);
    va_end(args);
    t->used = (size_t)least((int64_t)t->used + (n > 0 ? n : 0), (int64_t)t->room - 1);
}

static int bucket(int64_t n) {
    int bits = 0;
    while (n > INT64_C(1) << bits) bits++;
    return bits;
}

/* Each letter once, where it first occurs; leading axes of any number are rows, others the heads of queries. */
static void put_letters(struct text *text, const struct mt_call *call) {
    bool seen[128] = {false};
    for (int i = 0; i < call->nin + call->nout; i++) {
        int letters = 0;
        const struct mt_tensor *t = operand_of(call, i);
        const char *pattern = mt_call_pattern(call, i, &letters);
        for (int l = 0, axis = 0; l < letters; l++) {
            int letter = pattern[l] & 127, axes = letter == '*' ? group_axes(pattern, letters, t) : 1;
            int64_t extent = mt_tensor_extent(t, axis, axes);
            if (!seen[letter] && letter == '*' && !l) put(text, " rows=2^%d", bucket(extent));
            if (!seen[letter] && letter == '*' && l) put(text, " heads=%lld", (long long)extent);
            if (!seen[letter] && letter == 'b') put(text, " b=2^%d", bucket(extent));
            if (!seen[letter] && letter != 'b' && letter > '9') put(text, " %c=%lld", letter, (long long)extent);
            seen[letter] = true;
            axis += axes;
        }
    }
}

static void put_extents(struct text *text, const struct mt_tensor *t) {
    for (int a = 0; a < t->naxes; a++) put(text, "%s%lld", a ? "x" : ":", (long long)t->extent[a]);
}

/* Where ops.def has no letters: rows of the first operand, its last axis, and the axes of the call. */
static void put_others(struct text *text, const struct mt_call *call) {
    const struct mt_tensor *x = &call->in[0];
    int64_t last = x->naxes ? x->extent[x->naxes - 1] : 1, rows = mt_tensor_count(x) / largest(last, 1);
    put(text, " rows=2^%d last=%lld axes=%x of %d", bucket(rows), (long long)last, call->attr->axes, x->naxes);
}

/* The attributes that change how a kernel is compiled or launched: not random streams, steps or constants. */
static unsigned flags_of(const struct mt_call *call) {
    const struct mt_attr *a = call->attr;
    return (unsigned)a->causal | (unsigned)(a->p > 0) << 1 | (unsigned)a->accumulate << 2 | (unsigned)a->trans_a << 3 |
           (unsigned)a->trans_b << 4 | (unsigned)a->nesterov << 5 | (unsigned)a->tf32 << 6 |
           (unsigned)a->any_order << 7;
}

void cuda_call_text(const struct mt_call *call, bool exact, char to[CUDA_CALL_TEXT]) {
    struct text text = {to, CUDA_CALL_TEXT, 0};
    put(&text, "%s ", mt_op_info[call->kind].name);
    for (int i = 0; i < call->nin + call->nout; i++) {
        put(&text, "%s%s", i == call->nin ? ">" : i ? "," : "", mt_type_name(operand_of(call, i)->type));
        if (exact) put_extents(&text, operand_of(call, i));
    }
    if (!exact && *mt_op_info[call->kind].shapes) put_letters(&text, call);
    if (!exact && !*mt_op_info[call->kind].shapes) put_others(&text, call);
    if (exact) put(&text, " axes=%x nk=%d", call->attr->axes, call->attr->nk);
    if (call->attr->epilogue) put(&text, " %s", mt_op_info[call->attr->epilogue].name);
    if (call->attr->window) put(&text, " window=%lld", (long long)call->attr->window);
    put(&text, " flags=%x align=%lld", flags_of(call), (long long)cuda_alignment(call));
}

uint64_t cuda_call_hash(const struct mt_call *call) {
    int64_t all[8 + (MT_MAX_IN + MT_MAX_OUT) * (MT_MAX_AXES + 2)] = {
        call->kind,           (int64_t)call->nin << 8 | call->nout,
        flags_of(call),       call->attr->axes,
        call->attr->nk,       call->attr->epilogue,
        cuda_alignment(call), call->attr->window};
    int n = 8;
    for (int i = 0; i < call->nin + call->nout; i++) {
        const struct mt_tensor *t = operand_of(call, i);
        all[n++] = t->type, all[n++] = t->naxes;
        for (int a = 0; a < t->naxes; a++) all[n++] = t->extent[a];
    }
    return mt_hash64(all, (size_t)n * sizeof *all, 0);
}

void cuda_device_key(const struct cuda *cuda, char *text, size_t room) {
    char name[128] = "?";
    int driver = 0;
    cuDeviceGetName(name, sizeof name, cuda->handle);
    cuDriverGetVersion(&driver);
    snprintf(text, room, "%s, sm_%d, %d multiprocessors | driver %d", name, cuda->sm, cuda->nsm, driver);
}
