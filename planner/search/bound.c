/* The lower bound of a job on a cluster, over all plans of a space: from operators and messages of the training step to
 * the chains of planner/balance/subset.h.
 *
 * The space (mt_search_bound_space): all subsets of the ranks; all shares of samples, in any micro-batches; all storage
 * of parameters and optimizer state, on any ranks; all buckets, orders of messages and algorithms of collectives. What
 * is given: model, batch, precision, recomputation, the wire type of gradients, that operators run as the program's do
 * (fused, in its order), and that the gradients of all samples are summed in every step.
 *
 * A chain: the parameters whose gradients are ready last. A rank that takes part must have received them before the
 * first operator that reads the last of them, or their gradients' sums before it updates them; and it can send their
 * gradients only when they are ready. Between both it must compute, in its own time:
 *
 *     least_s(x) = computing x samples - what comes before the first use - what comes after the last gradient's
 * operator
 *
 * The parts that are taken off are those of all x samples at once, or of the largest micro-batch that memory allows.
 * Computing counts operators of the forward and backward pass; casts, copies, latencies and slowdowns by overlap only
 * add to it, and so do updates, which count where there is one rank: of several, any may hold the state. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/balance/subset.h"
#include "planner/search/internal.h"

enum { MOST_CHAINS = 14, EVERY_SHARE = 512, MOST_POINTS = 2048, MOST_SPEEDS = 48 };
static const double speed_step = 0.002; /* of many speeds those that differ by less count as the faster one */

/* A parameter that is exchanged. */
struct item {
    int param, ready, use; /* steps: the operator that completes its gradient; the first that reads it (-1: held) */
    double sum_bytes, result_bytes;
};

struct chain {
    int use, ready; /* steps */
    struct mt_subset_chain bytes;
    int64_t *before, *after; /* [nops]: operators that are taken off */
};

struct bounding {
    struct mt_arena arena;
    const struct mt_search *search;
    const struct mt_plan *plan; /* ranks' memory */
    struct mt_work work, body;
    bool has_body;
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

/* Parameters in the order in which their gradients are ready. Returns how many. */
static int list_items(struct bounding *b, struct item *items) {
    const struct mt_work *w = &b->work;
    int *use = mt_calloc((size_t)w->nmessages + 1, sizeof *use), *gather = find_gathers(b), n = 0;
    double largest_bytes = 0;
    find_uses(w, use);
    for (int i = w->block_begin[MT_LAST]; i < w->block_begin[MT_LAST + 1]; i++) {
        const struct mt_work_message *m = w->steps[i].message >= 0 ? &w->messages[w->steps[i].message] : NULL;
        if (!m || m->param < 0 || w->steps[i].wait < 0 || !mt_coll_reduces(m->key.kind)) continue;
        struct item *item = &items[n++];
        *item = (struct item){.ready = w->steps[i].wait, .use = -1, .sum_bytes = wire_bytes(m)};
        int from = gather[m->param];
        if (from < 0) continue;
        item->use = use[from];
        item->result_bytes = wire_bytes(&w->messages[from]);
        largest_bytes = fmax(largest_bytes, item->result_bytes);
    }
    b->held_bytes = w->state_bytes + (int64_t)largest_bytes;
    free(gather);
    free(use);
    return n;
}

static void count_ops(const struct mt_work *w, int begin, int end, int64_t *counts) {
    for (int i = begin; i < end; i++)
        if (w->steps[i].op >= 0) counts[w->steps[i].op]++;
}

/* Chain 0 is computing alone; then sets of ever more parameters, the last ready first. */
static void make_chains(struct bounding *b) {
    const struct mt_work *w = &b->work;
    struct item *items = mt_new(&b->arena, struct item, w->nmessages + 1);
    int n = b->search->costs->nranks > 1 ? list_items(b, items) : 0, use = -1;
    double all = 0, taken = 0;
    for (int i = 0; i < n; i++) all += items[i].sum_bytes;
    b->chains = mt_new(&b->arena, struct chain, MOST_CHAINS + 1);
    b->chains[b->nchains++] = (struct chain){.use = -1, .ready = w->block_begin[MT_LAST + 1]};
    struct mt_subset_chain bytes = {0};
    for (int i = n - 1; i >= 0; i--) {
        bool sharded = items[i].use >= 0;
        taken += items[i].sum_bytes;
        if (sharded) bytes.sum_bytes += items[i].sum_bytes, bytes.result_bytes += items[i].result_bytes;
        if (!sharded) bytes.all_bytes += items[i].sum_bytes;
        if (items[i].use > use) use = items[i].use;
        bool enough =
            taken >= all * b->nchains / MOST_CHAINS || (b->nchains == 1 && i && items[i - 1].ready != items[i].ready);
        if (enough && b->nchains <= MOST_CHAINS)
            b->chains[b->nchains++] = (struct chain){use, items[i].ready, bytes, NULL, NULL};
    }
    for (int k = 0; k < b->nchains; k++) {
        struct chain *c = &b->chains[k];
        c->before = mt_new(&b->arena, int64_t, w->nops + 1);
        c->after = mt_new(&b->arena, int64_t, w->nops + 1);
        if (c->use >= 0) count_ops(w, w->block_begin[MT_LAST], c->use, c->before);
        count_ops(w, c->ready + 1, w->block_begin[MT_LAST + 1], c->after);
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

/* Seconds of each operator for x samples, at speed 1; copies are left out. */
static void price_ops(const struct bounding *b, const struct mt_work *w, int rank, int64_t samples, double *op_s) {
    int64_t nothing[64] = {0};
    struct mt_work_share share = {samples, nothing};
    const struct mt_cluster *cluster = b->search->costs->cluster;
    double speed = cluster->devices[b->search->costs->device[rank]].speed;
    for (int o = 0; o < w->nops; o++) {
        struct mt_op_shape shape;
        op_s[o] = 0;
        if (w->ops[o].copy) continue;
        mt_work_shape(&w->ops[o], &share, &shape);
        op_s[o] = mt_cost_op(b->search->costs, rank, &shape).s * speed;
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
        double whole_s = block_s(w, MT_LAST, op_s), once_s = 0;
        if (b->search->costs->nranks == 1) once_s = block_s(w, MT_PROLOGUE, op_s) + block_s(w, MT_EPILOGUE, op_s);
        for (int k = 0; k < b->nchains; k++) {
            const struct chain *c = &b->chains[k];
            double s = dot(c->before, op_s, w->nops) + dot(c->after, op_s, w->nops);
            double before_s = i ? off_s[k * n + i - 1] : 0;
            off_s[k * n + i] = at_once ? fmax(s, before_s) : before_s;
        }
        least_s[i] = x > 0 ? fmin(at_once ? whole_s : INFINITY, x * each_s) + once_s : 0;
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
    return a->curves == b->curves && a->speed == b->speed && a->out_Bps == b->out_Bps && a->in_Bps == b->in_Bps;
}

static bool same_host(const struct mt_subset_hosts *a, const struct mt_subset_hosts *b) {
    bool same =
        a->out_Bps == b->out_Bps && a->in_Bps == b->in_Bps && a->inside_Bps == b->inside_Bps && a->nranks == b->nranks;
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
    struct mt_subset_ranks one = {curves_of(b, rank, device->class, limit), rounded(device->speed, many),
                                  alone ? INFINITY : mine->out_Bps, alone ? INFINITY : mine->in_Bps, 1};
    for (int i = 0; i < host->as.nranks; i++)
        if (same_rank(&host->ranks[i], &one)) {
            host->ranks[i].count++;
            return;
        }
    mt_arena_grow(&b->arena, &host->ranks, host->as.nranks, &host->capacity, sizeof *host->ranks);
    host->ranks[host->as.nranks++] = one;
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

/* What the program of the space is read from: given rows; else sharded state, whose messages say when a parameter is
 * needed and when its gradient is ready. */
static enum mt_status open_works(struct bounding *b, const struct mt_decisions *rows, struct mt_err *err) {
    static struct mt_storage_row sharded = {"*", MT_STATE_SPLIT};
    struct mt_plan *p = mt_plan_new(b->search->costs->nranks);
    p->job = *b->search->job;
    p->decisions = *rows;
    if (!rows->nstorage && p->nranks > 1) p->decisions.storage = &sharded, p->decisions.nstorage = 1;
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

static void fill_subset(struct bounding *b) {
    struct mt_subset_chain *chains = mt_new(&b->arena, struct mt_subset_chain, b->nchains);
    for (int k = 0; k < b->nchains; k++) chains[k] = b->chains[k].bytes;
    b->subset.extent = b->search->job->batch;
    b->subset.nchains = b->nchains;
    b->subset.chains = chains;
    list_hosts(b);
    b->subset.curves = b->curves;
}

enum mt_status mt_search_bound(const struct mt_search *search, const struct mt_plan *plan,
                               const struct mt_decisions *rows, double *bound_s, struct mt_err *err) {
    struct bounding b = {.search = search, .plan = plan};
    *bound_s = 0;
    enum mt_status st = open_works(&b, rows, err);
    if (!st) {
        make_chains(&b);
        if (!by_batch(rows)) b.nchains = 1; /* replicated operators: fewer gradients need to be exchanged */
        list_points(&b);
        fill_subset(&b);
        *bound_s = mt_subset_bound(&b.subset);
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
    if (search->no_bound || !mt_search_rows_of(plan, &rows)) return MT_OK;
    rows.nstorage = 0;
    return mt_search_bound(search, plan, &rows, bound_s, err);
}
