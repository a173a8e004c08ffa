/* Inside the search over the whole space.
 *
 *   divide.c    which candidates are tried
 *   strategy.c  strategies as constraints
 *   splits.c    first shares of all labels, by the ranks' speeds
 *   shares.c    shares of all labels together, by what operators take on each rank (GLPK)
 *   rows.c      a choice as rows of a plan
 *   bound.c     a lower bound on all programs
 *   memory.c    how many micro-batches a candidate needs at least
 *   judge.c     a candidate becomes a program, and the program a prediction */
#ifndef MT_PLANNER_DIVIDE_INTERNAL_H
#define MT_PLANNER_DIVIDE_INTERNAL_H

#include "planner/divide/divide.h"
#include "planner/frontier/space.h"

struct mt_dividing {
    const struct mt_divide *divide;
    struct mt_divide_found *found;
    struct mt_arena *arena; /* found's */
    int nranks, nnodes;
    struct mt_mesh mesh;
    enum mt_label_kind *kind; /* [labels] */
    bool nodes;               /* several nodes, one of them with several ranks */
    double *speed;            /* [nranks]: of the whole step, relative */
    struct mt_err *err;
};

/* The splits that a strategy may use: for computing, and for storage. In the arena. */
struct divide_splits {
    struct mt_split *items;         /* [n]: samples first, then what else computing uses, then storage */
    const struct mt_split *compute; /* [ncompute], then [nstorage]: in items */
    int n, ncompute, nstorage;
    const struct mt_split *hosts; /* of samples among nodes; or null */
};
enum mt_status mt_divide_splits(struct mt_dividing *d, const struct mt_strategy *strategy,
                                struct divide_splits *splits);
/* Divide a label among the members of an axis in proportion to weights ([nranks], or [nnodes]); every share a multiple
 * of `align` but one. Fills in sizes and starts. `hosts`: null, or samples among nodes, whose shares a DEVICE split of
 * samples divides. */
enum mt_status mt_divide_label(const struct mt_dividing *d, struct mt_split *split, int64_t align, const double *weight,
                               const struct mt_split *hosts);

/* Judge with as few micro-batches as fit into memory. A candidate that the builder refuses has the reason in `why`. */
enum mt_status mt_divide_judge(struct mt_dividing *d, struct mt_divided *c);

/* So many micro-batches of each rank's samples, or more, are needed for what is surely held to fit, by a count that is
 * much quicker than lowering; more than `most`: no number will do. */
int64_t mt_divide_least_micro(struct mt_dividing *d, const struct mt_choice *choice, int64_t most);

/* A copy with other shares: of all splits by the LP, from the times of its operators on each rank and its memory. Null:
 * nothing changes. */
enum mt_status mt_divide_balance(struct mt_dividing *d, const struct mt_divided *c, struct mt_divided **balanced);

/* Samples that a rank sees. */
int64_t mt_divide_samples(const struct mt_dividing *d, const struct mt_choice *choice, int rank);

/* A copy with splits of its own, to which its rules point. */
struct mt_divided *mt_divide_copy(struct mt_dividing *d, const struct mt_divided *c);

#endif
