/* Placement: the largest item first, each into the tightest gap between those that live when it does. */
#include "synth/memory.h"

#include <limits.h>
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

/* An item as its neighbours see it. It is before another when it ends, on each stream, no later than what the other's
 * first uses have all seen. */
struct placed {
    int64_t offset_bytes, end_bytes;
    int last[MT_NSTREAMS], seen[MT_NSTREAMS];
};

static struct placed summary(const struct mt_memory_item *item, const int (*seen)[MT_NSTREAMS]) {
    struct placed p = {.seen = {INT_MAX, INT_MAX}};
    for (int t = 0; t < MT_NSTREAMS; t++) {
        p.last[t] = item->last[t];
        for (int s = 0; s < MT_NSTREAMS; s++)
            if (item->first[s] >= 0 && seen[item->first[s]][t] < p.seen[t]) p.seen[t] = seen[item->first[s]][t];
    }
    return p;
}

static bool ends_before(const struct placed *a, const struct placed *b) {
    bool before = true;
    for (int t = 0; t < MT_NSTREAMS; t++) before &= a->last[t] <= b->seen[t];
    return before;
}

/* The offset of the tightest gap that takes `item` between the placed items (in order of offset) that it conflicts
 * with.
 */
static int64_t best_gap(const struct placed *item, int64_t size, const struct placed *items, const int *order,
                        int count, int64_t base_bytes) {
    int64_t end = base_bytes, best = -1, best_gap_bytes = INT64_MAX;
    for (int i = 0; i < count; i++) {
        const struct placed *other = &items[order[i]];
        if (other->end_bytes <= end || ends_before(item, other) || ends_before(other, item)) continue;
        int64_t gap = other->offset_bytes - end;
        if (gap >= size && gap < best_gap_bytes) best = end, best_gap_bytes = gap;
        end = other->end_bytes;
    }
    return best >= 0 ? best : end;
}

/* Where an item belongs among those in order of offset. */
static int place_of(int64_t offset_bytes, const struct placed *items, const int *order, int count) {
    int low = 0, high = count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (items[order[middle]].offset_bytes <= offset_bytes)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int64_t mt_memory_place(struct mt_memory_item *items, int nitems, const int (*seen)[MT_NSTREAMS], int64_t base_bytes) {
    size_t n = (size_t)nitems + 1;
    struct mt_memory_item **largest = mt_calloc(n, sizeof(struct mt_memory_item *));
    struct placed *placed = mt_calloc(n, sizeof *placed);
    int *order = mt_calloc(n, sizeof *order), nplaced = 0;
    int64_t top = base_bytes;
    for (int i = 0; i < nitems; i++) largest[i] = &items[i];
    qsort(largest, (size_t)nitems, sizeof(struct mt_memory_item *), larger_first);
    for (int i = 0; i < nitems; i++) {
        struct mt_memory_item *item = largest[i];
        int64_t size = mt_memory_round(item->size_bytes);
        item->offset_bytes = base_bytes;
        if (size == 0) continue;
        struct placed *p = &placed[nplaced];
        *p = summary(item, seen);
        item->offset_bytes = p->offset_bytes = best_gap(p, size, placed, order, nplaced, base_bytes);
        p->end_bytes = p->offset_bytes + size;
        int at = place_of(p->offset_bytes, placed, order, nplaced);
        memmove(order + at + 1, order + at, (size_t)(nplaced - at) * sizeof *order);
        order[at] = nplaced++;
        if (p->end_bytes > top) top = p->end_bytes;
    }
    free(order);
    free(placed);
    free(largest);
    return top;
}
