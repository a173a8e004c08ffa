/* Whether covers have every element in all of their parts: coordinate compression, one axis after the other.
 *
 * Between two neighbouring cuts of an axis the set of boxes is constant, so that each slab is the same question with
 * one axis less. At most (2 nranks)^axes slabs; in practice one or two axes are cut. */
#include "synth/layout/cover.h"

#include <stdio.h>
#include <stdlib.h>

#include "synth/layout/number.h"

struct held {
    const struct mt_box *box;
    int64_t lo; /* on the axis that is swept */
    int part;
};

struct search {
    const struct mt_layout *layout;
    int *seen;  /* [nparts]: the last leaf where a rank has it */
    int *count; /* [ncovers]: parts seen at the current leaf */
    int leaf;
    int part;      /* that is missing, or -1 */
    int64_t *hole; /* [naxes]: where */
};

static int compare_cuts(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int compare_held(const void *a, const void *b) {
    const struct held *x = a, *y = b;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

/* All parts of all covers that are there. */
static bool leaf_complete(struct search *s, const struct held *held, int count) {
    const struct mt_layout *l = s->layout;
    s->leaf++;
    s->part = -1;
    for (int i = 0; i < count; i++) s->count[l->cover[held[i].part]] = 0;
    for (int i = 0; i < count; i++) {
        if (s->seen[held[i].part] == s->leaf) continue;
        s->seen[held[i].part] = s->leaf;
        s->count[l->cover[held[i].part]]++;
    }
    for (int i = 0; i < count; i++) {
        int cover = l->cover[held[i].part];
        if (s->count[cover] == l->cover_parts[cover]) continue;
        for (s->part = 0; l->cover[s->part] != cover || s->seen[s->part] == s->leaf;) s->part++;
        return false;
    }
    return count > 0;
}

static bool complete_from(struct search *s, const struct held *held, int count, int axis) {
    const struct mt_layout *l = s->layout;
    if (axis == l->naxes) return leaf_complete(s, held, count);
    int64_t *cuts = mt_malloc((size_t)(2 * count + 2) * sizeof *cuts);
    struct held *sorted = mt_malloc((size_t)(2 * count) * sizeof *sorted), *inside = sorted + count;
    int ncuts = 0, ninside = 0, next = 0;
    cuts[ncuts++] = 0;
    cuts[ncuts++] = l->extent[axis];
    for (int i = 0; i < count; i++) {
        sorted[i] = held[i];
        sorted[i].lo = cuts[ncuts++] = held[i].box->lo[axis];
        cuts[ncuts++] = held[i].box->hi[axis];
    }
    qsort(cuts, (size_t)ncuts, sizeof *cuts, compare_cuts);
    qsort(sorted, (size_t)count, sizeof *sorted, compare_held);
    bool all = true;
    for (int c = 0; c + 1 < ncuts && all; c++) {
        if (cuts[c] == cuts[c + 1]) continue;
        int kept = 0;
        for (int i = 0; i < ninside; i++)
            if (inside[i].box->hi[axis] > cuts[c]) inside[kept++] = inside[i];
        for (ninside = kept; next < count && sorted[next].lo <= cuts[c]; next++)
            if (sorted[next].box->hi[axis] > cuts[c]) inside[ninside++] = sorted[next];
        s->hole[axis] = cuts[c];
        all = complete_from(s, inside, ninside, axis + 1);
    }
    free(sorted), free(cuts);
    return all;
}

bool mt_cover_complete(const struct mt_layout *layout, int nranks, int *part, int64_t *hole) {
    struct held *held = mt_malloc((size_t)nranks * sizeof *held);
    int *id = mt_malloc((size_t)nranks * sizeof *id), count = 0;
    int64_t elements = 1;
    mt_number_boxes(layout, nranks, layout->part, id);
    for (int r = 0; r < nranks; r++)
        if (id[r] == count) held[count++] = (struct held){.box = &layout->box[r], .part = layout->part[r]};
    struct search s = {.layout = layout, .part = -1, .hole = hole};
    s.seen = mt_calloc((size_t)layout->nparts, sizeof *s.seen);
    s.count = mt_calloc((size_t)layout->ncovers, sizeof *s.count);
    for (int a = 0; a < layout->naxes; a++) elements *= layout->extent[a];
    bool complete = !elements || complete_from(&s, held, count, 0);
    *part = s.part;
    free(s.count), free(s.seen), free(id), free(held);
    return complete;
}

enum mt_status mt_layout_check(const struct mt_layouts *table, int id, struct mt_err *err) {
    if (id < 0 || id >= table->count) return mt_fail(err, MT_EBUG, "layout %d of %d", id, table->count);
    const struct mt_layout *l = &table->items[id];
    for (int r = 0; r < table->nranks; r++)
        for (int a = 0; a < l->naxes; a++)
            if (l->box[r].lo[a] < 0 || l->box[r].lo[a] > l->box[r].hi[a] || l->box[r].hi[a] > l->extent[a])
                return mt_fail(err, MT_EBUG, "layout %d: rank %d holds %lld to %lld of axis %d, whose extent is %lld",
                               id, r, (long long)l->box[r].lo[a], (long long)l->box[r].hi[a], a,
                               (long long)l->extent[a]);
    int64_t hole[MT_MAX_AXES + 1] = {0};
    int part;
    if (mt_cover_complete(l, table->nranks, &part, hole)) return MT_OK;
    char where[128] = "the value", of[32] = "";
    for (int a = 0, used = 0; a < l->naxes && used < (int)sizeof where; a++)
        used += snprintf(where + used, sizeof where - (size_t)used, "%s%lld", a ? " " : "element ", (long long)hole[a]);
    if (part >= 0 && l->nparts > 1) snprintf(of, sizeof of, " of part %d", part);
    return mt_fail(err, MT_EBUG, "layout %d: no rank%s holds %s", id, of, where);
}
