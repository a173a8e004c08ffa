/* Ranks of the plan and places of its program: who takes part, and where. */
#include <string.h>

#include "kernels/base/number/hash.h"
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

/* Hosts by name: a hash table with open addressing, of the first place on each. */
int *mt_plan_nodes(const struct mt_plan *plan, struct mt_arena *arena) {
    int *node = mt_new(arena, int, plan->nplaces), nnodes = 0, slots = 2;
    while (slots < 2 * plan->nplaces) slots *= 2;
    struct mt_arena scratch = MT_ARENA_INIT;
    int *first = mt_new(&scratch, int, slots); /* the first place of a host, + 1; 0: free */
    for (int i = 0; i < plan->nplaces; i++) {
        const char *host = plan->ranks[plan->order[i]].host;
        int at = (int)(mt_hash64(host, strlen(host), 0) % (uint64_t)slots);
        while (first[at] && strcmp(plan->ranks[plan->order[first[at] - 1]].host, host)) at = (at + 1) % slots;
        if (!first[at]) {
            first[at] = i + 1;
            node[i] = nnodes++;
        } else {
            node[i] = node[first[at] - 1];
        }
    }
    mt_arena_release(&scratch);
    return nnodes > 1 && nnodes < plan->nplaces ? node : NULL;
}
