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

bool mt_region_take_front(struct mt_region *region, const struct mt_box *box, int naxes) {
    if (region->count != 1) return false;
    struct mt_box *left = &region->boxes[0];
    int cut = -1;
    for (int a = 0; a < naxes; a++) {
        if (box->lo[a] != left->lo[a] || box->hi[a] > left->hi[a] || box->hi[a] <= box->lo[a]) return false;
        if (box->hi[a] == left->hi[a]) continue;
        if (cut >= 0) return false;
        cut = a;
    }
    if (cut >= 0)
        left->lo[cut] = box->hi[cut];
    else
        region->count = 0;
    return true;
}

void mt_region_take(struct mt_region *region, struct mt_arena *arena, const struct mt_box *box, int naxes,
                    struct mt_region *taken) {
    struct mt_region rest = {0};
    if (mt_region_take_front(region, box, naxes)) {
        mt_region_add(taken, arena, box, naxes);
        return;
    }
    for (int i = 0; i < region->count; i++) {
        struct mt_box common;
        if (!mt_box_intersect(&region->boxes[i], box, naxes, &common)) {
            mt_region_add(&rest, arena, &region->boxes[i], naxes);
            continue;
        }
        mt_region_add(taken, arena, &common, naxes);
        add_outside(&rest, arena, region->boxes[i], &common, naxes);
    }
    *region = rest;
}
