/* GEMMs with an epilogue: a bias, an activation, its slope, the gradient of a bias. */
#include "synth/lower/fuse/internal.h"

/* matmul, add of a bias over its n axes. */
bool mt_fuse_bias(struct mt_fusing *f, struct mt_linstr *add) {
    struct mt_linstr *gemm = mt_fusing_made_by(f, add->in[0], MT_OP_matmul, 0);
    if (!gemm || gemm->attr.out_acc || gemm->attr.accumulate) return false;
    if (add->attr.axes != ((1u << gemm->attr.nn) - 1) << gemm->attr.nm) return false;
    int in[3] = {gemm->in[0], gemm->in[1], add->in[1]};
    struct mt_attr attr = gemm->attr;
    attr.epilogue = MT_OP_add;
    return mt_fusing_merge(
        f, (struct mt_linstr *[]){gemm, add}, 2,
        (struct mt_linstr){.kind = MT_OP_fused_matmul, .attr = attr, .nin = 3, .nout = 1, .in = in, .out = add->out});
}

/* A GEMM with bias, gelu or relu. */
bool mt_fuse_activation(struct mt_fusing *f, struct mt_linstr *activation) {
    struct mt_linstr *gemm = mt_fusing_made_by(f, activation->in[0], MT_OP_fused_matmul, 0);
    if (!gemm || gemm->attr.epilogue != MT_OP_add) return false;
    int out[2] = {activation->out[0], gemm->out[0]};
    struct mt_attr attr = gemm->attr;
    attr.epilogue = activation->kind;
    return mt_fusing_merge(
        f, (struct mt_linstr *[]){gemm, activation}, 2,
        (struct mt_linstr){.kind = MT_OP_fused_matmul, .attr = attr, .nin = 3, .nout = 2, .in = gemm->in, .out = out});
}

/* matmul, and gelu_grad or relu_grad with its output as dy. */
bool mt_fuse_activation_grad(struct mt_fusing *f, struct mt_linstr *grad) {
    struct mt_linstr *gemm = mt_fusing_made_by(f, grad->in[0], MT_OP_matmul, 0);
    if (!gemm || gemm->attr.out_acc || gemm->attr.accumulate || grad->in[1] == grad->in[0]) return false;
    int in[3] = {gemm->in[0], gemm->in[1], grad->in[1]};
    struct mt_attr attr = gemm->attr;
    attr.epilogue = grad->kind;
    return mt_fusing_merge(
        f, (struct mt_linstr *[]){gemm, grad}, 2,
        (struct mt_linstr){.kind = MT_OP_fused_matmul, .attr = attr, .nin = 3, .nout = 1, .in = in, .out = grad->out});
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
