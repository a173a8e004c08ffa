/* A box minus a box is at most two slabs per axis. */
#include "synth/layout/region.h"

void mt_region_add(struct mt_region *region, struct mt_arena *arena, const struct mt_box *box, int naxes) {
    if (!mt_box_count(box, naxes)) return;
    mt_arena_grow(arena, &region->boxes, region->count, &region->capacity, sizeof *region->boxes);
    region->boxes[region->count++] = *box;
}

/* Add `box` minus `cut`, which is within it, to `rest`. */
static void add_outside(struct mt_region *rest, struct mt_arena *arena, struct mt_box box, const struct mt_box *cut,
                        int naxes) {
    for (int a = 0; a < naxes; a++) {
        struct mt_box slab = box;
        slab.hi[a] = cut->lo[a];
        mt_region_add(rest, arena, &slab, naxes);
        slab = box;
        slab.lo[a] = cut->hi[a];
        mt_region_add(rest, arena, &slab, naxes);
        box.lo[a] = cut->lo[a];
        box.hi[a] = cut->hi[a];
    }
}

/* If `common` is the front of `box` along one axis, shrink `box` to the rest and return true: blocks that are taken in
 * order need no new boxes. */
static bool take_front(struct mt_box *box, const struct mt_box *common, int naxes) {
    int cut = -1;
    for (int a = 0; a < naxes; a++) {
        if (common->lo[a] != box->lo[a]) return false;
        if (common->hi[a] == box->hi[a]) continue;
        if (cut >= 0) return false;
        cut = a;
    }
    if (cut >= 0) box->lo[cut] = common->hi[cut];
    return cut >= 0;
}

void mt_region_take(struct mt_region *region, struct mt_arena *arena, const struct mt_box *box, int naxes,
                    struct mt_region *taken) {
    struct mt_region rest = {0};
    for (int i = 0; i < region->count; i++) {
        struct mt_box common;
        if (!mt_box_intersect(&region->boxes[i], box, naxes, &common)) {
            mt_region_add(&rest, arena, &region->boxes[i], naxes);
            continue;
        }
        mt_region_add(taken, arena, &common, naxes);
        if (region->count == 1 && take_front(&region->boxes[0], &common, naxes)) return;
        add_outside(&rest, arena, region->boxes[i], &common, naxes);
    }
    *region = rest;
}
