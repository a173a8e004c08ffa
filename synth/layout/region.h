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

#endif
