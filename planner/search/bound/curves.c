/* What a class of devices takes for samples, at least: in one piece, or in the best micro-batches that memory allows;
 * in each chain without what comes before it and after it. */
#include <math.h>
#include <stdlib.h>

#include "planner/search/bound/internal.h"

enum { EVERY_SHARE = 512, MOST_POINTS = 2048 };

void mt_search_bound_points(struct bounding *b) {
    int64_t batch = b->search->job->batch;
    b->at = mt_new(&b->arena, int64_t, MOST_POINTS);
    for (int64_t x = 0; x < batch && b->npoints < MOST_POINTS - 1; x += x < EVERY_SHARE ? 1 : x / 64)
        b->at[b->npoints++] = x;
    b->at[b->npoints++] = batch;
}

static bool divides_state(const struct mt_work_op *op) {
    for (int k = 0; k < op->nin + op->nout; k++)
        for (int a = 0; a < op->tensor[k].naxes; a++)
            if (op->divided[k][a] >= MT_WORK_STORAGE) return true;
    return false;
}

/* Seconds of each operator for x samples, at speed 1; copies are left out, and all but empty shares of sharded state.
 */
static void price_ops(const struct bounding *b, const struct mt_work *w, int rank, int64_t samples, double *op_s) {
    enum { MOST_LABELS = 64 };
    int64_t held[MOST_LABELS] = {0};
    const struct mt_work_share share = {samples, held};
    const struct mt_cluster *cluster = b->search->costs->cluster;
    const struct mt_cluster_device *device = &cluster->devices[b->search->costs->device[rank]];
    for (int l = 0; l < w->nlabels && l < MOST_LABELS && b->replicated; l++) held[l] = w->labels[l].extent;
    for (int o = 0; o < w->nops; o++) {
        struct mt_op_shape shape;
        op_s[o] = 0;
        /* Curves may give some of it less than the overhead that none of it takes. */
        bool unknown = !b->replicated && !cluster->classes[device->class].nominal && divides_state(&w->ops[o]);
        if (w->ops[o].copy || unknown || w->nlabels > MOST_LABELS) continue;
        mt_work_shape(&w->ops[o], &share, &shape);
        op_s[o] = mt_cost_op(b->search->costs, rank, &shape).s * device->speed;
    }
}

static double block_s(const struct mt_work *w, enum mt_block_kind block, const double *op_s) {
    double sum = 0;
    for (int o = 0; o < w->nops; o++)
        if (w->ops[o].block == block) sum += (double)w->ops[o].count * op_s[o];
    return sum;
}

static double dot(const int64_t *counts, const double *op_s, int n) {
    double sum = 0;
    for (int o = 0; o < n; o++) sum += (double)counts[o] * op_s[o];
    return sum;
}

/* Samples of a micro-batch at most. What a program needs is a maximum over moments of sums that are linear in the
 * samples, so it is convex: beyond two points it is above the line through them. */
static int64_t most_micro(const struct bounding *b, int64_t limit_bytes) {
    static const double estimate = 0.95; /* buffers may be assigned a little better */
    int64_t batch = b->search->job->batch;
    if (!limit_bytes || !b->micro[0]) return batch;
    double low = estimate * b->micro_bytes[0], high = estimate * b->micro_bytes[1], limit = (double)limit_bytes;
    double each = (high - low) / (double)(b->micro[1] - b->micro[0]), from = (double)b->micro[1];
    if (low <= limit && high > limit) return b->micro[1];
    if (!(each > 0)) return batch;
    double most = high <= limit ? from + (limit - high) / each : (double)b->micro[0] - (low - limit) / each;
    return most < 1 ? 1 : most < (double)batch ? (int64_t)most : batch;
}

/* The least time of x samples: at once, or in micro-batches, none of which has fewer seconds a sample than the best. */
static void price_samples(const struct bounding *b, int rank, int64_t most, double *least_s, double *off_s) {
    const struct mt_work *w = &b->work;
    int n = b->npoints;
    double *op_s = mt_calloc((size_t)(w->nops + b->body.nops) + 1, sizeof *op_s), each_s = INFINITY;
    for (int i = 0; i < n; i++) {
        double x = (double)b->at[i];
        bool at_once = b->at[i] <= most || !b->has_body;
        price_ops(b, w, rank, b->at[i], op_s);
        double whole_s = block_s(w, MT_LAST, op_s), cut_s[2][BOUND_MOST_CUTS + 1];
        double begin_s = block_s(w, MT_PROLOGUE, op_s), once_s = begin_s + block_s(w, MT_EPILOGUE, op_s);
        for (int u = 0; u < b->nuses; u++) cut_s[0][u] = dot(b->uses[u].counts, op_s, w->nops);
        for (int r = 0; r < b->nreadies; r++) cut_s[1][r] = dot(b->readies[r].counts, op_s, w->nops);
        for (int k = 0; k < b->nchains; k++) {
            double s = cut_s[0][b->chains[k].before] + cut_s[1][b->chains[k].after];
            if (b->chains[k].before) s += begin_s; /* casts come before what is gathered */
            if (b->chains[k].after && !(b->search->job->optimizer.clip > 0)) s += once_s - begin_s;
            double before_s = i ? off_s[k * n + i - 1] : 0;
            off_s[k * n + i] = at_once || !i ? fmax(s, before_s) : before_s;
        }
        least_s[i] = (x > 0 ? fmin(at_once ? whole_s : INFINITY, x * each_s) : 0) + once_s;
        if (!(x > 0) || !b->has_body || !at_once) continue;
        price_ops(b, &b->body, rank, b->at[i], op_s);
        each_s = fmin(each_s, fmin(whole_s, block_s(&b->body, MT_BODY, op_s)) / x);
    }
    free(op_s);
}

static void price_class(struct bounding *b, int rank, int64_t most, struct mt_subset_curves *curves) {
    int n = b->npoints;
    double *least_s = mt_new(&b->arena, double, n), *off_s = mt_new(&b->arena, double, b->nchains *n);
    double *chain_s = mt_new(&b->arena, double, b->nchains *n);
    price_samples(b, rank, most, least_s, off_s);
    for (int k = 0; k < b->nchains; k++)
        for (int i = n - 1; i >= 0; i--) {
            double s = fmax(least_s[i] - off_s[k * n + i], 0);
            chain_s[k * n + i] = i + 1 < n ? fmin(s, chain_s[k * n + i + 1]) : s;
        }
    *curves = (struct mt_subset_curves){n, b->at, chain_s};
}

int mt_search_bound_curves(struct bounding *b, int rank, int64_t limit_bytes) {
    int class = bound_device_of(b, rank)->class;
    struct key key = {class, most_micro(b, limit_bytes)};
    int i = 0;
    while (i < b->subset.ncurves && (b->keys[i].class != key.class || b->keys[i].most != key.most)) i++;
    if (i < b->subset.ncurves) return i;
    mt_arena_grow(&b->arena, &b->keys, i, &b->keys_capacity, sizeof *b->keys);
    mt_arena_grow(&b->arena, &b->curves, i, &b->curves_capacity, sizeof *b->curves);
    b->keys[i] = key;
    price_class(b, rank, key.most, &b->curves[i]);
    return b->subset.ncurves++;
}
