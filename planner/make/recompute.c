/* Recomputation costs time and saves memory; so do micro-batches. The search knows of the latter. */
#include "planner/make/recompute.h"

/* Whether some rank takes its share in several parts. */
static bool in_parts(const struct mt_plan *plan) {
    const struct mt_plan_split *batch = mt_plan_split_named(plan, "batch");
    for (int r = 0; r < plan->nranks; r++)
        if (plan->micro[r] < batch->sizes[r]) return true;
    return false;
}

enum mt_status mt_recompute_choose(const struct mt_plan_maker *maker, const struct mt_job *job, bool micro_asked,
                                   struct mt_plan **plan, struct mt_err *err) {
    struct mt_job tried = *job;
    tried.recompute = MT_RECOMPUTE_NONE;
    enum mt_status st = maker->make(maker->context, &tried, plan, err);
    if (st && st != MT_EINPUT) return st;
    if (st) *plan = NULL;
    if (*plan) maker->keep(maker->context);
    if (*plan && (micro_asked || !in_parts(*plan))) return MT_OK;
    for (int what = MT_RECOMPUTE_NONE + 1; what < MT_NRECOMPUTE; what++) {
        struct mt_err ignored = MT_ERR_INIT;
        struct mt_plan *made;
        tried.recompute = (enum mt_recompute)what;
        if (maker->make(maker->context, &tried, &made, &ignored)) continue;
        if (*plan && made->prediction->step_s >= (*plan)->prediction->step_s) {
            mt_plan_free(made);
            continue;
        }
        mt_plan_free(*plan);
        *plan = made;
        maker->keep(maker->context);
    }
    return *plan ? MT_OK : st;
}
