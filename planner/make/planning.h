/* Planning a job for a cluster: what the search needs, put together for those who make plans and review them.
 *
 *     struct mt_planning planning;
 *     if ((st = mt_planning_open(cluster, "gpt2:124m", &job, &planning, err))) return st;
 *     struct mt_plan *plan = mt_planning_plan(&planning);
 *     planning.search.limit_s = 5;
 *     if (!(st = mt_search(&planning.search, plan, &report, err))) ...
 *     mt_plan_free(plan);
 *     mt_planning_close(&planning);
 *
 * Rank r of the plan is device r of the cluster. */
#ifndef MT_PLANNER_MAKE_PLANNING_H
#define MT_PLANNER_MAKE_PLANNING_H

#include "planner/plan/planned.h"
#include "planner/search/search.h"

struct mt_planning {
    const struct mt_cluster *cluster;
    struct mt_planned planned; /* model and graph; no program */
    struct mt_job job;
    struct mt_device *device; /* of this host, for the scratch of operators; null for a cluster of GPUs */
    struct mt_lower_options options;
    int *devices;
    struct mt_costs costs;
    bool shares_memo;        /* costs.memo is the caller's */
    struct mt_search search; /* free: `fixed`, `last` and `limit_s` are the caller's to fill in */
};

/* The cluster must outlive it. On failure there is nothing to close. A planning must not move. */
enum mt_status mt_planning_open(const struct mt_cluster *cluster, const char *model, const struct mt_job *job,
                                struct mt_planning *planning, struct mt_err *err);
void mt_planning_close(struct mt_planning *planning);

/* The same job on another cluster, with as many devices. Costs are taken from it from now on. */
void mt_planning_move(struct mt_planning *planning, const struct mt_cluster *cluster);

/* Costs are looked up in, and added to, a memo that plannings of other jobs on the same cluster use too, until the
 * planning moves. It must outlive the planning. */
void mt_planning_share(struct mt_planning *planning, struct mt_cost_memo *memo);

/* A plan for the search to fill in: who made it, the model, the job, the cluster's hash, and the ranks as the cluster
 * has them. */
struct mt_plan *mt_planning_plan(const struct mt_planning *planning);

/* A plan that was made for a cluster is priced on no other: MT_EINPUT naming both. `path` is the plan's, `text` what
 * the cluster was opened from. */
enum mt_status mt_planning_same(const struct mt_plan *plan, const char *path, const struct mt_cluster *cluster,
                                const char *text, struct mt_err *err);

/* The step of a plan's program, simulated and recorded, on the cluster that the plan was made for. Release the
 * timeline.
 */
struct mt_timeline;
enum mt_status mt_planning_timeline(const struct mt_plan *plan, const struct mt_program *program,
                                    const struct mt_cluster *cluster, struct mt_timeline *timeline, struct mt_err *err);

#endif
