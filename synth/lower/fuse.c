/* Fusion: patterns of operators become one fused kernel.
 *
 * A pattern is a function that takes one instruction (its anchor), finds the other members through the values between
 * them, and merges them. Values that only members use are never made. Each pattern is a row of `patterns`; later rows
 * see the fused operators of earlier rows. The length of the file is the number of patterns. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "synth/lower/internal.h"

struct fusing {
    struct mt_lowering *l;
    struct mt_linstr *instrs;
    int begin, end;        /* the block */
    int *into;             /* [ninstrs]: the instruction that it was merged into, or itself */
    unsigned char *anchor; /* [ninstrs]: the kind of an operator that is not merged, + 1; else 0 */
    int *producer;         /* [pvalues]: the instruction of this block that makes it, or -1 */
    int *first_use, *uses; /* readers of value v in this block: uses[first_use[v] .. first_use[v + 1]) */
    bool *kept;            /* [pvalues]: read outside of the block, or after the step */
};

static int resolve(const struct fusing *f, int instr) {
    while (f->into[instr] != instr) instr = f->into[instr];
    return instr;
}

/* The instruction that makes `value`, if it is of this block and makes it as output `out` of kind `kind`; else null. */
static struct mt_linstr *made_by(const struct fusing *f, int value, enum mt_op_kind kind, int out) {
    if (f->producer[value] < 0) return NULL;
    struct mt_linstr *p = &f->instrs[resolve(f, f->producer[value])];
    return p->what == MT_LOWERED_OP && p->kind == kind && p->nout > out && p->out[out] == value ? p : NULL;
}

/* The only instruction of kind `kind` that reads `value` as input `in`; null if there is none or there are two. */
static struct mt_linstr *used_by(const struct fusing *f, int value, enum mt_op_kind kind, int in) {
    struct mt_linstr *found = NULL;
    for (int u = f->first_use[value]; u < f->first_use[value + 1]; u++) {
        struct mt_linstr *c = &f->instrs[resolve(f, f->uses[u])];
        if (c->what != MT_LOWERED_OP || c->kind != kind || c->nin <= in || c->in[in] != value || c == found) continue;
        if (found) return NULL;
        found = c;
    }
    return found;
}

static bool is_member(struct mt_linstr *const *members, int count, const struct mt_linstr *instr) {
    for (int i = 0; i < count; i++)
        if (members[i] == instr) return true;
    return false;
}

static bool makes(const struct mt_linstr *instr, int value) {
    for (int o = 0; o < instr->nout; o++)
        if (instr->out[o] == value) return true;
    return false;
}

/* Whether `value` is made by a member or before instruction `at`. */
static bool ready(const struct fusing *f, struct mt_linstr *const *members, int count, const struct mt_linstr *at,
                  int value) {
    if (value < 0 || f->producer[value] < 0) return true;
    const struct mt_linstr *p = &f->instrs[resolve(f, f->producer[value])];
    return p < at || is_member(members, count, p);
}

/* Whether the members may run together at the place of `at` and make only fused->out. */
static bool mergeable(const struct fusing *f, struct mt_linstr *const *members, int count, const struct mt_linstr *at,
                      const struct mt_linstr *fused) {
    for (int i = 0; i < fused->nin; i++)
        if (!ready(f, members, count, at, fused->in[i])) return false;
    for (int o = 0; o < fused->nout; o++)
        if (!ready(f, members, count, at, f->l->adds_to[fused->out[o]])) return false;
    for (int m = 0; m < count; m++)
        for (int o = 0; o < members[m]->nout; o++) {
            int value = members[m]->out[o];
            bool stays = makes(fused, value);
            if (f->kept[value] && !stays) return false;
            for (int u = f->first_use[value]; u < f->first_use[value + 1]; u++) {
                const struct mt_linstr *c = &f->instrs[resolve(f, f->uses[u])];
                if (!is_member(members, count, c) && (!stays || c < at)) return false;
            }
        }
    return true;
}

static int by_number(const void *left, const void *right) {
    return *(const int *)left - *(const int *)right;
}

/* Whether the device runs the fused operator no slower than its members. */
static bool worth(const struct fusing *f, const struct mt_linstr *member, const struct mt_linstr *fused) {
    const struct mt_lower_options *options = f->l->options;
    if (!options->worth_fusing) return true;
    const struct mt_call whole = mt_linstr_call(fused, fused->tensor), first = mt_linstr_call(member, member->tensor);
    return options->worth_fusing(options->context, &whole, &first);
}

/* Replace the members by `fused` (kind, attributes, in and out are set) at the place of the last member that comes
 * after all inputs and before every reader of an output. False if there is none. */
static bool merge(struct fusing *f, struct mt_linstr *const *members, int count, struct mt_linstr fused) {
    struct mt_arena *arena = &f->l->low->arena;
    struct mt_linstr *at = NULL;
    for (int m = 0; m < count; m++)
        if ((!at || members[m] > at) && mergeable(f, members, count, members[m], &fused)) at = members[m];
    if (!at || !mt_fuse_tensors(members, count, &fused, arena) || !worth(f, members[0], &fused)) return false;
    fused.what = MT_LOWERED_OP;
    fused.name = members[0]->name;
    fused.scratch = fused.message[0] = fused.message[1] = -1;
    for (int m = 0; m < count; m++) fused.nsources += members[m]->nsources;
    fused.sources = mt_new(arena, int, fused.nsources);
    for (int m = 0, n = 0; m < count; m++)
        for (int s = 0; s < members[m]->nsources; s++) fused.sources[n++] = members[m]->sources[s];
    qsort(fused.sources, (size_t)fused.nsources, sizeof(int), by_number);
    fused.in = mt_arena_memdup(arena, fused.in, (size_t)fused.nin * sizeof(int));
    fused.out = mt_arena_memdup(arena, fused.out, (size_t)fused.nout * sizeof(int));
    for (int m = 0; m < count; m++) {
        f->into[members[m] - f->instrs] = (int)(at - f->instrs);
        f->anchor[members[m] - f->instrs] = 0;
    }
    f->anchor[at - f->instrs] = (unsigned char)(fused.kind + 1);
    *at = fused;
    return true;
}

/* ---- patterns ---- */

static bool adds_whole(const struct mt_linstr *add) {
    return add->attr.axes == (1u << add->tensor[0].naxes) - 1;
}

/* sum over the last axis, norm_sqdev, norm_apply. */
static bool fuse_layer_norm(struct fusing *f, struct mt_linstr *apply) {
    int x = apply->in[0];
    struct mt_linstr *sum = made_by(f, apply->in[1], MT_OP_sum, 0);
    struct mt_linstr *dev = made_by(f, apply->in[2], MT_OP_norm_sqdev, 0);
    if (!sum || !dev || sum->in[0] != x || dev->in[0] != x || dev->in[1] != sum->out[0]) return false;
    if (sum->attr.axes != 1u << (sum->tensor[0].naxes - 1) || sum->attr.accumulate) return false;
    int in[3] = {x, apply->in[3], apply->nin > 4 ? apply->in[4] : -1};
    int out[3] = {apply->out[0], sum->out[0], dev->out[0]};
    return merge(
        f, (struct mt_linstr *[]){sum, dev, apply}, 3,
        (struct mt_linstr){
            .kind = MT_OP_layer_norm, .attr = apply->attr, .nin = apply->nin - 2, .nout = 3, .in = in, .out = out});
}

/* rms_sq, rms_apply. */
static bool fuse_rms_norm(struct fusing *f, struct mt_linstr *apply) {
    struct mt_linstr *square = made_by(f, apply->in[1], MT_OP_rms_sq, 0);
    if (!square || square->in[0] != apply->in[0]) return false;
    int in[2] = {apply->in[0], apply->in[2]}, out[2] = {apply->out[0], square->out[0]};
    return merge(
        f, (struct mt_linstr *[]){square, apply}, 2,
        (struct mt_linstr){.kind = MT_OP_rms_norm, .attr = apply->attr, .nin = 2, .nout = 2, .in = in, .out = out});
}

/* add of two equal shapes, layer norm or root-mean-square norm. */
static bool fuse_residual_norm(struct fusing *f, struct mt_linstr *norm) {
    struct mt_linstr *add = made_by(f, norm->in[0], MT_OP_add, 0);
    if (!add || !adds_whole(add) || f->l->adds_to[add->out[0]] >= 0) return false;
    int in[4] = {add->in[0], add->in[1], norm->in[1], norm->nin > 2 ? norm->in[2] : -1};
    int out[4] = {add->out[0], norm->out[0], norm->out[1], norm->nout > 2 ? norm->out[2] : -1};
    return merge(f, (struct mt_linstr *[]){add, norm}, 2,
                 (struct mt_linstr){.kind = norm->kind == MT_OP_rms_norm ? MT_OP_residual_rms : MT_OP_residual_norm,
                                    .attr = norm->attr,
                                    .nin = norm->nin + 1,
                                    .nout = norm->nout + 1,
                                    .in = in,
                                    .out = out});
}

/* matmul, add of a bias over its n axes. */
static bool fuse_bias(struct fusing *f, struct mt_linstr *add) {
    struct mt_linstr *gemm = made_by(f, add->in[0], MT_OP_matmul, 0);
    if (!gemm || gemm->attr.out_acc || gemm->attr.accumulate) return false;
    if (add->attr.axes != ((1u << gemm->attr.nn) - 1) << gemm->attr.nm) return false;
    int in[3] = {gemm->in[0], gemm->in[1], add->in[1]};
    struct mt_attr attr = gemm->attr;
    attr.epilogue = MT_OP_add;
    return merge(
        f, (struct mt_linstr *[]){gemm, add}, 2,
        (struct mt_linstr){.kind = MT_OP_fused_matmul, .attr = attr, .nin = 3, .nout = 1, .in = in, .out = add->out});
}

/* A GEMM with bias, gelu or relu. */
static bool fuse_activation(struct fusing *f, struct mt_linstr *activation) {
    struct mt_linstr *gemm = made_by(f, activation->in[0], MT_OP_fused_matmul, 0);
    if (!gemm || gemm->attr.epilogue != MT_OP_add) return false;
    int out[2] = {activation->out[0], gemm->out[0]};
    struct mt_attr attr = gemm->attr;
    attr.epilogue = activation->kind;
    return merge(
        f, (struct mt_linstr *[]){gemm, activation}, 2,
        (struct mt_linstr){.kind = MT_OP_fused_matmul, .attr = attr, .nin = 3, .nout = 2, .in = gemm->in, .out = out});
}

/* matmul, and gelu_grad or relu_grad with its output as dy. */
static bool fuse_activation_grad(struct fusing *f, struct mt_linstr *grad) {
    struct mt_linstr *gemm = made_by(f, grad->in[0], MT_OP_matmul, 0);
    if (!gemm || gemm->attr.out_acc || gemm->attr.accumulate || grad->in[1] == grad->in[0]) return false;
    int in[3] = {gemm->in[0], gemm->in[1], grad->in[1]};
    struct mt_attr attr = gemm->attr;
    attr.epilogue = grad->kind;
    return merge(
        f, (struct mt_linstr *[]){gemm, grad}, 2,
        (struct mt_linstr){.kind = MT_OP_fused_matmul, .attr = attr, .nin = 3, .nout = 1, .in = in, .out = grad->out});
}

/* The axes of b, in its memory order, that a GEMM sums over. */
static unsigned axes_of_k(const struct mt_attr *gemm) {
    return ((1u << gemm->nk) - 1) << (gemm->trans_b ? gemm->nn : 0);
}

/* The gradients of a weight and of its bias: x^T dy, and the sum of dy. */
static bool fuse_bias_grad(struct fusing *f, struct mt_linstr *sum) {
    struct mt_linstr *gemm = used_by(f, sum->in[0], MT_OP_matmul, 1);
    if (!gemm || !gemm->attr.out_acc || gemm->attr.accumulate != sum->attr.accumulate) return false;
    if (gemm->in[0] == gemm->in[1] || sum->attr.axes != axes_of_k(&gemm->attr)) return false;
    int out[2] = {gemm->out[0], sum->out[0]};
    struct mt_attr attr = gemm->attr;
    attr.epilogue = MT_OP_sum;
    return merge(
        f, (struct mt_linstr *[]){gemm, sum}, 2,
        (struct mt_linstr){.kind = MT_OP_fused_matmul, .attr = attr, .nin = 2, .nout = 2, .in = gemm->in, .out = out});
}

/* norm_dots, norm_grad, norm_param_grad of one dy and x. */
static bool fuse_norm_grad(struct fusing *f, struct mt_linstr *grad) {
    struct mt_linstr *dots = made_by(f, grad->in[5], MT_OP_norm_dots, 0);
    struct mt_linstr *params = used_by(f, grad->in[0], MT_OP_norm_param_grad, 0);
    if (!dots || !params || params->attr.accumulate || dots->out[1] != grad->in[6]) return false;
    for (int i = 0; i < 5; i++)
        if (dots->in[i] != grad->in[i] || (i < 4 && params->in[i] != grad->in[i])) return false;
    int out[3] = {grad->out[0], params->out[0], params->out[1]};
    return merge(
        f, (struct mt_linstr *[]){dots, grad, params}, 3,
        (struct mt_linstr){
            .kind = MT_OP_layer_norm_grad, .attr = grad->attr, .nin = 5, .nout = 3, .in = grad->in, .out = out});
}

/* rms_dot, rms_grad, rms_param_grad of one dy and x. */
static bool fuse_rms_grad(struct fusing *f, struct mt_linstr *grad) {
    struct mt_linstr *dot = made_by(f, grad->in[4], MT_OP_rms_dot, 0);
    struct mt_linstr *params = used_by(f, grad->in[0], MT_OP_rms_param_grad, 0);
    if (!dot || !params || params->attr.accumulate) return false;
    for (int i = 0; i < 4; i++)
        if (dot->in[i] != grad->in[i] || (i < 3 && params->in[i] != grad->in[i])) return false;
    int out[2] = {grad->out[0], params->out[0]};
    return merge(f, (struct mt_linstr *[]){dot, grad, params}, 3,
                 (struct mt_linstr){
                     .kind = MT_OP_rms_norm_grad, .attr = grad->attr, .nin = 4, .nout = 2, .in = grad->in, .out = out});
}

/* The sum of a norm's gradient and that of the residual connection around it. */
static bool fuse_norm_grad_add(struct fusing *f, struct mt_linstr *add) {
    if (!adds_whole(add) || f->l->adds_to[add->out[0]] >= 0) return false;
    for (int i = 0; i < 2; i++) {
        struct mt_linstr *grad = made_by(f, add->in[i], MT_OP_layer_norm_grad, 0);
        if (!grad) grad = made_by(f, add->in[i], MT_OP_rms_norm_grad, 0);
        if (!grad || grad->nin != mt_op_info[grad->kind].min_in || add->in[0] == add->in[1]) continue;
        int in[MT_MAX_IN], out[MT_MAX_OUT];
        memcpy(in, grad->in, (size_t)grad->nin * sizeof *in);
        memcpy(out, grad->out, (size_t)grad->nout * sizeof *out);
        in[grad->nin] = add->in[1 - i], out[0] = add->out[0];
        if (merge(f, (struct mt_linstr *[]){grad, add}, 2,
                  (struct mt_linstr){.kind = grad->kind,
                                     .attr = grad->attr,
                                     .nin = grad->nin + 1,
                                     .nout = grad->nout,
                                     .in = in,
                                     .out = out}))
            return true;
    }
    return false;
}

/* A norm's gradient, and its sum over all rows: the gradient of the bias that was added before the norm. */
static bool fuse_norm_grad_sum(struct fusing *f, struct mt_linstr *sum) {
    struct mt_linstr *grad = made_by(f, sum->in[0], MT_OP_layer_norm_grad, 0);
    if (!grad || grad->nout != 3 || sum->attr.axes != (1u << (sum->tensor[0].naxes - 1)) - 1) return false;
    int out[4] = {grad->out[0], grad->out[1], grad->out[2], sum->out[0]};
    struct mt_attr attr = grad->attr;
    attr.epilogue = MT_OP_sum;
    return merge(
        f, (struct mt_linstr *[]){grad, sum}, 2,
        (struct mt_linstr){
            .kind = MT_OP_layer_norm_grad, .attr = attr, .nin = grad->nin, .nout = 4, .in = grad->in, .out = out});
}

/* row_max, exp_sum, pick, nll. */
static bool fuse_cross_entropy(struct fusing *f, struct mt_linstr *nll) {
    struct mt_linstr *max = made_by(f, nll->in[0], MT_OP_row_max, 0);
    struct mt_linstr *sum = made_by(f, nll->in[1], MT_OP_exp_sum, 0);
    struct mt_linstr *pick = made_by(f, nll->in[2], MT_OP_pick, 0);
    if (!max || !sum || !pick) return false;
    int x = max->in[0], target = nll->in[3];
    if (sum->in[0] != x || sum->in[1] != max->out[0] || pick->in[0] != x || pick->in[1] != target) return false;
    int in[2] = {x, target}, out[3] = {max->out[0], sum->out[0], nll->out[0]};
    return merge(
        f, (struct mt_linstr *[]){max, sum, pick, nll}, 4,
        (struct mt_linstr){.kind = MT_OP_cross_entropy, .attr = nll->attr, .nin = 2, .nout = 3, .in = in, .out = out});
}

/* cross_entropy and nll_grad, where the gradient of the losses is a constant or that plus a scalar. The losses are
 * still made, for reports; the logits are read once instead of twice. */
static bool fuse_cross_entropy_grad(struct fusing *f, struct mt_linstr *grad) {
    struct mt_linstr *loss = made_by(f, grad->in[1], MT_OP_cross_entropy, 0);
    struct mt_linstr *more = made_by(f, grad->in[4], MT_OP_add, 0);
    if (more && (more->attr.axes || more->attr.accumulate)) return false;
    struct mt_linstr *seed = made_by(f, more ? more->in[0] : grad->in[4], MT_OP_fill, 0);
    if (!loss || !seed || seed->in[0] != loss->out[2]) return false;
    if (grad->in[0] != loss->in[0] || grad->in[2] != loss->out[1] || grad->in[3] != loss->in[1]) return false;
    int in[3] = {loss->in[0], loss->in[1], more ? more->in[1] : -1}, out[2] = {grad->out[0], loss->out[2]};
    return merge(f, (struct mt_linstr *[]){loss, seed, grad, more}, more ? 4 : 3,
                 (struct mt_linstr){.kind = MT_OP_cross_entropy_grad,
                                    .attr = seed->attr,
                                    .nin = more ? 3 : 2,
                                    .nout = 2,
                                    .in = in,
                                    .out = out});
}

/* The global norm: sq_norm, and its addition to the sum so far. */
static bool fuse_sq_norm_add(struct fusing *f, struct mt_linstr *add) {
    if (add->tensor[0].naxes || add->in[0] == add->in[1] || f->l->adds_to[add->out[0]] >= 0) return false;
    for (int i = 1; i >= 0; i--) {
        struct mt_linstr *norm = made_by(f, add->in[i], MT_OP_sq_norm, 0);
        if (!norm) continue;
        int in[2] = {norm->in[0], add->in[1 - i]};
        if (merge(f, (struct mt_linstr *[]){norm, add}, 2,
                  (struct mt_linstr){
                      .kind = MT_OP_sq_norm_add, .attr = norm->attr, .nin = 2, .nout = 1, .in = in, .out = add->out}))
            return true;
    }
    return false;
}

/* An operator whose only output is added to an accumulator adds to it directly. */
static bool fuse_accumulate(struct fusing *f, struct mt_linstr *add) {
    static const enum mt_op_kind kinds[] = {MT_OP_matmul, MT_OP_embedding_grad, MT_OP_sum};
    if (f->l->adds_to[add->out[0]] != add->in[0]) return false;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct mt_linstr *op = made_by(f, add->in[1], kinds[k], 0);
        if (!op || op->attr.accumulate) continue;
        struct mt_attr attr = op->attr;
        attr.accumulate = true;
        return merge(f, (struct mt_linstr *[]){op, add}, 2,
                     (struct mt_linstr){
                         .kind = op->kind, .attr = attr, .nin = op->nin, .nout = 1, .in = op->in, .out = add->out});
    }
    return false;
}

/* The same for a norm's parameter gradients, if all of them are added to accumulators. */
static bool fuse_accumulate_norm(struct fusing *f, struct mt_linstr *grad) {
    if (grad->attr.accumulate) return false;
    struct mt_linstr *members[1 + MT_MAX_OUT] = {grad};
    int out[MT_MAX_OUT], n = 1;
    bool whole = grad->kind == MT_OP_layer_norm_grad || grad->kind == MT_OP_rms_norm_grad;
    for (int o = 0; o < grad->nout; o++) {
        out[o] = grad->out[o];
        if (whole && o == 0) continue; /* dx */
        struct mt_linstr *add = used_by(f, grad->out[o], MT_OP_add, 1);
        if (!add || f->l->adds_to[add->out[0]] != add->in[0]) return false;
        out[o] = add->out[0];
        members[n++] = add;
    }
    struct mt_attr attr = grad->attr;
    attr.accumulate = true;
    return merge(
        f, members, n,
        (struct mt_linstr){
            .kind = grad->kind, .attr = attr, .nin = grad->nin, .nout = grad->nout, .in = grad->in, .out = out});
}

/* Whether `value` is a GEMM's output that only `reader` reads, in a buffer of its own or that of earlier such outputs,
 * which it was added to. */
static bool ends_in(const struct fusing *f, int value, const struct mt_linstr *reader) {
    if (f->kept[value] || f->first_use[value + 1] - f->first_use[value] != 1) return false;
    if (&f->instrs[resolve(f, f->uses[f->first_use[value]])] != reader) return false;
    while (f->l->adds_to[value] >= 0) value = f->l->adds_to[value];
    if (f->kept[value] || f->l->state_of[value] >= 0) return false;
    return made_by(f, value, MT_OP_matmul, 0) || made_by(f, value, MT_OP_fused_matmul, 0);
}

/* The sum of two gradients of a tied table: the embedding's is added to the GEMM's in place. Not in BODY, where the
 * buffer would be held from one iteration to the next. */
static bool fuse_tied(struct fusing *f, struct mt_linstr *add) {
    int out = add->out[0], at = (int)(add - f->instrs);
    if (!adds_whole(add) || f->l->adds_to[out] >= 0 || f->l->state_of[out] >= 0) return false;
    if (mt_lowered_block(f->l->low, at) == MT_BODY) return false;
    for (int i = 0; i < 2; i++) {
        struct mt_linstr *op = made_by(f, add->in[i], MT_OP_embedding_grad, 0);
        if (!op || op->attr.accumulate || !ends_in(f, add->in[1 - i], add)) continue;
        struct mt_attr attr = op->attr;
        attr.accumulate = true;
        f->l->adds_to[out] = add->in[1 - i];
        if (merge(f, (struct mt_linstr *[]){op, add}, 2,
                  (struct mt_linstr){
                      .kind = op->kind, .attr = attr, .nin = op->nin, .nout = 1, .in = op->in, .out = add->out}))
            return true;
        f->l->adds_to[out] = -1;
    }
    return false;
}

/* The sum of two GEMMs' outputs: the later GEMM adds to the output of the earlier one in place. So are the gradients of
 * the one input of several projections summed. */
static bool fuse_gemm_sum(struct fusing *f, struct mt_linstr *add) {
    int out = add->out[0];
    if (!adds_whole(add) || f->l->adds_to[out] >= 0 || f->l->state_of[out] >= 0) return false;
    for (int i = 1; i >= 0; i--) {
        struct mt_linstr *gemm = made_by(f, add->in[i], MT_OP_matmul, 0);
        int base = add->in[1 - i];
        if (!gemm || gemm->attr.accumulate || !ends_in(f, base, add)) continue;
        struct mt_attr attr = gemm->attr;
        attr.accumulate = true;
        f->l->adds_to[out] = base;
        if (merge(f, (struct mt_linstr *[]){gemm, add}, 2,
                  (struct mt_linstr){
                      .kind = gemm->kind, .attr = attr, .nin = 2, .nout = 1, .in = gemm->in, .out = add->out}))
            return true;
        f->l->adds_to[out] = -1;
    }
    return false;
}

static const struct {
    enum mt_op_kind anchor;
    bool (*fuse)(struct fusing *f, struct mt_linstr *anchor);
} patterns[] = {
    {MT_OP_norm_apply, fuse_layer_norm},
    {MT_OP_rms_apply, fuse_rms_norm},
    {MT_OP_layer_norm, fuse_residual_norm},
    {MT_OP_rms_norm, fuse_residual_norm},
    {MT_OP_add, fuse_bias},
    {MT_OP_gelu, fuse_activation},
    {MT_OP_relu, fuse_activation},
    {MT_OP_gelu_grad, fuse_activation_grad},
    {MT_OP_relu_grad, fuse_activation_grad},
    {MT_OP_norm_grad, fuse_norm_grad},
    {MT_OP_rms_grad, fuse_rms_grad},
    {MT_OP_add, fuse_norm_grad_add},
    {MT_OP_sum, fuse_norm_grad_sum},
    {MT_OP_nll, fuse_cross_entropy},
    {MT_OP_nll_grad, fuse_cross_entropy_grad},
    {MT_OP_add, fuse_sq_norm_add},
    {MT_OP_add, fuse_accumulate},
    {MT_OP_norm_param_grad, fuse_accumulate_norm},
    {MT_OP_layer_norm_grad, fuse_accumulate_norm},
    {MT_OP_rms_param_grad, fuse_accumulate_norm},
    {MT_OP_rms_norm_grad, fuse_accumulate_norm},
    {MT_OP_sum, fuse_bias_grad},
    {MT_OP_add, fuse_tied},
    {MT_OP_add, fuse_gemm_sum},
};

/* ---- the blocks ---- */

/* Index the producers and readers of each value in the block. Values that others read, or that must stay, are kept. */
static void index_block(struct fusing *f) {
    const struct mt_program *p = f->l->program;
    const struct mt_lowered *low = f->l->low;
    for (int v = 0; v < p->nvalues; v++) {
        f->producer[v] = -1;
        f->first_use[v] = 0;
        f->kept[v] = f->l->last_use[v] == INT_MAX;
    }
    f->first_use[p->nvalues] = 0;
    for (int i = 0; i < low->ninstrs; i++) {
        const struct mt_linstr *c = &f->instrs[i];
        bool here = i >= f->begin && i < f->end;
        for (int k = 0; k < c->nin; k++) {
            if (here)
                f->first_use[c->in[k] + 1]++;
            else
                f->kept[c->in[k]] = true;
        }
        for (int o = 0; o < c->nout && here; o++) f->producer[c->out[o]] = i;
    }
    for (int v = 0; v < p->nvalues; v++) f->first_use[v + 1] += f->first_use[v];
    int *next = mt_calloc((size_t)p->nvalues, sizeof *next);
    for (int i = f->begin; i < f->end; i++)
        for (int k = 0; k < f->instrs[i].nin; k++) {
            int v = f->instrs[i].in[k];
            f->uses[f->first_use[v] + next[v]++] = i;
        }
    free(next);
}

_Static_assert(MT_NOPS < 255, "kinds fit into bytes");
static void fuse_block(struct fusing *f) {
    index_block(f);
    const unsigned char *end = f->anchor + f->end;
    for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++)
        for (const unsigned char *at = f->anchor + f->begin;
             (at = memchr(at, (int)patterns[p].anchor + 1, (size_t)(end - at))); at++)
            patterns[p].fuse(f, &f->instrs[at - f->anchor]);
}

void mt_fuse(struct mt_lowering *l) {
    struct mt_lowered *low = l->low;
    size_t nvalues = (size_t)l->program->nvalues, nuses = 0;
    for (int i = 0; i < low->ninstrs; i++) nuses += (size_t)low->instrs[i].nin;
    struct fusing f = {.l = l,
                       .instrs = low->instrs,
                       .into = mt_calloc((size_t)low->ninstrs + 1, sizeof(int)),
                       .anchor = mt_calloc((size_t)low->ninstrs + 1, sizeof(unsigned char)),
                       .producer = mt_calloc(nvalues, sizeof(int)),
                       .first_use = mt_calloc(nvalues + 1, sizeof(int)),
                       .uses = mt_calloc(nuses + 1, sizeof(int)),
                       .kept = mt_calloc(nvalues, sizeof(bool))};
    for (int i = 0; i < low->ninstrs; i++) {
        f.into[i] = i;
        if (f.instrs[i].what == MT_LOWERED_OP) f.anchor[i] = (unsigned char)(f.instrs[i].kind + 1);
    }
    for (int b = 0; b < MT_NBLOCKS; b++) {
        f.begin = low->block_begin[b], f.end = low->block_begin[b + 1];
        fuse_block(&f);
    }
    int n = 0, begin[MT_NBLOCKS + 1] = {0};
    for (int b = 0; b < MT_NBLOCKS; b++) {
        for (int i = low->block_begin[b]; i < low->block_begin[b + 1]; i++)
            if (f.into[i] == i) low->instrs[n++] = low->instrs[i];
        begin[b + 1] = n;
    }
    low->ninstrs = n;
    for (int b = 0; b <= MT_NBLOCKS; b++) low->block_begin[b] = begin[b];
    free(f.into), free(f.anchor), free(f.producer), free(f.first_use), free(f.uses), free(f.kept);
}
