/* Bottlenecks: which resource of a cluster shortens a plan's step most, by solving again with one percent more of it.
 *
 *     struct mt_bottlenecks found;
 *     if ((st = mt_bottlenecks_of(cluster, plan, NULL, MT_BOTTLENECKS_ALL, &found, err))) return st;
 *     ... found.items[0].what, found.items[0].saves_s ...
 *     mt_bottlenecks_release(&found);
 *
 * A resource is the computing of a class of devices, their memory, a link's bandwidth or latency, or what a host sends
 * or receives, where the cluster says so. Equal hosts are one resource. To solve again is to divide samples and state
 * anew, from the plan's shares, among the ranks that take part and in the plan's structure. All plans that come of it
 * are priced with every resource that is tried, and without more of any, so that a plan that is better on all of them
 * is not taken for the effect of one. */
#ifndef MT_PLANNER_REVIEW_BOTTLENECK_H
#define MT_PLANNER_REVIEW_BOTTLENECK_H

#include "planner/make/planning.h"

enum mt_resource_kind {
    MT_RESOURCE_COMPUTE,   /* of a class */
    MT_RESOURCE_MEMORY,    /* of a class's ranks that have a limit */
    MT_RESOURCE_BANDWIDTH, /* of a link */
    MT_RESOURCE_LATENCY,   /* of a link */
    MT_RESOURCE_EGRESS,    /* of hosts */
    MT_RESOURCE_INGRESS,
    MT_NRESOURCES
};
#define MT_RESOURCE_MORE 1.01

struct mt_resource {
    enum mt_resource_kind kind;
    int which;         /* class or link of the cluster; the first of the hosts */
    const bool *hosts; /* [nnodes] of the cluster, of egress and ingress; else null */
    const char *what;  /* "compute of t4 (ranks 6-13)", "link net", "egress of host node1" */
    double estimate_s; /* what the prediction's parts let expect of it: the order in which resources are tried */
    bool tried;
    double saves_s; /* seconds of the step by MT_RESOURCE_MORE times as much, if it was tried */
};

/* All that the cluster has and the plan's ranks may use, in the arena. Returns how many. */
int mt_resources(const struct mt_cluster *cluster, const struct mt_plan *plan, struct mt_arena *arena,
                 struct mt_resource **resources);
/* So many times as much of it, in a cluster and in the memory limits of a plan's ranks. */
void mt_resource_scale(const struct mt_resource *resource, double factor, struct mt_cluster *cluster,
                       struct mt_plan *plan);
/* The plan on a cluster (of as many devices as the planning's) with some of a resource changed: with shares solved
 * again, or with those of `base` where these are no slower. Plans come without a bound. The caller frees *solved. The
 * planning is on its own cluster again when it returns. */
enum mt_status mt_resource_solve(struct mt_planning *planning, const struct mt_resource *resource, double factor,
                                 const struct mt_plan *base, struct mt_plan **solved, struct mt_err *err);

struct mt_bottlenecks {
    struct mt_arena arena;
    int count, ntried;
    struct mt_resource *items; /* the largest saving first; then those that were not tried */
    double base_s;             /* the plan's step with shares solved again */
};
/* GLANCE: price the plan with more of a few resources, and with one sample moved; nothing where that takes long. */
enum { MT_BOTTLENECKS_ALL = 1000, MT_BOTTLENECKS_FEW = 5, MT_BOTTLENECKS_GLANCE = 0 };

/* Try the `most` resources that promise most; in large jobs fewer. `fixed` (may be null): of it, the shares that a
 * person has given. The plan must be of this cluster (mt_planning_same). */
enum mt_status mt_bottlenecks_of(const struct mt_cluster *cluster, const struct mt_plan *plan,
                                 const struct mt_plan_fixed *fixed, int most, struct mt_bottlenecks *found,
                                 struct mt_err *err);
/* "link net: one percent more of it saves 2.10 ms a step (of 9 resources, 5 were tried)"; returns text. */
#define MT_BOTTLENECK_TEXT 300
const char *mt_bottlenecks_text(const struct mt_bottlenecks *found, char text[MT_BOTTLENECK_TEXT]);

void mt_bottlenecks_release(struct mt_bottlenecks *found);

/* "rank 3" or "ranks 0 2-5", in the arena: those r of [0, n) for which chosen[r]; of many, the first few. */
const char *mt_rank_list(const bool *chosen, int n, struct mt_arena *arena);

#endif
