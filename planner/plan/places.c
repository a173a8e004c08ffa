/* Ranks of the plan and places of its program: who takes part, and where. */
#include <string.h>

#include "planner/plan/plan.h"

int mt_plan_place(const struct mt_plan *plan, int rank) {
    for (int i = 0; i < plan->nplaces; i++)
        if (plan->order[i] == rank) return i;
    return -1;
}

int *mt_plan_places(const struct mt_plan *plan, struct mt_arena *arena) {
    int *place = mt_new(arena, int, plan->nranks);
    memset(place, -1, (size_t)plan->nranks * sizeof *place);
    for (int i = 0; i < plan->nplaces; i++) place[plan->order[i]] = i;
    return place;
}

bool mt_plan_in_order(const struct mt_plan *plan) {
    for (int i = 0; i < plan->nplaces; i++)
        if (plan->order[i] != i) return false;
    return plan->nplaces == plan->nranks;
}

int64_t *mt_plan_at_places(const struct mt_plan *plan, const int64_t *of_rank, struct mt_arena *arena) {
    int64_t *of_place = mt_new(arena, int64_t, plan->nplaces);
    for (int i = 0; i < plan->nplaces; i++) of_place[i] = of_rank[plan->order[i]];
    return of_place;
}
