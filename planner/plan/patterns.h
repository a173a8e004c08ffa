/* Which of a list of patterns match a name. Patterns are of fnmatch; those without wildcards are found by hashing, and
 * of the others few are compared with names that begin in another way.
 *
 *     struct mt_patterns patterns;
 *     mt_patterns_open(&patterns, &arena, n);
 *     for (int i = 0; i < n; i++) mt_patterns_add(&patterns, rows[i].pattern);
 *     for (int i = mt_patterns_next(&patterns, name, -1); i >= 0; i = mt_patterns_next(&patterns, name, i)) ... */
#ifndef MT_PLANNER_PLAN_PATTERNS_H
#define MT_PLANNER_PLAN_PATTERNS_H

#include "kernels/base/arena.h"

struct mt_patterns {
    int count, nwild, mask;
    const char **items; /* [count], the caller's */
    int *prefix;        /* [count]: characters before the first wildcard */
    int *wild;          /* [nwild]: those with wildcards, in order */
    int *slots, *next;  /* of the others: the first with a hash, + 1; [count]: the next that is equal, or -1 */
};

void mt_patterns_open(struct mt_patterns *patterns, struct mt_arena *arena, int most);
void mt_patterns_add(struct mt_patterns *patterns, const char *pattern);
/* The first pattern after number `after` that matches, or -1. */
int mt_patterns_next(const struct mt_patterns *patterns, const char *name, int after);

#endif
