/* A plan on its cluster explained: the classics beside it (classics.h), the bottlenecks (bottleneck.h), and what more
 * of each resource would bring.
 *
 *     struct mt_explained explained;
 *     if ((st = mt_explain(plan, cluster, &explained, err))) return st;
 *     ... explained.rows[0].what, explained.bottlenecks.items[0].what ...
 *     mt_explained_release(&explained); */
#ifndef MT_PLANNER_REVIEW_EXPLAIN_H
#define MT_PLANNER_REVIEW_EXPLAIN_H

#include "planner/review/bottleneck.h"
#include "planner/review/classics.h"

/* So many times as much of each resource; latency: so many times shorter. */
#define MT_RELAX_SPEED 1.1
#define MT_RELAX_BANDWIDTH 2.0
#define MT_RELAX_LIMIT 1.25

struct mt_explained_row {
    const struct mt_resource *resource;
    const char *what; /* "10% more compute of h100 (ranks 0-7)" */
    double step_s;    /* with shares solved again */
};
struct mt_explained {
    struct mt_arena arena;
    const struct mt_cluster *cluster; /* the caller's */
    struct mt_plan *plan;             /* a copy, priced as it is */
    struct mt_classics classics;
    struct mt_bottlenecks bottlenecks;
    int longest;   /* the rank that the others wait for: it idles least */
    double base_s; /* with shares solved again, and nothing relaxed */
    int nrows;     /* the largest gain first */
    struct mt_explained_row *rows;
};

/* The plan must be of this cluster (mt_planning_same). */
enum mt_status mt_explain(const struct mt_plan *plan, const struct mt_cluster *cluster, struct mt_explained *explained,
                          struct mt_err *err);
void mt_explained_release(struct mt_explained *explained);

#endif
