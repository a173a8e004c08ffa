/* The cost model: alpha for a call, a little for each further member of its group call, and bytes over a bandwidth.
 *
 * Native and padded move (n - 1) M bytes on every rank; padded adds two copies. Rooted and pairs move only the blocks'
 * own bytes; but with pairs the rank of the longest block sends it n - 1 times. The bandwidths of two ranks are
 * measured (H100, NVLink, NCCL 2.28.9: bench_cuda_collectives, 32 to 256 MiB): between two ranks, rooted uses more of
 * the links than NCCL's own ring. For more ranks only ratios are known, from openucx/ucc's issue 347 for 256 MiB on
 * eight GPUs of a host: padded 1, rooted 0.78, pairs 0.52. Latencies differ by less than their noise, so one figure
 * serves all. AllGather of blocks that do not start at multiples of 16 bytes is slower, by Broadcasts (rooted) most of
 * all. */
#include "kernels/coll/nccl_unequal.h"

/* Seconds, and bytes a second: between two ranks (two_Bps), and among more (more_Bps). */
struct figures {
    double alpha_s, member_s; /* of a call, and of each member of its group (rooted: a block; pairs: a peer) */
    double two_Bps, more_Bps;
    double unaligned; /* AllGather of unaligned blocks: the fraction of the bandwidth that is left */
};
static const struct figures figures_of[MT_NCCL_NIMPLS] = {[MT_NCCL_NATIVE] = {25e-6, 0, 260e9, 260e9, 1},
                                                          [MT_NCCL_PADDED] = {25e-6, 0, 260e9, 260e9, 1},
                                                          [MT_NCCL_ROOTED] = {25e-6, 1e-6, 345e9, 0.78 * 260e9, 0.6},
                                                          [MT_NCCL_PAIRS] = {25e-6, 0.5e-6, 305e9, 0.52 * 260e9, 0.8}};
enum { ALIGN_BYTES = 16 };
static const double copy_s = 6e-6,
                    copy_Bps = 1.4e12; /* a kernel launch; bytes copied a second, which are read and written */

struct blocks {
    int64_t most, least, total; /* bytes on the wire */
    int n, filled;
    bool aligned;
};

static struct blocks blocks_of(const struct mt_coll *problem) {
    struct blocks b = {.least = INT64_MAX, .n = problem->n, .aligned = true};
    int64_t size_bytes = mt_type_size(problem->wire);
    for (int r = 0; r < problem->n; r++) {
        int64_t bytes = problem->counts[r] * size_bytes;
        if (bytes > b.most) b.most = bytes;
        if (bytes < b.least) b.least = bytes;
        b.aligned = b.aligned && b.total % ALIGN_BYTES == 0;
        b.total += bytes;
        b.filled += bytes > 0;
    }
    return b;
}

bool mt_nccl_impl_serves(enum mt_nccl_impl impl, const struct mt_coll *problem) {
    struct blocks b = blocks_of(problem);
    switch (impl) {
    case MT_NCCL_NATIVE: return b.most == b.least;
    case MT_NCCL_PADDED:
    case MT_NCCL_ROOTED: return true;
    case MT_NCCL_PAIRS: return problem->kind == MT_ALL_GATHER;
    case MT_NCCL_AUTO:
    case MT_NCCL_NIMPLS: break;
    }
    return false;
}

double mt_nccl_impl_cost_s(enum mt_nccl_impl impl, const struct mt_coll *problem) {
    const struct figures *f = &figures_of[impl];
    struct blocks b = blocks_of(problem);
    double bandwidth_Bps = b.n > 2 ? f->more_Bps : f->two_Bps;
    if (problem->kind == MT_ALL_GATHER && !b.aligned) bandwidth_Bps *= f->unaligned;
    double padded = (double)(b.n - 1) * (double)b.most, whole = (double)(b.total - b.least);
    switch (impl) {
    case MT_NCCL_NATIVE: return f->alpha_s + padded / bandwidth_Bps;
    case MT_NCCL_PADDED:
        return f->alpha_s + padded / bandwidth_Bps + 2 * copy_s + (double)(b.total + b.most) / copy_Bps;
    case MT_NCCL_ROOTED: return f->alpha_s + b.filled * f->member_s + whole / bandwidth_Bps;
    case MT_NCCL_PAIRS: return f->alpha_s + (b.n - 1) * f->member_s + (padded > whole ? padded : whole) / bandwidth_Bps;
    case MT_NCCL_AUTO:
    case MT_NCCL_NIMPLS: break;
    }
    return 0;
}

enum mt_nccl_impl mt_nccl_impl_choose(const struct mt_coll *problem) {
    enum mt_nccl_impl best = MT_NCCL_AUTO;
    double best_s = 0;
    for (enum mt_nccl_impl impl = MT_NCCL_NATIVE; impl < MT_NCCL_NIMPLS; impl++) {
        if (!mt_nccl_impl_serves(impl, problem)) continue;
        double cost_s = mt_nccl_impl_cost_s(impl, problem);
        if (best == MT_NCCL_AUTO || cost_s < best_s) best = impl, best_s = cost_s;
    }
    return best;
}
