/* The frontier programme: one alternative for each group of operators, such that operators and conversions together
 * cost least.
 *
 *   group        operators that are decided together: one operator, or a bundle of a forward operator and its backward
 *   alternative  one way to run a group: what it costs, which layout it makes of each value that the group makes, and
 *                which layouts it wants of the others
 *   value        made by one group in one layout, wanted by groups in several; each wanted layout is converted once,
 *                from the cheapest of those that are held by then
 *   frontier     the values that some, but not all of their groups have decided about
 *   state        of the frontier: for each of its values the layout that is made (once its maker has decided) and the
 *                set of layouts that are wanted so far
 *
 * The programme is a dynamic programme over groups in the given order: of all partial choices that lead to equal states
 * the cheapest is kept. It is exact, because the rest of the cost depends on the state alone; it is fast where groups
 * are ordered such that the frontier stays narrow, as forward operators each followed by their backward operators do in
 * a chain of layers. (Bertele and Brioschi, "Nonserial dynamic programming", 1972; over the frontier of a graph of
 * operators: Cai et al., "TensorOpt", IEEE TPDS 2021.)
 *
 *     struct mt_frontier problem = {.nvalues = .., .values = .., .ngroups = .., .groups = .., .most_states = 20000};
 *     struct mt_frontier_solution solution;
 *     mt_frontier_solve(&problem, &arena, &solution);      // solution.choice[group], solution.cost_s
 *
 * Times are seconds, or any unit; they are finite and not negative. A conversion that is impossible is INFINITY. */
#ifndef MT_PLANNER_FRONTIER_FRONTIER_H
#define MT_PLANNER_FRONTIER_FRONTIER_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/arena.h"

enum { MT_FRONTIER_LAYOUTS = 57 }; /* of one value */

/* Of a value: shared by values that are alike, by pointer. A conversion that is NAN is asked for when it is needed
 * first: most never are. */
struct mt_frontier_table {
    int nlayouts;
    double *convert_s; /* [from nlayouts + to]; 0 on the diagonal */
    double (*price)(const struct mt_frontier_table *table, int from, int to); /* or null: there is no NAN */
    const void *context;                                                      /* the asker's */
};

struct mt_frontier_alternative {
    double cost_s;
    /* [values of the group] */
    const int *made;        /* the layout that the group makes of the value, or -1: another group makes it */
    const uint64_t *wanted; /* the set of layouts that the group's operators read */
};

/* Groups with equal alternatives share them, by pointer. */
struct mt_frontier_kind {
    int nvalues, nalternatives;
    const struct mt_frontier_alternative *alternatives;
};
struct mt_frontier_group {
    const struct mt_frontier_kind *kind;
    const int *values; /* [kind->nvalues], each once */
};

struct mt_frontier {
    int nvalues, ngroups;
    const struct mt_frontier_table *const *tables; /* [nvalues] */
    const struct mt_frontier_group *groups;
    /* Layers: `nlayers` runs of `layer` groups from group `first` on, in which groups at the same place are of one kind
     * and their values at the same place have one table. 0: none. They only save time. */
    int first, layer, nlayers;
    int most_states; /* of one frontier; more are cut, the costliest first. 0: any number */
    double far_s;    /* a choice of few states that costs more is not improved by more of them; 0: any is */
};

struct mt_frontier_solution {
    int *choice; /* [ngroups], in the arena */
    double cost_s;
    bool exact;      /* no state was cut: nothing costs less */
    int64_t nstates; /* that were looked at */
};

/* The cheapest choice. Costs O(states x alternatives) a group; equal layers are solved until their frontiers repeat.
 * False where every choice needs an impossible conversion (or, with most_states, none was found without). */
bool mt_frontier_solve(const struct mt_frontier *problem, struct mt_arena *arena,
                       struct mt_frontier_solution *solution);

/* What a choice costs. */
double mt_frontier_cost(const struct mt_frontier *problem, const int *choice);

/* What it costs to have the layouts `wanted` of a value that is made in `made`: the cheapest tree of conversions from
 * there, over layouts that are wanted. Exact for up to 12 layouts, from then on the cheapest next one each time. */
double mt_frontier_serve(const struct mt_frontier_table *table, int made, uint64_t wanted);

#endif
