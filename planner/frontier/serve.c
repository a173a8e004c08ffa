/* What conversions cost: a value in all layouts that are wanted of it; and all of a choice. */
#include <math.h>
#include <stdlib.h>

#include "planner/frontier/internal.h"

enum { EXACT = 12 }; /* wanted layouts, up to which all orders are compared */

/* By subsets of the wanted layouts: best[set] is the least cost to hold them all, and one more conversion adds one. */
static double in_best_order(const struct mt_frontier_table *t, int made, const int *want, int n) {
    double *best = mt_malloc(((size_t)1 << n) * sizeof *best);
    best[0] = 0;
    for (unsigned set = 1; set < 1u << n; set++) {
        best[set] = INFINITY;
        for (int j = 0; j < n; j++) {
            if (!(set >> j & 1)) continue;
            double least = mt_frontier_convert(t, made, want[j]);
            for (int i = 0; i < n; i++)
                if (i != j && set >> i & 1) least = fmin(least, mt_frontier_convert(t, want[i], want[j]));
            best[set] = fmin(best[set], best[set & ~(1u << j)] + least);
        }
    }
    double all = best[(1u << n) - 1];
    free(best);
    return all;
}

/* The cheapest next conversion each time (Prim). */
static double cheapest_next(const struct mt_frontier_table *t, int made, int *want, int n) {
    double sum = 0;
    int held[MT_FRONTIER_LAYOUTS + 1] = {made}, nheld = 1;
    while (n) {
        double least = INFINITY;
        int next = 0;
        for (int j = 0; j < n; j++)
            for (int h = 0; h < nheld; h++)
                if (mt_frontier_convert(t, held[h], want[j]) < least)
                    least = mt_frontier_convert(t, held[h], want[j]), next = j;
        if (isinf(least)) return INFINITY;
        sum += least;
        held[nheld++] = want[next];
        want[next] = want[--n];
    }
    return sum;
}

double mt_frontier_serve(const struct mt_frontier_table *t, int made, uint64_t wanted) {
    int want[MT_FRONTIER_LAYOUTS], n = 0;
    for (int l = 0; l < t->nlayouts; l++)
        if (l != made && wanted >> l & 1) want[n++] = l;
    if (!n) return 0;
    if (n == 1) return mt_frontier_convert(t, made, want[0]);
    return n <= EXACT ? in_best_order(t, made, want, n) : cheapest_next(t, made, want, n);
}

double mt_frontier_cost(const struct mt_frontier *problem, const int *choice) {
    uint64_t *word = mt_calloc((size_t)problem->nvalues + 1, sizeof *word);
    double sum = 0;
    for (int g = 0; g < problem->ngroups; g++) {
        const struct mt_frontier_group *group = &problem->groups[g];
        const struct mt_frontier_alternative *a = &group->kind->alternatives[choice[g]];
        sum += a->cost_s;
        for (int i = 0; i < group->kind->nvalues; i++) word[group->values[i]] |= mt_frontier_word(a, i);
    }
    for (int v = 0; v < problem->nvalues; v++)
        if (mt_frontier_made(word[v]) >= 0)
            sum += mt_frontier_serve(problem->tables[v], mt_frontier_made(word[v]), mt_frontier_wanted(word[v]));
    free(word);
    return sum;
}
