/* Regions: lists of disjoint boxes. Taking boxes out of a region until it is empty shows that they cover it. */
#ifndef MT_SYNTH_LAYOUT_REGION_H
#define MT_SYNTH_LAYOUT_REGION_H

#include "synth/layout/layout.h"

struct mt_region { /* {0} is empty; the boxes are in the arena that each change is given */
    struct mt_box *boxes;
    int count, capacity;
};

/* Add a box that overlaps none of the region's; an empty one is left out. */
void mt_region_add(struct mt_region *region, struct mt_arena *arena, const struct mt_box *box, int naxes);

/* Move the part of `region` that lies in `box` to `taken`. */
void mt_region_take(struct mt_region *region, struct mt_arena *arena, const struct mt_box *box, int naxes,
                    struct mt_region *taken);

/* The same for a box that is the front of the region along one axis, or all of it, without memory: blocks that tile a
 * box are mostly taken in order. False, and nothing changes, if it is not. */
bool mt_region_take_front(struct mt_region *region, const struct mt_box *box, int naxes);

#endif
