/* Random layouts for tests: any covers of any regions, any parts, and in each part a random tree of cuts and replicas,
 * so that regular layouts (R, S, P), mixtures, different divisions of one sum, replica groups, and empty boxes all
 * occur. */
#ifndef MT_TESTS_SYNTH_LAYOUT_RANDOM_LAYOUT_H
#define MT_TESTS_SYNTH_LAYOUT_RANDOM_LAYOUT_H

#include "kernels/base/number/rng.h"
#include "synth/layout/layout.h"

static const char *const conversion_names[MT_NCONVERSIONS] = {"nothing",       "slice",     "AllReduce",
                                                              "ReduceScatter", "AllGather", "AllToAll"};

struct dice {
    uint64_t seed, rolls;
};

static inline int64_t roll(struct dice *dice, int64_t sides) {
    return (int64_t)mt_random_below(dice->seed, 1, dice->rolls++, (uint64_t)sides);
}

static inline double roll_real(struct dice *dice) {
    return mt_random_normal(dice->seed, 2, dice->rolls++);
}

/* Ragged shares of an extent, zero shares among them. */
static inline void random_split(struct dice *dice, struct mt_arena *arena, int nranks, int64_t extent,
                                struct mt_split *split) {
    *split = (struct mt_split){
        .name = "random", .sizes = mt_new(arena, int64_t, nranks), .starts = mt_new(arena, int64_t, nranks + 1)};
    int idle = nranks > 1 && roll(dice, 2) ? (int)roll(dice, nranks) : -1;
    for (int64_t i = 0; i < extent; i++) {
        int r = (int)roll(dice, nranks);
        if (r == idle) r = (r + 1) % nranks;
        split->sizes[r]++;
    }
    for (int r = 0; r < nranks; r++) split->starts[r + 1] = split->starts[r] + split->sizes[r];
}

/* Lay `box` over the ranks: all of them, or cut in two for two sets of ranks. */
static inline void random_boxes(struct dice *dice, struct mt_layout *layout, const int *ranks, int count,
                                struct mt_box box) {
    if (count == 1 || !layout->naxes || roll(dice, 4) == 0) {
        for (int i = 0; i < count; i++) layout->box[ranks[i]] = box;
        return;
    }
    int axis = (int)roll(dice, layout->naxes), first = 1 + (int)roll(dice, count - 1);
    struct mt_box low = box, high = box;
    low.hi[axis] = high.lo[axis] = box.lo[axis] + roll(dice, box.hi[axis] - box.lo[axis] + 1);
    random_boxes(dice, layout, ranks, first, low);
    random_boxes(dice, layout, ranks + first, count - first, high);
}

/* Give the ranks a cover of the region: parts, each laid out over its ranks. */
static inline void random_cover(struct dice *dice, struct mt_layout *layout, const int *ranks, int count,
                                struct mt_box region) {
    int nparts = count < 3 || roll(dice, 4) ? 1 + (int)roll(dice, count) : 2, own[16], nown;
    for (int p = 0, left = count; p < nparts; p++) { /* every part has a rank; the others are drawn */
        nown = 0;
        int take = p == nparts - 1 ? left : 1 + (int)roll(dice, left - (nparts - 1 - p));
        for (int i = 0; i < take; i++) own[nown++] = ranks[count - left + i];
        left -= take;
        for (int i = 0; i < nown; i++) layout->part[own[i]] = layout->nparts;
        layout->cover[layout->nparts++] = layout->ncovers;
        random_boxes(dice, layout, own, nown, region);
    }
    layout->ncovers++;
}

/* Give the ranks one cover of the region, or each of two sets of them a part of it, or all of it. */
static inline void random_covers(struct dice *dice, struct mt_layout *layout, const int *ranks, int count,
                                 struct mt_box region, int depth) {
    int way = (int)roll(dice, 3);
    if (count == 1 || (depth > 0 && roll(dice, 4))) {
        random_cover(dice, layout, ranks, count, region);
        return;
    }
    int first = count > 3 ? 2 + (int)roll(dice, count - 3) : 1 + (int)roll(dice, count - 1);
    struct mt_box low = region, high = region;
    if (way == 0 && layout->naxes) {
        int axis = (int)roll(dice, layout->naxes);
        low.hi[axis] = high.lo[axis] = region.lo[axis] + roll(dice, region.hi[axis] - region.lo[axis] + 1);
    }
    random_covers(dice, layout, ranks, first, low, depth + 1);
    random_covers(dice, layout, ranks + first, count - first, high, depth + 1);
}

/* Of at most 16 ranks. */
static inline int random_layout(struct dice *dice, struct mt_layouts *table, int naxes, const int64_t *extent,
                                enum mt_reduce reduce) {
    struct mt_arena arena = MT_ARENA_INIT;
    int n = table->nranks, id;
    struct mt_split split;
    switch (roll(dice, 7)) {
    case 0: id = mt_layout_replicated(table, naxes, extent); break;
    case 1: id = mt_layout_partial(table, naxes, extent, reduce); break;
    case 2:
        if (naxes) {
            int axis = (int)roll(dice, naxes);
            random_split(dice, &arena, n, extent[axis], &split);
            id = mt_layout_split(table, naxes, extent, axis, &split);
            break;
        }
        /* fall through */
    default: {
        struct mt_layout layout = {.naxes = naxes,
                                   .reduce = reduce,
                                   .box = mt_new(&arena, struct mt_box, n),
                                   .part = mt_new(&arena, int, n),
                                   .cover = mt_new(&arena, int, n)};
        struct mt_box whole = {{0}, {0}};
        for (int a = 0; a < naxes; a++) whole.hi[a] = layout.extent[a] = extent[a];
        int *ranks = mt_new(&arena, int, n);
        for (int r = 0; r < n; r++) ranks[r] = r;
        for (int r = n - 1; r > 0; r--) { /* shuffle */
            int other = (int)roll(dice, r + 1), rank = ranks[r];
            ranks[r] = ranks[other], ranks[other] = rank;
        }
        if (roll(dice, 3) == 0)
            random_cover(dice, &layout, ranks, n, whole);
        else
            random_covers(dice, &layout, ranks, n, whole, 0);
        id = mt_layout_intern(table, &layout);
    }
    }
    mt_arena_release(&arena);
    return id;
}

#endif
