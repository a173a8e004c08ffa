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

/* host[n]: numbers of the hosts of some ranks, from 0 by first of them; returns how many there are. A hash table of
 * names with open addressing. */
static int number_hosts(const struct mt_plan *plan, const int *rank, int n, int *host) {
    int nhosts = 0, slots = 2;
    while (slots < 2 * n) slots *= 2;
    struct mt_arena scratch = MT_ARENA_INIT;
    int *first = mt_new(&scratch, int, slots); /* the first on a host, + 1; 0: free */
    for (int i = 0; i < n; i++) {
        const char *name = plan->ranks[rank ? rank[i] : i].host;
        int at = (int)(mt_hash64(name, strlen(name), 0) % (uint64_t)slots);
        while (first[at] && strcmp(plan->ranks[rank ? rank[first[at] - 1] : first[at] - 1].host, name))
            at = (at + 1) % slots;
        if (!first[at]) first[at] = i + 1, host[i] = nhosts++;
        host[i] = host[first[at] - 1];
    }
    mt_arena_release(&scratch);
    return nhosts;
}

int *mt_plan_hosts(const struct mt_plan *plan, struct mt_arena *arena, int *nhosts) {
    int *host = mt_new(arena, int, plan->nranks);
    *nhosts = number_hosts(plan, NULL, plan->nranks, host);
    return host;
}

int *mt_plan_nodes(const struct mt_plan *plan, struct mt_arena *arena) {
    int *node = mt_new(arena, int, plan->nplaces);
    int nnodes = number_hosts(plan, plan->order, plan->nplaces, node);
    return nnodes > 1 && nnodes < plan->nplaces ? node : NULL;
}

bool mt_plan_is_flat(const struct mt_plan *plan) {
    const struct mt_decisions *d = &plan->decisions;
    bool flat = true;
    for (int s = 0; s < plan->nsplits; s++) flat &= plan->splits[s].over == MT_OVER_ALL;
    for (int i = 0; i < d->nrules; i++) flat &= !d->rules[i].levels.ninner;
    for (int i = 0; i < d->nstorage; i++) flat &= !mt_storage_row_names_split(&d->storage[i]);
    return flat;
}

int64_t mt_plan_split_sum(const struct mt_plan *plan, const struct mt_plan_split *split) {
    struct mt_arena arena = MT_ARENA_INIT;
    int nhosts, *host = mt_plan_hosts(plan, &arena, &nhosts);
    int64_t sum = 0, *of_host = mt_new(&arena, int64_t, nhosts);
    for (int r = 0; r < plan->nranks; r++) {
        sum += split->sizes[r];
        if (split->sizes[r]) of_host[host[r]] = split->sizes[r];
    }
    if (split->over == MT_OVER_HOST) sum = 0;
    for (int h = 0; h < nhosts && split->over == MT_OVER_HOST; h++) sum += of_host[h];
    mt_arena_release(&arena);
    return sum;
}

/* Move the items of ranks that take part to the front; place[nranks]. */
static void keep(void *items, size_t item_bytes, const int *place, int nranks) {
    char *to = items;
    for (int r = 0; r < nranks; r++) {
        if (place[r] < 0) continue;
        memmove(to, (char *)items + (size_t)r * item_bytes, item_bytes);
        to += item_bytes;
    }
}

void mt_plan_drop_idle(struct mt_plan *p) {
    struct mt_arena arena = MT_ARENA_INIT;
    const int *place = mt_plan_places(p, &arena);
    int n = p->nranks, kept = 0;
    keep(p->ranks, sizeof *p->ranks, place, n);
    keep(p->micro, sizeof *p->micro, place, n);
    keep(p->memory, sizeof *p->memory, place, n);
    for (int s = 0; s < p->nsplits; s++) keep(p->splits[s].sizes, sizeof *p->splits[s].sizes, place, n);
    if (p->prediction) {
        keep(p->prediction->times, sizeof *p->prediction->times, place, n);
        p->prediction->nidle = 0;
    }
    for (int r = 0; r < n; r++)
        if (place[r] >= 0) p->order[place[r]] = kept++;
    p->nranks = kept;
    mt_arena_release(&arena);
}

static struct mt_plan_idle reason_of(const struct mt_plan_prediction *before, int rank, const char *why) {
    for (int i = 0; before && i < before->nidle; i++)
        if (before->idle[i].rank == rank) return before->idle[i];
    return (struct mt_plan_idle){.rank = rank, .why = why};
}

void mt_plan_explain_idle(struct mt_plan *p, const struct mt_plan_prediction *before, const char *why) {
    struct mt_arena arena = MT_ARENA_INIT;
    const int *place = mt_plan_places(p, &arena);
    struct mt_plan_prediction *f = p->prediction;
    f->nidle = 0;
    f->idle = mt_new(&p->arena, struct mt_plan_idle, p->nranks - p->nplaces);
    for (int r = 0; r < p->nranks; r++)
        if (place[r] < 0) f->idle[f->nidle++] = reason_of(before, r, why);
    mt_arena_release(&arena);
}
