/* Regions: lists of disjoint boxes, from which boxes are taken until nothing is left to cover. */
#ifndef MT_SYNTH_LAYOUT_REGION_H
#define MT_SYNTH_LAYOUT_REGION_H

#include "synth/layout/layout.h"

struct mt_region { /* {0} is empty; the boxes live in the arena that is given with each change */
    struct mt_box *boxes;
    int count, capacity;
};

/* Add a box; one without elements is left out. */
void mt_region_add(struct mt_region *region, struct mt_arena *arena, const struct mt_box *box, int naxes);

/* Move from `region` to `taken` what lies in `box`. */
void mt_region_take(struct mt_region *region, struct mt_arena *arena, const struct mt_box *box, int naxes,
                    struct mt_region *taken);

#endif
