/* The tensors of a fused operator are its members' tensors. An empty box had the extents that its member needed; here
 * it gets the extents that the operands share by ops.def, or by the axes m, n and k of a GEMM. */
#include "synth/lower/internal.h"

/* The members' tensor of a value; of several empty ones, that with the largest sum of extents. */
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

/* Extents by the letters of a row of ops.def ("*e,*,e>*e"), and of the axes that * matches. */
struct extents {
    int64_t letter[128], group[MT_MAX_AXES];
};

/* Record an operand's extents; with `give`, set an empty operand's to the recorded ones. */
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

/* Axes [places[i], + n) of operand i are shared: empty operands get the extents of the others. */
static void share_axes(struct mt_tensor *const *operands, const int *places, int count, int n) {
    for (int a = 0; a < n; a++) {
        int64_t most = 0;
        for (int i = 0; i < count; i++)
            if (operands[i]->extent[places[i] + a] > most) most = operands[i]->extent[places[i] + a];
        for (int i = 0; i < count; i++)
            if (mt_tensor_count(operands[i]) == 0) operands[i]->extent[places[i] + a] = most;
    }
}

/* The axes of m, n and k of a GEMM, and of the extra input and output of its epilogue. */
static void agree_on_gemm(struct mt_linstr *c) {
    const struct mt_op_epilogue *epilogue = mt_op_epilogue(c->attr.epilogue);
    int nm = c->attr.nm, nn = c->attr.nn, nk = c->attr.nk;
    struct mt_tensor *t = c->tensor, *y = t + c->nin;
    struct mt_tensor *of_m[4] = {&t[0], y}, *of_n[4] = {&t[1], y}, *of_k[2] = {&t[0], &t[1]};
    int at_m[4] = {c->attr.trans_a ? nk : 0, 0}, at_n[4] = {c->attr.trans_b ? 0 : nk, nm}, m = 2, n = 2;
    int at_k[2] = {c->attr.trans_a ? 0 : nm, c->attr.trans_b ? nn : 0};
    for (int extra = 0; extra < 2; extra++) { /* an input, an output */
        bool there = extra ? epilogue->nout > 1 : c->nin > 2, whole = extra ? epilogue->whole : !epilogue->bias;
        if (!there) continue;
        of_n[n] = extra ? &y[1] : &t[2], at_n[n++] = whole ? nm : 0;
        if (whole) of_m[m] = of_n[n - 1], at_m[m++] = 0;
    }
    share_axes(of_m, at_m, m, nm);
    share_axes(of_n, at_n, n, nn);
    share_axes(of_k, at_k, 2, nk);
}

/* Give empty operands one set of extents. */
static void agree_on_empty(struct mt_linstr *c) {
    if (c->kind == MT_OP_fused_matmul) {
        agree_on_gemm(c);
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

/* Whether the tensors fit together. On a rank without samples the members may have other shares of an axis that only
 * empty boxes have in common. */
static bool is_call(const struct mt_linstr *fused) {
    static char memory[64]; /* no call is made */
    struct mt_tensor tensors[MT_MAX_IN + MT_MAX_OUT];
    struct mt_clock clock = {.step = 1};
    struct mt_err why = MT_ERR_INIT;
    for (int i = 0; i < fused->nin + fused->nout; i++) {
        tensors[i] = fused->tensor[i];
        tensors[i].data = memory;
    }
    struct mt_call call = mt_linstr_call(fused, tensors);
    call.clock = &clock;
    return !mt_call_check(&call, &why);
}

bool mt_fuse_tensors(struct mt_linstr *const *members, int count, struct mt_linstr *fused, struct mt_arena *arena) {
    int n = fused->nin + fused->nout;
    bool empty[MT_MAX_IN + MT_MAX_OUT];
    fused->tensor = mt_new(arena, struct mt_tensor, n);
    for (int i = 0; i < n; i++) {
        int value = i < fused->nin ? fused->in[i] : fused->out[i - fused->nin];
        /* an operator that now adds to an accumulator has the shape of its own output for it */
        if (i >= fused->nin && fused->attr.accumulate && !members[0]->attr.accumulate)
            value = members[0]->out[i - fused->nin];
        fused->tensor[i] = tensor_of(members, count, value);
        empty[i] = mt_tensor_count(&fused->tensor[i]) == 0;
    }
    if (mt_linstr_sums(fused)) return true; /* of the ranks' GEMMs and of the sum: no call of one kernel */
    agree_on_empty(fused);
    for (int i = 0; i < n; i++)
        if (empty[i] != (mt_tensor_count(&fused->tensor[i]) == 0)) return false;
    return is_call(fused);
}
