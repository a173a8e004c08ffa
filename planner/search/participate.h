/* Inside the search: subsets of the ranks that are compared (participate.c), and programs of the whole space among them
 * (whole.c). */
#ifndef MT_PLANNER_SEARCH_PARTICIPATE_H
#define MT_PLANNER_SEARCH_PARTICIPATE_H

#include "planner/search/internal.h"

struct participation {
    const struct mt_search *search;
    struct mt_plan *plan;    /* the caller's */
    struct mt_err *err, why; /* why: of the first failure */
    struct mt_arena arena;
    struct search_places places;
    struct search_part part; /* of all places */
    bool part_open;
    struct mt_searching whole;
    struct search_subsets subsets;
    struct mt_costs costs; /* of all ranks, with the memory of answers that all searches share */
    enum mt_use use;
    const bool *allowed;         /* [nranks], or null: all */
    double bound_s;              /* of plans by samples; below 0: not known yet */
    struct mt_divide_bound *all; /* of all programs; null: not asked for yet */
    bool pinned; /* what a person has fixed of ranks: not for other subsets than all, and those that have shares */
    int nsearched;
    int64_t spent;     /* work of evaluations (explore.c) */
    bool least_effort; /* of the next search: one evaluation */
};

/* The shortest step that a subset has; infinite: none has a plan. */
double mt_search_best_step(const struct participation *p);

/* The subset with the shortest step; among nearly equal ones that with the most ranks; null: none has a plan. */
struct search_subset *mt_search_winner(struct participation *p);

/* What no program among the ranks of a part is faster than. */
enum mt_status mt_search_bound_all(struct participation *p, const struct search_part *part, double *bound_s);

/* Open its part, which is closed with the subsets. */
void mt_search_open_subset(struct participation *p, struct search_subset *subset);

/* Whether the ranks are some of a subset that has no plan, of the same kinds: they have less memory, and no less to
 * hold. */
bool mt_search_is_part_of_failed(const struct participation *p, const struct search_subset *subset);

/* Where the weights are more than any rank holds, only programs of the whole space may fit: look for them among all
 * ranks. Nothing else needs to be searched if there is one. */
enum mt_status mt_search_divide_large(struct participation *p);

/* Look for programs of the whole space in the subsets that may win by them. */
enum mt_status mt_search_divide_subsets(struct participation *p);

#endif
