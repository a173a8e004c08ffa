/* Splits and layouts: which rank holds which box of a value, and who must reduce with whom.
 *
 * A layout is, for each rank, a box [lo, hi) on every axis (empty allowed) and a *part*. Ranks with the same part that
 * hold an element hold the same number (replicas); the element's true value is the reduction (sum or maximum) over the
 * parts. So:   R            every box whole, one part
 *              S(axis,split) boxes tile the axis, one part
 *              P(sum)        every box whole, each rank its own part
 *              mixtures      S over nodes and P within them, and so on: only boxes and parts.
 * `mt_layout_text` prints the regular cases by name. Layouts are interned in a table, so equal ones have equal ids.
 *
 *     struct mt_layouts table;
 *     mt_layouts_init(&table, nranks);
 *     int from = mt_layout_partial(&table, 2, extent, MT_SUM), to = mt_layout_split(&table, 2, extent, 0, &split);
 *     mt_layout_groups(&table, from, to, group);      // MT_CONVERT_REDUCE_SCATTER
 *     table.items[to].box[rank].lo[0] ...
 *     mt_layouts_release(&table); */
#ifndef MT_SYNTH_LAYOUT_LAYOUT_H
#define MT_SYNTH_LAYOUT_LAYOUT_H

#include "kernels/base/arena.h"
#include "kernels/coll/coll.h"
#include "kernels/op/op.h"

/* One extent divided over the ranks, as whole numbers that sum to it. */
struct mt_split {
    const char *name; /* "batch", "storage:embed" */
    int label;        /* of the graph */
    int64_t *sizes;   /* [nranks] */
    int64_t *starts;  /* [nranks + 1]: running sums */
};

struct mt_box {
    int64_t lo[MT_MAX_AXES], hi[MT_MAX_AXES];
};

struct mt_layout {
    int naxes;
    int64_t extent[MT_MAX_AXES]; /* of the value */
    enum mt_reduce reduce;       /* NONE when nparts == 1 */
    int nparts;
    struct mt_box *box; /* [nranks] */
    int *part;          /* [nranks], 0..nparts-1, numbered in order of first rank */
};

struct mt_regular_layout { /* replicated, split, partial: by a hash of the extents, axis, starts, reduction */
    uint64_t hash;
    int layout; /* + 1 */
};
struct mt_layouts {
    struct mt_arena arena;
    int nranks;
    struct mt_layout *items;
    int count, capacity;
    int *slots; /* hash table of ids + 1, open addressing */
    int nslots;
    struct mt_regular_layout *regular; /* those that were asked for by what makes them; open addressing */
    int nregular, regular_capacity;
};

void mt_layouts_init(struct mt_layouts *table, int nranks);
void mt_layouts_release(struct mt_layouts *table);

/* Intern: canonical part numbers, empty boxes as all zeros (and of part 0), reduce NONE if there is one part; returns
 * the id. The argument's vectors are copied. Pointers to items stay readable when the table grows, ids stay valid. */
int mt_layout_intern(struct mt_layouts *table, const struct mt_layout *layout);
int mt_layout_replicated(struct mt_layouts *table, int naxes, const int64_t *extent);
int mt_layout_split(struct mt_layouts *table, int naxes, const int64_t *extent, int axis, const struct mt_split *split);
int mt_layout_partial(struct mt_layouts *table, int naxes, const int64_t *extent, enum mt_reduce reduce);

int64_t mt_box_count(const struct mt_box *box, int naxes); /* elements; 0 if empty; 1 for scalars */
bool mt_box_equal(const struct mt_box *a, const struct mt_box *b, int naxes);
bool mt_box_within(const struct mt_box *inner, const struct mt_box *outer, int naxes); /* empty boxes are in all */
bool mt_box_intersect(const struct mt_box *a, const struct mt_box *b, int naxes, struct mt_box *out); /* false: empty */

/* Whether every element of the value is held, once for each part: what makes the boxes a layout at all. */
enum mt_status mt_layout_check(const struct mt_layouts *table, int layout, struct mt_err *err);

/* "R", "S(0: 45 45 25 13)", "P(sum)"; "P(sum: 0 0 1 1)" where ranks share parts; "S(1: 3 5 3 5) P(sum: 0 0 1 1)" where
 * each part's ranks tile the axis in order; else the boxes: "0[0:3 0:8] 1[3:5 0:8]/1 2[]", a part after the slash. */
char *mt_layout_text(const struct mt_layouts *table, int layout, struct mt_arena *arena);

/* How one layout becomes another; computed from the boxes. Groups are sets of ranks that work together:
 *
 *   NOTHING         the layouts are equal
 *   SLICE           every rank's new box lies in its old one, of the same part: nothing moves
 *   ALL_REDUCE      boxes stay; a group's ranks have one box and different parts, together all that the new part takes
 *   REDUCE_SCATTER  the same, and the group's new boxes tile the old one
 *   ALL_GATHER      parts stay; a group's old boxes tile the new box, which is one for all of them
 *   ALL_TO_ALL      all others. A rank's new element is the reduction, in order of old parts, over the old parts that
 *                   go to its new part, each taken from the rank itself if it holds it, else from the first rank of the
 *                   group that does; zero (or -inf) if no old part goes to this new part (R becoming P). Old part p
 *                   goes to the new part of p's first rank (to part 0 if old and new parts are reduced differently).
 *
 * Where old replicas are more than one set, groups take one each, in order of rank, so that a reduction counts every
 * part once. */
enum mt_conversion {
    MT_CONVERT_NOTHING,
    MT_CONVERT_SLICE,
    MT_CONVERT_ALL_REDUCE,
    MT_CONVERT_REDUCE_SCATTER,
    MT_CONVERT_ALL_GATHER,
    MT_CONVERT_ALL_TO_ALL,
    MT_NCONVERSIONS
};

/* group[nranks]: out, numbered from 0 by first rank; ranks that move nothing are alone. Looks at all pairs of ranks. */
enum mt_conversion mt_layout_groups(const struct mt_layouts *table, int from, int to, int *group);

/* What an ALL_TO_ALL between two layouts moves: pieces in order of receiver, part and sender (the receiver itself
 * first, as a piece like all others). `group` null: all ranks together. The list lives in `arena`; returns its length.
 */
struct mt_transfer {
    int from, to, part; /* ranks, and the old part */
    struct mt_box box;
};
int mt_layout_transfers(const struct mt_layouts *table, int from, int to, const int *group, struct mt_arena *arena,
                        struct mt_transfer **list);

/* to_part[from's nparts]: the new part that each old part goes to in an ALL_TO_ALL. */
void mt_layout_part_map(const struct mt_layout *from, const struct mt_layout *to, int nranks, int *to_part);

#endif
