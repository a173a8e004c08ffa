/* A plan's program on its cluster, recorded. */
#include <stdlib.h>

#include "planner/make/planning.h"
#include "planner/predict/timeline.h"

enum mt_status mt_planning_timeline(const struct mt_plan *plan, const struct mt_program *program,
                                    const struct mt_cluster *cluster, struct mt_timeline *timeline,
                                    struct mt_err *err) {
    struct mt_planning planning;
    struct mt_prediction prediction;
    enum mt_status st = mt_planning_open(cluster, plan->model, &plan->job, &planning, err);
    if (st) return st;
    struct mt_costs costs = planning.costs;
    int *device = mt_calloc((size_t)plan->nplaces, sizeof *device);
    for (int i = 0; i < plan->nplaces; i++) device[i] = planning.costs.device[plan->order[i]];
    costs.nranks = plan->nplaces, costs.device = device, costs.memo = NULL;
    st = mt_predict_timeline(program, &costs, &planning.options, &prediction, timeline, err);
    mt_arena_release(&prediction.arena);
    mt_planning_close(&planning);
    free(device);
    return st;
}
