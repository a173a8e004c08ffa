/* The lower bound of a job on a cluster, over all plans of a space: from operators and messages of the training step to
 * the chains of planner/balance/subset.h.
 *
 * The space (mt_plan_bound_space): all subsets of the ranks; all shares of samples, in any micro-batches; parameters
 * and optimizer state replicated, or sharded in any shares; all buckets, orders of messages and algorithms of
 * collectives. What is given: model, batch, precision, recomputation, the wire type of gradients, that operators run as
 * the program's do (fused, in its order), and that the gradients of all samples are summed in every step.
 *
 * A chain of a rank's step: it gathers the sharded parameters that are used first, computes from there until the
 * gradients that are ready last, and those are summed. Collectives follow each other, so
 *
 *     step >= gather(parameters used by operator j) + computing from j to k + sum(gradients ready from k on)
 *
 * for all j and k; without shards there is nothing to gather. In its own time, a rank with x samples computes from j to
 * k for
 *
 *     least_s(x) = computing x samples - what comes before j - what comes after k
 *
 * The parts that are taken off are those of all x samples at once, or of the largest micro-batch that memory allows.
 * Where a person mixes replicated and sharded parameters, j is the first use of those that are ready from k on.
 * Computing counts operators of the forward and backward pass, and updates of what the rank must hold; casts, copies,
 * packing and slowdowns by overlap only add to it.
 *
 * Longer than other files: chains, curves and hosts fill in one problem, and nothing else reads them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/balance/subset.h"
#include "planner/divide/bound.h"
#include "planner/search/internal.h"

enum { MOST_CUTS = 7, MOST_CHAINS = MOST_CUTS * MOST_CUTS, EVERY_SHARE = 512, MOST_POINTS = 2048, MOST_SPEEDS = 48 };
static const double speed_step = 0.002; /* of many speeds those that differ by less count as the faster one */

/* A parameter that is exchanged. */
struct item {
    int ready, use; /* steps: the operator that completes its gradient; the first that reads it (-1: not sharded) */
    double sum_bytes, result_bytes;
};

/* Operators of LAST before a step, or after one. */
struct cut {
    int step;
    int64_t *counts; /* [nops] */
};

struct chain {
    int before, after; /* cuts */
    struct mt_subset_chain bytes;
};

struct bounding {
    struct mt_arena arena;
    const struct mt_search *search;
    const struct mt_plan *plan; /* ranks' memory */
    struct mt_work work, body;
    bool has_body, batched; /* batched: all operators with samples are split by the batch */
    bool mixed;             /* mixed: some parameters are sharded, by rows that a person gave */
    bool replicated; /* no parameter is sharded: the program's sums are AllReduce, its updates those of all state */
    int nuses, nreadies;
    struct cut uses[MOST_CUTS + 1], readies[MOST_CUTS + 1];
    int nchains;
    struct chain *chains;
    int npoints;
    int64_t *at;
    int64_t held_bytes; /* the least that a rank with samples holds */
    /* What two micro-batches need besides state; 0: no rank has a limit. */
    int64_t micro[2];
    double micro_bytes[2];
    struct mt_subset subset;
    struct mt_subset_curves *curves;
    struct key {
        int class;
        int64_t most;
    } * keys; /* [subset.ncurves]: what the curves are of: a class of devices, and samples of a micro-batch at most */
    int keys_capacity, curves_capacity;
};

/* ---- chains ---- */

/* The first operator of LAST that waits for a message, or for a later one: messages arrive in order. */
static void find_uses(const struct mt_work *w, int *use) {
    int next = 0;
    for (int m = 0; m < w->nmessages; m++) use[m] = -1;
    for (int i = w->block_begin[MT_LAST]; i < w->block_begin[MT_LAST + 1]; i++) {
        const struct mt_work_step *step = &w->steps[i];
        if (step->op < 0 || step->wait < 0) continue;
        for (int last = w->steps[step->wait].message; next <= last; next++) use[next] = i;
    }
}

/* [values of the graph]: the message that gathers the parameter, or -1. */
static int *find_gathers(const struct bounding *b) {
    const struct mt_work *w = &b->work;
    int n = b->search->graph->nvalues, *gather = mt_calloc((size_t)n, sizeof *gather);
    memset(gather, -1, (size_t)n * sizeof *gather);
    for (int m = w->nmessages - 1; m >= 0; m--)
        if (w->messages[m].key.kind == MT_ALL_GATHER && w->messages[m].param >= 0) gather[w->messages[m].param] = m;
    return gather;
}

static double wire_bytes(const struct mt_work_message *m) {
    return (double)(m->count * mt_type_size(m->key.wire));
}

static int by_ready(const void *a, const void *b) {
    return ((const struct item *)a)->ready - ((const struct item *)b)->ready;
}

/* Parameters in the order in which their gradients are ready. Returns how many. */
static int list_items(struct bounding *b, struct item *items) {
    const struct mt_work *w = &b->work;
    int *use = mt_calloc((size_t)w->nmessages + 1, sizeof *use), *gather = find_gathers(b), n = 0;
    double largest_bytes = 0;
    find_uses(w, use);
    for (int i = w->block_begin[MT_LAST]; i < w->block_begin[MT_LAST + 1]; i++) {
        const struct mt_work_message *m = w->steps[i].message >= 0 ? &w->messages[w->steps[i].message] : NULL;
        int ready = w->steps[i].from;
        if (!m || m->param < 0 || ready < w->block_begin[MT_LAST] || !mt_coll_reduces(m->key.kind)) continue;
        struct item *item = &items[n++];
        *item = (struct item){.ready = ready, .use = -1, .sum_bytes = wire_bytes(m)};
        int from = gather[m->param];
        if (from < 0 || b->replicated) continue;
        item->use = use[from];
        item->result_bytes = wire_bytes(&w->messages[from]);
        largest_bytes = fmax(largest_bytes, item->result_bytes);
    }
    b->held_bytes = w->state_bytes + (int64_t)largest_bytes;
    for (int l = 0; l < w->nlabels && b->replicated; l++) b->held_bytes += w->labels[l].state_bytes;
    if (n) qsort(items, (size_t)n, sizeof *items, by_ready);
    free(gather);
    free(use);
    return n;
}

static void count_ops(const struct mt_work *w, int begin, int end, int64_t *counts) {
    for (int i = begin; i < end; i++)
        if (w->steps[i].op >= 0) counts[w->steps[i].op]++;
}

static struct cut cut_at(struct bounding *b, int step, bool before) {
    const struct mt_work *w = &b->work;
    struct cut cut = {step, mt_new(&b->arena, int64_t, w->nops + 1)};
    int begin = w->block_begin[MT_LAST], end = w->block_begin[MT_LAST + 1];
    if (before && step >= 0) count_ops(w, begin, step, cut.counts);
    if (!before && step >= 0) count_ops(w, step + 1, end, cut.counts);
    return cut;
}

static int by_use(const void *a, const void *b) {
    return ((const struct item *)a)->use - ((const struct item *)b)->use;
}

/* Where ever more of the parameters are used: in the order of use, cuts after about equal parts of all bytes. The first
 * cut has none of them. */
static void cut_uses(struct bounding *b, const struct item *items, int n) {
    struct item *sorted = mt_arena_memdup(&b->arena, items, (size_t)n * sizeof *items);
    double all = 0, taken = 0;
    if (n) qsort(sorted, (size_t)n, sizeof *sorted, by_use);
    for (int i = 0; i < n; i++) all += sorted[i].result_bytes;
    b->uses[b->nuses++] = cut_at(b, -1, true);
    for (int i = 0; i < n && b->nuses < MOST_CUTS; i++) {
        if (sorted[i].use < 0) continue;
        taken += sorted[i].result_bytes;
        bool last_of_step = i + 1 == n || sorted[i + 1].use != sorted[i].use;
        if (!last_of_step || (taken < all * (b->nuses - 1) / (MOST_CUTS - 2) && i + 1 < n)) continue;
        b->uses[b->nuses++] = cut_at(b, sorted[i].use, true);
    }
}

/* The same from the last gradient backwards. */
static void cut_readies(struct bounding *b, const struct item *items, int n) {
    double all = 0, taken = 0;
    for (int i = 0; i < n; i++) all += items[i].sum_bytes;
    b->readies[b->nreadies++] = cut_at(b, -1, false);
    for (int i = n - 1; i >= 0 && b->nreadies < MOST_CUTS; i--) {
        taken += items[i].sum_bytes;
        bool first_of_step = !i || items[i - 1].ready != items[i].ready;
        if (!first_of_step || (taken < all * (b->nreadies - 1) / (MOST_CUTS - 2) && i)) continue;
        b->readies[b->nreadies++] = cut_at(b, items[i].ready, false);
    }
}

/* Gathers, sums and, with clipping, the sum of squares follow each other. */
static struct mt_subset_chain chain_bytes(const struct bounding *b, const struct item *items, int n, int use,
                                          int ready) {
    struct mt_subset_chain c = {0};
    for (int i = 0; i < n; i++) {
        bool gathered = use >= 0 && items[i].use >= 0 && items[i].use <= use;
        bool summed = ready >= 0 && items[i].ready >= ready, sharded = items[i].use >= 0;
        if (summed && gathered) c.sum_bytes += items[i].sum_bytes, c.result_bytes += items[i].result_bytes;
        if (summed && sharded && !gathered) c.other_sum_bytes += items[i].sum_bytes;
        if (summed && !sharded) c.all_bytes += items[i].sum_bytes;
        if (gathered && !summed) c.other_result_bytes += items[i].result_bytes;
    }
    bool gathers = c.result_bytes + c.other_result_bytes > 0, sums = c.sum_bytes + c.other_sum_bytes + c.all_bytes > 0;
    bool norm = sums && b->search->job->optimizer.clip > 0 && c.sum_bytes + c.other_sum_bytes > 0;
    c.rounds = gathers + sums + norm;
    return c;
}

/* Of the parameters whose gradients are ready from a step on, the last that is used first. */
static int last_use(const struct item *items, int n, int ready) {
    int use = -1;
    for (int i = 0; i < n; i++)
        if (items[i].ready >= ready && items[i].use > use) use = items[i].use;
    return use;
}

/* Chain 0 is computing alone. */
static void make_chains(struct bounding *b) {
    const struct mt_work *w = &b->work;
    struct item *items = mt_new(&b->arena, struct item, w->nmessages + 1);
    int n = b->search->costs->nranks > 1 ? list_items(b, items) : 0;
    b->chains = mt_new(&b->arena, struct chain, MOST_CHAINS + 1);
    cut_readies(b, items, n);
    if (b->mixed) {
        b->uses[b->nuses++] = cut_at(b, -1, true);
        for (int k = 1; k < b->nreadies; k++)
            b->uses[b->nuses++] = cut_at(b, last_use(items, n, b->readies[k].step), true);
    } else {
        cut_uses(b, items, n);
    }
    for (int u = 0; u < b->nuses; u++)
        for (int r = 0; r < b->nreadies; r++) {
            if (b->mixed && u != r) continue;
            struct chain *c = &b->chains[b->nchains++];
            *c = (struct chain){u, r, chain_bytes(b, items, n, b->uses[u].step, b->readies[r].step)};
        }
}

/* ---- curves of a class of devices ---- */

static void list_points(struct bounding *b) {
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
        double whole_s = block_s(w, MT_LAST, op_s), cut_s[2][MOST_CUTS + 1];
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

/* ---- ranks and hosts ---- */

static const struct mt_cluster_device *device_of(const struct bounding *b, int rank) {
    return &b->search->costs->cluster->devices[b->search->costs->device[rank]];
}

/* What the rows of pairs say of a device, and how many there are. */
struct reached {
    int inside, outside; /* pairs with rows */
    double out_Bps, in_Bps, host_out_Bps, host_in_Bps;
};

static void take_row(struct reached *r, bool inside, double out_Bps, double in_Bps) {
    *(inside ? &r->inside : &r->outside) += 1;
    r->out_Bps = fmax(r->out_Bps, out_Bps);
    r->in_Bps = fmax(r->in_Bps, in_Bps);
    if (inside) return;
    r->host_out_Bps = fmax(r->host_out_Bps, out_Bps);
    r->host_in_Bps = fmax(r->host_in_Bps, in_Bps);
}

/* Of each device, the fastest path to and from another rank's; pairs without rows have their link's rates. on_node: the
 * number of ranks there. */
static struct reached *reach_of(const struct bounding *b, const int *on_node) {
    const struct mt_costs *costs = b->search->costs;
    const struct mt_cluster *c = costs->cluster;
    struct reached *reached = mt_calloc((size_t)c->ndevices, sizeof *reached);
    bool *ours = mt_calloc((size_t)c->ndevices, sizeof *ours);
    for (int r = 0; r < costs->nranks; r++) ours[costs->device[r]] = true;
    for (int p = 0; p < c->npairs; p++) {
        const struct mt_cluster_pair *pair = &c->pairs[p];
        if (!ours[pair->a] || !ours[pair->b]) continue;
        bool inside = c->devices[pair->a].node == c->devices[pair->b].node;
        double there_Bps = pair->bandwidth_Bps, back_Bps = pair->reverse_Bps > 0 ? pair->reverse_Bps : there_Bps;
        take_row(&reached[pair->a], inside, there_Bps, back_Bps);
        take_row(&reached[pair->b], inside, back_Bps, there_Bps);
    }
    for (int r = 0; r < costs->nranks; r++) {
        int device = costs->device[r], node = c->devices[device].node;
        struct reached *mine = &reached[device];
        if (mine->inside < on_node[node] - 1) {
            double Bps = c->links[c->nodes[node].inside].bandwidth_Bps;
            take_row(mine, true, Bps, Bps);
        }
        if (mine->outside >= costs->nranks - on_node[node]) continue;
        double Bps = c->links[c->network].bandwidth_Bps, out_Bps = c->nodes[node].egress_Bps;
        double in_Bps = c->nodes[node].ingress_Bps;
        take_row(mine, false, out_Bps > 0 ? fmin(Bps, out_Bps) : Bps, in_Bps > 0 ? fmin(Bps, in_Bps) : Bps);
    }
    free(ours);
    return reached;
}

/* Speeds as they are, or, of many, rounded up. */
static double rounded(double speed, bool many) {
    return many ? exp(speed_step * ceil(log(speed) / speed_step - 1e-9)) : speed;
}

static bool many_speeds(const struct bounding *b) {
    double speeds[MOST_SPEEDS];
    int n = 0;
    for (int r = 0; r < b->search->costs->nranks; r++) {
        int i = 0;
        while (i < n && speeds[i] != device_of(b, r)->speed) i++;
        if (i == MOST_SPEEDS) return true;
        if (i == n) speeds[n++] = device_of(b, r)->speed;
    }
    return false;
}

/* A host's ranks as classes, in the order in which they come first. */
struct host {
    struct mt_subset_hosts as;
    struct mt_subset_ranks *ranks;
    int capacity;
};

static bool same_rank(const struct mt_subset_ranks *a, const struct mt_subset_ranks *b) {
    return a->curves == b->curves && a->speed == b->speed && a->out_Bps == b->out_Bps && a->in_Bps == b->in_Bps &&
           a->each_s == b->each_s;
}

static bool same_host(const struct mt_subset_hosts *a, const struct mt_subset_hosts *b) {
    bool same = a->out_Bps == b->out_Bps && a->in_Bps == b->in_Bps && a->inside_Bps == b->inside_Bps &&
                a->latency_s == b->latency_s && a->nranks == b->nranks;
    for (int r = 0; r < a->nranks && same; r++)
        same = same_rank(&a->ranks[r], &b->ranks[r]) && a->ranks[r].count == b->ranks[r].count;
    return same;
}

static int curves_of(struct bounding *b, int rank, int class, int64_t limit_bytes) {
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

static void add_rank(struct bounding *b, struct host *host, int rank, const struct reached *reached, bool many) {
    const struct mt_cluster_device *device = device_of(b, rank);
    const struct reached *mine = &reached[b->search->costs->device[rank]];
    host->as.out_Bps += mine->host_out_Bps;
    host->as.in_Bps += mine->host_in_Bps;
    int64_t limit = b->plan->ranks[rank].memory_bytes;
    if (limit && limit < b->held_bytes) return; /* it may hold state, but computes no sample */
    bool alone = b->search->costs->nranks == 1;
    struct mt_subset_ranks one = {curves_of(b, rank, device->class, limit),
                                  rounded(device->speed, many),
                                  alone ? INFINITY : mine->out_Bps,
                                  alone ? INFINITY : mine->in_Bps,
                                  b->search->costs->cluster->classes[device->class].overhead_s,
                                  1};
    for (int i = 0; i < host->as.nranks; i++)
        if (same_rank(&host->ranks[i], &one)) {
            host->ranks[i].count++;
            return;
        }
    mt_arena_grow(&b->arena, &host->ranks, host->as.nranks, &host->capacity, sizeof *host->ranks);
    host->ranks[host->as.nranks++] = one;
}

/* Between devices on a link. Fits of collectives have latencies of their own. */
static double least_latency(const struct mt_cluster *c, int link) {
    double least_s = c->ngroups ? 0 : c->links[link].latency_s;
    for (int p = 0; p < c->npairs; p++) least_s = fmin(least_s, c->pairs[p].latency_s);
    return least_s;
}

static void list_hosts(struct bounding *b) {
    const struct mt_costs *costs = b->search->costs;
    const struct mt_cluster *c = costs->cluster;
    struct host *hosts = mt_new(&b->arena, struct host, c->nnodes);
    int *on_node = mt_new(&b->arena, int, c->nnodes);
    for (int r = 0; r < costs->nranks; r++) on_node[device_of(b, r)->node]++;
    struct reached *reached = reach_of(b, on_node);
    bool many = many_speeds(b);
    for (int r = 0; r < costs->nranks; r++) add_rank(b, &hosts[device_of(b, r)->node], r, reached, many);
    free(reached);
    struct mt_subset_hosts *classes = mt_new(&b->arena, struct mt_subset_hosts, c->nnodes);
    for (int h = 0; h < c->nnodes; h++) {
        struct host *host = &hosts[h];
        if (!on_node[h]) continue;
        int inside = c->nodes[h].inside, i = 0;
        host->as.count = 1;
        host->as.ranks = host->ranks;
        host->as.latency_s = inside >= 0 ? least_latency(c, inside) : 0;
        host->as.inside_Bps = inside >= 0 && c->links[inside].shared_Bps > 0 ? c->links[inside].shared_Bps : INFINITY;
        host->as.out_Bps = fmin(host->as.out_Bps, mt_cluster_node_egress(c, h));
        host->as.in_Bps = fmin(host->as.in_Bps, mt_cluster_node_ingress(c, h));
        while (i < b->subset.nhosts && !same_host(&classes[i], &host->as)) i++;
        if (i == b->subset.nhosts) classes[b->subset.nhosts++] = (struct mt_subset_hosts){0};
        int64_t count = classes[i].count + 1;
        classes[i] = host->as;
        classes[i].count = count;
    }
    b->subset.hosts = classes;
    b->subset.latency_s = c->network >= 0 ? least_latency(c, c->network) : 0;
}

/* ---- the bound ---- */

static bool by_batch(const struct mt_decisions *d) {
    for (int i = 0; i < d->nrules; i++)
        if (d->rules[i].operators != MT_OPERATORS_SPLIT || strcmp(d->rules[i].split, "batch")) return false;
    return true;
}

/* Memory of micro-batches of two sizes, about as many samples as a rank has, in the program of `p`. */
static enum mt_status open_memory(struct bounding *b, const struct mt_plan *p, struct mt_err *err) {
    int64_t batch = b->search->job->batch, usual = batch / (2 * b->search->costs->nranks);
    bool limits = false;
    for (int r = 0; r < b->plan->nranks; r++) limits |= b->plan->ranks[r].memory_bytes > 0;
    if (!limits || batch < 4) return MT_OK;
    if (usual < 1) usual = 1;
    if (usual > 8) usual = 8;
    for (int i = 0; i < 2; i++) {
        struct mt_plan_memory memory;
        b->micro[i] = (i + 1) * usual;
        enum mt_status st =
            mt_work_memory(b->search->graph, p, 2 * b->micro[i], b->micro[i], b->search->options, &memory, err);
        if (st) return st;
        b->micro_bytes[i] = (double)(memory.arena_bytes - memory.state_bytes);
    }
    return MT_OK;
}

/* Rows that mix replicated and sharded parameters; others are free. */
static bool mixes_storage(const struct mt_decisions *d) {
    for (int i = 0; i < d->nstorage; i++)
        if (strcmp(d->storage[i].pattern, "*")) return true;
    return false;
}

/* What the program of the space is read from: given rows; else sharded state, whose messages say when a parameter is
 * needed and when its gradient is ready. */
static enum mt_status open_works(struct bounding *b, const struct mt_decisions *rows, struct mt_err *err) {
    static struct mt_storage_row sharded = {.pattern = "*", .state = MT_STATE_SPLIT};
    struct mt_plan *p = mt_plan_new(b->search->costs->nranks);
    p->job = *b->search->job;
    p->decisions = *rows;
    if (!b->mixed) p->decisions.storage = &sharded, p->decisions.nstorage = p->nranks > 1;
    p->decisions.nalgorithms = 0;
    p->decisions.bucket_bytes = 0;
    if (p->decisions.start < 0) p->decisions.start = MT_START_FULL;
    if (p->decisions.sync < 0) p->decisions.sync = MT_SYNC_REDUCE_SCATTER;
    mt_decisions_complete(&p->decisions, &p->arena);
    enum mt_status st = mt_work_open(b->search->graph, p, false, b->search->options, &b->work, err);
    if (!st && by_batch(&p->decisions) && b->search->job->batch > 1) {
        st = mt_work_open(b->search->graph, p, true, b->search->options, &b->body, err);
        b->has_body = !st;
        if (!st) st = open_memory(b, p, err);
    }
    mt_plan_free(p);
    return st;
}

/* The bound where all parameters are sharded, none, or some. */
static double bound_of(struct bounding *b, bool replicated) {
    bool one_rank = b->search->costs->nranks == 1;
    b->replicated = replicated && !one_rank;
    b->nchains = b->nuses = b->nreadies = 0;
    make_chains(b);
    if (!b->batched) b->nchains = 1; /* of replicated operators gradients need not be exchanged */
    struct mt_subset_chain *chains = mt_new(&b->arena, struct mt_subset_chain, b->nchains);
    for (int k = 0; k < b->nchains; k++) chains[k] = b->chains[k].bytes;
    b->subset = (struct mt_subset){.extent = b->search->job->batch,
                                   .alone = replicated || b->mixed || one_rank || !b->batched,
                                   .nchains = b->nchains,
                                   .chains = chains};
    list_hosts(b);
    b->subset.curves = b->curves;
    return mt_subset_bound(&b->subset);
}

enum mt_status mt_search_bound(const struct mt_search *search, const struct mt_plan *plan,
                               const struct mt_decisions *rows, double *bound_s, struct mt_err *err) {
    struct bounding b = {.search = search, .plan = plan, .mixed = mixes_storage(rows), .batched = by_batch(rows)};
    *bound_s = 0;
    enum mt_status st = open_works(&b, rows, err);
    if (!st) {
        list_points(&b);
        *bound_s = bound_of(&b, false);
        if (!b.mixed && search->costs->nranks > 1) *bound_s = fmin(*bound_s, bound_of(&b, true));
        if (isinf(*bound_s)) *bound_s = 0; /* no rank has room: there is no plan */
    }
    if (b.has_body) mt_work_release(&b.body);
    mt_work_release(&b.work);
    mt_arena_release(&b.arena);
    return st;
}

enum mt_status mt_search_bound_of(const struct mt_search *search, const struct mt_plan *plan, double *bound_s,
                                  struct mt_err *err) {
    struct mt_decisions rows;
    *bound_s = 0;
    if (search->no_bound) return MT_OK;
    if (mt_search_rows_of(plan, &rows)) return mt_search_bound(search, plan, &rows, bound_s, err);
    struct mt_divide_bound *all;
    enum mt_status st = mt_divide_bound_open(search->graph, search->job, plan->device, search->options, &all, err);
    if (!st) *bound_s = mt_divide_bound_s(all, search->costs);
    mt_divide_bound_close(all);
    return st;
}
