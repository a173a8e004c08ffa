/* Operators that add to what is there: to accumulators, to one another's outputs, to the sum of squares. */
#include "synth/lower/fuse/internal.h"

/* The global norm: sq_norm, and its addition to the sum so far. */
bool mt_fuse_sq_norm_add(struct mt_fusing *f, struct mt_linstr *add) {
    if (add->tensor[0].naxes || add->in[0] == add->in[1] || f->l->adds_to[add->out[0]] >= 0) return false;
    for (int i = 1; i >= 0; i--) {
        struct mt_linstr *norm = mt_fusing_made_by(f, add->in[i], MT_OP_sq_norm, 0);
        if (!norm) continue;
        int in[2] = {norm->in[0], add->in[1 - i]};
        if (mt_fusing_merge(
                f, (struct mt_linstr *[]){norm, add}, 2,
                (struct mt_linstr){
                    .kind = MT_OP_sq_norm_add, .attr = norm->attr, .nin = 2, .nout = 1, .in = in, .out = add->out}))
            return true;
    }
    return false;
}

/* An operator whose only output is added to an accumulator adds to it directly. */
bool mt_fuse_accumulate(struct mt_fusing *f, struct mt_linstr *add) {
    static const enum mt_op_kind kinds[] = {MT_OP_matmul, MT_OP_embedding_grad, MT_OP_sum};
    if (f->l->adds_to[add->out[0]] != add->in[0]) return false;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct mt_linstr *op = mt_fusing_made_by(f, add->in[1], kinds[k], 0);
        if (!op || op->attr.accumulate) continue;
        struct mt_attr attr = op->attr;
        attr.accumulate = true;
        return mt_fusing_merge(
            f, (struct mt_linstr *[]){op, add}, 2,
            (struct mt_linstr){
                .kind = op->kind, .attr = attr, .nin = op->nin, .nout = 1, .in = op->in, .out = add->out});
    }
    return false;
}

/* The same for a norm's parameter gradients, if all of them are added to accumulators. */
bool mt_fuse_accumulate_norm(struct mt_fusing *f, struct mt_linstr *grad) {
    if (grad->attr.accumulate) return false;
    struct mt_linstr *members[1 + MT_MAX_OUT] = {grad};
    int out[MT_MAX_OUT], n = 1;
    bool whole = grad->kind == MT_OP_layer_norm_grad || grad->kind == MT_OP_rms_norm_grad;
    for (int o = 0; o < grad->nout; o++) {
        out[o] = grad->out[o];
        if (whole && o == 0) continue; /* dx */
        struct mt_linstr *add = mt_fusing_used_by(f, grad->out[o], MT_OP_add, 1);
        if (!add || f->l->adds_to[add->out[0]] != add->in[0]) return false;
        out[o] = add->out[0];
        members[n++] = add;
    }
    struct mt_attr attr = grad->attr;
    attr.accumulate = true;
    return mt_fusing_merge(
        f, members, n,
        (struct mt_linstr){
            .kind = grad->kind, .attr = attr, .nin = grad->nin, .nout = grad->nout, .in = grad->in, .out = out});
}

/* Whether `value` is a GEMM's output that only `reader` reads, in a buffer of its own or that of earlier such outputs,
 * which it was added to. */
static bool ends_in(const struct mt_fusing *f, int value, const struct mt_linstr *reader) {
    if (f->kept[value] || f->first_use[value + 1] - f->first_use[value] != 1) return false;
    if (&f->instrs[mt_fusing_resolve(f, f->uses[f->first_use[value]])] != reader) return false;
    while (f->l->adds_to[value] >= 0) value = f->l->adds_to[value];
    if (f->kept[value] || f->l->state_of[value] >= 0) return false;
    return mt_fusing_made_by(f, value, MT_OP_matmul, 0) || mt_fusing_made_by(f, value, MT_OP_fused_matmul, 0);
}

/* The sum of two gradients of a tied table: the embedding's is added to the GEMM's in place. Not in BODY, where the
 * buffer would be held from one iteration to the next. */
bool mt_fuse_tied(struct mt_fusing *f, struct mt_linstr *add) {
    int out = add->out[0], at = (int)(add - f->instrs);
    if (!mt_adds_whole(add) || f->l->adds_to[out] >= 0 || f->l->state_of[out] >= 0) return false;
    if (mt_lowered_block(f->l->low, at) == MT_BODY) return false;
    for (int i = 0; i < 2; i++) {
        struct mt_linstr *op = mt_fusing_made_by(f, add->in[i], MT_OP_embedding_grad, 0);
        if (!op || op->attr.accumulate || !ends_in(f, add->in[1 - i], add)) continue;
        struct mt_attr attr = op->attr;
        attr.accumulate = true;
        f->l->adds_to[out] = add->in[1 - i];
        if (mt_fusing_merge(
                f, (struct mt_linstr *[]){op, add}, 2,
                (struct mt_linstr){
                    .kind = op->kind, .attr = attr, .nin = op->nin, .nout = 1, .in = op->in, .out = add->out}))
            return true;
        f->l->adds_to[out] = -1;
    }
    return false;
}

/* The sum of two GEMMs' outputs: the later GEMM adds to the output of the earlier one in place. So are the gradients of
 * the one input of several projections summed. */
bool mt_fuse_gemm_sum(struct mt_fusing *f, struct mt_linstr *add) {
    int out = add->out[0];
    if (!mt_adds_whole(add) || f->l->adds_to[out] >= 0 || f->l->state_of[out] >= 0) return false;
    for (int i = 1; i >= 0; i--) {
        struct mt_linstr *gemm = mt_fusing_made_by(f, add->in[i], MT_OP_matmul, 0);
        int base = add->in[1 - i];
        if (!gemm || gemm->attr.accumulate || !ends_in(f, base, add)) continue;
        struct mt_attr attr = gemm->attr;
        attr.accumulate = true;
        f->l->adds_to[out] = base;
        if (mt_fusing_merge(
                f, (struct mt_linstr *[]){gemm, add}, 2,
                (struct mt_linstr){
                    .kind = gemm->kind, .attr = attr, .nin = 2, .nout = 1, .in = gemm->in, .out = add->out}))
            return true;
        f->l->adds_to[out] = -1;
    }
    return false;
}
