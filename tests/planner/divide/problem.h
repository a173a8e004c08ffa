/* A job on a described cluster, ready for the search among all divisions.
 *
 *     struct problem p;
 *     begin(&p, "h100:1x4", "gpt2:124m", 8, MT_BF16, 0);     // 0: each rank may use what its device has
 *     mt_divide_search(&p.divide, &found, &err); ...
 *     end(&p); */
#ifndef MT_TESTS_PLANNER_DIVIDE_PROBLEM_H
#define MT_TESTS_PLANNER_DIVIDE_PROBLEM_H

#include <math.h>

#include "planner/divide/divide.h"
#include "planner/make/planning.h"
#include "planner/plan/choice.h"
#include "profiler/describe/describe.h"
#include "tests/check.h"

static struct mt_err err = MT_ERR_INIT;

struct problem {
    struct mt_cluster *cluster;
    struct mt_job job;
    struct mt_planning planning;
    struct mt_plan *plan;
    struct mt_arena arena;
    struct mt_divide divide;
};

static void begin(struct problem *p, const char *cluster, const char *model, int64_t batch, enum mt_type precision,
                  double memory_MiB) {
    *p = (struct problem){.cluster = NULL};
    CHECK_OK(mt_cluster_describe(cluster, NULL, &p->cluster, &err), err);
    mt_job_default(&p->job);
    p->job.batch = batch;
    p->job.precision = precision;
    p->job.recompute = MT_RECOMPUTE_NONE;
    CHECK_OK(mt_planning_open(p->cluster, model, &p->job, &p->planning, &err), err);
    p->plan = mt_planning_plan(&p->planning);
    int64_t *memory = mt_new(&p->arena, int64_t, p->plan->nranks);
    for (int r = 0; r < p->plan->nranks; r++)
        memory[r] = memory_MiB > 0 ? (int64_t)(memory_MiB * 0x1p20) : p->cluster->devices[r].memory_bytes;
    p->divide = (struct mt_divide){.graph = p->planning.planned.graph,
                                   .costs = &p->planning.costs,
                                   .options = &p->planning.options,
                                   .node = mt_plan_nodes(p->plan, &p->arena),
                                   .memory_bytes = memory,
                                   .decisions = mt_decisions_unset,
                                   .plan = p->plan,
                                   .end_s = INFINITY};
    p->divide.decisions.bucket_bytes = 25 << 20;
    p->divide.decisions.start = mt_plan_default_start(p->plan->device);
}

static void end(struct problem *p) {
    mt_plan_free(p->plan);
    mt_planning_close(&p->planning);
    mt_cluster_free(p->cluster);
    mt_arena_release(&p->arena);
}

#endif
