/* Bottlenecks against an independent solution: for every resource of a described cluster, one percent more of it (by
 * code of its own), a whole search, and all plans that come of it priced with every resource. The resource that
 * mt_bottlenecks_of names first must save nearly as much as the best. */
#ifndef MT_TESTS_PLANNER_REVIEW_EXPLAIN_CASES_H
#define MT_TESTS_PLANNER_REVIEW_EXPLAIN_CASES_H

#include "planner/review/bottleneck.h"
#include "profiler/describe/describe.h"
#include "tests/check.h"

enum { EXPLAIN_MOST = 64 };
static struct mt_err explain_err = MT_ERR_INIT;

struct explain_more { /* 1% more of what */
    char what;        /* 'c'ompute, 'm'emory, 'b'andwidth, 'l'atency, 'e'gress, 'i'ngress; 0: nothing */
    int which;
};

static struct mt_cluster *explain_cluster(const char *text, struct explain_more more) {
    struct mt_cluster *c;
    CHECK_OK(mt_cluster_describe(text, NULL, &c, &explain_err), explain_err);
    for (int d = 0; d < c->ndevices; d++) {
        if (c->devices[d].class != more.which) continue;
        if (more.what == 'c') c->devices[d].speed *= 1.01;
        if (more.what == 'm') c->devices[d].memory_bytes += c->devices[d].memory_bytes / 100;
    }
    struct mt_cluster_link *l = &c->links[more.which];
    if (more.what == 'b') l->bandwidth_Bps *= 1.01, l->shared_Bps *= 1.01, l->copy_Bps *= 1.01;
    if (more.what == 'l') l->latency_s /= 1.01;
    if (more.what == 'e') c->nodes[more.which].egress_Bps *= 1.01;
    if (more.what == 'i') c->nodes[more.which].ingress_Bps *= 1.01;
    return c;
}

static int explain_list(const char *text, struct explain_more *list) {
    struct mt_cluster *c = explain_cluster(text, (struct explain_more){0, 0});
    int n = 0;
    list[n++] = (struct explain_more){0, 0};
    for (int k = 0; k < c->nclasses; k++)
        list[n++] = (struct explain_more){'c', k}, list[n++] = (struct explain_more){'m', k};
    for (int l = 0; l < c->nlinks; l++)
        list[n++] = (struct explain_more){'b', l}, list[n++] = (struct explain_more){'l', l};
    for (int h = 0; h < c->nnodes; h++) {
        if (c->nodes[h].egress_Bps > 0) list[n++] = (struct explain_more){'e', h};
        if (c->nodes[h].ingress_Bps > 0) list[n++] = (struct explain_more){'i', h};
    }
    CHECK(n <= EXPLAIN_MOST, "%d", n);
    mt_cluster_free(c);
    return n;
}

/* The same resource, in the words of the review. */
static bool explain_same(const struct mt_resource *r, struct explain_more more) {
    static const char kinds[MT_NRESOURCES] = {
        [MT_RESOURCE_COMPUTE] = 'c', [MT_RESOURCE_MEMORY] = 'm', [MT_RESOURCE_BANDWIDTH] = 'b',
        [MT_RESOURCE_LATENCY] = 'l', [MT_RESOURCE_EGRESS] = 'e', [MT_RESOURCE_INGRESS] = 'i'};
    return kinds[r->kind] == more.what && (r->hosts ? r->hosts[more.which] : r->which == more.which);
}

/* A search on a cluster with more of a resource, beginning at `last` (or null); or the price of `last` there. */
static struct mt_plan *explain_plan(const char *text, const char *model, const struct mt_job *job,
                                    struct explain_more more, const struct mt_plan *last, bool search) {
    struct mt_cluster *cluster = explain_cluster(text, more);
    struct mt_planning planning;
    struct mt_plan *plan;
    CHECK_OK(mt_planning_open(cluster, model, job, &planning, &explain_err), explain_err);
    planning.search.limit_s = 600;
    planning.search.no_bound = true;
    if (search) {
        plan = mt_planning_plan(&planning);
        planning.search.last = last;
        CHECK_OK(mt_search(&planning.search, plan, NULL, &explain_err), explain_err);
    } else {
        CHECK_OK(mt_plan_copy(last, &plan, &explain_err), explain_err);
        CHECK_OK(mt_search_price(&planning.search, plan, &explain_err), explain_err);
        for (int r = 0; r < plan->nranks; r++)
            if (plan->memory[r].arena_bytes > cluster->devices[r].memory_bytes) plan->prediction->step_s = INFINITY;
    }
    mt_planning_close(&planning);
    mt_cluster_free(cluster);
    return plan;
}

/* How much of the step the best resource saves more than that which is named first; *what is the name. */
static inline double explain_regret(const char *text, const char *model, int64_t batch, char what[200]) {
    struct explain_more list[EXPLAIN_MOST];
    struct mt_plan *plans[EXPLAIN_MOST];
    double step_s[EXPLAIN_MOST], best_s = 0, named_s = 0;
    struct mt_job job;
    struct mt_bottlenecks found;
    mt_job_default(&job);
    job.batch = batch;
    int n = explain_list(text, list);
    plans[0] = explain_plan(text, model, &job, list[0], NULL, true);
    for (int i = 1; i < n; i++) plans[i] = explain_plan(text, model, &job, list[i], plans[0], true);
    for (int i = 0; i < n; i++) {
        step_s[i] = plans[i]->prediction->step_s;
        for (int k = 0; k < n; k++) {
            if (k == i) continue;
            struct mt_plan *priced = explain_plan(text, model, &job, list[i], plans[k], false);
            step_s[i] = fmin(step_s[i], priced->prediction->step_s);
            mt_plan_free(priced);
        }
    }
    struct mt_cluster *cluster = explain_cluster(text, list[0]);
    CHECK_OK(mt_bottlenecks_of(cluster, plans[0], NULL, MT_BOTTLENECKS_ALL, &found, &explain_err), explain_err);
    CHECK(found.ntried > 0, "%d", found.ntried);
    for (int i = 1; i < n; i++) {
        double saves_s = step_s[0] - step_s[i];
        best_s = fmax(best_s, saves_s);
        if (explain_same(&found.items[0], list[i])) named_s = fmax(named_s, saves_s);
    }
    snprintf(what, 200, "%.180s", found.items[0].what);
    double base_s = step_s[0];
    mt_bottlenecks_release(&found);
    mt_cluster_free(cluster);
    for (int i = 0; i < n; i++) mt_plan_free(plans[i]);
    return (best_s - named_s) / base_s;
}

#endif
