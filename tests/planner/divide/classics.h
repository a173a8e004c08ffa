/* The plan of a strategy (null: of any), as `motley plan --strategy NAME --use all` makes it for a described cluster.
 */
#ifndef MT_TESTS_PLANNER_DIVIDE_CLASSICS_H
#define MT_TESTS_PLANNER_DIVIDE_CLASSICS_H

#include <stdlib.h>

#include "planner/divide/strategy.h"
#include "planner/make/make.h"
#include "profiler/describe/describe.h"
#include "tests/check.h"

/* Free it. The test is skipped where GLPK is missing. */
static inline struct mt_plan *classic_plan(const char *cluster_text, const char *model, const struct mt_job *job,
                                           const struct mt_strategy *strategy) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_cluster *cluster;
    struct mt_plan_found found;
    struct mt_plan *plan;
    struct mt_plan_request request = {.model = model,
                                      .job = *job,
                                      .fixed = {.decisions = mt_decisions_unset, .use = MT_USE_ALL},
                                      .limit_s = 600,
                                      .strategy = strategy};
    CHECK_OK(mt_cluster_describe(cluster_text, NULL, &cluster, &err), err);
    enum mt_status st = mt_plan_fastest(cluster, &request, &found, &err);
    if (st == MT_EMISSING) {
        printf("skipped: %s\n", err.text);
        exit(77);
    }
    CHECK(!st, "%s on %s: %s", strategy ? strategy->name : "a plan", cluster_text, err.text);
    CHECK_OK(mt_plan_copy(found.plan, &plan, &err), err);
    CHECK_EQ(plan->nplaces, cluster->ndevices);
    mt_plan_found_release(&found);
    mt_cluster_free(cluster);
    return plan;
}

#endif
