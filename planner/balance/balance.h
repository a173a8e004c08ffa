/* Balance: shares of several splits at once, such that the step is short and every rank's memory holds.
 *
 * A step is stages that follow each other. In a stage each rank computes for
 *     compute[stage](class of r, shares of r) = fixed + sum over splits of curve(share)
 * while its communication stream works for `comm` likewise, overlapped; a stage takes as long as its slowest rank's
 * slower stream, and what a rank's memory holds is fixed + sum over splits of curve(share). It is neutral: it knows no
 * model, no cluster. The caller fills in curves for classes of ranks that are alike.
 *
 * Method: (1) a linear programme over classes (share of the class's ranks, times the count), curves by their lower
 * convex hull, memory rows: its optimum is a lower bound, its duals say what binds; (2) an integer programme of base
 * size plus how many of the class's ranks take one unit more; (3) local search on the exact curves, moving units
 * between ranks, from the programme's point, from even and proportional shares, and from every start that the caller
 * gives; the best is returned, so it is never worse than any of those that fit into memory. One split in one stage is
 * solved exactly by bisection over the stage's time. */
#ifndef MT_PLANNER_BALANCE_BALANCE_H
#define MT_PLANNER_BALANCE_BALANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/arena.h"
#include "kernels/base/err.h"

/* Linear between points, by the last slope beyond, and never below 0; the first point is at 0. Need not be convex nor
 * rise. */
struct mt_share_curve {
    int npoints; /* 0: zero everywhere */
    const int64_t *at;
    const double *value;
};
double mt_share_curve_at(const struct mt_share_curve *curve, int64_t share);

struct mt_balance_split {
    const char *name;
    int64_t extent, align; /* shares are multiples of align, but one may be ragged */
};

#define MT_BALANCE_MOST_SPLITS 8
#define MT_BALANCE_MOST_STAGES 16
struct mt_balance {
    int nranks, nclasses, nsplits, nstages;
    const int *class; /* [nranks]; ranks of a class are interchangeable */
    const struct mt_balance_split *splits;
    const char *const *stage_names, *const *class_names; /* for messages */
    /* [(stage nsplits + split) nclasses + class] */
    const struct mt_share_curve *compute, *comm;
    const double *compute_fixed, *comm_fixed;   /* [stage nclasses + class], seconds */
    const struct mt_share_curve *memory;        /* [split nclasses + class], bytes */
    const int64_t *memory_fixed, *memory_limit; /* [nclasses]; limit 0: none */
    /* Splits that follow another: same[split] is the split whose shares it takes times extent / extent, or -1. Refused
     * where that does not give whole, aligned shares. Null: none follows. */
    const int *same;
    int nstarts;
    const int64_t *const *starts; /* [nstarts][nsplits nranks] */
    double limit_s;               /* time for looking; the linear programme is always solved */
};

enum mt_binding_kind { MT_BINDS_COMPUTE, MT_BINDS_COMM, MT_BINDS_MEMORY };
struct mt_binding {
    enum mt_binding_kind kind;
    int stage, class; /* stage -1 for memory, of a rank of the class; class -1 for communication, of all */
    double dual;      /* seconds of the step that one percent more of this resource saves */
};

struct mt_balanced {
    struct mt_arena arena;
    int64_t *sizes;  /* [split nranks + rank] */
    double step_s;   /* by the exact curves */
    double bound_s;  /* no shares are faster */
    double *stage_s; /* [nstages] */
    int nbindings;   /* largest first */
    struct mt_binding *bindings;
    double even_s, proportional_s; /* of those shares; infinity where they do not fit into memory */
    bool exact;                    /* proven: step_s is the least there is, and bound_s is equal to it */
    int64_t work;                  /* times of a rank's shares that were looked up */
};

/* The step's time of given shares by the exact curves; infinity when a rank's memory does not hold them. */
double mt_balance_time(const struct mt_balance *problem, const int64_t *sizes, double *stage_s);

/* MT_EINPUT when nothing fits into memory: says which class lacks how much; and for curves, starts and counts that make
 * no sense. MT_EMISSING without GLPK. Release balanced->arena. */
enum mt_status mt_balance_solve(const struct mt_balance *problem, struct mt_balanced *balanced, struct mt_err *err);

#endif
