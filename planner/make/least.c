/* The smallest program of a job on a cluster, for jobs whose search finds nothing that fits: parameters and optimizer
 * state sharded, gradients in messages of their own, and the better of each kind of recomputation with micro-batches of
 * one sample, which need accumulators of gradients, with whole shares at once, and with weights gathered for each layer
 * and gradients reduced after each micro-batch. What the request fixes stays so.
 *
 * Rank r takes own[r] + share[r] bytes: own[r] for one sample and all that is replicated, share[r] of the state that is
 * sharded, `sharded` bytes in all. The job fits if the sum of memory[r] - own[r], where that is positive, is at least
 * `sharded`. Both are read off a real program, made with shares that follow from the last one: a few rounds, since what
 * an update takes besides the state grows with the share. A rank with less memory than own[r] gets no samples; if that
 * does not do, it is left out. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/units.h"
#include "planner/make/make.h"
#include "planner/make/planning.h"

enum { MOST_ROUNDS = 6 };

/* What takes memory besides the state: accumulators of gradients, with micro-batches of one sample; activations, of
 * whole shares at once; or neither weights nor gradients whole, in micro-batches that are equal, or at once. */
enum parts { PARTS, WHOLE, LAYERS, WHOLE_LAYERS, NPARTS };

struct least {
    const struct mt_cluster *cluster;
    struct mt_plan_request request; /* complete, but for weights */
    struct mt_arena arena;
    struct mt_planning planning;
    double *samples, *storage; /* [nranks]: weights of the shares */
    bool *out;                 /* [nranks]: left out */
    double *own;               /* [nranks]: bytes, of the last round; 0 of those that are left out */
    double sharded, state;     /* bytes of the state that is sharded, and of all */
    struct mt_plan *plan;      /* of the last round */
};

static double limit_of(const struct least *l, int rank) {
    int64_t bytes = l->cluster->devices[rank].memory_bytes;
    return bytes ? (double)bytes : INFINITY;
}

static double state_bytes(const struct mt_graph *g) {
    double bytes = 0;
    for (int v = 0; v < g->nvalues; v++)
        if (g->values[v].kind == MT_VALUE_STATE)
            bytes += (double)mt_value_count(g, v) * (double)mt_type_size(g->values[v].type);
    return bytes;
}

bool mt_plan_may_not_fit(const struct mt_cluster *cluster, const struct mt_plan_request *request) {
    static const double much = 0.5; /* of all memory: activations and what is gathered need some */
    struct mt_planned planned = {0};
    struct mt_err ignored = MT_ERR_INIT;
    double all = 0, most = 0, parameters = 0;
    for (int d = 0; d < cluster->ndevices; d++) {
        double has = (double)cluster->devices[d].memory_bytes;
        if (has <= 0) return false;
        all += has;
        most = fmax(most, has);
    }
    const struct mt_job *job = &request->job;
    if (!mt_model_parse(request->model, &planned.model, &ignored) &&
        !mt_model_graph(&planned.model, job->precision, job->batch, job->seq, 0, &planned.graph, &ignored))
        parameters = (double)mt_graph_parameters(planned.graph);
    mt_planned_release(&planned);
    int copies = job->optimizer.kind == MT_ADAMW ? 3 : 2; /* of sums' type: the parameter, its moments */
    return parameters * (double)mt_type_size(job->precision) > most &&
           parameters * copies * (double)mt_type_size(mt_type_acc(job->precision)) > much * all;
}

/* What the request leaves open is decided for the least memory. */
static void decide(struct least *l, const struct mt_plan_request *request, const struct mt_job *job, enum parts parts) {
    static struct mt_storage_row everything = {.pattern = "*", .state = MT_STATE_SPLIT};
    int n = l->cluster->ndevices;
    struct mt_plan_request *q = &l->request;
    *q = *request;
    q->job = *job;
    q->device = mt_cluster_kind(l->cluster);
    q->nranks = n;
    q->hosts = NULL, q->memory_bytes = NULL;
    q->speeds = l->samples, q->storage_speeds = l->storage;
    if (!q->fixed.micro) {
        int64_t *micro = mt_new(&l->arena, int64_t, n);
        bool whole = parts == WHOLE || parts == WHOLE_LAYERS;
        for (int r = 0; r < n; r++) micro[r] = whole ? job->batch : 1;
        q->fixed.micro = micro;
    }
    struct mt_decisions *d = &q->fixed.decisions;
    if (!d->nstorage && n > 1) d->nstorage = 1, d->storage = &everything;
    if (d->bucket_bytes < 0) d->bucket_bytes = 0;
    if (d->start < 0) d->start = MT_START_FULL;
    if (parts >= LAYERS) d->gather = MT_GATHER_LAYER, d->reduced = MT_REDUCED_MICRO_BATCH;
    for (int r = 0; r < n; r++) {
        l->out[r] = q->fixed.use == MT_USE_SOME && !q->fixed.used[r];
        l->samples[r] = l->out[r] ? 0 : 1;
        l->storage[r] = l->out[r] ? 0 : isinf(limit_of(l, r)) ? 1 : limit_of(l, r);
    }
}

/* The program of the present weights: l->plan and l->own. */
static enum mt_status make(struct least *l, struct mt_err *err) {
    mt_plan_free(l->plan);
    l->plan = NULL;
    enum mt_status st = mt_plan_make(&l->request, &l->plan, err);
    struct mt_plan *p = l->plan;
    if (st) return st;
    int n = 0;
    for (int r = 0; r < p->nranks; r++)
        if (!l->out[r]) p->order[n++] = r;
    if (n < p->nranks) {
        p->nplaces = n;
        if ((st = mt_plan_derive(p, l->planning.planned.graph, err))) return st;
    }
    double held = 0;
    for (int i = 0; i < n; i++) held += (double)p->memory[p->order[i]].state_bytes;
    double replicated = n > 1 ? fmax(0, (held - l->state) / (n - 1)) : l->state;
    l->sharded = l->state - replicated;
    for (int r = 0; r < p->nranks; r++)
        l->own[r] = l->out[r] ? 0 : (double)(p->memory[r].arena_bytes - p->memory[r].state_bytes) + replicated;
    return MT_OK;
}

static bool fits(const struct least *l) {
    for (int r = 0; r < l->plan->nranks; r++)
        if ((double)l->plan->memory[r].arena_bytes > limit_of(l, r)) return false;
    return true;
}

/* New weights after a round that did not fit; false: there are no better ones. */
static bool reweigh(struct least *l) {
    int n = l->cluster->ndevices, working = 0, left = 0;
    const struct mt_plan_fixed *f = &l->request.fixed;
    bool changed = false, may_leave = f->use <= MT_USE_AUTO && !f->shares && !f->nstorage_shares;
    for (int r = 0; r < n; r++) {
        if (l->out[r]) continue;
        double room = limit_of(l, r) - l->own[r], weight = isinf(room) ? l->sharded + 1 : fmax(0, floor(room));
        if (room < 0 && l->samples[r] > 0 && !f->shares)
            l->samples[r] = 0, changed = true;
        else if (room < 0 && !(l->storage[r] > 0) && may_leave)
            l->out[r] = true, changed = true;
        changed |= fabs(weight - l->storage[r]) > 1e-3 * l->storage[r];
        l->storage[r] = l->out[r] ? 0 : weight;
        working += l->samples[r] > 0, left += l->storage[r] > 0;
    }
    return changed && working && left;
}

/* Bytes that the sharded state finds no room for; at most 0: it may fit. */
static double lacking(const struct least *l) {
    double lack = l->sharded;
    for (int r = 0; r < l->cluster->ndevices; r++) lack -= l->out[r] ? 0 : fmax(0, limit_of(l, r) - l->own[r]);
    return lack;
}

/* Whether some rank has no room for its samples, and may do without. */
static bool crowded(const struct least *l) {
    for (int r = 0; r < l->cluster->ndevices; r++)
        if (!l->out[r] && limit_of(l, r) < l->own[r]) return true;
    return false;
}

/* All that is lacking, to compare programs; and whether that is more than there is. */
static double shortage(const struct least *l, bool *hopeless) {
    double lack = lacking(l), has = 0;
    for (int r = 0; r < l->cluster->ndevices; r++) {
        lack += l->out[r] ? 0 : fmax(0, l->own[r] - limit_of(l, r));
        has += limit_of(l, r);
    }
    *hopeless = lack > has;
    return lack;
}

static enum mt_status begin(struct least *l, const struct mt_cluster *cluster, const struct mt_plan_request *request,
                            const struct mt_job *job, enum parts parts, struct mt_err *err) {
    int n = cluster->ndevices;
    *l = (struct least){.cluster = cluster};
    l->samples = mt_new(&l->arena, double, n), l->storage = mt_new(&l->arena, double, n);
    l->own = mt_new(&l->arena, double, n), l->out = mt_new(&l->arena, bool, n);
    decide(l, request, job, parts);
    enum mt_status st = mt_planning_open(cluster, request->model, job, &l->planning, err);
    if (!st) l->state = state_bytes(l->planning.planned.graph);
    return st;
}

static void end(struct least *l) {
    mt_planning_close(&l->planning);
    mt_plan_free(l->plan);
    mt_arena_release(&l->arena);
}

/* *found: it fits. */
static enum mt_status count(struct least *l, bool *found, struct mt_err *err) {
    enum mt_status st;
    *found = false;
    for (int round = 0; round < MOST_ROUNDS; round++) {
        if ((st = make(l, err))) return st;
        if ((*found = fits(l)) || (!crowded(l) && lacking(l) > 0.1 * l->sharded) || !reweigh(l)) break;
    }
    return MT_OK;
}

/* ---- what is said ---- */

static const char *size(struct least *l, double bytes) {
    char text[MT_UNITS_TEXT];
    return mt_arena_strdup(&l->arena, mt_units_bytes(fmax(0, bytes), text));
}

/* "even with the state sharded, micro-batches of 1 and --recompute segments", as far as that was decided here. */
static const char *how(struct least *l, const struct mt_plan_request *request, enum parts parts) {
    const char *words[4], *text = "";
    int n = 0;
    if (l->cluster->ndevices > 1 && !request->fixed.decisions.nstorage) words[n++] = "the state sharded";
    if (parts >= LAYERS) words[n++] = "weights gathered for each layer";
    if (!request->fixed.micro && (parts == PARTS || parts == LAYERS)) words[n++] = "micro-batches of 1";
    if (l->plan->job.recompute != MT_RECOMPUTE_NONE)
        words[n++] = mt_arena_printf(&l->arena, "--recompute %s", mt_recompute_names[l->plan->job.recompute]);
    for (int i = 0; i < n; i++)
        text = mt_arena_printf(&l->arena, "%s%s%s", text, !i ? "even with " : i == n - 1 ? " and " : ", ", words[i]);
    return *text ? mt_arena_printf(&l->arena, "%s, ", text) : "";
}

/* The rank with the most room for sharded state, or with the least lack of it. */
static int roomiest(const struct least *l) {
    int best = -1;
    for (int r = 0; r < l->cluster->ndevices; r++)
        if (!l->out[r] && (best < 0 || limit_of(l, r) - l->own[r] > limit_of(l, best) - l->own[best])) best = r;
    return best;
}

static const char *rank_text(struct least *l, int rank) {
    const struct mt_cluster_device *d = &l->cluster->devices[rank];
    return mt_arena_printf(&l->arena, "rank %d (%s on %s)", rank, l->cluster->classes[d->class].name,
                           l->cluster->nodes[d->node].name);
}

/* All of the ranks' memory is too little. */
static enum mt_status refuse_sum(struct least *l, const char *even, struct mt_err *err) {
    double needs = l->sharded, has = 0, lack = lacking(l);
    int working = 0, best = roomiest(l);
    for (int r = 0; r < l->cluster->ndevices; r++) {
        if (l->out[r] || !(limit_of(l, r) > l->own[r])) continue;
        needs += l->own[r], has += limit_of(l, r), working++;
    }
    double room = limit_of(l, best) - l->own[best];
    mt_fail(err, MT_EINPUT,
            "%s does not fit into memory: %sit needs %s in all: %s of parameters and optimizer state in shares, and %s "
            "on each rank "
            "besides; the %d rank%s that can hold the latter ha%s %s",
            l->request.model, even, size(l, needs), size(l, l->sharded), size(l, l->own[best]), working,
            working == 1 ? "" : "s", working == 1 ? "s" : "ve", size(l, has));
    return mt_err_hint(err, "%s more on each of them would do, or %.0f more of %s", size(l, lack / working),
                       ceil(lack / room), l->cluster->classes[l->cluster->devices[best].class].name);
}

static enum mt_status refuse(struct least *l, const struct mt_plan_request *request, enum parts parts,
                             struct mt_err *err) {
    const char *even = how(l, request, parts);
    int best = roomiest(l), worst = -1;
    for (int r = 0; r < l->cluster->ndevices; r++) {
        double lack = (double)l->plan->memory[r].arena_bytes - limit_of(l, r);
        if (lack > 0 && (worst < 0 || lack > (double)l->plan->memory[worst].arena_bytes - limit_of(l, worst)))
            worst = r;
    }
    if (limit_of(l, best) > l->own[best] && lacking(l) > 0) return refuse_sum(l, even, err);
    bool alone = limit_of(l, best) <= l->own[best];
    double needs = alone ? l->own[best] : (double)l->plan->memory[worst].arena_bytes;
    int rank = alone ? best : worst;
    mt_fail(err, MT_EINPUT, "%s does not fit into memory: %s%s needs %s%s, but has %s", l->request.model, even,
            rank_text(l, rank), size(l, needs), alone && l->sharded > 0 ? " besides its share of the state" : "",
            size(l, limit_of(l, rank)));
    bool wide = l->request.job.precision == MT_F32 || l->request.job.precision == MT_F64;
    bool adam = l->request.job.optimizer.kind == MT_ADAMW;
    return mt_err_hint(err, "ranks with more memory%s%s, or a shorter --seq",
                       wide ? ", a narrower type (--precision bf16 or f16)" : "",
                       adam ? ", an optimizer with less state (--optimizer sgd --momentum 0)" : "");
}

/* A plan for the cluster, with its prediction. */
static enum mt_status finish(struct least *l, struct mt_plan_found *found, struct mt_err *err) {
    struct mt_plan *ranks = mt_planning_plan(&l->planning), *p = l->plan;
    for (int r = 0; r < p->nranks; r++) {
        p->ranks[r] = ranks->ranks[r];
        p->ranks[r].host = mt_arena_strdup(&p->arena, ranks->ranks[r].host);
        p->ranks[r].class = mt_arena_strdup(&p->arena, ranks->ranks[r].class);
    }
    strcpy(p->cluster_hash, l->cluster->hash);
    mt_plan_free(ranks);
    *found = (struct mt_plan_found){.plan = NULL};
    enum mt_status st = mt_search_price(&l->planning.search, p, err);
    if (st) return st;
    const struct mt_plan_fixed *fixed = &l->request.fixed;
    mt_plan_explain_idle(p, NULL, "its memory is too little for what each rank holds");
    for (int i = 0; i < p->prediction->nidle && fixed->use == MT_USE_SOME; i++)
        if (!fixed->used[p->prediction->idle[i].rank]) p->prediction->idle[i].why = mt_plan_left_out;
    found->plan = p;
    l->plan = NULL;
    return MT_OK;
}

/* The least shortage of the programs that were tried; hopeless: others are not tried. */
struct shortage {
    double bytes;
    bool hopeless;
};

/* One kind of recomputation and micro-batches: found, or its refusal, if its shortage is the least so far. */
static enum mt_status try_kind(const struct mt_cluster *cluster, const struct mt_plan_request *request,
                               enum mt_recompute recompute, enum parts parts, struct mt_plan_found *found,
                               struct shortage *least, struct mt_err *err) {
    struct mt_job job = request->job;
    struct mt_err why = MT_ERR_INIT;
    struct least l;
    bool fit = false;
    job.recompute = recompute;
    enum mt_status st = begin(&l, cluster, request, &job, parts, &why);
    if (!st) st = count(&l, &fit, &why);
    if (!st && fit) st = finish(&l, found, &why);
    if (!st && !fit) {
        double bytes = shortage(&l, &least->hopeless);
        if (bytes < least->bytes) refuse(&l, request, parts, err);
        least->bytes = fmin(least->bytes, bytes);
    }
    end(&l);
    if (st == MT_EINPUT && parts >= LAYERS) return MT_OK; /* its micro-batches cannot be equal */
    if (st) *err = why;
    return st;
}

/* Whether it fits where nothing is fixed but who takes part. */
static void hint_open(const struct mt_cluster *cluster, const struct mt_plan_request *request, struct mt_err *err) {
    struct mt_plan_request open = *request;
    struct mt_err ignored = MT_ERR_INIT;
    struct mt_plan_found found;
    bool counted;
    open.fixed =
        (struct mt_plan_fixed){.decisions = mt_decisions_unset, .use = request->fixed.use, .used = request->fixed.used};
    open.job.recompute = MT_RECOMPUTE_UNSET;
    if (mt_plan_least(cluster, &open, &found, &counted, &ignored)) return;
    mt_err_hint(err,
                "it fits without the flags that decide shares, micro-batches, storage or recomputation: with "
                "%s%s--micro %lld --recompute %s --bucket-bytes 0",
                cluster->ndevices > 1 ? "--storage split " : "",
                found.plan->decisions.gather == MT_GATHER_LAYER ? "--gather layer --reduce micro_batch " : "",
                (long long)found.plan->micro[0], mt_recompute_names[found.plan->job.recompute]);
    mt_plan_found_release(&found);
}

enum mt_status mt_plan_least(const struct mt_cluster *cluster, const struct mt_plan_request *request,
                             struct mt_plan_found *found, bool *counted, struct mt_err *err) {
    const struct mt_plan_fixed *f = &request->fixed;
    int kind = (int)request->job.recompute;
    struct shortage least = {.bytes = INFINITY};
    *counted = false;
    *found = (struct mt_plan_found){.plan = NULL};
    for (int what = MT_NRECOMPUTE - 1; what >= 0 && !least.hopeless; what--)
        for (int parts = 0; parts < NPARTS && (kind < 0 || what == kind); parts++) {
            bool layers = cluster->ndevices > 1 && f->decisions.gather < 0 && f->decisions.reduced < 0;
            bool whole = parts == WHOLE || parts == WHOLE_LAYERS;
            if ((whole && f->micro) || (parts >= LAYERS && !layers)) continue;
            enum mt_status st =
                try_kind(cluster, request, (enum mt_recompute)what, (enum parts)parts, found, &least, err);
            if (st || found->plan) return st;
            least.hopeless &= parts >= LAYERS || !layers; /* with all weights on each rank, but not with some */
            if (least.hopeless) break;
        }
    *counted = true;
    bool open = kind < 0 && !f->micro && !f->shares && !f->nstorage_shares && mt_decisions_are_unset(&f->decisions);
    if (!open) hint_open(cluster, request, err);
    return MT_EINPUT;
}
