/* An edited plan on its cluster. */
#include <math.h>
#include <string.h>

#include "planner/make/make.h"
#include "planner/make/planning.h"

/* A plan that was made by speeds becomes one for the cluster. */
static enum mt_status adopt(const struct mt_planning *planning, struct mt_plan *plan, struct mt_err *err) {
    const struct mt_cluster *cluster = planning->cluster;
    if (plan->nranks != cluster->ndevices)
        return mt_fail(err, MT_EINPUT, "ranks: the plan has %d, but the cluster has %d devices", plan->nranks,
                       cluster->ndevices);
    struct mt_plan *ranks = mt_planning_plan(planning);
    for (int r = 0; r < plan->nranks; r++) {
        plan->ranks[r] = ranks->ranks[r];
        plan->ranks[r].host = mt_arena_strdup(&plan->arena, ranks->ranks[r].host);
        plan->ranks[r].class = mt_arena_strdup(&plan->arena, ranks->ranks[r].class);
    }
    strcpy(plan->cluster_hash, cluster->hash);
    mt_plan_free(ranks);
    return MT_OK;
}

enum mt_status mt_plan_edited(struct mt_plan *plan, struct mt_err *err) {
    struct mt_planned planned;
    enum mt_status st = mt_planned_graph(plan, &planned, err);
    if (!st) st = mt_plan_derive(plan, planned.graph, err);
    mt_planned_release(&planned);
    return st;
}

enum mt_status mt_plan_edited_on(const struct mt_cluster *cluster, double limit_s, struct mt_plan *plan, double *best_s,
                                 struct mt_err *err) {
    struct mt_planning planning;
    enum mt_status st = mt_planning_open(cluster, plan->model, &plan->job, &planning, err);
    if (st) return st;
    if (!plan->cluster_hash[0]) st = adopt(&planning, plan, err);
    if (!st) st = mt_plan_derive(plan, planning.planned.graph, err);
    if (!st) mt_plan_mark_hypothetical(cluster, plan);
    if (!st && !(st = mt_search_price(&planning.search, plan, err))) {
        struct mt_plan *best = mt_planning_plan(&planning);
        planning.search.last = plan;
        planning.search.limit_s = limit_s;
        planning.search.no_bound = true;
        if (!(st = mt_search(&planning.search, best, NULL, err))) *best_s = best->prediction->step_s;
        mt_plan_free(best);
    }
    mt_planning_close(&planning);
    return st;
}
