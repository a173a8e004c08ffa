/* GEMMs with an epilogue: a bias, an activation, its slope, the gradient of a bias. */
#include <string.h>

#include "synth/lower/fuse/internal.h"

/* The GEMM of kind `kind` that makes `value`, alone or with its collective; null: there is none, or it cannot have the
 * epilogue. */
static struct mt_linstr *gemm_before(const struct mt_fusing *f, int value, enum mt_op_kind kind,
                                     enum mt_op_kind epilogue) {
    struct mt_linstr *gemm = mt_fusing_maker(f, value);
    if (!gemm || gemm->kind != kind || gemm->out[0] != value || gemm->attr.out_acc || gemm->attr.accumulate)
        return NULL;
    if (gemm->what == MT_LOWERED_OP) return gemm;
    bool takes = gemm->what == MT_LOWERED_OVERLAP &&
                 mt_overlap_takes_epilogue(&gemm->overlap->problem, gemm->overlap->trans_out, epilogue);
    return takes ? gemm : NULL;
}

/* The GEMM gets the operator `op` as its epilogue, with `extra` as its third input. An output of it that is no longer
 * the first becomes the second, `pre`; else -1. */
static bool merge_epilogue(struct mt_fusing *f, struct mt_linstr *gemm, struct mt_linstr *op, int extra, int pre) {
    int in[3] = {gemm->in[0], gemm->in[1], extra}, out[3] = {op->out[0]}, nout = 1;
    if (pre >= 0) out[nout++] = pre;
    if (gemm->overlap && mt_linstr_whole(gemm) >= 0) out[nout++] = mt_linstr_whole(gemm);
    struct mt_attr attr = gemm->attr;
    attr.epilogue = op->kind;
    return mt_fusing_merge(
        f, (struct mt_linstr *[]){gemm, op}, 2,
        (struct mt_linstr){.kind = MT_OP_fused_matmul, .attr = attr, .nin = 3, .nout = nout, .in = in, .out = out});
}

static bool same_extent(const struct mt_box *a, int at, const struct mt_box *b, int bt, int n) {
    return !memcmp(a->lo + at, b->lo + bt, (size_t)n * sizeof *a->lo) &&
           !memcmp(a->hi + at, b->hi + bt, (size_t)n * sizeof *a->hi);
}

/* Whether each rank of the group that gets a part of the sum adds the bias to all of it, with all of the bias's
 * columns: so all ranks decide alike, some of which may add for the others. */
static bool adds_everywhere(const struct mt_fusing *f, const struct mt_linstr *gemm, const struct mt_linstr *add) {
    const struct mt_program *p = f->l->program;
    int nm = gemm->attr.nm, nn = gemm->attr.nn;
    for (int i = 0; i < gemm->overlap->problem.n; i++) {
        const struct mt_box *sum = mt_pvalue_box(p, add->in[0], gemm->group[i]);
        const struct mt_box *bias = mt_pvalue_box(p, add->in[1], gemm->group[i]);
        const struct mt_box *out = mt_pvalue_box(p, add->out[0], gemm->group[i]);
        if (!mt_box_count(sum, nm + nn) && !mt_box_count(out, nm + nn)) continue;
        if (!same_extent(sum, 0, out, 0, nm + nn) || !same_extent(sum, nm, bias, 0, nn)) return false;
    }
    return true;
}

/* matmul, add of a bias over its n axes. */
bool mt_fuse_bias(struct mt_fusing *f, struct mt_linstr *add) {
    struct mt_linstr *gemm = gemm_before(f, add->in[0], MT_OP_matmul, MT_OP_add);
    if (!gemm || add->attr.axes != ((1u << gemm->attr.nn) - 1) << gemm->attr.nm) return false;
    if (mt_linstr_sums(gemm) && !adds_everywhere(f, gemm, add)) return false;
    return merge_epilogue(f, gemm, add, add->in[1], -1);
}

/* A GEMM with bias, gelu or relu. */
bool mt_fuse_activation(struct mt_fusing *f, struct mt_linstr *activation) {
    struct mt_linstr *gemm = gemm_before(f, activation->in[0], MT_OP_fused_matmul, activation->kind);
    if (!gemm || gemm->attr.epilogue != MT_OP_add) return false;
    return merge_epilogue(f, gemm, activation, gemm->in[2], gemm->out[0]);
}

/* matmul, and gelu_grad or relu_grad with its output as dy. */
bool mt_fuse_activation_grad(struct mt_fusing *f, struct mt_linstr *grad) {
    struct mt_linstr *gemm = gemm_before(f, grad->in[0], MT_OP_matmul, grad->kind);
    if (!gemm || grad->in[1] == grad->in[0]) return false;
    return merge_epilogue(f, gemm, grad, grad->in[1], -1);
}

/* The axes of b, in its memory order, that a GEMM sums over. */
static unsigned axes_of_k(const struct mt_attr *gemm) {
    return ((1u << gemm->nk) - 1) << (gemm->trans_b ? gemm->nn : 0);
}

/* The gradients of a weight and of its bias: x^T dy, and the sum of dy. */
bool mt_fuse_bias_grad(struct mt_fusing *f, struct mt_linstr *sum) {
    struct mt_linstr *gemm = mt_fusing_used_by(f, sum->in[0], MT_OP_matmul, 1);
    if (!gemm || !gemm->attr.out_acc || gemm->attr.accumulate != sum->attr.accumulate) return false;
    if (gemm->in[0] == gemm->in[1] || sum->attr.axes != axes_of_k(&gemm->attr)) return false;
    int out[2] = {gemm->out[0], sum->out[0]};
    struct mt_attr attr = gemm->attr;
    attr.epilogue = MT_OP_sum;
    return mt_fusing_merge(
        f, (struct mt_linstr *[]){gemm, sum}, 2,
        (struct mt_linstr){.kind = MT_OP_fused_matmul, .attr = attr, .nin = 2, .nout = 2, .in = gemm->in, .out = out});
}
