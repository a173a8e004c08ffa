/* Placement by decreasing size, each item into the smallest gap between the items whose lifetimes overlap its own. */
#include "synth/lower/memory.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/base/clones.h"

static int larger_first(const void *left, const void *right) {
    const struct mt_memory_item *a = *(struct mt_memory_item *const *)left, *b = *(struct mt_memory_item *const *)right;
    if (a->size_bytes != b->size_bytes) return a->size_bytes < b->size_bytes ? 1 : -1;
    return (a > b) - (a < b);
}

#define MOST_AT_ONCE 512

/* The placed items by offset, as vectors, so that the compiler vectorises the scan over them. */
struct placed {
    int n;
    int64_t *offset, *end;
    int *last[MT_NSTREAMS], *known[MT_NSTREAMS]; /* known: the last instruction that has ended before the first use */
    unsigned char *conflict;                     /* [MOST_AT_ONCE] */
};

/* What has ended on each stream when the item's first use starts: all uses of `a` end before `b` begins if and only if
 * last[t] of a <= known[t] of b on every stream t. */
static void known_before(const struct mt_memory_item *item, const int (*seen)[MT_NSTREAMS], int known[MT_NSTREAMS]) {
    for (int t = 0; t < MT_NSTREAMS; t++) {
        known[t] = INT_MAX;
        for (int s = 0; s < MT_NSTREAMS; s++)
            if (item->first[s] >= 0 && seen[item->first[s]][t] < known[t]) known[t] = seen[item->first[s]][t];
    }
}

_Static_assert(MT_NSTREAMS == 2, "find_conflicts compares two streams");
MT_CLONES static void find_conflicts(const struct placed *p, int begin, int end, const int last[2],
                                     const int known[2]) {
    const int *restrict last0 = p->last[0], *restrict last1 = p->last[1];
    const int *restrict known0 = p->known[0], *restrict known1 = p->known[1];
    unsigned char *restrict conflict = p->conflict;
    int l0 = last[0], l1 = last[1], k0 = known[0], k1 = known[1];
    for (int i = begin; i < end; i++) {
        int before = (l0 <= known0[i]) & (l1 <= known1[i]), after = (last0[i] <= k0) & (last1[i] <= k1);
        conflict[i - begin] = !(before | after);
    }
}

/* The offset of the smallest gap of at least `size` between the placed items that conflict; an exact fit ends the
 * search. An item that ends below `end` leaves no gap, and needs no case of its own. */
static int64_t best_gap(const struct placed *p, int64_t size, const int *last, const int *known, int64_t base_bytes) {
    int64_t end = base_bytes, best = -1, best_gap_bytes = INT64_MAX;
    for (int begin = 0; begin < p->n && best_gap_bytes > size; begin += MOST_AT_ONCE) {
        int n = p->n - begin < MOST_AT_ONCE ? p->n - begin : MOST_AT_ONCE, nconflicts = 0, conflicts[MOST_AT_ONCE];
        find_conflicts(p, begin, begin + n, last, known);
        for (int i = 0; i < n; i++) { /* without branches, which would be mispredicted */
            conflicts[nconflicts] = begin + i;
            nconflicts += p->conflict[i];
        }
        for (int i = 0; i < nconflicts; i++) {
            int64_t gap = p->offset[conflicts[i]] - end, other_end = p->end[conflicts[i]];
            if (gap >= size && gap < best_gap_bytes) best = end, best_gap_bytes = gap;
            end = other_end > end ? other_end : end;
        }
    }
    return best >= 0 ? best : end;
}

static void insert(void *vector, size_t size, int at, int n, const void *item) {
    char *place = (char *)vector + (size_t)at * size;
    memmove(place + size, place, (size_t)(n - at) * size);
    memcpy(place, item, size);
}

static void place_at(struct placed *p, int64_t offset, int64_t end, const int *last, const int *known) {
    int at = 0, high = p->n; /* after all of its offset and below */
    while (at < high) {
        int middle = at + (high - at) / 2;
        if (p->offset[middle] > offset)
            high = middle;
        else
            at = middle + 1;
    }
    insert(p->offset, sizeof offset, at, p->n, &offset);
    insert(p->end, sizeof end, at, p->n, &end);
    for (int t = 0; t < MT_NSTREAMS; t++) {
        insert(p->last[t], sizeof *last, at, p->n, &last[t]);
        insert(p->known[t], sizeof *known, at, p->n, &known[t]);
    }
    p->n++;
}

int64_t mt_memory_place(struct mt_memory_item *items, int nitems, const int (*seen)[MT_NSTREAMS], int64_t base_bytes) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_memory_item **order = mt_new(&arena, struct mt_memory_item *, nitems);
    struct placed p = {.offset = mt_new(&arena, int64_t, nitems),
                       .end = mt_new(&arena, int64_t, nitems),
                       .conflict = mt_new(&arena, unsigned char, MOST_AT_ONCE)};
    for (int t = 0; t < MT_NSTREAMS; t++)
        p.last[t] = mt_new(&arena, int, nitems), p.known[t] = mt_new(&arena, int, nitems);
    int64_t top = base_bytes;
    for (int i = 0; i < nitems; i++) order[i] = &items[i];
    qsort(order, (size_t)nitems, sizeof(struct mt_memory_item *), larger_first);
    for (int i = 0; i < nitems; i++) {
        struct mt_memory_item *item = order[i];
        item->offset_bytes = base_bytes;
        if (item->size_bytes == 0) continue;
        int known[MT_NSTREAMS];
        known_before(item, seen, known);
        int64_t size = mt_memory_round(item->size_bytes);
        item->offset_bytes = best_gap(&p, size, item->last, known, base_bytes);
        int64_t end = item->offset_bytes + size;
        place_at(&p, item->offset_bytes, end, item->last, known);
        if (end > top) top = end;
    }
    mt_arena_release(&arena);
    return top;
}
