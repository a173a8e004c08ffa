/* The tensors of a fused operator: its members', but for empty boxes, which each member saw in its own way. Those get
 * the extents that operands share by ops.def, or as factors of a product. */
#include "synth/lower/internal.h"

/* The members' tensor for a value; of empty boxes the one that says most of its axes. */
static struct mt_tensor tensor_of(struct mt_linstr *const *members, int count, int value) {
    struct mt_tensor best = {0};
    int64_t most = -1;
    for (int m = 0; m < count; m++)
        for (int i = 0; i < members[m]->nin + members[m]->nout; i++) {
            const struct mt_linstr *c = members[m];
            if ((i < c->nin ? c->in[i] : c->out[i - c->nin]) != value) continue;
            int64_t sum = 0;
            for (int a = 0; a < c->tensor[i].naxes; a++) sum += c->tensor[i].extent[a];
            if (sum > most) most = sum, best = c->tensor[i];
        }
    return best;
}

/* Extents by the axes' names in a row of ops.def ("*e,*,e>*e"): of the letters, and of the group's axes. */
struct extents {
    int64_t letter[128], group[MT_MAX_AXES];
};

/* Note an operand's extents, or give an empty operand those that are known. */
static void match_shape(struct extents *known, const char *pattern, int letters, struct mt_tensor *t, bool give) {
    bool starred = *pattern == '*';
    int group = starred ? t->naxes - (letters - 1) : 0;
    for (int a = 0; a < t->naxes; a++) {
        int64_t *extent = a < group ? &known->group[a] : &known->letter[(int)pattern[starred + a - group]];
        if (give && mt_tensor_count(t) == 0)
            t->extent[a] = *extent;
        else if (t->extent[a] > *extent)
            *extent = t->extent[a];
    }
}

/* Axes [at, + n) of the operands (places[i] says where in each): empty ones get the extents that others know. */
static void share_axes(struct mt_tensor *const *operands, const int *places, int count, int n) {
    for (int a = 0; a < n; a++) {
        int64_t most = 0;
        for (int i = 0; i < count; i++)
            if (operands[i]->extent[places[i] + a] > most) most = operands[i]->extent[places[i] + a];
        for (int i = 0; i < count; i++)
            if (mt_tensor_count(operands[i]) == 0) operands[i]->extent[places[i] + a] = most;
    }
}

/* The axes of m, n and k, of a product and of what its epilogue reads and writes beside it. */
static void agree_on_product(struct mt_linstr *c) {
    const struct mt_op_epilogue *epilogue = mt_op_epilogue(c->attr.epilogue);
    int nm = c->attr.nm, nn = c->attr.nn, nk = c->attr.nk;
    struct mt_tensor *t = c->tensor, *y = t + c->nin;
    struct mt_tensor *of_m[4] = {&t[0], y}, *of_n[4] = {&t[1], y}, *of_k[2] = {&t[0], &t[1]};
    int at_m[4] = {c->attr.trans_a ? nk : 0, 0}, at_n[4] = {c->attr.trans_b ? 0 : nk, nm}, m = 2, n = 2;
    int at_k[2] = {c->attr.trans_a ? 0 : nm, c->attr.trans_b ? nn : 0};
    for (int beside = 0; beside < 2; beside++) { /* an input, an output */
        bool there = beside ? c->nout > 1 : c->nin > 2, whole = beside ? epilogue->whole : !epilogue->bias;
        if (!there) continue;
        of_n[n] = beside ? &y[1] : &t[2], at_n[n++] = whole ? nm : 0;
        if (whole) of_m[m] = of_n[n - 1], at_m[m++] = 0;
    }
    share_axes(of_m, at_m, m, nm);
    share_axes(of_n, at_n, n, nn);
    share_axes(of_k, at_k, 2, nk);
}

/* The members saw empty boxes each in its own way; the fused kernel wants one. */
static void agree_on_empty(struct mt_linstr *c) {
    if (c->kind == MT_OP_fused_matmul) {
        agree_on_product(c);
        return;
    }
    if (!mt_op_info[c->kind].fused) return;
    const struct mt_call call = mt_linstr_call(c, c->tensor);
    struct extents known = {0};
    for (int give = 0; give < 2; give++)
        for (int i = 0; i < c->nin + c->nout; i++) {
            int letters;
            const char *pattern = mt_call_pattern(&call, i, &letters);
            match_shape(&known, pattern, letters, &c->tensor[i], give);
        }
}

bool mt_fuse_tensors(struct mt_linstr *const *members, int count, struct mt_linstr *fused, struct mt_arena *arena) {
    int n = fused->nin + fused->nout;
    bool empty[MT_MAX_IN + MT_MAX_OUT];
    fused->tensor = mt_new(arena, struct mt_tensor, n);
    for (int i = 0; i < n; i++) {
        int value = i < fused->nin ? fused->in[i] : fused->out[i - fused->nin];
        /* an operator that comes to add to an accumulator sees it as its own output */
        if (i >= fused->nin && fused->attr.accumulate && !members[0]->attr.accumulate)
            value = members[0]->out[i - fused->nin];
        fused->tensor[i] = tensor_of(members, count, value);
        empty[i] = mt_tensor_count(&fused->tensor[i]) == 0;
    }
    agree_on_empty(fused);
    for (int i = 0; i < n; i++)
        if (empty[i] != (mt_tensor_count(&fused->tensor[i]) == 0)) return false;
    return true;
}
