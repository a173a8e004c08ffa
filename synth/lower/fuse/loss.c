/* Cross entropy, and its gradient. */
#include "synth/lower/fuse/internal.h"

/* row_max, exp_sum, pick, nll. */
bool mt_fuse_cross_entropy(struct mt_fusing *f, struct mt_linstr *nll) {
    struct mt_linstr *max = mt_fusing_made_by(f, nll->in[0], MT_OP_row_max, 0);
    struct mt_linstr *sum = mt_fusing_made_by(f, nll->in[1], MT_OP_exp_sum, 0);
    struct mt_linstr *pick = mt_fusing_made_by(f, nll->in[2], MT_OP_pick, 0);
    if (!max || !sum || !pick) return false;
    int x = max->in[0], target = nll->in[3];
    if (sum->in[0] != x || sum->in[1] != max->out[0] || pick->in[0] != x || pick->in[1] != target) return false;
    int in[2] = {x, target}, out[3] = {max->out[0], sum->out[0], nll->out[0]};
    return mt_fusing_merge(
        f, (struct mt_linstr *[]){max, sum, pick, nll}, 4,
        (struct mt_linstr){.kind = MT_OP_cross_entropy, .attr = nll->attr, .nin = 2, .nout = 3, .in = in, .out = out});
}

/* cross_entropy and nll_grad, where the gradient of the losses is a constant or that plus a scalar. The losses are
 * still made, for reports; the logits are read once instead of twice. */
bool mt_fuse_cross_entropy_grad(struct mt_fusing *f, struct mt_linstr *grad) {
    struct mt_linstr *loss = mt_fusing_made_by(f, grad->in[1], MT_OP_cross_entropy, 0);
    struct mt_linstr *more = mt_fusing_made_by(f, grad->in[4], MT_OP_add, 0);
    if (more && (more->attr.axes || more->attr.accumulate)) return false;
    struct mt_linstr *seed = mt_fusing_made_by(f, more ? more->in[0] : grad->in[4], MT_OP_fill, 0);
    if (!loss || !seed || seed->in[0] != loss->out[2]) return false;
    if (grad->in[0] != loss->in[0] || grad->in[2] != loss->out[1] || grad->in[3] != loss->in[1]) return false;
    int in[3] = {loss->in[0], loss->in[1], more ? more->in[1] : -1}, out[2] = {grad->out[0], loss->out[2]};
    return mt_fusing_merge(f, (struct mt_linstr *[]){loss, seed, grad, more}, more ? 4 : 3,
                           (struct mt_linstr){.kind = MT_OP_cross_entropy_grad,
                                              .attr = seed->attr,
                                              .nin = more ? 3 : 2,
                                              .nout = 2,
                                              .in = in,
                                              .out = out});
}
