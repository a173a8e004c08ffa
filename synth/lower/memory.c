/* Placement by decreasing size, each item into the smallest gap between the items whose lifetimes overlap its own. */
#include "synth/lower/memory.h"

#include <limits.h>
#include <stdlib.h>

#include "kernels/base/arena.h"
#include "synth/lower/gaps.h"

static int larger_first(const void *left, const void *right) {
    const struct mt_memory_item *a = *(struct mt_memory_item *const *)left, *b = *(struct mt_memory_item *const *)right;
    if (a->size_bytes != b->size_bytes) return a->size_bytes < b->size_bytes ? 1 : -1;
    return (a > b) - (a < b);
}

static struct mt_lifetime lifetime_of(const struct mt_memory_item *item, const int (*seen)[MT_MOST_STREAMS],
                                      int nstreams) {
    struct mt_lifetime life;
    for (int t = 0; t < nstreams; t++) {
        life.last[t] = item->last[t];
        life.known[t] = INT_MAX;
        for (int s = 0; s < nstreams; s++)
            if (item->first[s] >= 0 && seen[item->first[s]][t] < life.known[t]) life.known[t] = seen[item->first[s]][t];
    }
    return life;
}

int64_t mt_memory_place(struct mt_memory_item *items, int nitems, const int (*seen)[MT_MOST_STREAMS], int nstreams,
                        int64_t base_bytes, int64_t *steps) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_memory_item **order = mt_new(&arena, struct mt_memory_item *, nitems);
    struct mt_lifetime *lifetimes = mt_new(&arena, struct mt_lifetime, nitems);
    int64_t top = base_bytes;
    int n = 0;
    for (int i = 0; i < nitems; i++) {
        items[i].offset_bytes = base_bytes;
        if (items[i].size_bytes > 0) order[n++] = &items[i];
    }
    qsort(order, (size_t)n, sizeof(struct mt_memory_item *), larger_first);
    for (int i = 0; i < n; i++) lifetimes[i] = lifetime_of(order[i], seen, nstreams);
    struct mt_gaps *gaps = mt_gaps_new(lifetimes, n, nstreams);
    for (int i = 0; i < n; i++) {
        int64_t size = mt_memory_round(order[i]->size_bytes), begin = mt_gaps_smallest(gaps, i, size, base_bytes);
        order[i]->offset_bytes = begin;
        mt_gaps_place(gaps, i, begin, begin + size);
        if (begin + size > top) top = begin + size;
    }
    if (steps) *steps = mt_gaps_steps(gaps);
    mt_gaps_free(gaps);
    mt_arena_release(&arena);
    return top;
}
