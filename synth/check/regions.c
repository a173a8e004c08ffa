/* Regions by coordinate compression: between two neighbouring cuts of an axis the set of boxes is constant. */
#include "synth/check/regions.h"

#include <stdlib.h>

struct walk {
    int naxes;
    mt_visit_region *visit;
    void *context;
    struct mt_box region;
};

static int compare_cuts(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static enum mt_status visit_from(struct walk *w, int axis, const struct mt_tagged_box *boxes, int count) {
    if (count == 0) return MT_OK;
    if (axis == w->naxes) return w->visit(w->context, &w->region, boxes, count);
    int64_t *cuts = mt_malloc((size_t)(2 * count) * sizeof *cuts);
    struct mt_tagged_box *inside = mt_malloc((size_t)count * sizeof *inside);
    enum mt_status st = MT_OK;
    for (int i = 0; i < count; i++) cuts[2 * i] = boxes[i].box->lo[axis], cuts[2 * i + 1] = boxes[i].box->hi[axis];
    qsort(cuts, (size_t)(2 * count), sizeof *cuts, compare_cuts);
    for (int k = 0; k + 1 < 2 * count && !st; k++) {
        int n = 0;
        if (cuts[k] == cuts[k + 1]) continue;
        for (int i = 0; i < count; i++)
            if (boxes[i].box->lo[axis] <= cuts[k] && cuts[k] < boxes[i].box->hi[axis]) inside[n++] = boxes[i];
        w->region.lo[axis] = cuts[k], w->region.hi[axis] = cuts[k + 1];
        st = visit_from(w, axis + 1, inside, n);
    }
    free(inside);
    free(cuts);
    return st;
}

enum mt_status mt_check_regions(int naxes, const struct mt_tagged_box *boxes, int count, mt_visit_region *visit,
                                void *context) {
    struct walk w = {.naxes = naxes, .visit = visit, .context = context};
    return visit_from(&w, 0, boxes, count);
}
