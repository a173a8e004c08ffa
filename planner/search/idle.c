/* Why ranks are idle, and what it would cost to use them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/ranks.h"
#include "kernels/base/text/units.h"
#include "planner/search/internal.h"

static bool has_rank(const struct search_part *part, int rank) {
    for (int i = 0; i < part->n; i++)
        if (part->rank[i] == rank) return true;
    return false;
}

/* The fastest plan that was found with a rank or one that is equal to it. */
static const struct search_subset *fastest_with(const struct search_subsets *u, int rank) {
    const struct search_places *p = u->places;
    const struct search_subset *best = NULL;
    int place = 0, cell = 0;
    while (p->rank[place] != rank) place++;
    while (cell + 1 < p->ncells && p->cells[cell + 1].first <= place) cell++;
    for (int i = 0; i < u->count; i++) {
        const struct search_subset *x = &u->items[i];
        bool with = x->of_cell[cell] > place - p->cells[cell].first;
        if (!x->searched || !isfinite(x->step_s) || !with || (best && best->step_s <= x->step_s)) continue;
        best = x;
    }
    return best;
}

/* Where most of a step goes that a rank takes part in: its rank with the least idle time. */
static const char *spent_on(const struct mt_searching *whole, const struct search_part *part, int rank,
                            struct mt_arena *arena) {
    const struct mt_plan_time *times = part->plan->prediction->times;
    char text[MT_UNITS_TEXT];
    int mine = 0, longest = 0;
    for (int i = 0; i < part->n; i++) {
        if (part->rank[i] == rank) mine = i;
        if (times[i].idle_s < times[longest].idle_s) longest = i;
    }
    const struct mt_plan_time *t = &times[longest];
    if (t->exposed_s < t->compute_s && times[mine].compute_s > 0.9 * t->compute_s)
        return mt_arena_printf(arena, "its operators take %s", mt_units_seconds(times[mine].compute_s, text));
    if (t->exposed_s < t->compute_s)
        return mt_arena_printf(arena, "operators of rank %d take %s", part->rank[longest],
                               mt_units_seconds(t->compute_s, text));
    int *everybody = mt_calloc((size_t)part->n, sizeof *everybody);
    for (int i = 0; i < part->n; i++) everybody[i] = i;
    int link = mt_cost_link(&part->costs, everybody, part->n);
    free(everybody);
    const char *name = link >= 0 ? whole->costs.cluster->links[link].name : NULL;
    return mt_arena_printf(arena, "messages%s%s take %s", name ? " over link " : "", name ? name : "",
                           mt_units_seconds(t->exposed_s, text));
}

static struct mt_plan_idle describe(const struct search_subsets *u, int rank, double step_s, struct mt_plan *plan) {
    const struct search_subset *with = fastest_with(u, rank);
    char slow[MT_UNITS_TEXT], fast[MT_UNITS_TEXT];
    struct mt_plan_idle row = {.rank = rank, .why = "slower with it, by a quick estimate"};
    if (!with) return row;
    row.step_s = with->step_s;
    if (with->step_s * (1 - 1e-9) <= step_s || !has_rank(&with->part, rank))
        row.why = "nothing is left for it to do";
    else
        row.why =
            mt_arena_printf(&plan->arena, "slower with it: %s instead of %s; %s", mt_units_seconds(with->step_s, slow),
                            mt_units_seconds(step_s, fast), spent_on(u->whole, &with->part, rank, &plan->arena));
    return row;
}

/* A row for each rank that is idle; equal ranks are described once. */
void mt_search_fill_idle(const struct search_subsets *u, const bool *allowed, struct mt_plan *plan) {
    struct mt_plan_prediction *to = plan->prediction;
    int *place = mt_plan_places(plan, &plan->arena), *place_of = mt_new(&plan->arena, int, plan->nranks);
    int *row_of_kind = mt_new(&plan->arena, int, u->places->nkinds); /* + 1 */
    to->idle = mt_new(&plan->arena, struct mt_plan_idle, plan->nranks);
    for (int i = 0; i < u->places->n; i++) place_of[u->places->rank[i]] = i;
    for (int r = 0; r < plan->nranks; r++) {
        if (place[r] >= 0) continue;
        if (allowed && !allowed[r]) {
            to->idle[to->nidle++] = (struct mt_plan_idle){.rank = r, .why = mt_plan_left_out};
            continue;
        }
        int *row = &row_of_kind[u->places->kind[place_of[r]]];
        if (*row) {
            to->idle[to->nidle] = to->idle[*row - 1];
            to->idle[to->nidle].rank = r;
        } else {
            to->idle[to->nidle] = describe(u, r, to->step_s, plan);
            *row = to->nidle + 1;
        }
        to->nidle++;
    }
}

/* ---- other subsets as rejected candidates ---- */

static const char *name_of(const struct search_subsets *u, const struct search_subset *x, struct mt_arena *arena) {
    if (x->n == u->places->n) return mt_arena_printf(arena, "all %d ranks", x->n);
    int *ranks = mt_arena_memdup(arena, x->part.rank, (size_t)x->part.n * sizeof *ranks);
    mt_ranks_sort(ranks, x->part.n);
    return mt_arena_printf(arena, "rank%s %s alone", x->n > 1 ? "s" : "",
                           mt_ranks_text(ranks, x->part.n, MT_RANKS_NAME, arena));
}

static int by_step(const void *a, const void *b) {
    const struct mt_plan_rejected *x = a, *y = b;
    if (!x->step_s != !y->step_s) return x->step_s ? -1 : 1;
    if (x->step_s != y->step_s) return x->step_s < y->step_s ? -1 : 1;
    return strcmp(x->what, y->what);
}

void mt_search_fill_other_subsets(const struct search_subsets *u, const struct search_subset *best,
                                  struct mt_plan *plan) {
    struct mt_plan_prediction *to = plan->prediction;
    struct mt_plan_rejected *rows = mt_new(&plan->arena, struct mt_plan_rejected, to->nrejected + u->count);
    if (to->nrejected) memcpy(rows, to->rejected, (size_t)to->nrejected * sizeof *rows);
    for (int i = 0; i < u->count; i++) {
        const struct search_subset *x = &u->items[i];
        bool fits = isfinite(x->step_s);
        bool unwanted = !fits && x->searched && x->part.plan->prediction; /* by samples alone, with another strategy */
        if (!x->searched || x == best || (x->is_whole && !fits) || unwanted) continue;
        rows[to->nrejected++] = (struct mt_plan_rejected){name_of(u, x, &plan->arena),
                                                          !fits                    ? "does not fit"
                                                          : x->step_s < to->step_s ? "faster by less than 0.1%"
                                                                                   : "slower",
                                                          fits ? x->step_s : 0};
    }
    if (to->nrejected) qsort(rows, (size_t)to->nrejected, sizeof *rows, by_step);
    to->rejected = rows;
}
