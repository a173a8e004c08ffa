/* Inside balance: the prepared problem, and divisions of the extents as groups of ranks.
 *
 * Prepared means: curves end at the extent, and ranks of a class are counted, not listed. A division lists groups: how
 * many ranks of a class have the same shares. */
#ifndef MT_PLANNER_BALANCE_INTERNAL_H
#define MT_PLANNER_BALANCE_INTERNAL_H

#include "planner/balance/balance.h"

struct balance_curve {
    int n;                      /* points; 0: zero everywhere */
    double *at, *value, *slope; /* slope of the segment that begins at the point; 0 at the last */
};

struct balance {
    const struct mt_balance *problem;
    struct mt_arena arena;
    int nclasses, nsplits, nstages;
    int64_t *nranks; /* [nclasses] */
    int64_t *extent, *align;
    struct balance_curve *compute, *comm; /* [(stage nsplits + split) nclasses + class] */
    struct balance_curve *memory;         /* [split nclasses + class] */
    /* A rank's costs as a row: compute and communication of every stage, and memory. fixed[class width]; of whole units
     * of a split, cost[split nclasses + class][units width], or null where there are too many of them. */
    int width;
    double *fixed, **cost;
    double least_t[MT_BALANCE_MOST_STAGES]; /* lower bound of each stage, seconds */
    double end_s;                           /* of mt_now_s: when to stop the search */
    int64_t work;
};

struct balance_group {
    int class;
    int64_t count;
    int64_t x[MT_BALANCE_MOST_SPLITS];
    double t[MT_BALANCE_MOST_STAGES]; /* seconds of each stage */
    double over;                      /* of one rank: memory beyond the limit, relative to it */
};
struct balance_state {
    int ngroups, capacity;
    struct balance_group *groups;
    double over, step_s; /* of all ranks */
};

enum mt_status mt_balance_prepare(struct balance *b, const struct mt_balance *problem, struct mt_err *err);
static inline double balance_larger(double a, double b) {
    return a > b ? a : b;
} /* fmax is a call */
double mt_balance_curve_at(const struct balance_curve *curve, double share);
/* Fill in t and over of a rank of group->class with the shares group->x. */
void mt_balance_rank(struct balance *b, struct balance_group *group);
/* What a rank with these shares holds, bytes. */
double mt_balance_memory(const struct balance *b, int class, const int64_t *x);
bool mt_balance_time_is_up(const struct balance *b);

/* States own their groups: release with mt_balance_state_release. Shares are [split nranks + rank] of all splits of the
 * problem; which rank of a class has which is by size, largest first. */
void mt_balance_state_from(struct balance *b, const int64_t *sizes, struct balance_state *state);
void mt_balance_state_sizes(const struct balance *b, const struct balance_state *state, int64_t *sizes);
void mt_balance_state_copy(const struct balance_state *from, struct balance_state *to);
void mt_balance_state_release(struct balance_state *state);
/* `count` more ranks (less, if negative) with the class, shares, t and over of `like`. */
void mt_balance_state_add(struct balance_state *state, const struct balance_group *like, int64_t count);
void mt_balance_state_measure(const struct balance *b, struct balance_state *state);  /* over and step_s */
bool mt_balance_better(const struct balance_state *a, const struct balance_state *b); /* smaller over, then step_s */
/* Shares of each class: of split s, total[s nclasses + class] divided over its ranks as evenly as alignment allows;
 * totals sum to the extent and are multiples of align but one. */
void mt_balance_state_of_totals(struct balance *b, const int64_t *total, struct balance_state *state);

/* The linear relaxation: a lower bound, dual values, and a division to start from. scale_s: about the step's time. */
struct balance_relaxed {
    double bound_s;
    double *share; /* [split nclasses + class]: of a rank, on average */
    int nbindings;
    struct mt_binding *bindings; /* in the balance's arena */
};
enum mt_status mt_balance_relax(struct balance *b, double scale_s, struct balance_relaxed *relaxed, struct mt_err *err);
/* The integer programme. total: as in mt_balance_state_of_totals. MT_ESTALL when its limits passed without a solution.
 */
enum mt_status mt_balance_integers(struct balance *b, double scale_s, int64_t *total, struct mt_err *err);

/* Improve by moves until none helps, or most_work look-ups were made. */
void mt_balance_descend(struct balance *b, struct balance_state *state, int64_t most_work);
/* Iterated local search: random changes of the best, each with a descent, until step_s <= good_s. */
void mt_balance_kick(struct balance *b, struct balance_state *best, double good_s, int64_t most_work);

/* Fill in least_t. Returns the sum, a lower bound of the step. */
double mt_balance_least_times(struct balance *b);
/* One split in one stage with curves that never fall: the division with the stage's least time, or nearly where a
 * ragged share prevents it. False where it does not apply. */
bool mt_balance_bisect(struct balance *b, struct balance_state *state);
/* A dynamic programme over ranks for a division faster than `best`, which it replaces. True when the search was
 * complete: `best` is optimal. */
bool mt_balance_exact(struct balance *b, struct balance_state *best, int64_t most_work);

#endif
