/* A plan on other ranks than it was made for: what it says of ranks that are still there. */
#include <stdlib.h>
#include <string.h>

#include "planner/balance/split.h"
#include "planner/make/make.h"

static bool same_rank(const struct mt_plan_rank *a, const struct mt_plan_rank *b) {
    return !strcmp(a->host, b->host) && !strcmp(a->class, b->class);
}

/* new_of[old's nranks]: the rank of `to` with the same host and class, in order; -1: it is gone. */
static int match(const struct mt_plan *old, const struct mt_plan *to, int *new_of) {
    bool *taken = mt_calloc((size_t)to->nranks, sizeof *taken);
    int found = 0;
    for (int r = 0, next = 0; r < old->nranks; r++) {
        new_of[r] = -1;
        for (int i = 0; i < to->nranks && new_of[r] < 0; i++) { /* from where the last was found: often the next one */
            int at = (next + i) % to->nranks;
            if (!taken[at] && same_rank(&old->ranks[r], &to->ranks[at])) new_of[r] = at, taken[at] = true;
        }
        if (new_of[r] >= 0) next = new_of[r] + 1;
        found += new_of[r] >= 0 && mt_plan_place(old, r) >= 0;
    }
    free(taken);
    return found;
}

/* Whether hosts, or the ranks of a host, have shares of their own, which are of no use without some of the ranks. */
static bool divides_hosts(const struct mt_plan *plan) {
    bool divides = false;
    for (int s = 0; s < plan->nsplits; s++) divides |= plan->splits[s].over != MT_OVER_ALL;
    return divides;
}

/* Shares of the ranks that are there; those of the others are divided among them in proportion. */
static enum mt_status carry_split(const struct mt_plan *old, int s, const int *new_of, struct mt_plan *to,
                                  struct mt_err *err) {
    const struct mt_plan_split *from = &old->splits[s];
    struct mt_plan_split *split = &to->splits[s];
    int64_t extent = 0, kept = 0;
    double *weight = mt_new(&to->arena, double, to->nranks);
    *split = (struct mt_plan_split){mt_arena_strdup(&to->arena, from->name), mt_arena_strdup(&to->arena, from->label),
                                    from->align, mt_new(&to->arena, int64_t, to->nranks), from->over};
    for (int r = 0; r < old->nranks; r++) {
        extent += from->sizes[r];
        if (new_of[r] < 0) continue;
        kept += split->sizes[new_of[r]] = from->sizes[r];
        weight[new_of[r]] = (double)from->sizes[r];
    }
    if (kept == extent || from->over != MT_OVER_ALL) return MT_OK;
    for (int i = 0; i < to->nplaces && !kept; i++) weight[to->order[i]] = 1;
    return mt_split_proportional(extent, from->align, weight, to->nranks, split->sizes, err);
}

enum mt_status mt_plan_carry(const struct mt_plan *old, const struct mt_plan *ranks, struct mt_plan **carried,
                             struct mt_err *err) {
    struct mt_plan *to = mt_plan_new(ranks->nranks);
    int *new_of = mt_new(&to->arena, int, old->nranks);
    enum mt_status st = MT_OK;
    *carried = NULL;
    int found = match(old, ranks, new_of);
    if (!found || (divides_hosts(old) && (found < old->nplaces || old->nranks != ranks->nranks))) {
        mt_plan_free(to);
        return MT_OK;
    }
    to->nplaces = 0;
    for (int i = 0; i < old->nplaces; i++)
        if (new_of[old->order[i]] >= 0) to->order[to->nplaces++] = new_of[old->order[i]];
    to->device = mt_arena_strdup(&to->arena, ranks->device);
    to->model = mt_arena_strdup(&to->arena, old->model);
    to->job = old->job;
    to->nsplits = old->nsplits;
    to->splits = mt_new(&to->arena, struct mt_plan_split, old->nsplits);
    for (int s = 0; s < old->nsplits && !st; s++) st = carry_split(old, s, new_of, to, err);
    const struct mt_plan_split *batch = st ? NULL : mt_plan_split_named(to, "batch");
    for (int r = 0; r < old->nranks && batch; r++)
        if (new_of[r] >= 0) to->micro[new_of[r]] = old->micro[r];
    for (int r = 0; r < to->nranks && batch; r++) {
        int64_t share = batch->sizes[r], micro = to->micro[r] ? to->micro[r] : share;
        to->micro[r] = micro < share ? micro : share;
    }
    to->decisions = mt_decisions_copy(&old->decisions, &to->arena);
    if (st)
        mt_plan_free(to);
    else
        *carried = to;
    return st;
}
