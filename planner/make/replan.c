/* Replanning: shares by the times that a run's ranks took. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/balance/drift.h"
#include "planner/balance/split.h"
#include "planner/make/make.h"
#include "planner/make/planning.h"

/* Samples a second relative to the fastest, to three digits, which people can read. A rank without samples has no
 * speed, and stays without. */
static void seen_speeds(const struct mt_plan_seen *seen, const int64_t *shares, int nranks, double *speeds) {
    double fastest = 0;
    for (int r = 0; r < nranks; r++) {
        speeds[r] = shares[r] ? (double)shares[r] / seen->compute_s[r] : 0;
        if (speeds[r] > fastest) fastest = speeds[r];
    }
    for (int r = 0; r < nranks; r++) speeds[r] = round(1000 * speeds[r] / fastest) / 1000;
}

/* A host is as fast as the slowest of its ranks, which all have its samples. */
static enum mt_status divide_over_hosts(const struct mt_plan *p, const double *speeds, struct mt_plan_split *batch,
                                        struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    int nhosts, *host = mt_plan_hosts(p, &arena, &nhosts), *place = mt_plan_places(p, &arena);
    double *speed = mt_new(&arena, double, nhosts);
    int64_t *sizes = mt_new(&arena, int64_t, nhosts);
    for (int r = 0; r < p->nranks; r++)
        if (place[r] >= 0 && (speed[host[r]] == 0 || speeds[r] < speed[host[r]])) speed[host[r]] = speeds[r];
    enum mt_status st = mt_split_proportional(p->job.batch, batch->align, speed, nhosts, sizes, err);
    for (int r = 0; r < p->nranks && !st; r++) batch->sizes[r] = place[r] >= 0 ? sizes[host[r]] : 0;
    mt_arena_release(&arena);
    return st;
}

/* What the ranks of a host divide of its samples follows them, in proportion. */
static enum mt_status divide_within_hosts(struct mt_plan *p, const struct mt_plan_split *batch, struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    int nhosts, *host = mt_plan_hosts(p, &arena, &nhosts), *rank = mt_new(&arena, int, p->nranks);
    double *weight = mt_new(&arena, double, p->nranks);
    int64_t *sizes = mt_new(&arena, int64_t, p->nranks);
    enum mt_status st = MT_OK;
    for (int s = 0; s < p->nsplits; s++) {
        struct mt_plan_split *split = &p->splits[s];
        if (split->over != MT_OVER_DEVICE || strcmp(split->label, "batch")) continue;
        for (int h = 0; h < nhosts && !st; h++) {
            int64_t share = 0, had = 0;
            int n = 0;
            for (int i = 0; i < p->nplaces; i++) {
                int r = p->order[i];
                if (host[r] != h) continue;
                share = batch->sizes[r], had += split->sizes[r];
                weight[n] = (double)split->sizes[r], rank[n++] = r;
            }
            for (int i = 0; i < n && !had; i++) weight[i] = 1;
            if (n) st = mt_split_proportional(share, split->align, weight, n, sizes, err);
            for (int i = 0; i < n && !st; i++) split->sizes[rank[i]] = sizes[i];
        }
    }
    mt_arena_release(&arena);
    return st;
}

/* Micro-batches of ranks that must have as many of each: as many as before, or the most that all shares can make. */
static void keep_in_step(const struct mt_plan *old, const int64_t *old_shares, const int64_t *shares,
                         struct mt_plan *p) {
    int64_t count = 1;
    for (int r = 0; r < p->nranks; r++)
        if (old_shares[r] && (old_shares[r] + old->micro[r] - 1) / old->micro[r] > count)
            count = (old_shares[r] + old->micro[r] - 1) / old->micro[r];
    for (bool equal = false; !equal; count--) {
        equal = true;
        for (int r = 0; r < p->nranks; r++) {
            int64_t micro = p->micro[r] = (shares[r] + count - 1) / count;
            equal &= !micro || (shares[r] + micro - 1) / micro == count;
        }
    }
}

enum mt_status mt_replan_shares(const struct mt_plan *old, const struct mt_plan_seen *seen, struct mt_replanned *re,
                                struct mt_err *err) {
    const int64_t *shares = mt_plan_split_named(old, "batch")->sizes;
    enum mt_status st = mt_plan_copy(old, &re->found.plan, err);
    if (st) return st;
    struct mt_plan *p = re->found.plan;
    struct mt_plan_split *batch = NULL;
    for (int s = 0; s < p->nsplits; s++)
        if (!strcmp(p->splits[s].name, "batch")) batch = &p->splits[s];
    seen_speeds(seen, shares, p->nranks, re->speeds);
    p->made_by = "motley " MOTLEY_VERSION;
    p->prediction = NULL; /* it was of other shares */
    if (batch->over == MT_OVER_HOST)
        st = divide_over_hosts(p, re->speeds, batch, err);
    else
        st = mt_split_proportional(p->job.batch, batch->align, re->speeds, p->nranks, batch->sizes, err);
    if (!st) st = divide_within_hosts(p, batch, err);
    for (int r = 0; r < p->nranks; r++) {
        bool whole = p->micro[r] == shares[r];
        if (shares[r]) p->ranks[r].speed = re->speeds[r];
        if (whole || p->micro[r] > batch->sizes[r]) p->micro[r] = batch->sizes[r];
    }
    bool exchanges = !mt_plan_is_flat(p) || p->decisions.nrules > 1; /* in every micro-batch */
    if (exchanges || mt_decisions_in_step(&p->decisions)) keep_in_step(old, shares, batch->sizes, p);
    if (!st) st = mt_plan_derive_another(p, err);
    re->before_s = seen->step_s;
    if (!st) re->after_s = mt_drift_step_after(p->nranks, shares, batch->sizes, seen->compute_s, seen->step_s);
    return st;
}

/* The old plan's step on the planning's cluster. */
static enum mt_status price_old(const struct mt_planning *planning, const struct mt_plan *old, struct mt_plan **priced,
                                struct mt_err *err) {
    enum mt_status st = mt_plan_copy(old, priced, err);
    if (st) return st;
    strcpy((*priced)->cluster_hash, planning->cluster->hash);
    if ((st = mt_search_price(&planning->search, *priced, err))) mt_plan_free(*priced);
    return st;
}

/* Devices become as fast as they were seen. */
static enum mt_status scale(const struct mt_planning *planning, const struct mt_plan *old,
                            const struct mt_plan_seen *seen, struct mt_cluster *cluster, double *factors,
                            struct mt_err *err) {
    const int64_t *shares = mt_plan_split_named(old, "batch")->sizes;
    struct mt_plan *priced;
    size_t length;
    enum mt_status st = price_old(planning, old, &priced, err);
    if (st) return st;
    for (int r = 0; r < old->nranks; r++) {
        factors[r] = shares[r] ? priced->prediction->times[r].compute_s / seen->compute_s[r] : 1;
        cluster->devices[r].speed *= factors[r];
    }
    mt_plan_free(priced);
    cluster->source = "edited";
    cluster->description = mt_arena_printf(&cluster->arena, "%s%sspeeds as a run of plan %s saw them",
                                           cluster->description, cluster->description[0] ? "; " : "", old->hash);
    if ((st = mt_cluster_check(cluster, err))) return st;
    free(mt_cluster_text(cluster, &length)); /* its hash */
    return MT_OK;
}

enum mt_status mt_replan_cluster(const struct mt_plan *old, const struct mt_plan_seen *seen,
                                 const struct mt_cluster *cluster, double limit_s, struct mt_replanned *re,
                                 struct mt_err *err) {
    struct mt_planning planning;
    struct mt_plan *before = NULL;
    enum mt_status st = mt_planning_open(cluster, old->model, &old->job, &planning, err);
    if (st) return st;
    re->cluster = mt_cluster_copy(cluster);
    if ((st = scale(&planning, old, seen, re->cluster, re->speeds, err))) goto out;
    mt_planning_move(&planning, re->cluster);
    if ((st = price_old(&planning, old, &before, err))) goto out;
    re->found.plan = mt_planning_plan(&planning);
    planning.search.last = before;
    planning.search.limit_s = limit_s;
    planning.search.fixed.use = seen->use;
    planning.search.fixed.used = seen->used;
    if ((st = mt_search(&planning.search, re->found.plan, &re->found.report, err))) goto out;
    mt_plan_mark_hypothetical(re->cluster, re->found.plan);
    re->before_s = before->prediction->step_s;
    re->after_s = re->found.plan->prediction->step_s;
out:
    mt_plan_free(before);
    mt_planning_close(&planning);
    return st;
}
