/* A plan beside the classics: what the best plan of each classic strategy takes among the same ranks (data parallelism,
 * ZeRO, hybrid sharding, tensor parallelism), judged as the plan is, and which resource makes the difference.
 *
 *     struct mt_classics classics;
 *     if ((st = mt_classics_of(plan, &planning, 10, &classics, err))) return st;
 *     ... classics.items[0].name, classics.items[0].why ...
 *     mt_classics_release(&classics); */
#ifndef MT_PLANNER_REVIEW_CLASSICS_H
#define MT_PLANNER_REVIEW_CLASSICS_H

#include "planner/make/planning.h"

struct mt_classic {
    const char *name; /* of the strategy */
    bool fits, same;  /* same: it is the plan's own program */
    double step_s;    /* where it fits */
    /* Where it fits and is another program: what takes most longer than in the plan (shorter, where the whole is):
     * "gathers of weights over net take 3.10 ms more". Where it does not: "rank 3 needs 21.0 GiB of 16.0 GiB", or why
     * it is no program. */
    const char *why;
};
struct mt_classics {
    struct mt_arena arena;
    int count; /* those that fit, by time; then the others */
    struct mt_classic *items;
};

/* The plan must be complete, with its prediction, and of the planning's cluster and graph. Stops judging after limit_s;
 * classics that were not judged by then are left out. */
enum mt_status mt_classics_of(const struct mt_plan *plan, const struct mt_planning *planning, double limit_s,
                              struct mt_classics *classics, struct mt_err *err);
void mt_classics_release(struct mt_classics *classics);

#endif
