/* Making a plan. Shares are proportional to speeds unless they are given; storage is divided label by label, so that
 * parameters with storage axes of one label have the same shares. */
#include "planner/make/make.h"

#include <string.h>

#include "planner/plan/planned.h"
#include "planner/balance/split.h"

static void copy_ranks(const struct mt_plan_request *q, struct mt_plan *p) {
    for (int r = 0; r < p->nranks; r++) {
        if (q->hosts) p->ranks[r].host = mt_arena_strdup(&p->arena, q->hosts[r]);
        if (q->memory_bytes) p->ranks[r].memory_bytes = q->memory_bytes[r];
        p->ranks[r].speed = q->speeds ? q->speeds[r] : 1;
    }
}

/* What the request does not decide gets its default; a row for every kind, in the order of kinds. */
static void decide(const struct mt_plan_request *q, struct mt_plan *p) {
    const struct mt_decisions *fixed = &q->fixed.decisions;
    struct mt_decisions *d = &p->decisions;
    *d = mt_decisions_copy(fixed, &p->arena);
    if (d->sync < 0) d->sync = mt_decisions_shard_state(d) ? MT_SYNC_REDUCE_SCATTER : MT_SYNC_ALL_REDUCE;
    if (d->start < 0) d->start = mt_plan_default_start(q->device);
    mt_decisions_complete(d, &p->arena);
    if (d->bucket_bytes < 0) d->bucket_bytes = q->device && !strcmp(q->device, "cuda") ? 64 << 20 : 4 << 20;
    d->gradient_wire = mt_plan_wire(p);
    d->nalgorithms = MT_NCOLLS;
    d->algorithms = mt_new(&p->arena, struct mt_algorithm_row, MT_NCOLLS);
    for (int k = 0; k < MT_NCOLLS; k++) {
        const char *algorithm = mt_decisions_algorithm(fixed, (enum mt_coll_kind)k, 0);
        d->algorithms[k] = (struct mt_algorithm_row){(enum mt_coll_kind)k, mt_arena_strdup(&p->arena, algorithm), 0};
    }
}

static struct mt_plan_split *add_split(struct mt_plan *p, const char *prefix, const struct mt_label *label) {
    struct mt_plan_split *split = &p->splits[p->nsplits++];
    split->label = mt_arena_strdup(&p->arena, label->name);
    split->name = mt_arena_printf(&p->arena, "%s%s", prefix, label->name);
    split->align = label->align;
    split->sizes = mt_new(&p->arena, int64_t, p->nranks);
    return split;
}

static enum mt_status split_batch(const struct mt_plan_request *q, const struct mt_graph *g, struct mt_plan *p,
                                  const double *speeds, struct mt_err *err) {
    struct mt_plan_split *split = add_split(p, "", &g->labels[g->batch]);
    enum mt_status st = MT_OK;
    if (q->fixed.shares)
        memcpy(split->sizes, q->fixed.shares, (size_t)p->nranks * sizeof *split->sizes);
    else
        st = mt_split_proportional(p->job.batch, split->align, speeds, p->nranks, split->sizes, err);
    for (int r = 0; r < p->nranks; r++)
        p->micro[r] = q->fixed.micro && q->fixed.micro[r] < split->sizes[r] ? q->fixed.micro[r] : split->sizes[r];
    return st;
}

static enum mt_status split_storage(const struct mt_plan_request *q, const struct mt_graph *g, struct mt_plan *p,
                                    const double *speeds, struct mt_err *err) {
    unsigned long long used = 0; /* bits: rows of q->fixed.storage_shares */
    for (int v = 0; v < g->nvalues; v++) {
        int axis = g->values[v].param ? mt_sharding_axis(g, v) : -1;
        if (axis < 0) continue;
        const struct mt_label *label = &g->labels[g->values[v].label[axis]];
        if (mt_plan_split_named(p, mt_arena_printf(&p->arena, "storage:%s", label->name))) continue;
        struct mt_plan_split *split = add_split(p, "storage:", label);
        int row = 0;
        while (row < q->fixed.nstorage_shares && strcmp(q->fixed.storage_shares[row].label, label->name)) row++;
        if (row < q->fixed.nstorage_shares) {
            used |= 1ull << row;
            memcpy(split->sizes, q->fixed.storage_shares[row].sizes, (size_t)p->nranks * sizeof *split->sizes);
            continue;
        }
        enum mt_status st = mt_split_proportional(label->extent, split->align, speeds, p->nranks, split->sizes, err);
        if (st) return st;
    }
    for (int row = 0; row < q->fixed.nstorage_shares; row++)
        if (!(used >> row & 1))
            return mt_fail(err, MT_EINPUT, "no parameter is stored by shares of \"%.60s\"",
                           q->fixed.storage_shares[row].label);
    return MT_OK;
}

enum mt_status mt_plan_make(const struct mt_plan_request *request, struct mt_plan **plan, struct mt_err *err) {
    struct mt_plan *p = mt_plan_new(request->nranks);
    struct mt_planned planned = {0};
    enum mt_status st = mt_model_parse(request->model, &planned.model, err);
    if (st) goto out;
    p->made_by = "motley " MOTLEY_VERSION;
    p->model = mt_model_text(&planned.model, &p->arena);
    if (request->device) p->device = mt_arena_strdup(&p->arena, request->device);
    p->job = request->job;
    if (p->job.recompute < 0) p->job.recompute = MT_RECOMPUTE_NONE;
    if (!p->job.seq) p->job.seq = mt_model_get(&planned.model, "context");
    copy_ranks(request, p);
    decide(request, p);

    double *speeds = mt_new(&p->arena, double, p->nranks);
    for (int r = 0; r < p->nranks; r++) speeds[r] = p->ranks[r].speed;
    if ((st = mt_planned_graph(p, &planned, err))) goto out;
    p->splits = mt_new(&p->arena, struct mt_plan_split, planned.graph->nlabels + 1);
    if ((st = split_batch(request, planned.graph, p, speeds, err))) goto out;
    const double *storage_speeds = request->storage_speeds ? request->storage_speeds : speeds;
    if ((st = split_storage(request, planned.graph, p, storage_speeds, err))) goto out;
    st = mt_plan_derive(p, planned.graph, err);
out:
    mt_planned_release(&planned);
    if (st)
        mt_plan_free(p);
    else
        *plan = p;
    return st;
}
