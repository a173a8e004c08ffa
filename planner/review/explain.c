/* Solving with more of each resource: a little, which names the bottleneck, and as much as one would buy. */
#include "planner/review/explain.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_PLACES = 64 }; /* ranks that take part: with more, rows are of the first few resources */

static double factor_of(enum mt_resource_kind kind) {
    static const double factors[MT_NRESOURCES] = {
        [MT_RESOURCE_COMPUTE] = MT_RELAX_SPEED,       [MT_RESOURCE_MEMORY] = MT_RELAX_LIMIT,
        [MT_RESOURCE_BANDWIDTH] = MT_RELAX_BANDWIDTH, [MT_RESOURCE_LATENCY] = MT_RELAX_BANDWIDTH,
        [MT_RESOURCE_EGRESS] = MT_RELAX_BANDWIDTH,    [MT_RESOURCE_INGRESS] = MT_RELAX_BANDWIDTH};
    return factors[kind];
}

static const char *title_of(struct mt_explained *e, const struct mt_resource *r) {
    if (r->kind == MT_RESOURCE_COMPUTE || r->kind == MT_RESOURCE_MEMORY)
        return mt_arena_printf(&e->arena, "%.0f%% more %s", 100 * (factor_of(r->kind) - 1), r->what);
    return mt_arena_printf(&e->arena, r->kind == MT_RESOURCE_LATENCY ? "%s: %g times shorter" : "%s: %g times as fast",
                           r->what, factor_of(r->kind));
}

static int by_step(const void *a, const void *b) {
    const struct mt_explained_row *x = a, *y = b;
    if (x->step_s != y->step_s) return x->step_s < y->step_s ? -1 : 1;
    return strcmp(x->what, y->what);
}

/* Resources in the order of what one percent of them saves. */
static enum mt_status relax_all(struct mt_explained *e, struct mt_planning *planning, struct mt_err *err) {
    struct mt_plan *base, *solved;
    enum mt_status st = mt_resource_solve(planning, NULL, 1, e->plan, &base, err);
    if (st) return st;
    int most = e->plan->nplaces > MOST_PLACES ? MT_BOTTLENECKS_FEW : MT_BOTTLENECKS_ALL;
    e->base_s = base->prediction->step_s;
    e->rows = mt_new(&e->arena, struct mt_explained_row, e->bottlenecks.count);
    for (int i = 0; i < e->bottlenecks.count && i < most && !st; i++) {
        const struct mt_resource *r = &e->bottlenecks.items[i];
        if ((st = mt_resource_solve(planning, r, factor_of(r->kind), base, &solved, err))) break;
        e->rows[e->nrows++] = (struct mt_explained_row){r, title_of(e, r), solved->prediction->step_s};
        mt_plan_free(solved);
    }
    if (!st) qsort(e->rows, (size_t)e->nrows, sizeof *e->rows, by_step);
    mt_plan_free(base);
    return st;
}

static int longest_rank(const struct mt_plan *plan) {
    const struct mt_plan_time *t = plan->prediction->times;
    int longest = plan->order[0];
    for (int i = 1; i < plan->nplaces; i++) {
        int r = plan->order[i];
        if (t[r].idle_s < t[longest].idle_s ||
            (t[r].idle_s == t[longest].idle_s && t[r].compute_s > t[longest].compute_s))
            longest = r;
    }
    return longest;
}

enum mt_status mt_explain(const struct mt_plan *plan, const struct mt_cluster *cluster, struct mt_explained *explained,
                          struct mt_err *err) {
    struct mt_explained *e = explained;
    struct mt_planning planning;
    *e = (struct mt_explained){.cluster = cluster};
    enum mt_status st = mt_plan_copy(plan, &e->plan, err);
    if (st || (st = mt_planning_open(cluster, plan->model, &plan->job, &planning, err))) goto out;
    planning.search.limit_s = 10;
    if (!(st = mt_search_price(&planning.search, e->plan, err)) &&
        !(st = mt_bottlenecks_of(cluster, e->plan, NULL, MT_BOTTLENECKS_ALL, &e->bottlenecks, err))) {
        e->longest = longest_rank(e->plan);
        st = mt_classics_of(e->plan, &planning, planning.search.limit_s, &e->classics, err);
        if (!st) st = relax_all(e, &planning, err);
    }
    mt_planning_close(&planning);
out:
    if (st) mt_explained_release(e);
    return st;
}

void mt_explained_release(struct mt_explained *explained) {
    mt_plan_free(explained->plan);
    mt_classics_release(&explained->classics);
    mt_bottlenecks_release(&explained->bottlenecks);
    mt_arena_release(&explained->arena);
    *explained = (struct mt_explained){0};
}
