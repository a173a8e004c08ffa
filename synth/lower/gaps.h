/* Gaps between placed items: where an item fits that may not share bytes with items of conflicting lifetimes.
 *
 *   lifetime  what is known to end before what begins (memory.h): a may share bytes with b if a ends before b begins,
 *             or b before a; otherwise they conflict
 *   gap       a range of addresses between neighbouring items of those that conflict with one lifetime
 *
 *     struct mt_gaps *gaps = mt_gaps_new(lifetimes, n, nstreams);
 *     offset = mt_gaps_smallest(gaps, item, size_bytes, base_bytes);
 *     mt_gaps_place(gaps, item, offset, offset + size_bytes); ...
 *     mt_gaps_free(gaps); */
#ifndef MT_SYNTH_LOWER_GAPS_H
#define MT_SYNTH_LOWER_GAPS_H

#include <stdint.h>

#include "synth/lower/memory.h"

struct mt_lifetime {
    int last[MT_MOST_STREAMS];  /* the last use on each stream, -1 if there is none, INT_MAX at the end of the step */
    int known[MT_MOST_STREAMS]; /* the last instruction of each stream that has ended when the first use starts, or -1
                                 */
};

struct mt_gaps;
/* Lifetimes are copied. */
struct mt_gaps *mt_gaps_new(const struct mt_lifetime *lifetimes, int nitems, int nstreams);
void mt_gaps_free(struct mt_gaps *gaps);

/* The begin of the smallest gap of at least size_bytes (above 0) for the item, the lowest of equal ones; after all
 * conflicting items if there is none. Sizes should not increase from call to call. */
int64_t mt_gaps_smallest(struct mt_gaps *gaps, int item, int64_t size_bytes, int64_t base_bytes);
void mt_gaps_place(struct mt_gaps *gaps, int item, int64_t begin, int64_t end);

/* How many items, blocks and groups all calls have examined. */
int64_t mt_gaps_steps(const struct mt_gaps *gaps);

#endif
