/* The rule, as costs.
 *
 * Every way starts one kernel (ALPHA), and more for each member of its group. Over links that all ranks reach each
 * other by (NVLink), at B bytes a second in each direction: padded and native move (n - 1) M of every rank; rooted and
 * pairs move what there is, but pairs leave the longest block's rank to send it n - 1 times, and rooted ones are chains
 * that share links less well. Padding copies besides: what is sent before, what has come after, read and written once.
 */
#include "kernels/nccl_way.h"

static const char *const names[MT_NCCL_NWAYS] = {"auto", "native", "padded", "rooted", "pairs"};

/* Seconds, and bytes a second. */
struct figures {
    double alpha_s, member_s; /* a call, and each more in its group (rooted: a block; pairs: a peer) */
    double bandwidth_Bps;
};
static const struct figures of_way[MT_NCCL_NWAYS] = {[MT_NCCL_NATIVE] = {10e-6, 0, 300e9},
                                                     [MT_NCCL_PADDED] = {10e-6, 0, 300e9},
                                                     [MT_NCCL_ROOTED] = {12e-6, 1.5e-6, 230e9},
                                                     [MT_NCCL_PAIRS] = {10e-6, 0.5e-6, 260e9}};
static const double copy_s = 4e-6, copy_Bps = 1.2e12; /* a launch; bytes copied, read and written */

struct blocks {
    int64_t most, least, total; /* bytes on the wire */
    int n, filled;
};

static struct blocks blocks_of(const struct mt_coll *problem) {
    struct blocks b = {.least = INT64_MAX, .n = problem->n};
    int64_t size_bytes = mt_type_size(problem->wire);
    for (int r = 0; r < problem->n; r++) {
        int64_t bytes = problem->counts[r] * size_bytes;
        if (bytes > b.most) b.most = bytes;
        if (bytes < b.least) b.least = bytes;
        b.total += bytes;
        b.filled += bytes > 0;
    }
    return b;
}

const char *mt_nccl_way_name(enum mt_nccl_way way) {
    return names[way];
}

bool mt_nccl_way_serves(enum mt_nccl_way way, const struct mt_coll *problem) {
    struct blocks b = blocks_of(problem);
    switch (way) {
    case MT_NCCL_NATIVE: return b.most == b.least;
    case MT_NCCL_PADDED:
    case MT_NCCL_ROOTED: return true;
    case MT_NCCL_PAIRS: return problem->kind == MT_ALL_GATHER;
    case MT_NCCL_AUTO:
    case MT_NCCL_NWAYS: break;
    }
    return false;
}

double mt_nccl_way_cost_s(enum mt_nccl_way way, const struct mt_coll *problem) {
    const struct figures *f = &of_way[way];
    struct blocks b = blocks_of(problem);
    double padded = (double)(b.n - 1) * (double)b.most, whole = (double)(b.total - b.least);
    switch (way) {
    case MT_NCCL_NATIVE: return f->alpha_s + padded / f->bandwidth_Bps;
    case MT_NCCL_PADDED:
        return f->alpha_s + padded / f->bandwidth_Bps + 2 * copy_s + (double)(b.total + b.most) / copy_Bps;
    case MT_NCCL_ROOTED: return f->alpha_s + b.filled * f->member_s + whole / f->bandwidth_Bps;
    case MT_NCCL_PAIRS:
        return f->alpha_s + (b.n - 1) * f->member_s + (padded > whole ? padded : whole) / f->bandwidth_Bps;
    case MT_NCCL_AUTO:
    case MT_NCCL_NWAYS: break;
    }
    return 0;
}

enum mt_nccl_way mt_nccl_way_choose(const struct mt_coll *problem) {
    enum mt_nccl_way best = MT_NCCL_AUTO;
    double best_s = 0;
    for (enum mt_nccl_way way = MT_NCCL_NATIVE; way < MT_NCCL_NWAYS; way++) {
        if (!mt_nccl_way_serves(way, problem)) continue;
        double cost_s = mt_nccl_way_cost_s(way, problem);
        if (best == MT_NCCL_AUTO || cost_s < best_s) best = way, best_s = cost_s;
    }
    return best;
}
