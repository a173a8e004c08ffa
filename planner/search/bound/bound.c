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
 * packing and slowdowns by overlap only add to it. */
#include <math.h>
#include <string.h>

#include "planner/divide/bound.h"
#include "planner/search/bound/internal.h"

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
    mt_search_bound_chains(b);
    if (!b->batched) b->nchains = 1; /* of replicated operators gradients need not be exchanged */
    struct mt_subset_chain *chains = mt_new(&b->arena, struct mt_subset_chain, b->nchains);
    for (int k = 0; k < b->nchains; k++) chains[k] = b->chains[k].bytes;
    b->subset = (struct mt_subset){.extent = b->search->job->batch,
                                   .alone = replicated || b->mixed || one_rank || !b->batched,
                                   .nchains = b->nchains,
                                   .chains = chains};
    mt_search_bound_hosts(b);
    b->subset.curves = b->curves;
    return mt_subset_bound(&b->subset);
}

enum mt_status mt_search_bound(const struct mt_search *search, const struct mt_plan *plan,
                               const struct mt_decisions *rows, double *bound_s, struct mt_err *err) {
    struct bounding b = {.search = search, .plan = plan, .mixed = mixes_storage(rows), .batched = by_batch(rows)};
    *bound_s = 0;
    enum mt_status st = open_works(&b, rows, err);
    if (!st) {
        mt_search_bound_points(&b);
        *bound_s = bound_of(&b, false);
        if (!b.mixed && search->costs->nranks > 1) *bound_s = fmin(*bound_s, bound_of(&b, true));
        if (isinf(*bound_s)) *bound_s = 0; /* no rank has room: there is no plan */
    }
    if (b.has_body) mt_work_release(&b.body);
    mt_work_release(&b.work);
    mt_arena_release(&b.arena);
    return st;
}

bool mt_search_bounds_rows(const struct mt_plan *plan, struct mt_decisions *rows) {
    return plan->decisions.overlapped <= MT_OVERLAPPED_NONE && mt_search_rows_of(plan, rows);
}

enum mt_status mt_search_bound_of(const struct mt_search *search, const struct mt_plan *plan, double *bound_s,
                                  struct mt_err *err) {
    struct mt_decisions rows;
    *bound_s = 0;
    if (search->no_bound) return MT_OK;
    if (mt_search_bounds_rows(plan, &rows)) return mt_search_bound(search, plan, &rows, bound_s, err);
    struct mt_divide_bound *all;
    enum mt_status st = mt_divide_bound_open(search->graph, search->job, plan->device, search->options, &all, err);
    if (!st) *bound_s = mt_divide_bound_s(all, search->costs);
    mt_divide_bound_close(all);
    return st;
}
