/* Covers of a layout that need not be interned: how they are told apart, and whether they have everything. */
#ifndef MT_SYNTH_LAYOUT_COVER_H
#define MT_SYNTH_LAYOUT_COVER_H

#include "synth/layout/layout.h"

/* component[nranks]: ranks of equal tags have equal numbers if their boxes are connected by overlaps of boxes with that
 * tag; -1 for an empty box. Returns how many there are. O(n log n) if boxes do not overlap much along some axis. */
int mt_cover_components(const struct mt_layout *layout, int nranks, const int *tag, int *component);

/* Bring parts, covers and boxes of a layout into canonical form (mt_layout_intern); cover and cover_parts are made in
 * `arena`. */
void mt_cover_canonical(struct mt_layout *layout, int nranks, struct mt_arena *arena);

/* Whether every element is in some cover, and in all parts of its covers. If not, *part (-1: any) is held by no rank at
 * hole[naxes]. */
bool mt_cover_complete(const struct mt_layout *layout, int nranks, int *part, int64_t *hole);

#endif
