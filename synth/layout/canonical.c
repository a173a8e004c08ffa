/* The canonical form of parts and covers.
 *
 * Distinct boxes are numbered by hashing. Boxes that overlap are found by a sweep along the axis on which they are
 * thinnest, and joined. */
#include <assert.h>
#include <stdlib.h>

#include "synth/layout/cover.h"
#include "synth/layout/number.h"

static int root_of(int *parent, int i) {
    while (parent[i] != i) i = parent[i] = parent[parent[i]];
    return i;
}

static bool overlap(const struct mt_box *a, const struct mt_box *b, int naxes) {
    for (int i = 0; i < naxes; i++)
        if (a->lo[i] >= b->hi[i] || b->lo[i] >= a->hi[i]) return false;
    return true;
}

struct swept { /* a distinct box of one tag */
    int64_t lo, hi;
    const struct mt_box *box;
    int id, tag;
};

static int compare_swept(const void *a, const void *b) {
    const struct swept *x = a, *y = b;
    if (x->lo != y->lo) return x->lo < y->lo ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static int thinnest_axis(const struct mt_layout *l, const struct swept *boxes, int count) {
    int best = -1;
    double least = 0;
    for (int a = 0; a < l->naxes; a++) {
        double sum = 0;
        for (int i = 0; i < count; i++) sum += (double)(boxes[i].box->hi[a] - boxes[i].box->lo[a]);
        sum /= (double)l->extent[a];
        if (best < 0 || sum < least) best = a, least = sum;
    }
    return best;
}

static void join_overlapping(const struct mt_layout *l, struct swept *boxes, int count, int *parent) {
    int axis = thinnest_axis(l, boxes, count);
    if (axis < 0) return; /* a scalar: boxes of one tag are equal */
    for (int i = 0; i < count; i++) boxes[i].lo = boxes[i].box->lo[axis], boxes[i].hi = boxes[i].box->hi[axis];
    qsort(boxes, (size_t)count, sizeof *boxes, compare_swept);
    for (int i = 0; i < count; i++)
        for (int j = i + 1; j < count && boxes[j].lo < boxes[i].hi; j++) {
            if (boxes[i].tag != boxes[j].tag || !overlap(boxes[i].box, boxes[j].box, l->naxes)) continue;
            int a = root_of(parent, boxes[i].id), b = root_of(parent, boxes[j].id);
            parent[a > b ? a : b] = a < b ? a : b;
        }
}

int mt_cover_components(const struct mt_layout *layout, int nranks, const int *tag, int *component) {
    int *id = mt_malloc((size_t)nranks * sizeof *id), count = 0, components = 0;
    mt_number_boxes(layout, nranks, tag, id);
    struct swept *boxes = mt_malloc((size_t)nranks * sizeof *boxes);
    for (int r = 0; r < nranks; r++)
        if (id[r] == count)
            boxes[count++] = (struct swept){.box = &layout->box[r], .id = id[r], .tag = tag ? tag[r] : 0};
    int *parent = mt_malloc((size_t)(2 * count + 1) * sizeof *parent), *number = parent + count;
    for (int i = 0; i < count; i++) parent[i] = i, number[i] = -1;
    if (count > 1) join_overlapping(layout, boxes, count, parent);
    for (int r = 0; r < nranks; r++) {
        component[r] = -1;
        if (id[r] < 0) continue;
        int *mine = &number[root_of(parent, id[r])];
        if (*mine < 0) *mine = components++;
        component[r] = *mine;
    }
    free(parent), free(boxes), free(id);
    return components;
}

static void set_covers(struct mt_layout *layout, int nparts, struct mt_arena *arena) {
    layout->nparts = nparts;
    layout->cover = mt_new(arena, int, nparts);
    layout->cover_parts = mt_new(arena, int, nparts);
}

static void one_part(struct mt_layout *layout, int nranks, struct mt_arena *arena) {
    for (int r = 0; r < nranks; r++) layout->part[r] = 0;
    set_covers(layout, 1, arena);
    layout->ncovers = layout->cover_parts[0] = 1;
    layout->reduce = MT_REDUCE_NONE;
}

/* Number the parts, which are pairs of an old part and a component, by first rank, and the covers, which are the
 * components, by first part; complete ones are all one. */
static void number_parts(struct mt_layout *layout, int nranks, const int *component, int ncomponents,
                         struct mt_arena *arena) {
    struct mt_numbering pairs;
    mt_numbering_init(&pairs, nranks);
    int *pair = mt_malloc((size_t)nranks * sizeof *pair), *parts = mt_calloc((size_t)ncomponents, sizeof *parts);
    for (int r = 0; r < nranks; r++) {
        if (component[r] < 0) continue;
        int before = pairs.count;
        pair[r] = mt_numbering_pair(&pairs, layout->part[r], component[r]);
        if (pairs.count > before) parts[component[r]]++;
    }
    int *renamed = mt_malloc((size_t)(pairs.count + ncomponents) * sizeof *renamed), *cover = renamed + pairs.count;
    for (int i = 0; i < pairs.count + ncomponents; i++) renamed[i] = -1;
    int complete = -1, complete_cover = -1, nparts = 0;
    set_covers(layout, pairs.count, arena);
    layout->ncovers = 0;
    for (int r = 0; r < nranks; r++) {
        if (component[r] < 0) {
            layout->part[r] = 0;
            continue;
        }
        bool whole = parts[component[r]] == 1;
        int *part = whole ? &complete : &renamed[pair[r]], *mine = whole ? &complete_cover : &cover[component[r]];
        if (*mine < 0) *mine = layout->ncovers++;
        if (*part < 0) *part = nparts++, layout->cover[*part] = *mine, layout->cover_parts[*mine]++;
        layout->part[r] = *part;
    }
    layout->nparts = nparts;
    free(renamed), free(parts), free(pair);
    mt_numbering_release(&pairs);
}

void mt_cover_canonical(struct mt_layout *layout, int nranks, struct mt_arena *arena) {
    for (int r = 0; r < nranks; r++) {
        struct mt_box *box = &layout->box[r], own = {{0}, {0}};
        for (int a = 0; a < layout->naxes && mt_box_count(box, layout->naxes); a++)
            own.lo[a] = box->lo[a], own.hi[a] = box->hi[a];
        *box = own;
    }
    if (layout->nparts <= 1) {
        one_part(layout, nranks, arena);
        return;
    }
    int *cover = mt_malloc((size_t)(2 * nranks) * sizeof *cover), *component = cover + nranks;
    for (int r = 0; r < nranks; r++) {
        assert(layout->part[r] >= 0 && layout->part[r] < layout->nparts);
        cover[r] = layout->cover ? layout->cover[layout->part[r]] : 0;
    }
    int ncomponents = mt_cover_components(layout, nranks, cover, component);
    if (ncomponents) number_parts(layout, nranks, component, ncomponents, arena);
    if (!ncomponents || layout->nparts == 1) one_part(layout, nranks, arena);
    free(cover);
}
