/* The bottlenecks of a plan on its cluster: by the dual values of its balance, and by solving with one resource
 * relaxed.
 *
 *     struct mt_explained explained;
 *     if ((st = mt_explain(plan, cluster, &explained, err))) return st;
 *     ... explained.rows[0].what, explained.report.bindings[0].what ...
 *     mt_explained_release(&explained); */
#ifndef MT_PLANNER_REVIEW_EXPLAIN_H
#define MT_PLANNER_REVIEW_EXPLAIN_H

#include "planner/plan/plan.h"
#include "profiler/cluster/cluster.h"
#include "planner/search/search.h"

enum mt_relaxed { MT_RELAX_CLASS, MT_RELAX_LINK, MT_RELAX_MEMORY };
#define MT_RELAX_SPEED 1.1     /* each class so many times as fast */
#define MT_RELAX_BANDWIDTH 2.0 /* each link */
#define MT_RELAX_LIMIT 1.25    /* the memory of each class's ranks that have a limit */

struct mt_explained_row {
    enum mt_relaxed relaxed;
    int which;        /* class or link of the cluster */
    const char *what; /* "h100 10% faster (ranks 0-7)" */
    double step_s;    /* with shares solved again */
};
struct mt_explained {
    struct mt_arena arena;
    const struct mt_cluster *cluster; /* the caller's */
    struct mt_plan *plan;             /* a copy, priced as it is */
    struct mt_search_report report;
    int longest;   /* the rank that the others wait for: it idles least */
    double base_s; /* with shares solved again, and nothing relaxed */
    int nrows;     /* the largest gain first */
    struct mt_explained_row *rows;
};

/* The plan must be of this cluster (mt_planning_same). */
enum mt_status mt_explain(const struct mt_plan *plan, const struct mt_cluster *cluster, struct mt_explained *explained,
                          struct mt_err *err);
void mt_explained_release(struct mt_explained *explained);

/* "rank 3" or "ranks 0 2-5", in the arena: those r of [0, n) for which chosen[r]. */
const char *mt_rank_list(const bool *chosen, int n, struct mt_arena *arena);

#endif
