/* Norms, with the residual connection before them, and their gradients. */
#include <string.h>

#include "synth/lower/fuse/internal.h"

/* sum over the last axis, norm_sqdev, norm_apply. */
bool mt_fuse_layer_norm(struct mt_fusing *f, struct mt_linstr *apply) {
    int x = apply->in[0];
    struct mt_linstr *sum = mt_fusing_made_by(f, apply->in[1], MT_OP_sum, 0);
    struct mt_linstr *dev = mt_fusing_made_by(f, apply->in[2], MT_OP_norm_sqdev, 0);
    if (!sum || !dev || sum->in[0] != x || dev->in[0] != x || dev->in[1] != sum->out[0]) return false;
    if (sum->attr.axes != 1u << (sum->tensor[0].naxes - 1) || sum->attr.accumulate) return false;
    int in[3] = {x, apply->in[3], apply->nin > 4 ? apply->in[4] : -1};
    int out[3] = {apply->out[0], sum->out[0], dev->out[0]};
    return mt_fusing_merge(
        f, (struct mt_linstr *[]){sum, dev, apply}, 3,
        (struct mt_linstr){
            .kind = MT_OP_layer_norm, .attr = apply->attr, .nin = apply->nin - 2, .nout = 3, .in = in, .out = out});
}

/* rms_sq, rms_apply. */
bool mt_fuse_rms_norm(struct mt_fusing *f, struct mt_linstr *apply) {
    struct mt_linstr *square = mt_fusing_made_by(f, apply->in[1], MT_OP_rms_sq, 0);
    if (!square || square->in[0] != apply->in[0]) return false;
    int in[2] = {apply->in[0], apply->in[2]}, out[2] = {apply->out[0], square->out[0]};
    return mt_fusing_merge(
        f, (struct mt_linstr *[]){square, apply}, 2,
        (struct mt_linstr){.kind = MT_OP_rms_norm, .attr = apply->attr, .nin = 2, .nout = 2, .in = in, .out = out});
}

/* add of two equal shapes, layer norm or root-mean-square norm. */
bool mt_fuse_residual_norm(struct mt_fusing *f, struct mt_linstr *norm) {
    struct mt_linstr *add = mt_fusing_made_by(f, norm->in[0], MT_OP_add, 0);
    if (!add || !mt_adds_whole(add) || f->l->adds_to[add->out[0]] >= 0) return false;
    int in[4] = {add->in[0], add->in[1], norm->in[1], norm->nin > 2 ? norm->in[2] : -1};
    int out[4] = {add->out[0], norm->out[0], norm->out[1], norm->nout > 2 ? norm->out[2] : -1};
    return mt_fusing_merge(
        f, (struct mt_linstr *[]){add, norm}, 2,
        (struct mt_linstr){.kind = norm->kind == MT_OP_rms_norm ? MT_OP_residual_rms : MT_OP_residual_norm,
                           .attr = norm->attr,
                           .nin = norm->nin + 1,
                           .nout = norm->nout + 1,
                           .in = in,
                           .out = out});
}

/* norm_dots, norm_grad, norm_param_grad of one dy and x. */
bool mt_fuse_norm_grad(struct mt_fusing *f, struct mt_linstr *grad) {
    struct mt_linstr *dots = mt_fusing_made_by(f, grad->in[5], MT_OP_norm_dots, 0);
    struct mt_linstr *params = mt_fusing_used_by(f, grad->in[0], MT_OP_norm_param_grad, 0);
    if (!dots || !params || params->attr.accumulate || dots->out[1] != grad->in[6]) return false;
    for (int i = 0; i < 5; i++)
        if (dots->in[i] != grad->in[i] || (i < 4 && params->in[i] != grad->in[i])) return false;
    int out[3] = {grad->out[0], params->out[0], params->out[1]};
    return mt_fusing_merge(
        f, (struct mt_linstr *[]){dots, grad, params}, 3,
        (struct mt_linstr){
            .kind = MT_OP_layer_norm_grad, .attr = grad->attr, .nin = 5, .nout = 3, .in = grad->in, .out = out});
}

/* rms_dot, rms_grad, rms_param_grad of one dy and x. */
bool mt_fuse_rms_grad(struct mt_fusing *f, struct mt_linstr *grad) {
    struct mt_linstr *dot = mt_fusing_made_by(f, grad->in[4], MT_OP_rms_dot, 0);
    struct mt_linstr *params = mt_fusing_used_by(f, grad->in[0], MT_OP_rms_param_grad, 0);
    if (!dot || !params || params->attr.accumulate) return false;
    for (int i = 0; i < 4; i++)
        if (dot->in[i] != grad->in[i] || (i < 3 && params->in[i] != grad->in[i])) return false;
    int out[2] = {grad->out[0], params->out[0]};
    return mt_fusing_merge(
        f, (struct mt_linstr *[]){dot, grad, params}, 3,
        (struct mt_linstr){
            .kind = MT_OP_rms_norm_grad, .attr = grad->attr, .nin = 4, .nout = 2, .in = grad->in, .out = out});
}

/* The sum of a norm's gradient and that of the residual connection around it. */
bool mt_fuse_norm_grad_add(struct mt_fusing *f, struct mt_linstr *add) {
    if (!mt_adds_whole(add) || f->l->adds_to[add->out[0]] >= 0) return false;
    for (int i = 0; i < 2; i++) {
        struct mt_linstr *grad = mt_fusing_made_by(f, add->in[i], MT_OP_layer_norm_grad, 0);
        if (!grad) grad = mt_fusing_made_by(f, add->in[i], MT_OP_rms_norm_grad, 0);
        if (!grad || grad->nin != mt_op_info[grad->kind].min_in || add->in[0] == add->in[1]) continue;
        int in[MT_MAX_IN], out[MT_MAX_OUT];
        memcpy(in, grad->in, (size_t)grad->nin * sizeof *in);
        memcpy(out, grad->out, (size_t)grad->nout * sizeof *out);
        in[grad->nin] = add->in[1 - i], out[0] = add->out[0];
        if (mt_fusing_merge(f, (struct mt_linstr *[]){grad, add}, 2,
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
bool mt_fuse_norm_grad_sum(struct mt_fusing *f, struct mt_linstr *sum) {
    struct mt_linstr *grad = mt_fusing_made_by(f, sum->in[0], MT_OP_layer_norm_grad, 0);
    if (!grad || grad->nout != 3 || sum->attr.axes != (1u << (sum->tensor[0].naxes - 1)) - 1) return false;
    int out[4] = {grad->out[0], grad->out[1], grad->out[2], sum->out[0]};
    struct mt_attr attr = grad->attr;
    attr.epilogue = MT_OP_sum;
    return mt_fusing_merge(
        f, (struct mt_linstr *[]){grad, sum}, 2,
        (struct mt_linstr){
            .kind = MT_OP_layer_norm_grad, .attr = attr, .nin = grad->nin, .nout = 4, .in = grad->in, .out = out});
}
