/* Patterns by number. */
#include "planner/plan/patterns.h"

#include <fnmatch.h>
#include <string.h>

#include "kernels/base/number/hash.h"

void mt_patterns_open(struct mt_patterns *p, struct mt_arena *arena, int most) {
    int nslots = 16;
    while (nslots < 2 * (most + 1)) nslots *= 2;
    *p = (struct mt_patterns){.mask = nslots - 1,
                              .items = mt_new(arena, const char *, most + 1),
                              .prefix = mt_new(arena, int, most + 1),
                              .wild = mt_new(arena, int, most + 1),
                              .slots = mt_new(arena, int, nslots),
                              .next = mt_new(arena, int, most + 1)};
}

/* The slot of an equal pattern without wildcards, or the free one where it belongs. */
static int *slot_of(const struct mt_patterns *p, const char *text) {
    uint64_t at = mt_hash64(text, strlen(text), 0) & (uint64_t)p->mask;
    while (p->slots[at] && strcmp(p->items[p->slots[at] - 1], text)) at = (at + 1) & (uint64_t)p->mask;
    return &p->slots[at];
}

void mt_patterns_add(struct mt_patterns *p, const char *pattern) {
    int i = p->count++, *slot;
    p->items[i] = pattern;
    p->next[i] = -1;
    p->prefix[i] = (int)strcspn(pattern, "*?[\\");
    if (pattern[p->prefix[i]]) {
        p->wild[p->nwild++] = i;
        return;
    }
    slot = slot_of(p, pattern);
    if (!*slot) {
        *slot = i + 1;
        return;
    }
    int last = *slot - 1;
    while (p->next[last] >= 0) last = p->next[last];
    p->next[last] = i;
}

int mt_patterns_next(const struct mt_patterns *p, const char *name, int after) {
    int exact = *slot_of(p, name) - 1;
    while (exact >= 0 && exact <= after) exact = p->next[exact];
    for (int k = 0; k < p->nwild; k++) {
        int i = p->wild[k];
        if (i <= after) continue;
        if (exact >= 0 && i > exact) break;
        if (!strncmp(p->items[i], name, (size_t)p->prefix[i]) && !fnmatch(p->items[i], name, 0)) return i;
    }
    return exact;
}
