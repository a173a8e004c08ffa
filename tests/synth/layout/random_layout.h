/* Random layouts for tests: any parts, and in each part a random tree of cuts and replicas, so that regular layouts (R,
 * S, P), mixtures, replica groups, and empty boxes all occur. */
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

static inline int random_layout(struct dice *dice, struct mt_layouts *table, int naxes, const int64_t *extent,
                                enum mt_reduce reduce) {
    struct mt_arena arena = MT_ARENA_INIT;
    int n = table->nranks, id;
    struct mt_split split;
    switch (roll(dice, 5)) {
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
        int nparts = 1 + (int)roll(dice, n);
        struct mt_layout layout = {.naxes = naxes,
                                   .reduce = reduce,
                                   .nparts = nparts,
                                   .box = mt_new(&arena, struct mt_box, n),
                                   .part = mt_new(&arena, int, n)};
        struct mt_box whole = {{0}, {0}};
        for (int a = 0; a < naxes; a++) whole.hi[a] = layout.extent[a] = extent[a];
        for (int r = 0; r < n; r++) layout.part[r] = r < nparts ? r : (int)roll(dice, nparts);
        for (int r = n - 1; r > 0; r--) { /* shuffle */
            int other = (int)roll(dice, r + 1), part = layout.part[r];
            layout.part[r] = layout.part[other], layout.part[other] = part;
        }
        int *ranks = mt_new(&arena, int, n);
        for (int p = 0; p < nparts; p++) {
            int count = 0;
            for (int r = 0; r < n; r++)
                if (layout.part[r] == p) ranks[count++] = r;
            random_boxes(dice, &layout, ranks, count, whole);
        }
        id = mt_layout_intern(table, &layout);
    }
    }
    mt_arena_release(&arena);
    return id;
}

#endif
