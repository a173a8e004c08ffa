/* Inside the frontier programme: the state of one value as a word, which layout is made and which are wanted. Words of
 * several groups are joined by OR, because one group alone makes a value. */
#ifndef MT_PLANNER_FRONTIER_INTERNAL_H
#define MT_PLANNER_FRONTIER_INTERNAL_H

#include <math.h>

#include "planner/frontier/frontier.h"

static inline uint64_t mt_frontier_word(const struct mt_frontier_alternative *a, int i) {
    return (uint64_t)(a->made[i] + 1) << MT_FRONTIER_LAYOUTS | a->wanted[i];
}
static inline int mt_frontier_made(uint64_t word) {
    return (int)(word >> MT_FRONTIER_LAYOUTS) - 1;
}
static inline uint64_t mt_frontier_wanted(uint64_t word) {
    return word & (((uint64_t)1 << MT_FRONTIER_LAYOUTS) - 1);
}

static inline double mt_frontier_convert(const struct mt_frontier_table *t, int from, int to) {
    double *known = &t->convert_s[from * t->nlayouts + to];
    if (isnan(*known)) *known = t->price(t, from, to);
    return *known;
}

#endif
