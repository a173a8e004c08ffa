/* Whether to recompute: plans with and without, where memory asks for it. */
#ifndef MT_PLANNER_MAKE_RECOMPUTE_H
#define MT_PLANNER_MAKE_RECOMPUTE_H

#include "planner/plan/plan.h"

/* How a plan is made for a job (job->recompute says how). `keep` is called when the plan made last is the best so far,
 * to keep what belongs to it. */
struct mt_plan_maker {
    enum mt_status (*make)(void *context, const struct mt_job *job, struct mt_plan **plan, struct mt_err *err);
    void (*keep)(void *context);
    void *context;
};

/* The fastest plan by its prediction. Recomputation is tried where a plan without does not fit (MT_EINPUT), or fits
 * only by micro-batches that nobody asked for (`micro_asked`). Fails as the first plan did when none can be made. */
enum mt_status mt_recompute_choose(const struct mt_plan_maker *maker, const struct mt_job *job, bool micro_asked,
                                   struct mt_plan **plan, struct mt_err *err);

#endif
