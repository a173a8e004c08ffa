/* Balance: shares of several splits at once, so that the step is short and each rank's memory suffices.
 *
 * A step is a sequence of stages. In a stage each rank computes for
 *     compute[stage](class of r, shares of r) = fixed + sum over splits of curve(share),
 * overlapped with communication, `comm`, of the same form; the stage takes as long as the slowest rank's slower stream.
 * Memory of a rank is fixed + sum over splits of curve(share). Balance knows no model and no cluster: the caller fills
 * in curves for classes of ranks.
 *
 * Words:
 * - split: an extent divided over the ranks as integer shares; unit: `align` elements of it.
 * - class: ranks of equal curves and limits.
 * - curve: seconds or bytes as a piecewise linear function of the share.
 * - stage: a part of the step that all ranks end together.
 * - lower bound: no shares take less; gap: how far a step is above it, relative.
 * - dual value: how much a bit more of a resource shortens the step. A resource with a dual value above zero is
 * binding: the bottlenecks are the largest.
 *
 * Method: (1) a linear programme over classes (a class's average share, times its ranks), with curves replaced by their
 * lower convex hulls, and memory rows: its optimum is a lower bound, its duals name the bottlenecks; (2) an integer
 * programme of a base share and how many of a class's ranks have one unit more; (3) local search on the exact curves,
 * moving units between ranks, from the programmes' points, from even and proportional shares, and from each start that
 * the caller gives. The best is returned, so it is never worse than any of these that fits into memory. One split in
 * one stage is solved exactly by bisection over the stage's time; small problems by a dynamic programme over ranks. */
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
    int nstarts;
    const int64_t *const *starts; /* [nstarts][nsplits nranks] */
    double limit_s;               /* of the search; the linear programme is always solved */
};

enum mt_binding_kind { MT_BINDS_COMPUTE, MT_BINDS_COMM, MT_BINDS_MEMORY };
struct mt_binding {
    enum mt_binding_kind kind;
    int stage, class; /* stage -1: memory of a rank of the class; class -1: communication of all */
    double dual;      /* seconds of the step that one percent more of this resource saves */
};

struct mt_balanced {
    struct mt_arena arena;
    int64_t *sizes;  /* [split nranks + rank] */
    double step_s;   /* by the exact curves */
    double bound_s;  /* lower bound */
    double *stage_s; /* [nstages] */
    int nbindings;   /* largest first */
    struct mt_binding *bindings;
    double even_s, proportional_s; /* of those shares; infinity where they do not fit into memory */
    bool exact;                    /* proven optimal: bound_s equals step_s */
    int64_t work;                  /* how often a rank's costs were looked up */
};

/* The step's time of given shares by the exact curves; infinity when a rank's memory does not hold them. */
double mt_balance_time(const struct mt_balance *problem, const int64_t *sizes, double *stage_s);

/* MT_EINPUT when no shares fit into memory (names the class and what it lacks), and for invalid curves, starts and
 * counts; MT_EMISSING without GLPK. Release balanced->arena. */
enum mt_status mt_balance_solve(const struct mt_balance *problem, struct mt_balanced *balanced, struct mt_err *err);

#endif
