/* A job on a cluster, ready to be searched: what tests of the search have in common. */
#ifndef MT_TESTS_PLANNER_SEARCH_SETTING_H
#define MT_TESTS_PLANNER_SEARCH_SETTING_H

#include "planner/search/search.h"
#include "synth/autodiff/autodiff.h"
#include "tests/check.h"
#include "tests/profiler/clusters.h"

enum { SETTING_MOST_RANKS = 32 };

static struct mt_err err = MT_ERR_INIT;
static const struct mt_lower_options options = {.fuse = true, .latency_s = 30e-6, .bandwidth_Bps = 1e9};

struct setting {
    struct mt_cluster *cluster;
    struct mt_job job;
    struct mt_model model;
    struct mt_graph *graph;
    int device[SETTING_MOST_RANKS];
    struct mt_costs costs;
    struct mt_search search;
};

/* Takes the cluster. */
static inline void set_up(struct setting *s, struct mt_cluster *cluster, const char *model, int64_t batch) {
    *s = (struct setting){.cluster = cluster};
    mt_job_default(&s->job);
    s->job.batch = batch;
    CHECK_OK(mt_model_parse(model, &s->model, &err), err);
    CHECK_OK(mt_model_graph(&s->model, s->job.precision, batch, 0, 0, &s->graph, &err), err);
    CHECK_OK(mt_graph_differentiate(s->graph, &err), err);
    CHECK_OK(mt_graph_optimize(s->graph, &s->job.optimizer, &err), err);
    CHECK(cluster->ndevices <= SETTING_MOST_RANKS, "%d ranks", cluster->ndevices);
    for (int d = 0; d < cluster->ndevices; d++) s->device[d] = d;
    s->costs = (struct mt_costs){.cluster = cluster, .nranks = cluster->ndevices, .device = s->device};
    s->search = (struct mt_search){.model = &s->model,
                                   .graph = s->graph,
                                   .job = &s->job,
                                   .costs = &s->costs,
                                   .options = &options,
                                   .fixed = {.decisions = mt_decisions_unset},
                                   .limit_s = 600};
}

static inline void tear_down(struct setting *s) {
    mt_graph_free(s->graph);
    mt_cluster_free(s->cluster);
}

/* For all devices of the cluster, without decisions. */
static inline struct mt_plan *new_plan(const struct setting *s) {
    struct mt_plan *p = mt_plan_new(s->costs.nranks);
    p->made_by = "motley test";
    p->model = mt_model_text(&s->model, &p->arena);
    p->job = s->job;
    p->device = mt_arena_strdup(&p->arena, mt_cluster_kind(s->cluster));
    snprintf(p->cluster_hash, sizeof p->cluster_hash, "%s", s->cluster->hash);
    for (int r = 0; r < p->nranks; r++) {
        const struct mt_cluster_device *device = &s->cluster->devices[r];
        p->ranks[r].memory_bytes = device->memory_bytes;
        p->ranks[r].host = mt_arena_strdup(&p->arena, s->cluster->nodes[device->node].name);
    }
    return p;
}

/* mt_search, of which all statuses are returned but that GLPK is missing: then the test is skipped. */
static inline enum mt_status search_for(const struct setting *s, struct mt_plan *p, struct mt_search_report *report) {
    enum mt_status st = mt_search(&s->search, p, report, &err);
    if (st != MT_EMISSING) return st;
    printf("skipped: %s\n", err.text);
    exit(77);
}

/* A plan that was found and passes its check. */
static inline struct mt_plan *searched(const struct setting *s, struct mt_search_report *report) {
    struct mt_plan *p = new_plan(s);
    CHECK_OK(search_for(s, p, report), err);
    if (!p->job.seq) p->job.seq = mt_model_get(&s->model, "context");
    CHECK_OK(mt_plan_check(p, &err), err);
    CHECK(p->prediction->bound_s > 0 && p->prediction->bound_s <= p->prediction->step_s, "%g %g",
          p->prediction->bound_s, p->prediction->step_s);
    return p;
}

#endif
