/* Which ranks of a class get the units that are left over, when shares of equal ranks differ by one unit.
 *
 * Ranks lie node by node, and the first would get them all: then one node would send and receive more than another, and
 * a collective between nodes takes as long as its busiest node. So they go to the nodes in turn. */
#include <stdlib.h>
#include <string.h>

#include "planner/search/internal.h"

struct turn { /* of a rank */
    int class, in_node, node, rank;
};

static int by_turn(const void *a, const void *b) {
    const struct turn *x = a, *y = b;
    if (x->class != y->class) return x->class - y->class;
    if (x->in_node != y->in_node) return x->in_node - y->in_node;
    return x->node != y->node ? x->node - y->node : x->rank - y->rank;
}

static int by_size(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

void mt_search_spread(const struct mt_searching *s, int64_t *sizes) {
    int n = s->nranks, nnodes = 0;
    for (int r = 0; r < n && s->node; r++)
        if (s->node[r] >= nnodes) nnodes = s->node[r] + 1;
    if (nnodes < 2) return;
    struct turn *turns = mt_calloc((size_t)n, sizeof *turns);
    int *seen = mt_calloc((size_t)nnodes * (size_t)s->nclasses, sizeof *seen);
    int64_t *sorted = mt_calloc((size_t)n, sizeof *sorted);
    for (int r = 0; r < n; r++)
        turns[r] = (struct turn){s->class[r], seen[s->class[r] * nnodes + s->node[r]]++, s->node[r], r};
    qsort(turns, (size_t)n, sizeof *turns, by_turn);
    for (int i = 0; i < n; i++) sorted[i] = sizes[turns[i].rank];
    for (int i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && turns[end].class == turns[i].class;) end++;
        qsort(sorted + i, (size_t)(end - i), sizeof *sorted, by_size);
    }
    for (int i = 0; i < n; i++) sizes[turns[i].rank] = sorted[i];
    free(turns);
    free(seen);
    free(sorted);
}
