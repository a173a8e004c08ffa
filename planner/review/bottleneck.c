/* Solving with a little more of each resource. */
#include "planner/review/bottleneck.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/units.h"

enum { MOST_PLACES = 64, FEW_PLACES = 512 }; /* ranks that take part: up to so many, all resources may be tried */
/* A glance prices at most so many plans, fewer where operators times ranks (and so many more) are above MOST_WORK. */
enum { MOST_PRICES = 8, MORE_RANKS = 50, MOST_WORK = 500000 };

/* ---- one resource ---- */

/* The step with shares solved again for the planning's present cluster and limits; or with those of `base`, where the
 * others are no faster. */
static enum mt_status solve(struct mt_planning *planning, const struct mt_plan *base, const struct mt_plan *limits,
                            struct mt_plan **solved, struct mt_err *err) {
    struct mt_plan *same = NULL;
    enum mt_status st = mt_plan_copy(limits, solved, err);
    if (st) return st;
    st = mt_search_rebalance(&planning->search, *solved, NULL, err);
    if (!st && !(st = mt_plan_copy(base, &same, err)) && !(st = mt_search_price(&planning->search, same, err)) &&
        same->prediction->step_s <= (*solved)->prediction->step_s) {
        mt_plan_free(*solved);
        *solved = same;
        return MT_OK;
    }
    mt_plan_free(same);
    if (st) mt_plan_free(*solved);
    return st;
}

enum mt_status mt_resource_solve(struct mt_planning *planning, const struct mt_resource *resource, double factor,
                                 const struct mt_plan *base, struct mt_plan **solved, struct mt_err *err) {
    const struct mt_cluster *before = planning->cluster;
    struct mt_cluster *cluster = mt_cluster_copy(before);
    struct mt_plan *limits;
    planning->search.no_bound = true;
    enum mt_status st = mt_plan_copy(base, &limits, err);
    if (!st) {
        if (resource) mt_resource_scale(resource, factor, cluster, limits);
        mt_planning_move(planning, cluster);
        st = solve(planning, base, limits, solved, err);
        mt_planning_move(planning, before);
        mt_plan_free(limits);
    }
    planning->search.no_bound = false;
    mt_cluster_free(cluster);
    return st;
}

/* ---- all ---- */

struct finding {
    struct mt_planning *planning;
    struct mt_bottlenecks *found;
    struct mt_plan **plans; /* [count + 1]: what each resource led to; the last without more of any */
    double *step_s;         /* [count + 1] */
    struct mt_err *err;
};

static bool same_shares(const struct mt_plan *a, const struct mt_plan *b) {
    size_t n = (size_t)a->nranks * sizeof(int64_t);
    bool same = a->nsplits == b->nsplits && !memcmp(a->micro, b->micro, n);
    for (int s = 0; s < a->nsplits && same; s++) same = !memcmp(a->splits[s].sizes, b->splits[s].sizes, n);
    return same;
}

/* Whether a plan fits into the memory that the ranks of another have. */
static bool within_limits(const struct mt_plan *plan, const struct mt_plan *limits) {
    for (int r = 0; r < plan->nranks; r++)
        if (limits->ranks[r].memory_bytes && mt_plan_needs_bytes(plan, r) > limits->ranks[r].memory_bytes) return false;
    return true;
}

/* A plan's step with more of a resource, or of none; infinite where it does not fit. */
static enum mt_status price(const struct finding *f, const struct mt_resource *resource, const struct mt_plan *plan,
                            double *step_s) {
    const struct mt_cluster *before = f->planning->cluster;
    struct mt_cluster *cluster = mt_cluster_copy(before);
    struct mt_plan *copy;
    enum mt_status st = mt_plan_copy(plan, &copy, f->err);
    if (!st) {
        if (resource) mt_resource_scale(resource, MT_RESOURCE_MORE, cluster, copy);
        f->planning->search.no_bound = true;
        mt_planning_move(f->planning, cluster);
        if (!(st = mt_search_price(&f->planning->search, copy, f->err)))
            *step_s = within_limits(copy, copy) ? copy->prediction->step_s : INFINITY;
        mt_planning_move(f->planning, before);
        f->planning->search.no_bound = false;
        mt_plan_free(copy);
    }
    mt_cluster_free(cluster);
    return st;
}

/* All plans with each resource. */
static enum mt_status cross(struct finding *f) {
    int n = f->found->count;
    for (int j = 0; j <= n; j++) {
        if (!f->plans[j] || !within_limits(f->plans[j], f->plans[n])) continue;
        bool again = false;
        for (int k = j + 1; k <= n && !again; k++) again = f->plans[k] && same_shares(f->plans[j], f->plans[k]);
        for (int i = 0; i <= n && !again; i++) {
            double step_s;
            if (i == j || !f->plans[i]) continue;
            enum mt_status st = price(f, i < n ? &f->found->items[i] : NULL, f->plans[j], &step_s);
            if (st) return st;
            f->step_s[i] = fmin(f->step_s[i], step_s);
        }
    }
    return MT_OK;
}

static int by_estimate(const void *a, const void *b) {
    const struct mt_resource *x = a, *y = b;
    if (x->estimate_s != y->estimate_s) return x->estimate_s < y->estimate_s ? 1 : -1;
    return strcmp(x->what, y->what);
}

static int by_saving(const void *a, const void *b) {
    const struct mt_resource *x = a, *y = b;
    if (x->tried != y->tried) return x->tried ? -1 : 1;
    if (x->saves_s != y->saves_s) return x->saves_s < y->saves_s ? 1 : -1;
    return by_estimate(a, b);
}

/* More memory of all classes at once: where it does not help, no class's own does. */
static enum mt_status memory_helps(struct finding *f, const struct mt_plan *base, bool *helps) {
    struct mt_cluster *same = mt_cluster_copy(f->planning->cluster);
    struct mt_plan *limits, *solved;
    *helps = false;
    enum mt_status st = mt_plan_copy(base, &limits, f->err);
    for (int i = 0; i < f->found->count && !st; i++)
        if (f->found->items[i].kind == MT_RESOURCE_MEMORY)
            mt_resource_scale(&f->found->items[i], MT_RESOURCE_MORE, same, limits);
    mt_cluster_free(same);
    if (st) return st;
    f->planning->search.no_bound = true;
    if (!(st = solve(f->planning, base, limits, &solved, f->err))) {
        *helps = solved->prediction->step_s < base->prediction->step_s * (1 - 1e-6);
        mt_plan_free(solved);
    }
    f->planning->search.no_bound = false;
    mt_plan_free(limits);
    return st;
}

static enum mt_status try_resources(struct finding *f, int most) {
    struct mt_bottlenecks *found = f->found;
    int n = found->count;
    struct mt_plan *base = f->plans[n];
    bool memory, asked = false;
    enum mt_status st = MT_OK;
    for (int i = 0; i < n && found->ntried < most && !st; i++) {
        struct mt_resource *one = &found->items[i];
        if (one->kind == MT_RESOURCE_MEMORY) {
            if (!asked && (st = memory_helps(f, base, &memory))) break;
            asked = true;
        }
        one->tried = true;
        found->ntried++;
        if (one->kind == MT_RESOURCE_MEMORY && !memory) {
            f->step_s[i] = INFINITY;
            continue;
        }
        if ((st = mt_resource_solve(f->planning, one, MT_RESOURCE_MORE, base, &f->plans[i], f->err))) break;
        f->step_s[i] = f->plans[i]->prediction->step_s;
    }
    if (!st) st = cross(f);
    found->base_s = f->step_s[n];
    for (int i = 0; i < n; i++)
        found->items[i].saves_s = found->items[i].tried ? fmax(found->base_s - f->step_s[i], 0) : 0;
    return st;
}

/* ---- a glance ---- */

/* One unit of the batch from the rank that idles least to that of a class that idles most. False: nothing can move. */
static bool shift(const struct finding *f, int class, struct mt_plan *plan) {
    const struct mt_cluster *cluster = f->planning->cluster;
    const struct mt_plan_time *t = plan->prediction->times;
    struct mt_plan_split *batch = &plan->splits[0];
    int from = -1, to = -1;
    while (strcmp(batch->name, "batch")) batch++;
    for (int i = 0; i < plan->nplaces; i++) {
        int r = plan->order[i];
        bool mine = cluster->devices[r].class == class;
        if (!mine && batch->sizes[r] >= batch->align && (from < 0 || t[r].idle_s < t[from].idle_s)) from = r;
        if (mine && (to < 0 || t[r].idle_s > t[to].idle_s)) to = r;
    }
    if (from < 0 || to < 0 || f->planning->search.fixed.shares || batch->over != MT_OVER_ALL) return false;
    if (plan->micro[to] == batch->sizes[to]) plan->micro[to] += batch->align;
    batch->sizes[to] += batch->align;
    batch->sizes[from] -= batch->align;
    if (plan->micro[from] > batch->sizes[from]) plan->micro[from] = batch->sizes[from];
    return true;
}

/* More of one resource for the plan as it is; of computing, also with a unit more for those that compute faster. */
static enum mt_status glance_at(struct finding *f, int i, const struct mt_plan *base, int *prices) {
    const struct mt_resource *one = &f->found->items[i];
    struct mt_plan *shifted;
    double step_s;
    enum mt_status st = price(f, one, base, &f->step_s[i]);
    --*prices;
    if (st || one->kind != MT_RESOURCE_COMPUTE || *prices < 1) return st;
    if ((st = mt_plan_copy(base, &shifted, f->err))) return st;
    if (shift(f, one->which, shifted)) {
        --*prices;
        st = price(f, one, shifted, &step_s);
        f->step_s[i] = fmin(f->step_s[i], step_s);
    }
    mt_plan_free(shifted);
    return st;
}

static enum mt_status glance(struct finding *f, const struct mt_plan *plan) {
    struct mt_bottlenecks *found = f->found;
    int64_t work = (int64_t)f->planning->planned.graph->nops * (plan->nplaces + MORE_RANKS);
    int prices = MOST_PRICES;
    if (work * MOST_PRICES > MOST_WORK) prices = (int)(MOST_WORK / work);
    if (prices < 2) prices = 0; /* one alone says nothing */
    enum mt_status st = MT_OK;
    found->base_s = plan->prediction->step_s;
    for (int i = 0; i < found->count && prices > 0 && !st; i++) {
        struct mt_resource *one = &found->items[i];
        if (one->kind == MT_RESOURCE_MEMORY) continue; /* that would need other plans */
        st = glance_at(f, i, plan, &prices);
        one->tried = true;
        one->saves_s = fmax(found->base_s - f->step_s[i], 0);
        found->ntried++;
    }
    return st;
}

static void list(struct finding *f, const struct mt_plan *plan) {
    struct mt_bottlenecks *found = f->found;
    found->count = mt_resources(f->planning->cluster, plan, &found->arena, &found->items);
    qsort(found->items, (size_t)found->count, sizeof *found->items, by_estimate);
    f->plans = mt_new(&found->arena, struct mt_plan *, found->count + 1);
    f->step_s = mt_new(&found->arena, double, found->count + 1);
}

static enum mt_status find(struct finding *f, const struct mt_plan *plan, int most) {
    struct mt_bottlenecks *found = f->found;
    struct mt_plan *base;
    if (most == MT_BOTTLENECKS_GLANCE) {
        list(f, plan);
        enum mt_status st = glance(f, plan);
        qsort(found->items, (size_t)found->count, sizeof *found->items, by_saving);
        return st;
    }
    enum mt_status st = mt_resource_solve(f->planning, NULL, 1, plan, &base, f->err);
    if (st) return st;
    list(f, base);
    f->plans[found->count] = base;
    f->step_s[found->count] = base->prediction->step_s;
    st = try_resources(f, most);
    for (int i = 0; i <= found->count; i++) mt_plan_free(f->plans[i]);
    qsort(found->items, (size_t)found->count, sizeof *found->items, by_saving);
    return st;
}

enum mt_status mt_bottlenecks_of(const struct mt_cluster *cluster, const struct mt_plan *plan,
                                 const struct mt_plan_fixed *fixed, int most, struct mt_bottlenecks *found,
                                 struct mt_err *err) {
    struct mt_planning planning;
    *found = (struct mt_bottlenecks){.count = 0};
    enum mt_status st = mt_planning_open(cluster, plan->model, &plan->job, &planning, err);
    if (st) return st;
    struct finding f = {.planning = &planning, .found = found, .err = err};
    planning.search.limit_s = 10;
    if (fixed) planning.search.fixed.shares = fixed->shares;
    if (plan->nplaces > MOST_PLACES && most > MT_BOTTLENECKS_FEW) most = MT_BOTTLENECKS_FEW;
    if (plan->nplaces > FEW_PLACES && most > 2) most = 2;
    st = find(&f, plan, most);
    mt_planning_close(&planning);
    if (st) mt_bottlenecks_release(found);
    return st;
}

const char *mt_bottlenecks_text(const struct mt_bottlenecks *found, char text[MT_BOTTLENECK_TEXT]) {
    char saves[MT_UNITS_TEXT], tried[80] = "";
    const struct mt_resource *first = found->ntried ? &found->items[0] : NULL;
    if (found->ntried < found->count)
        snprintf(tried, sizeof tried, " (of %d resources, %d were tried)", found->count, found->ntried);
    if (first && first->saves_s > 0)
        snprintf(text, MT_BOTTLENECK_TEXT, "%.180s: one percent %s of it saves %s a step%s", first->what,
                 first->kind == MT_RESOURCE_LATENCY ? "less" : "more", mt_units_seconds(first->saves_s, saves), tried);
    else if (!first)
        snprintf(text, MT_BOTTLENECK_TEXT,
                 "not tried, in so large a job: `motley explain` solves again with more of "
                 "each resource");
    else
        snprintf(text, MT_BOTTLENECK_TEXT, "no single resource: one percent more of any saves nothing%s", tried);
    return text;
}

void mt_bottlenecks_release(struct mt_bottlenecks *found) {
    mt_arena_release(&found->arena);
    *found = (struct mt_bottlenecks){.count = 0};
}
