/* Memory from lifetimes: offsets for items such that two share bytes only if every use of one is known to end before
 * any use of the other begins.
 *
 *   stream    instructions are numbered from 0 in one sequence; each is on one of nstreams streams, which run in order
 *   lifetime  an item's first and last use on each stream
 *   seen      a vector clock: seen[i][t] is the last instruction of stream t that has ended when i starts, or -1
 *
 *     struct mt_memory_item items[] = {{.size_bytes = 256, .first = {0, -1}, .last = {3, -1}}, ...};
 *     int64_t end_bytes = mt_memory_place(items, nitems, seen, 2, 0, NULL); */
#ifndef MT_SYNTH_LOWER_MEMORY_H
#define MT_SYNTH_LOWER_MEMORY_H

#include <stdint.h>

/* Streams beyond these two copy. */
enum { MT_STREAM_COMPUTE, MT_STREAM_COMM, MT_MOST_STREAMS = 8 };

#define MT_MEMORY_ALIGN 64
static inline int64_t mt_memory_round(int64_t size_bytes) {
    return (size_bytes + MT_MEMORY_ALIGN - 1) / MT_MEMORY_ALIGN * MT_MEMORY_ALIGN;
}

struct mt_memory_item {
    int64_t size_bytes;
    /* The first and last use on each stream, or -1; last INT_MAX: to the end of the step. */
    int first[MT_MOST_STREAMS], last[MT_MOST_STREAMS];
    int64_t offset_bytes; /* out */
};

/* Place the items from `base_bytes` up; returns the end of the highest. Best fit by decreasing size: each item goes
 * into the smallest gap between those placed items that it may not overlap, the lowest of equal gaps; within a few
 * percent of the peak of live bytes. `steps`, if not null, gets the number of placed items and groups of items that
 * were examined: O(n log n) where lifetimes nest or follow each other, as those of layers do; O(n^2) in the worst case.
 */
int64_t mt_memory_place(struct mt_memory_item *items, int nitems, const int (*seen)[MT_MOST_STREAMS], int nstreams,
                        int64_t base_bytes, int64_t *steps);

#endif
