/* Placement: the largest item first, each into the tightest gap between those that live when it does. */
#include "synth/memory.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"

bool mt_memory_before(const struct mt_memory_item *a, const struct mt_memory_item *b, const int (*seen)[MT_NSTREAMS]) {
    for (int s = 0; s < MT_NSTREAMS; s++)
        for (int t = 0; t < MT_NSTREAMS && b->first[s] >= 0; t++)
            if (a->last[t] > seen[b->first[s]][t]) return false;
    return true;
}

static int larger_first(const void *left, const void *right) {
    const struct mt_memory_item *a = *(struct mt_memory_item *const *)left, *b = *(struct mt_memory_item *const *)right;
    if (a->size_bytes != b->size_bytes) return a->size_bytes < b->size_bytes ? 1 : -1;
    return (a > b) - (a < b);
}

/* The offset of the tightest gap that takes `item` between the placed items (sorted by offset) that it conflicts with.
 */
static int64_t best_gap(const struct mt_memory_item *item, struct mt_memory_item *const *placed, int nplaced,
                        const int (*seen)[MT_NSTREAMS], int64_t base_bytes) {
    int64_t size = mt_memory_round(item->size_bytes), end = base_bytes, best = -1, best_gap_bytes = INT64_MAX;
    for (int i = 0; i < nplaced; i++) {
        const struct mt_memory_item *other = placed[i];
        int64_t gap = other->offset_bytes - end, other_end = other->offset_bytes + mt_memory_round(other->size_bytes);
        if (other_end <= end || mt_memory_before(item, other, seen) || mt_memory_before(other, item, seen)) continue;
        if (gap >= size && gap < best_gap_bytes) best = end, best_gap_bytes = gap;
        end = other_end;
    }
    return best >= 0 ? best : end;
}

int64_t mt_memory_place(struct mt_memory_item *items, int nitems, const int (*seen)[MT_NSTREAMS], int64_t base_bytes) {
    struct mt_memory_item **order = mt_calloc((size_t)nitems + 1, sizeof(struct mt_memory_item *));
    struct mt_memory_item **placed = mt_calloc((size_t)nitems + 1, sizeof(struct mt_memory_item *));
    int nplaced = 0;
    int64_t top = base_bytes;
    for (int i = 0; i < nitems; i++) order[i] = &items[i];
    qsort(order, (size_t)nitems, sizeof(struct mt_memory_item *), larger_first);
    for (int i = 0; i < nitems; i++) {
        struct mt_memory_item *item = order[i];
        item->offset_bytes = base_bytes;
        if (item->size_bytes == 0) continue;
        item->offset_bytes = best_gap(item, placed, nplaced, seen, base_bytes);
        int at = nplaced++;
        while (at > 0 && placed[at - 1]->offset_bytes > item->offset_bytes) placed[at] = placed[at - 1], at--;
        placed[at] = item;
        int64_t end = item->offset_bytes + mt_memory_round(item->size_bytes);
        if (end > top) top = end;
    }
    free(placed);
    free(order);
    return top;
}
