/* The table of operators, and the check of calls. */
#include "kernels/op/op.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

const struct mt_op_info mt_op_info[MT_NOPS] = {
#define PLACE(text, o) ((text "----")[o] == '-' ? -1 : (text "----")[o] - '0')
#define MT_OP(kind, min, max, outputs, intypes, outtypes, inplace, is_exact, is_fused, shape, flops_each)              \
    [MT_OP_##kind] = {.name = #kind,                                                                                   \
                      .min_in = min,                                                                                   \
                      .max_in = max,                                                                                   \
                      .nout = outputs,                                                                                 \
                      .in_types = intypes,                                                                             \
                      .out_types = outtypes,                                                                           \
                      .in_place = {PLACE(inplace, 0), PLACE(inplace, 1), PLACE(inplace, 2), PLACE(inplace, 3)},        \
                      .exact = is_exact,                                                                               \
                      .fused = is_fused,                                                                               \
                      .shapes = shape,                                                                                 \
                      .flops = flops_each},
#include "kernels/op/ops.def"
#undef MT_OP
#undef PLACE
};

const struct mt_op_epilogue *mt_op_epilogue(enum mt_op_kind kind) {
    static const struct mt_op_epilogue epilogues[] = {
        {.kind = MT_OP_add, .nin = 3, .nout = 1, .bias = true},
        {.kind = MT_OP_gelu, .nin = 3, .nout = 2, .bias = true, .whole = true},
        {.kind = MT_OP_relu, .nin = 3, .nout = 2, .bias = true, .whole = true},
        {.kind = MT_OP_gelu_grad, .nin = 3, .nout = 1},
        {.kind = MT_OP_relu_grad, .nin = 3, .nout = 1},
        {.kind = MT_OP_sum, .nin = 2, .nout = 2, .sums = true},
    };
    for (size_t i = 0; i < sizeof epilogues / sizeof *epilogues; i++)
        if (epilogues[i].kind == kind) return &epilogues[i];
    return NULL;
}

int mt_op_nout(enum mt_op_kind kind, const struct mt_attr *attr) {
    const struct mt_op_epilogue *epilogue = kind == MT_OP_fused_matmul ? mt_op_epilogue(attr->epilogue) : NULL;
    bool unsummed = kind == MT_OP_layer_norm_grad && attr->epilogue != MT_OP_sum;
    bool uncast = kind == MT_OP_adamw && attr->epilogue != MT_OP_cast;
    if (kind == MT_OP_separate) return attr->parts;
    return epilogue ? epilogue->nout : mt_op_info[kind].nout - unsummed - uncast;
}

/* The values of a row's letters in one call. */
struct binding {
    const struct mt_call *call;
    struct mt_err *err;
    int64_t extent[128];           /* of a letter, -1: not seen */
    const struct mt_tensor *group; /* the first operand with a '*' */
    int group_at, group_axes;      /* its axes there; -1: not seen */
    bool typed;
    enum mt_type type, acc;
};

static enum mt_status fail(const struct binding *b, bool output, int i, const char *why) {
    return mt_fail(b->err, MT_EBUG, "%s: %s %d %s", mt_op_info[b->call->kind].name, output ? "output" : "input", i,
                   why);
}

static enum mt_status check_type(struct binding *b, bool output, int i, char letter) {
    const struct mt_tensor *t = output ? &b->call->out[i] : &b->call->in[i];
    bool is_float = (unsigned)t->type < MT_I32;
    bool statistic = t->type == MT_F64 || t->type == MT_F32;
    switch (letter) {
    case 'I': return t->type == MT_I32 ? MT_OK : fail(b, output, i, "is not i32");
    case '*': return (unsigned)t->type < MT_NTYPES ? MT_OK : fail(b, output, i, "has no type");
    case 'A':
        if (!statistic) return fail(b, output, i, "is not of an accumulation type");
        if (!b->typed) b->acc = b->type = t->type, b->typed = true;
        return t->type == b->acc ? MT_OK : fail(b, output, i, "is not of the accumulation type");
    default: /* T, S */
        if (!is_float) return fail(b, output, i, "is not of a floating-point type");
        if (!b->typed) b->type = t->type, b->acc = mt_type_acc(t->type), b->typed = true;
        return t->type == b->type ? MT_OK : fail(b, output, i, "is not of the activation type");
    }
}

static enum mt_status check_tensor(struct binding *b, bool output, int i) {
    const struct mt_tensor *t = output ? &b->call->out[i] : &b->call->in[i];
    if (t->naxes < 0 || t->naxes > MT_MAX_AXES) return fail(b, output, i, "has a wrong number of axes");
    for (int a = 0; a < t->naxes; a++)
        if (t->extent[a] < 0) return fail(b, output, i, "has a negative extent");
    bool shape_only = b->call->kind == MT_OP_fill && !output;
    if (!t->data && !shape_only && mt_tensor_count(t) > 0) return fail(b, output, i, "has no memory");
    return MT_OK;
}

/* Check one operand against its pattern, such as "*e"; *shapes moves on to the text after it. */
static enum mt_status check_shape(struct binding *b, bool output, int i, const char **shapes) {
    const struct mt_tensor *t = output ? &b->call->out[i] : &b->call->in[i];
    const char *s = *shapes;
    int letters = (int)strcspn(s, ",>"), axis = 0;
    const char *star = memchr(s, '*', (size_t)letters);
    int axes = star ? t->naxes - (letters - 1) : 0; /* of the group */
    *shapes = s + letters;
    if (star && b->group_axes < 0) b->group = t, b->group_at = (int)(star - s), b->group_axes = axes;
    if (axes < 0 || (star ? axes != b->group_axes : t->naxes != letters))
        return fail(b, output, i, "has a wrong number of axes");
    for (int l = 0; l < letters; l++) {
        for (int g = 0; s[l] == '*' && g < axes; g++, axis++)
            if (t->extent[axis] != b->group->extent[b->group_at + g]) return fail(b, output, i, "differs in extent");
        if (s[l] == '*') continue;
        int64_t *extent = &b->extent[(int)s[l]];
        if (isdigit((unsigned char)s[l])) *extent = s[l] - '0';
        if (*extent < 0) *extent = t->extent[axis];
        if (*extent != t->extent[axis++]) return fail(b, output, i, "differs in extent");
    }
    return MT_OK;
}

/* Axes [at, at + n) of one operand equal those of another. */
static bool same_axes(const struct mt_tensor *a, int at, const struct mt_tensor *b, int bt, int n) {
    if (at + n > a->naxes || bt + n > b->naxes) return false;
    for (int i = 0; i < n; i++)
        if (a->extent[at + i] != b->extent[bt + i]) return false;
    return true;
}

/* An epilogue's operand next to y[m, n]: it has all of y's axes (`whole`), or n alone. */
static enum mt_status check_epilogue_operand(struct binding *b, bool output, int i, bool whole) {
    const struct mt_attr *t = b->call->attr;
    const struct mt_tensor *y = &b->call->out[0], *operand = output ? &b->call->out[i] : &b->call->in[i];
    int first = whole ? 0 : t->nm, n = whole ? y->naxes : t->nn;
    if (operand->naxes == n && same_axes(operand, 0, y, first, n)) return MT_OK;
    return fail(b, output, i, whole ? "is not [m, n]" : "is not [n]");
}

static enum mt_status check_epilogue(struct binding *b) {
    const struct mt_call *c = b->call;
    const struct mt_attr *t = c->attr;
    const struct mt_op_epilogue *epilogue = mt_op_epilogue(t->epilogue);
    enum mt_status st;
    if (!epilogue) return mt_fail(b->err, MT_EBUG, "fused_matmul: no such epilogue: %d", (int)t->epilogue);
    if (c->nin != epilogue->nin) return fail(b, false, epilogue->nin - 1, "is missing, or is not the last");
    if (!epilogue->sums && (t->out_acc || t->accumulate)) return fail(b, true, 0, "cannot be a sum");
    if (c->nin > 2 && (st = check_epilogue_operand(b, false, 2, !epilogue->bias))) return st;
    if (c->nout < 2) return MT_OK;
    if (c->out[1].type != (epilogue->whole ? b->type : b->acc)) return fail(b, true, 1, "is of a wrong type");
    return check_epilogue_operand(b, true, 1, epilogue->whole);
}

static enum mt_status check_matmul(struct binding *b) {
    const struct mt_call *c = b->call;
    const struct mt_attr *t = c->attr;
    const struct mt_tensor *x = &c->in[0], *w = &c->in[1], *y = &c->out[0];
    if (t->nm < 0 || t->nn < 0 || t->nk < 0) return fail(b, false, 0, "has a negative group of axes");
    if (x->naxes != t->nm + t->nk) return fail(b, false, 0, "has a wrong number of axes");
    if (w->naxes != t->nk + t->nn) return fail(b, false, 1, "has a wrong number of axes");
    if (y->naxes != t->nm + t->nn) return fail(b, true, 0, "has a wrong number of axes");
    if (!same_axes(x, t->trans_a ? 0 : t->nm, w, t->trans_b ? t->nn : 0, t->nk))
        return fail(b, false, 1, "differs from input 0 in k");
    if (!same_axes(y, 0, x, t->trans_a ? t->nk : 0, t->nm)) return fail(b, true, 0, "differs from input 0 in m");
    if (!same_axes(y, t->nm, w, t->trans_b ? 0 : t->nk, t->nn)) return fail(b, true, 0, "differs from input 1 in n");
    enum mt_type want = t->out_acc ? mt_type_acc(x->type) : x->type;
    if (y->type != want) return fail(b, true, 0, "is not of the type that out_acc asks for");
    return c->kind == MT_OP_matmul ? MT_OK : check_epilogue(b);
}

/* The axes of `whole` that are in `axes` (or not, if `without`) are those of `part`, in order. */
static bool picked_axes(const struct mt_tensor *whole, unsigned axes, const struct mt_tensor *part) {
    int n = 0;
    if (axes >> whole->naxes) return false;
    for (int a = 0; a < whole->naxes; a++)
        if (axes >> a & 1u) {
            if (n >= part->naxes || part->extent[n] != whole->extent[a]) return false;
            n++;
        }
    return n == part->naxes;
}

/* The parts are consecutive ranges of an axis of `whole`; one that lacks the axis is one place. */
static enum mt_status check_parts(struct binding *b, const struct mt_tensor *whole, const struct mt_tensor *part,
                                  int nparts) {
    bool output = b->call->kind == MT_OP_separate;
    int axis = b->call->attr->axis;
    int64_t places = 0;
    if (axis < 0 || axis >= whole->naxes) return fail(b, !output, 0, "lacks the axis by which it is divided");
    for (int p = 0; p < nparts; p++) {
        int has = part[p].naxes == whole->naxes;
        if (part[p].naxes != whole->naxes - !has) return fail(b, output, p, "has a wrong number of axes");
        if (!same_axes(&part[p], 0, whole, 0, axis) ||
            !same_axes(&part[p], axis + has, whole, axis + 1, whole->naxes - axis - 1))
            return fail(b, output, p, "differs in extent");
        places += has ? part[p].extent[axis] : 1;
    }
    return places == whole->extent[axis] ? MT_OK : fail(b, !output, 0, "is not the sum of its parts");
}

static enum mt_status check_special(struct binding *b) {
    const struct mt_call *c = b->call;
    switch (c->kind) {
    case MT_OP_add:
        if (!picked_axes(&c->in[0], c->attr->axes, &c->in[1])) return fail(b, false, 1, "is not of the axes given");
        if (c->out[0].naxes != c->in[0].naxes || !same_axes(&c->out[0], 0, &c->in[0], 0, c->in[0].naxes))
            return fail(b, true, 0, "differs in extent");
        return MT_OK;
    case MT_OP_sum: {
        unsigned all = (1u << c->in[0].naxes) - 1;
        if (c->attr->axes & ~all) return fail(b, false, 0, "lacks an axis that is to be summed");
        return picked_axes(&c->in[0], all & ~c->attr->axes, &c->out[0]) ? MT_OK
                                                                        : fail(b, true, 0, "is not of the axes left");
    }
    case MT_OP_separate: return check_parts(b, &c->in[0], c->out, c->nout);
    case MT_OP_join: return check_parts(b, &c->out[0], c->in, c->nin);
    default: return check_matmul(b);
    }
}

/* Query heads are as many for each head of keys and values. */
static enum mt_status check_heads(struct binding *b) {
    const struct mt_tensor *q = b->group;
    int64_t groups = b->extent['g'], heads = mt_tensor_extent(q, b->group_at, b->group_axes);
    bool apart = b->group_axes == 2 && q->extent[b->group_at] == groups;
    bool together = b->group_axes == 1 && (groups ? heads % groups == 0 : heads == 0);
    return apart || together ? MT_OK : fail(b, false, 0, "has heads that are no multiple of those of keys and values");
}

static enum mt_status check_attributes(struct binding *b) {
    const struct mt_call *c = b->call;
    const struct mt_attr *t = c->attr;
    const char *name = mt_op_info[c->kind].name;
    bool attention = mt_op_is_attention(c->kind) || mt_op_is_attention_grad(c->kind);
    bool draws = c->kind == MT_OP_dropout || attention;
    if (draws && !(t->p >= 0 && t->p < 1)) return mt_fail(b->err, MT_EBUG, "%s: p is %g, not in [0, 1)", name, t->p);
    if (attention && !(t->scale > 0)) return mt_fail(b->err, MT_EBUG, "%s: scale is %g, not positive", name, t->scale);
    if (attention && (t->window < 0 || (t->window && !t->causal)))
        return mt_fail(b->err, MT_EBUG, "%s: a window of %lld%s", name, (long long)t->window,
                       t->causal ? "" : " where attention is not causal");
    if (c->kind == MT_OP_rotary && !(t->rope_base > 0 && t->rope_factor >= 0))
        return mt_fail(b->err, MT_EBUG, "rotary: base is %g and factor %g", t->rope_base, t->rope_factor);
    if (c->kind == MT_OP_rotary && b->extent['d'] % 2) return fail(b, false, 0, "has an odd number of elements a head");
    if (c->kind == MT_OP_layer_norm_grad && t->epilogue && t->epilogue != MT_OP_sum)
        return mt_fail(b->err, MT_EBUG, "%s: no such epilogue: %d", name, (int)t->epilogue);
    if (c->kind == MT_OP_adamw && t->epilogue && t->epilogue != MT_OP_cast)
        return mt_fail(b->err, MT_EBUG, "%s: no such epilogue: %d", name, (int)t->epilogue);
    bool timed = c->kind == MT_OP_adamw || c->kind == MT_OP_sgd || (draws && t->p > 0);
    if (timed && !c->clock) return mt_fail(b->err, MT_EBUG, "%s: no clock", name);
    if (c->kind == MT_OP_adamw && c->clock->step < 1) return mt_fail(b->err, MT_EBUG, "adamw: steps count from 1");
    bool typed = c->kind == MT_OP_fill || c->kind == MT_OP_cast;
    if (typed && c->out[0].type != t->to) return fail(b, true, 0, "is not of the type that `to` asks for");
    if (c->kind == MT_OP_adamw && c->nout > 3 && (c->out[3].type != t->to || t->to == MT_I32))
        return fail(b, true, 3, "is not of the floating-point type that `to` asks for");
    if (c->kind == MT_OP_cast && (c->in[0].type == MT_I32) != (t->to == MT_I32))
        return mt_fail(b->err, MT_EBUG, "cast: between whole numbers and others");
    return MT_OK;
}

static enum mt_status check_one(const struct mt_call *call, struct mt_err *err) {
    if ((unsigned)call->kind >= MT_NOPS) return mt_fail(err, MT_EBUG, "no such operator: %d", (int)call->kind);
    const struct mt_op_info *info = &mt_op_info[call->kind];
    struct binding b = {.call = call, .err = err, .group_axes = -1};
    memset(b.extent, -1, sizeof b.extent);
    if (!call->attr) return mt_fail(err, MT_EBUG, "%s: no attributes", info->name);
    if (call->nin < info->min_in || call->nin > info->max_in || call->nout != mt_op_nout(call->kind, call->attr) ||
        call->nout < 1 || call->nout > info->nout)
        return mt_fail(err, MT_EBUG, "%s: %d inputs and %d outputs", info->name, call->nin, call->nout);

    enum mt_status st;
    const char *shapes = info->shapes;
    for (int i = 0; i < call->nin; i++) {
        if ((st = check_type(&b, false, i, info->in_types[i])) || (st = check_tensor(&b, false, i))) return st;
        if (*info->shapes && (st = check_shape(&b, false, i, &shapes))) return st;
        if (*shapes == ',') shapes++;
    }
    shapes = *info->shapes ? strchr(info->shapes, '>') + 1 : "";
    for (int o = 0; o < call->nout; o++) {
        if ((st = check_type(&b, true, o, info->out_types[o])) || (st = check_tensor(&b, true, o))) return st;
        if (*info->shapes && (st = check_shape(&b, true, o, &shapes))) return st;
        if (*shapes == ',') shapes++;
    }
    if (!*info->shapes && (st = check_special(&b))) return st;
    if ((call->kind == MT_OP_attention || call->kind == MT_OP_attention_grad) && (st = check_heads(&b))) return st;
    return check_attributes(&b);
}

const char *mt_call_pattern(const struct mt_call *call, int operand, int *letters) {
    const char *s = mt_op_info[call->kind].shapes;
    bool output = operand >= call->nin;
    if (!*s) return NULL;
    if (output) s = strchr(s, '>') + 1;
    for (int skip = output ? operand - call->nin : operand; skip > 0; skip--) s += strcspn(s, ",>") + 1;
    *letters = (int)strcspn(s, ",>");
    return s;
}

int64_t mt_call_ids_below(const struct mt_call *call) {
    for (int i = 0; i < call->nin + call->nout; i++) {
        int letters;
        const char *pattern = mt_call_pattern(call, i, &letters),
                   *v = pattern ? memchr(pattern, 'v', (size_t)letters) : NULL;
        const struct mt_tensor *t = i < call->nin ? &call->in[i] : &call->out[i - call->nin];
        if (v) return t->global[t->naxes - letters + (int)(v - pattern)];
    }
    return 0;
}

struct mt_attention mt_attention_of(const struct mt_call *call) {
    bool gradient = mt_op_is_attention_grad(call->kind);
    bool packed = call->kind == MT_OP_attention_packed || call->kind == MT_OP_attention_packed_grad;
    const struct mt_tensor *q = &call->in[gradient], *kv = packed ? q : q + 1;
    struct mt_attention a = {.gradient = gradient, .packed = packed, .q = q, .kv = kv};
    if (gradient) a.dq = &call->out[0], a.dkv = &call->out[!packed];
    a.b = q->extent[0], a.s = q->extent[1], a.t = kv->extent[1];
    a.groups = kv->extent[3], a.d = kv->extent[4];
    a.heads = packed ? a.groups : mt_tensor_extent(q, 2, q->naxes - 3);
    a.share = a.groups ? a.heads / a.groups : 0;
    a.first = q->offset[1], a.all_s = q->global[1], a.first_sample = q->offset[0];
    bool apart = !packed && q->naxes == 5; /* heads as [g, n] */
    a.all_heads = packed ? q->global[3] : apart ? q->global[2] * q->global[3] : q->global[2];
    a.all_share = kv->global[3] ? a.all_heads / kv->global[3] : 0;
    int64_t window = call->attr->causal ? call->attr->window : 0;
    a.window = window < a.first + a.s ? window : 0;
    a.first_group = kv->offset[3], a.first_in_group = apart ? q->offset[3] : 0;
    int64_t part = a.groups * a.d;
    a.q_row = packed ? 3 * part : a.heads * a.d;
    a.kv_row = packed ? 3 * part : 2 * part;
    a.k_at = packed ? part : 0;
    a.v_at = a.k_at + part;
    return a;
}

double mt_rotary_frequency(const struct mt_attr *t, int64_t i, int64_t size) {
    static const double turn = 6.283185307179586;
    double f = pow(t->rope_base, -2 * (double)i / (double)size);
    if (t->rope_factor == 0) return f;
    double waves = (double)t->rope_context * f / turn; /* within the first context */
    if (waves < t->rope_low) return f / t->rope_factor;
    if (waves > t->rope_high) return f;
    double keep = (waves - t->rope_low) / (t->rope_high - t->rope_low);
    return (1 - keep) * f / t->rope_factor + keep * f;
}

enum mt_status mt_call_check(const struct mt_call *call, struct mt_err *err) {
    if (!call->ncalls) return check_one(call, err);
    for (int i = 0; i < call->ncalls; i++) {
        struct mt_call part = mt_call_nth(call, i);
        enum mt_status st = check_one(&part, err);
        if (st) return mt_err_context(err, "call %d of %d", i, call->ncalls), st;
        for (int k = 0; k < call->nin + call->nout; k++) {
            bool in = k < call->nin;
            const struct mt_tensor *mine = in ? &part.in[k] : &part.out[k - call->nin];
            const struct mt_tensor *first = in ? &call->in[k] : &call->out[k - call->nin];
            if (mine->type != first->type)
                return mt_fail(err, MT_EBUG, "%s: merged calls have different types", mt_op_info[call->kind].name);
        }
    }
    return MT_OK;
}
