/* Operators: a lowered operator must compute what its sources compute.
 *
 * A pattern is what a kind computes: a small program of the graph's kinds over the operands' letters. A kind of the
 * graph is its own pattern; fused kinds are in the table below, after the descriptions in ops.def. The sources must be
 * exactly the pattern: the same kinds, data flow, order of operands and attributes. With attr.accumulate each output
 * that adds to its old contents implements one more source, an ACCUMULATE or an addition. Other readers of values
 * inside a pattern are flow.c's business: they would read what is never written. */
#include <string.h>

#include "synth/check/lowered/internal.h"

enum { MOST_MEMBERS = 7, MOST_SOURCES = 8 };

struct member {
    enum mt_op_kind kind;
    const char *in, *out; /* letters; that of a missing optional input is skipped */
};
struct pattern {
    enum mt_op_kind kind, epilogue; /* attr.epilogue */
    int nin;                        /* where the number of inputs decides, or 0 */
    const char *in, *out;
    const char *sums; /* the outputs that attr.accumulate concerns */
    struct member members[MOST_MEMBERS];
};

/* What several rows share: a GEMM with its bias; the norm of rows and its gradients; the loss of rows and its gradient.
 */
#define OF(kind, in, out)                                                                                              \
    { MT_OP_##kind, in, out }
#define BIASED OF(matmul, "ab", "t"), OF(add, "tc", "p")
#define NORM OF(sum, "x", "s"), OF(norm_sqdev, "xs", "q"), OF(norm_apply, "xsqgb", "y")
#define NORM_GRAD OF(norm_dots, "dxsqg", "mn"), OF(norm_grad, "dxsqgmn", "z")
#define NORM_PARAM_GRAD OF(norm_param_grad, "dxsq", "uv")
#define RMS_NORM OF(rms_sq, "x", "q"), OF(rms_apply, "xqg", "y")
#define RMS_GRAD OF(rms_dot, "dxqg", "m"), OF(rms_grad, "dxqgm", "z")
#define RMS_PARAM_GRAD OF(rms_param_grad, "dxq", "u")
#define LOSS OF(row_max, "x", "m"), OF(exp_sum, "xm", "z"), OF(pick, "xt", "k"), OF(nll, "mzkt", "l")
#define LOSS_GRAD OF(nll_grad, "xmztd", "y")

static const struct pattern patterns[] = {
    {MT_OP_attention_packed, 0, 0, "x", "ol", "", {OF(separate, "x", "qk"), OF(attention, "qk", "ol")}},
    {MT_OP_attention_packed_grad,
     0,
     0,
     "dxol",
     "y",
     "",
     {OF(separate, "x", "qk"), OF(attention_grad, "dqkol", "mn"), OF(join, "mn", "y")}},
    {MT_OP_fused_matmul, MT_OP_add, 0, "abc", "y", "", {OF(matmul, "ab", "p"), OF(add, "pc", "y")}},
    {MT_OP_fused_matmul, MT_OP_gelu, 0, "abc", "yp", "", {BIASED, OF(gelu, "p", "y")}},
    {MT_OP_fused_matmul, MT_OP_relu, 0, "abc", "yp", "", {BIASED, OF(relu, "p", "y")}},
    {MT_OP_fused_matmul, MT_OP_gelu_grad, 0, "abx", "y", "", {OF(matmul, "ab", "d"), OF(gelu_grad, "dx", "y")}},
    {MT_OP_fused_matmul, MT_OP_relu_grad, 0, "abx", "y", "", {OF(matmul, "ab", "d"), OF(relu_grad, "dx", "y")}},
    {MT_OP_fused_matmul, MT_OP_sum, 0, "ab", "ys", "ys", {OF(matmul, "ab", "y"), OF(sum, "b", "s")}},
    {MT_OP_layer_norm, 0, 0, "xgb", "ysq", "", {NORM}},
    {MT_OP_residual_norm, 0, 0, "acgb", "xysq", "", {OF(add, "ac", "x"), NORM}},
    {MT_OP_layer_norm_grad, 0, 5, "dxsqg", "zuv", "uv", {NORM_GRAD, NORM_PARAM_GRAD}},
    {MT_OP_layer_norm_grad, 0, 6, "dxsqga", "wuv", "uv", {NORM_GRAD, OF(add, "za", "w"), NORM_PARAM_GRAD}},
    {MT_OP_layer_norm_grad, MT_OP_sum, 5, "dxsqg", "zuvt", "uvt", {NORM_GRAD, NORM_PARAM_GRAD, OF(sum, "z", "t")}},
    {MT_OP_layer_norm_grad,
     MT_OP_sum,
     6,
     "dxsqga",
     "wuvt",
     "uvt",
     {NORM_GRAD, OF(add, "za", "w"), NORM_PARAM_GRAD, OF(sum, "w", "t")}},
    {MT_OP_rms_norm, 0, 0, "xg", "yq", "", {RMS_NORM}},
    {MT_OP_residual_rms, 0, 0, "acg", "xyq", "", {OF(add, "ac", "x"), RMS_NORM}},
    {MT_OP_rms_norm_grad, 0, 4, "dxqg", "zu", "u", {RMS_GRAD, RMS_PARAM_GRAD}},
    {MT_OP_rms_norm_grad, 0, 5, "dxqga", "wu", "u", {RMS_GRAD, OF(add, "za", "w"), RMS_PARAM_GRAD}},
    {MT_OP_adamw, MT_OP_cast, 0, "wmvgsk", "WMVc", "", {OF(adamw, "wmvgsk", "WMV")}},
    {MT_OP_cross_entropy, 0, 0, "xt", "mzl", "", {LOSS}},
    {MT_OP_sq_norm_add, 0, 0, "gb", "y", "", {OF(sq_norm, "g", "s"), OF(add, "bs", "y")}},
    {MT_OP_cross_entropy_grad, 0, 2, "xt", "yl", "", {LOSS, OF(fill, "l", "d"), LOSS_GRAD}},
    {MT_OP_cross_entropy_grad, 0, 3, "xta", "yl", "", {LOSS, OF(fill, "l", "c"), OF(add, "ca", "d"), LOSS_GRAD}},
};

/* Kinds of the graph that may add to their outputs' old content (op.h). */
static const char *sums_of(enum mt_op_kind kind) {
    switch (kind) {
    case MT_OP_matmul:
    case MT_OP_embedding_grad:
    case MT_OP_rms_param_grad:
    case MT_OP_sum: return "A";
    case MT_OP_norm_param_grad: return "AB";
    default: return "";
    }
}

/* The pattern of an instruction: a fused kind's row, or the kind itself. */
static bool pattern_of(const struct mt_linstr *l, struct pattern *pattern) {
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        const struct pattern *p = &patterns[i];
        if (p->kind != l->kind || p->epilogue != l->attr.epilogue || (p->nin && p->nin != l->nin)) continue;
        if (l->nin > (int)strlen(p->in) || l->nout > (int)strlen(p->out)) continue; /* names for all operands */
        *pattern = *p;
        return true;
    }
    if (mt_op_info[l->kind].fused) return false;
    *pattern = (struct pattern){l->kind, 0, 0, "abcdefgh", "ABCD", sums_of(l->kind), {{l->kind, "abcdefgh", "ABCD"}}};
    return true;
}

/* ---- attributes ---- */

static bool same_attr(const struct mt_attr *a, const struct mt_attr *b) {
    return a->nm == b->nm && a->nn == b->nn && a->nk == b->nk && a->trans_a == b->trans_a && a->trans_b == b->trans_b &&
           a->out_acc == b->out_acc && a->tf32 == b->tf32 && a->axes == b->axes && a->axis == b->axis &&
           a->parts == b->parts && a->p == b->p && a->tag == b->tag && a->scale == b->scale && a->causal == b->causal &&
           a->any_order == b->any_order && a->eps == b->eps && a->value == b->value && a->to == b->to &&
           a->clip == b->clip && a->beta1 == b->beta1 && a->beta2 == b->beta2 && a->momentum == b->momentum &&
           a->decay == b->decay && a->lr_scale == b->lr_scale && a->nesterov == b->nesterov &&
           a->accumulate == b->accumulate && a->epilogue == b->epilogue && a->interval == b->interval &&
           a->window == b->window && a->rope_base == b->rope_base && a->rope_factor == b->rope_factor &&
           a->rope_low == b->rope_low && a->rope_high == b->rope_high && a->rope_context == b->rope_context &&
           a->inverse == b->inverse;
}

static struct mt_attr attention_attr(const struct mt_attr *t, bool gradient) {
    return (struct mt_attr){.p = t->p,
                            .tag = t->tag,
                            .scale = t->scale,
                            .causal = t->causal,
                            .window = t->window,
                            .any_order = gradient && t->any_order};
}

/* The attributes that a fused kernel gives its member of kind `kind`, whose first operand has `naxes` axes. */
static struct mt_attr member_attr(const struct mt_linstr *l, enum mt_op_kind kind, int naxes) {
    const struct mt_attr *t = &l->attr;
    switch (kind) {
    case MT_OP_matmul:
        return (struct mt_attr){.nm = t->nm,
                                .nn = t->nn,
                                .nk = t->nk,
                                .trans_a = t->trans_a,
                                .trans_b = t->trans_b,
                                .out_acc = t->out_acc,
                                .tf32 = t->tf32};
    case MT_OP_add:
        if (l->kind == MT_OP_cross_entropy_grad) return (struct mt_attr){0};
        return (struct mt_attr){.axes =
                                    l->kind == MT_OP_fused_matmul ? ((1u << t->nn) - 1) << t->nm : (1u << naxes) - 1};
    case MT_OP_sum:
        if (l->kind == MT_OP_fused_matmul)
            return (struct mt_attr){.axes = ((1u << t->nk) - 1) << (t->trans_b ? t->nn : 0)};
        return (struct mt_attr){.axes = l->kind == MT_OP_layer_norm_grad ? (1u << (naxes - 1)) - 1 : 1u << (naxes - 1)};
    case MT_OP_norm_apply:
    case MT_OP_norm_dots:
    case MT_OP_norm_grad:
    case MT_OP_norm_param_grad:
    case MT_OP_rms_apply:
    case MT_OP_rms_dot:
    case MT_OP_rms_grad:
    case MT_OP_rms_param_grad: return (struct mt_attr){.eps = t->eps};
    case MT_OP_fill: return (struct mt_attr){.value = t->value, .to = t->to};
    case MT_OP_separate: return (struct mt_attr){.axis = 2, .parts = 2};
    case MT_OP_join: return (struct mt_attr){.axis = 2};
    case MT_OP_attention:
    case MT_OP_attention_grad: return attention_attr(t, kind == MT_OP_attention_grad);
    default: return (struct mt_attr){0};
    }
}

/* Whether a fused kernel has no attributes but those of its members. */
static bool only_its_own(const struct mt_linstr *l) {
    const struct mt_attr *t = &l->attr;
    struct mt_attr own = {.accumulate = t->accumulate, .eps = t->eps, .epilogue = t->epilogue};
    if (l->kind == MT_OP_fused_matmul)
        own = (struct mt_attr){.nm = t->nm,
                               .nn = t->nn,
                               .nk = t->nk,
                               .trans_a = t->trans_a,
                               .trans_b = t->trans_b,
                               .out_acc = t->out_acc && t->epilogue == MT_OP_sum,
                               .accumulate = t->accumulate && t->epilogue == MT_OP_sum,
                               .tf32 = t->tf32,
                               .epilogue = t->epilogue};
    if (l->kind == MT_OP_attention_packed) own = attention_attr(t, false);
    if (l->kind == MT_OP_attention_packed_grad) own = attention_attr(t, true);
    if (l->kind == MT_OP_cross_entropy) own = (struct mt_attr){0};
    if (l->kind == MT_OP_cross_entropy_grad) own = (struct mt_attr){.value = t->value, .to = t->to};
    return same_attr(t, &own);
}

/* ---- matching ---- */

struct matching {
    struct mt_lchecker *c;
    const struct mt_linstr *l;
    int bound[128]; /* of a letter: the program value, or -1 */
    bool used[MOST_SOURCES];
};

/* Whether the source's inputs are the values of the member's letters. */
static bool inputs_match(const struct matching *m, const struct member *member, const struct mt_instr *source,
                         bool swapped) {
    int k = 0;
    for (const char *letter = member->in; *letter; letter++) {
        int value = m->bound[(int)*letter];
        if (value < 0) continue; /* a missing optional input */
        if (k >= source->nin || source->in[swapped ? source->nin - 1 - k : k] != value) return false;
        k++;
    }
    return k == source->nin;
}

static bool outputs_match(const struct matching *m, const struct member *member, const struct mt_instr *source) {
    for (int o = 0; o < source->nout; o++) {
        int value = member->out[o] ? m->bound[(int)member->out[o]] : -1;
        if (!member->out[o] || (value >= 0 && value != source->out[o])) return false;
    }
    return true;
}

static enum mt_status match_member(struct matching *m, const struct member *member, bool fused) {
    const struct mt_graph *g = m->c->program->graph;
    for (int s = 0; s < m->l->nsources; s++) {
        const struct mt_instr *source = mt_lchecker_source(m->c, s);
        if (m->used[s] || source->kind != MT_INSTR_OP || g->ops[source->gop].kind != member->kind) continue;
        const struct mt_attr *attr = &g->ops[source->gop].attr;
        int naxes = g->values[g->ops[source->gop].in[0]].naxes;
        bool symmetric = member->kind == MT_OP_add && attr->axes == (1u << naxes) - 1;
        if (!inputs_match(m, member, source, false) && !(symmetric && inputs_match(m, member, source, true))) continue;
        if (!outputs_match(m, member, source)) continue;
        struct mt_attr want = fused ? member_attr(m->l, member->kind, naxes) : m->l->attr;
        if (!fused) want.accumulate = false;
        if (want.epilogue == MT_OP_cast) want.epilogue = 0, want.to = 0; /* check_cast */
        if (!same_attr(attr, &want))
            return mt_lchecker_refuse(m->c, "its attributes are not those of %s", g->ops[source->gop].name);
        m->used[s] = true;
        for (int o = 0; o < source->nout; o++) m->bound[(int)member->out[o]] = source->out[o];
        return MT_OK;
    }
    return mt_lchecker_refuse(m->c, "none of its sources is the %s of these operands", mt_op_info[member->kind].name);
}

/* The value that the source adds `fresh` to, element by element: the accumulator, or the other operand; or -1. */
static int added_to(const struct matching *m, const struct mt_instr *source, int fresh) {
    const struct mt_graph *g = m->c->program->graph;
    if (source->kind == MT_INSTR_ACCUMULATE) return source->in[1] == fresh ? source->in[0] : -1;
    if (source->kind != MT_INSTR_OP || g->ops[source->gop].kind != MT_OP_add) return -1;
    struct mt_attr whole = {.axes = (1u << g->values[g->ops[source->gop].in[0]].naxes) - 1};
    if (!same_attr(&g->ops[source->gop].attr, &whole) || source->in[0] == source->in[1]) return -1;
    return source->in[0] == fresh ? source->in[1] : source->in[1] == fresh ? source->in[0] : -1;
}

/* Output o is the sum of `fresh` and the old contents of its memory. */
static enum mt_status match_sum(struct matching *m, int o, int fresh) {
    for (int s = 0; s < m->l->nsources; s++) {
        const struct mt_instr *source = mt_lchecker_source(m->c, s);
        int old = m->used[s] || source->out[0] != m->l->out[o] ? -1 : added_to(m, source, fresh);
        if (old < 0) continue;
        m->used[s] = true;
        m->c->old[m->c->instr][o] = old;
        return MT_OK;
    }
    return mt_lchecker_refuse(m->c, "none of its sources adds output %d to the old contents", o);
}

static enum mt_status match_pattern(struct matching *m, const struct pattern *p, bool fused) {
    const struct mt_linstr *l = m->l;
    for (int k = 0; k < l->nin; k++) m->bound[(int)p->in[k]] = l->in[k];
    for (int o = 0; o < l->nout; o++)
        if (!l->attr.accumulate || !strchr(p->sums, p->out[o])) m->bound[(int)p->out[o]] = l->out[o];
    for (int i = 0; i < MOST_MEMBERS && p->members[i].in; i++) {
        enum mt_status st = match_member(m, &p->members[i], fused);
        if (st) return st;
    }
    for (int o = 0; o < l->nout && l->attr.accumulate; o++) {
        if (!strchr(p->sums, p->out[o])) continue;
        enum mt_status st = match_sum(m, o, m->bound[(int)p->out[o]]);
        if (st) return st;
    }
    for (int s = 0; s < l->nsources; s++)
        if (!m->used[s]) return mt_lchecker_refuse(m->c, "it does not compute source %d", l->sources[s]);
    return MT_OK;
}

/* ---- casts by updates ---- */

/* The kept instruction whose output is `value`, or null. */
static const struct mt_linstr *kept_cast(const struct mt_lchecker *c, int value) {
    for (int i = c->low->block_begin[MT_PROLOGUE]; i < c->low->block_begin[MT_PROLOGUE + 1]; i++)
        if (c->low->instrs[i].kept && c->low->instrs[i].out[0] == value) return &c->low->instrs[i];
    return NULL;
}

/* The cast that an update writes is that of the state's next value, of the type and layout that the kept cast makes in
 * the next step. That it lies where the next step reads it is checked by flow.c. */
static enum mt_status check_cast(struct mt_lchecker *c) {
    const struct mt_linstr *l = mt_lchecker_instr(c), *kept = kept_cast(c, l->out[3]);
    const struct mt_pvalue *values = c->program->values;
    if (mt_lchecker_block(c) != MT_EPILOGUE || !kept || kept->attr.to != l->attr.to)
        return mt_lchecker_refuse(c, "casts to what is not kept for the next step");
    int state = kept->in[0];
    if (!values[state].input || values[state].next != l->out[0])
        return mt_lchecker_refuse(c, "its cast is not of the next value of %s", mt_lchecker_name(c, state));
    if (values[l->out[0]].layout != values[state].layout || values[l->out[3]].layout != values[state].layout)
        return mt_lchecker_refuse(c, "its cast has another layout than %s", mt_lchecker_name(c, state));
    return MT_OK;
}

/* A kept instruction reads one state and nothing else, so that its output stays right until the state is written. */
static enum mt_status check_kept(struct mt_lchecker *c) {
    const struct mt_linstr *l = mt_lchecker_instr(c);
    if (l->kind != MT_OP_cast || mt_lchecker_block(c) != MT_PROLOGUE || l->nwaits ||
        !c->program->values[l->in[0]].input)
        return mt_lchecker_refuse(c, "is kept, but is no cast of a state that nothing delays");
    return MT_OK;
}

/* ---- zeros and sums over micro-batches ---- */

static enum mt_status check_zero(struct mt_lchecker *c, const struct mt_instr *source) {
    const struct mt_linstr *l = mt_lchecker_instr(c);
    struct mt_attr want = {.to = c->program->values[source->out[0]].type};
    if (l->kind != MT_OP_fill || l->nout != 1 || l->out[0] != source->out[0] || !same_attr(&l->attr, &want))
        return mt_lchecker_refuse(c, "does not fill the accumulator with zeros");
    return MT_OK;
}

static enum mt_status check_accumulate(struct mt_lchecker *c, const struct mt_instr *source) {
    const struct mt_linstr *l = mt_lchecker_instr(c);
    struct mt_attr want = {.axes = (1u << mt_lchecker_layout(c, source->out[0])->naxes) - 1};
    if (l->kind != MT_OP_add || l->nin != 2 || l->nout != 1 || l->in[0] != source->in[0] || l->in[1] != source->in[1] ||
        l->out[0] != source->out[0] || !same_attr(&l->attr, &want))
        return mt_lchecker_refuse(c, "does not add to the accumulator");
    return MT_OK;
}

/* ---- tensors ---- */

/* What an iteration of BODY adds to operand k. */
static enum mt_status check_advance(struct mt_lchecker *c, int k) {
    const struct mt_linstr *l = mt_lchecker_instr(c);
    const struct mt_program *p = c->program;
    int v = k < l->nin ? l->in[k] : l->out[k - l->nin];
    const struct mt_value *g = &p->graph->values[p->values[v].gvalue];
    const struct mt_box *box = mt_pvalue_box(p, v, c->rank);
    for (int a = 0; a < g->naxes; a++) {
        int64_t offset = 0, bytes = a == 0 ? c->low->values[v].iteration_bytes : 0;
        if (g->label[a] == p->graph->batch && mt_box_count(box, g->naxes))
            offset = mt_program_sample(p, MT_BODY, 1, box->lo[a]) - mt_program_sample(p, MT_BODY, 0, box->lo[a]);
        int found = 0;
        for (int i = 0; i < l->nadvances; i++) {
            const struct mt_ladvance *advance = &l->advances[i];
            if (advance->operand != k || advance->axis != a) continue;
            if (found++ || advance->offset != offset || advance->bytes != bytes)
                return mt_lchecker_refuse(c, "the next iteration reads %s at another place", g->name);
        }
        if (!found && (offset || bytes) && c->low->body_count > 1)
            return mt_lchecker_refuse(c, "every iteration uses the same samples of %s", g->name);
    }
    if (g->naxes == 0 && c->low->values[v].iteration_bytes && c->low->body_count > 1)
        return mt_lchecker_refuse(c, "%s has iterations, but no axis", g->name);
    return MT_OK;
}

/* Operand k's tensor is the lvalue's; if it is empty, only its count and whole extents are compared. */
static enum mt_status check_tensor(struct mt_lchecker *c, const struct mt_linstr *l, int k) {
    int v = k < l->nin ? l->in[k] : l->out[k - l->nin];
    const struct mt_tensor *mine = &l->tensor[k], *value = &c->low->values[v].tensor;
    bool same =
        mine->type == value->type && mine->naxes == value->naxes && mt_tensor_count(mine) == mt_tensor_count(value);
    for (int a = 0; a < value->naxes && same; a++) {
        same = mine->global[a] == value->global[a] && mine->extent[a] >= 0;
        if (mt_tensor_count(value))
            same = same && mine->extent[a] == value->extent[a] && mine->offset[a] == value->offset[a];
    }
    return same ? MT_OK : mt_lchecker_refuse(c, "its tensor of %s is not the value's", mt_lchecker_name(c, v));
}

static enum mt_status check_advances(struct mt_lchecker *c) {
    const struct mt_linstr *l = mt_lchecker_instr(c);
    enum mt_status st = MT_OK;
    for (int k = 0; k < l->nin + l->nout && mt_lchecker_block(c) == MT_BODY && !st; k++) st = check_advance(c, k);
    if (mt_lchecker_block(c) != MT_BODY && l->nadvances)
        return mt_lchecker_refuse(c, "has changes per iteration outside of the body");
    return st;
}

static enum mt_status check_tensors(struct mt_lchecker *c, const struct mt_linstr *l) {
    static char memory[64];
    struct mt_clock clock = {.step = 1};
    struct mt_tensor tensors[MT_MAX_IN + MT_MAX_OUT];
    for (int k = 0; k < l->nin + l->nout; k++) {
        enum mt_status st = check_tensor(c, l, k);
        if (st) return st;
        tensors[k] = l->tensor[k];
        tensors[k].data = memory;
    }
    struct mt_call call = mt_linstr_call(l, tensors);
    call.clock = &clock;
    struct mt_err why = MT_ERR_INIT;
    if (mt_call_check(&call, &why)) return mt_lchecker_refuse(c, "it is no valid call: %.300s", why.text);
    return MT_OK;
}

/* The operator has the scratch that its backend needs for this call, in memory; where it is, lowered.c and flow.c
 * check.
 */
static enum mt_status check_scratch(struct mt_lchecker *c) {
    const struct mt_linstr *l = mt_lchecker_instr(c);
    struct mt_call call = mt_linstr_call(l, l->tensor);
    const struct mt_lower_options *o = c->options;
    int64_t needs = o->scratch_bytes ? o->scratch_bytes(o->context, &call) : 0;
    const struct mt_lvalue *scratch = l->scratch >= 0 ? &c->low->values[l->scratch] : NULL;
    int64_t has = scratch && scratch->offset_bytes >= 0 ? scratch->size_bytes : 0;
    if (has >= needs) return MT_OK;
    return mt_lchecker_refuse(c, "needs %lld bytes of scratch, but has %lld", (long long)needs, (long long)has);
}

enum mt_status mt_lchecker_op(struct mt_lchecker *c) {
    const struct mt_linstr *l = mt_lchecker_instr(c);
    struct matching m = {.c = c, .l = l};
    struct pattern pattern;
    enum mt_status st;
    memset(m.bound, -1, sizeof m.bound);
    if ((unsigned)l->kind >= MT_NOPS || l->nin > MT_MAX_IN || l->nout > MT_MAX_OUT || l->nout < 1)
        return mt_lchecker_refuse(c, "is no operator");
    if (l->stream != MT_STREAM_COMPUTE)
        return mt_lchecker_refuse(c, "computes on another stream than the one that owns the threads");
    if (l->nsources < 1 || l->nsources > MOST_SOURCES) return mt_lchecker_refuse(c, "has no source, or too many");
    const struct mt_instr *source = mt_lchecker_source(c, 0);
    if (l->nsources == 1 && source->kind == MT_INSTR_ZERO)
        st = check_zero(c, source);
    else if (l->nsources == 1 && source->kind == MT_INSTR_ACCUMULATE)
        st = check_accumulate(c, source);
    else if (!pattern_of(l, &pattern))
        st = mt_lchecker_refuse(c, "there is no pattern for a %s of these operands", mt_op_info[l->kind].name);
    else if (l->attr.accumulate && !*pattern.sums)
        st = mt_lchecker_refuse(c, "a %s cannot accumulate", mt_op_info[l->kind].name);
    else if (mt_op_info[l->kind].fused && !only_its_own(l))
        st = mt_lchecker_refuse(c, "has attributes that its kind does not read");
    else
        st = match_pattern(&m, &pattern, mt_op_info[l->kind].fused);
    if (!st && l->kept) st = check_kept(c);
    if (!st && l->kind == MT_OP_adamw && l->attr.epilogue == MT_OP_cast) st = check_cast(c);
    if (!st) st = check_tensors(c, l);
    if (!st) st = check_advances(c);
    return st ? st : check_scratch(c);
}

enum mt_status mt_lchecker_gemm(struct mt_lchecker *c, int gathered, int collective) {
    struct mt_linstr gemm = *mt_lchecker_instr(c);
    int in[MT_MAX_IN] = {gathered};
    struct pattern pattern;
    if (gemm.nsources > MOST_SOURCES || gemm.nin < 2 || gemm.nin > MT_MAX_IN)
        return mt_lchecker_refuse(c, "has too many sources, or other operands than a GEMM");
    for (int k = 1; k < gemm.nin; k++) in[k] = gemm.in[k];
    gemm.in = in;
    gemm.nout -= gemm.overlap->problem.keep;
    gemm.overlap = NULL;
    struct matching m = {.c = c, .l = &gemm};
    memset(m.bound, -1, sizeof m.bound);
    m.used[collective] = true;
    if (gemm.kind != MT_OP_fused_matmul || gemm.nout < 1 || !pattern_of(&gemm, &pattern) || !only_its_own(&gemm))
        return mt_lchecker_refuse(c, "there is no pattern for a GEMM with this epilogue and these operands");
    enum mt_status st = match_pattern(&m, &pattern, true);
    return st ? st : check_tensors(c, &gemm);
}

/* The addition is this rank's own: what it takes is the collective's result here, not what a GEMM makes. */
static enum mt_status check_addition(struct mt_lchecker *c, int summed) {
    static char memory[64];
    const struct mt_linstr *l = mt_lchecker_instr(c);
    const struct mt_attr attr = member_attr(l, MT_OP_add, 0);
    struct mt_tensor tensors[3] = {c->low->values[summed].tensor, l->tensor[2], l->tensor[3]};
    struct mt_err why = MT_ERR_INIT;
    for (int k = 0; k < 4; k++) {
        enum mt_status st = check_tensor(c, l, k);
        if (st) return st;
    }
    if (!mt_tensor_count(&tensors[0]) && !mt_tensor_count(&tensors[2])) return MT_OK;
    for (int k = 0; k < 3; k++) tensors[k].data = memory;
    struct mt_call call = {.kind = MT_OP_add, .attr = &attr, .nin = 2, .nout = 1, .in = tensors, .out = tensors + 2};
    if (mt_call_check(&call, &why)) return mt_lchecker_refuse(c, "its bias is no valid call: %.300s", why.text);
    return MT_OK;
}

enum mt_status mt_lchecker_biased_sum(struct mt_lchecker *c, int summed) {
    static const struct pattern pattern = {MT_OP_fused_matmul, MT_OP_add, 3, "abc", "y", "", {OF(add, "pc", "y")}};
    const struct mt_linstr *l = mt_lchecker_instr(c);
    struct matching m = {.c = c, .l = l, .used = {true, true}};
    memset(m.bound, -1, sizeof m.bound);
    m.bound['p'] = summed;
    if (l->kind != MT_OP_fused_matmul || l->attr.epilogue != MT_OP_add || l->nsources != 3 || l->nin != 3 ||
        l->nout != 1 || !only_its_own(l))
        return mt_lchecker_refuse(c, "is no sum with a bias");
    const struct mt_attr gemm = member_attr(l, MT_OP_matmul, 0);
    const struct mt_op *op = &c->program->graph->ops[mt_lchecker_source(c, 0)->gop];
    if (!same_attr(&op->attr, &gemm)) return mt_lchecker_refuse(c, "its attributes are not those of %s", op->name);
    enum mt_status st = match_pattern(&m, &pattern, true);
    return st ? st : check_addition(c, summed);
}
