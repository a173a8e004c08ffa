/* Whether boxes cover a value: coordinate compression, one axis after the other.
 *
 * Between two neighbouring cuts of an axis the set of boxes is constant, so that each slab is the same question with
 * one axis less. At most (2 nranks)^axes slabs; in practice one or two axes are cut. */
#include <stdio.h>
#include <stdlib.h>

#include "synth/layout/layout.h"

static int compare_cuts(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Whether the boxes cover the axes from `axis` on; if not, hole[axis..] is an element that none holds. */
static bool covered(const struct mt_layout *layout, const struct mt_box **boxes, int count, int axis, int64_t *hole) {
    if (axis == layout->naxes) return count > 0;
    int64_t *cuts = mt_malloc((size_t)(2 * count + 2) * sizeof *cuts);
    const struct mt_box **inside = mt_malloc((size_t)count * sizeof *inside);
    int ncuts = 0;
    cuts[ncuts++] = 0;
    cuts[ncuts++] = layout->extent[axis];
    for (int i = 0; i < count; i++) {
        cuts[ncuts++] = boxes[i]->lo[axis];
        cuts[ncuts++] = boxes[i]->hi[axis];
    }
    qsort(cuts, (size_t)ncuts, sizeof *cuts, compare_cuts);
    bool all = true;
    for (int c = 0; c + 1 < ncuts && all; c++) {
        if (cuts[c] == cuts[c + 1]) continue;
        int n = 0;
        for (int i = 0; i < count; i++)
            if (boxes[i]->lo[axis] <= cuts[c] && boxes[i]->hi[axis] >= cuts[c + 1]) inside[n++] = boxes[i];
        hole[axis] = cuts[c];
        all = covered(layout, inside, n, axis + 1, hole);
    }
    free(inside);
    free(cuts);
    return all;
}

static enum mt_status check_part(const struct mt_layouts *table, int id, int part, struct mt_err *err) {
    const struct mt_layout *l = &table->items[id];
    const struct mt_box **boxes = mt_malloc((size_t)table->nranks * sizeof *boxes);
    int64_t hole[MT_MAX_AXES + 1] = {0};
    int n = 0;
    for (int r = 0; r < table->nranks; r++)
        if (l->part[r] == part && mt_box_count(&l->box[r], l->naxes)) boxes[n++] = &l->box[r];
    bool all = covered(l, boxes, n, 0, hole);
    free(boxes);
    if (all) return MT_OK;
    char where[128] = "the value";
    for (int a = 0, used = 0; a < l->naxes && used < (int)sizeof where; a++)
        used += snprintf(where + used, sizeof where - (size_t)used, "%s%lld", a ? " " : "element ", (long long)hole[a]);
    return mt_fail(err, MT_EBUG, "layout %d: no rank of part %d holds %s", id, part, where);
}

enum mt_status mt_layout_check(const struct mt_layouts *table, int id, struct mt_err *err) {
    if (id < 0 || id >= table->count) return mt_fail(err, MT_EBUG, "layout %d of %d", id, table->count);
    const struct mt_layout *l = &table->items[id];
    int64_t count = 1;
    for (int a = 0; a < l->naxes; a++) count *= l->extent[a];
    for (int r = 0; r < table->nranks; r++)
        for (int a = 0; a < l->naxes; a++)
            if (l->box[r].lo[a] < 0 || l->box[r].lo[a] > l->box[r].hi[a] || l->box[r].hi[a] > l->extent[a])
                return mt_fail(err, MT_EBUG, "layout %d: rank %d holds %lld to %lld of axis %d, whose extent is %lld",
                               id, r, (long long)l->box[r].lo[a], (long long)l->box[r].hi[a], a,
                               (long long)l->extent[a]);
    if (!count) return MT_OK;
    for (int p = 0; p < l->nparts; p++) {
        enum mt_status st = check_part(table, id, p, err);
        if (st) return st;
    }
    return MT_OK;
}
