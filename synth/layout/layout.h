/* Splits and layouts: which rank holds which box of a value, and which ranks reduce together.
 *
 *   split       how one extent is divided over the ranks, as whole numbers that sum to it
 *   share       a rank's part of a split: an interval of the extent
 *   box         an interval [lo, hi) on every axis of a value, possibly empty
 *   replica     ranks that hold an element in the same part hold the same number
 *   part        ranks with the same part number hold one term of the value; the value is the reduction (sum or maximum)
 *               over the parts
 *   layout      for each rank a box and a part. The regular ones have names:
 *                 R              replicated: every box whole, one part
 *                 S(axis,split)  split: the boxes tile the axis, one part
 *                 P(sum), P(max) partial: every box whole, each rank its own part
 *               Mixtures (S over nodes and P within them, ...) are boxes and parts without a name.
 *   conversion  one layout becomes another: nothing, a slice, or a collective
 *   group       ranks that take part in one collective together
 *
 * Layouts are interned in a table, so that equal layouts have equal ids. mt_layout_text prints them.
 *
 *     struct mt_layouts table;
 *     mt_layouts_init(&table, nranks);
 *     int from = mt_layout_partial(&table, 2, extent, MT_SUM), to = mt_layout_split(&table, 2, extent, 0, &split);
 *     mt_layout_groups(&table, from, to, group);      // MT_CONVERT_REDUCE_SCATTER
 *     table.items[to].box[rank].lo[0] ...
 *     mt_layouts_release(&table); */
#ifndef MT_SYNTH_LAYOUT_LAYOUT_H
#define MT_SYNTH_LAYOUT_LAYOUT_H

#include <stdio.h>

#include "kernels/base/arena.h"
#include "kernels/coll/coll.h"
#include "kernels/op/op.h"

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

struct mt_regular_layout { /* R, S or P, found by a hash of extents, axis, starts and reduction */
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
    struct mt_regular_layout *regular; /* named layouts by their arguments; open addressing */
    int nregular, regular_capacity;
};

void mt_layouts_init(struct mt_layouts *table, int nranks);
void mt_layouts_release(struct mt_layouts *table);

/* Intern a layout in canonical form: parts numbered by first rank, empty boxes all zero and in part 0, reduce NONE if
 * there is one part. Returns its id. The vectors are copied. Old pointers to items stay readable when the table grows.
 */
int mt_layout_intern(struct mt_layouts *table, const struct mt_layout *layout);
int mt_layout_replicated(struct mt_layouts *table, int naxes, const int64_t *extent);
int mt_layout_split(struct mt_layouts *table, int naxes, const int64_t *extent, int axis, const struct mt_split *split);
int mt_layout_partial(struct mt_layouts *table, int naxes, const int64_t *extent, enum mt_reduce reduce);

int64_t mt_box_count(const struct mt_box *box, int naxes); /* elements; 0 if empty; 1 for scalars */
bool mt_box_equal(const struct mt_box *a, const struct mt_box *b, int naxes);
bool mt_box_within(const struct mt_box *inner, const struct mt_box *outer, int naxes); /* an empty box is within any */
bool mt_box_intersect(const struct mt_box *a, const struct mt_box *b, int naxes, struct mt_box *out); /* false: empty */

/* Whether each part's boxes cover the whole value, as every layout must; MT_EBUG names an element that is missing. */
enum mt_status mt_layout_check(const struct mt_layouts *table, int layout, struct mt_err *err);

/* The text, in `arena`: "R", "S(0: 45 45 25 13)", "P(sum)"; "P(sum: 0 0 1 1)" where ranks share parts;
 * "S(1: 3 5 3 5) P(sum: 0 0 1 1)" where each part's ranks tile the axis in order; else the boxes, with the part after a
 * slash: "0[0:3 0:8] 1[3:5 0:8]/1 2[]". Of more than
 * MT_TEXT_RANKS ranks, runs of equal neighbours are one entry: "S(0: 45 x128 25 x64)", "0-127[0:3]". */
char *mt_layout_text(const struct mt_layouts *table, int layout, struct mt_arena *arena);

/* " 45 45 25", or " 45 x128 25 x64" of more than MT_TEXT_RANKS. */
#define MT_TEXT_RANKS 16
void mt_text_of_ranks(FILE *file, const int64_t *values, int count);

/* How one layout becomes another, computed from the boxes:
 *
 *   NOTHING         the layouts are equal
 *   SLICE           every rank's new box is within its old one, of the same part; no communication
 *   ALL_REDUCE      boxes stay; a group's ranks have one box and different parts, which are all that reduce to the
 *                   new part
 *   REDUCE_SCATTER  the same, and the group's new boxes tile the old box
 *   ALL_GATHER      parts stay; a group's old boxes tile the new box, which is the same on all of them
 *   ALL_TO_ALL      all others. A new element is the reduction, in order of old parts, over the old parts that go to
 *                   the rank's new part; each comes from the rank itself if it holds the element, else from the first
 *                   rank of the group that does. If no old part goes to the new part (R becoming P), it is zero, or
 *                   -inf for a maximum. Old part p goes to the new part of p's first rank, or to part 0 if old and
 *                   new parts are reduced differently.
 *
 * Where there are several sets of old replicas, each group takes one set, in order of rank, so that a reduction counts
 * every part once. */
enum mt_conversion {
    MT_CONVERT_NOTHING,
    MT_CONVERT_SLICE,
    MT_CONVERT_ALL_REDUCE,
    MT_CONVERT_REDUCE_SCATTER,
    MT_CONVERT_ALL_GATHER,
    MT_CONVERT_ALL_TO_ALL,
    MT_NCONVERSIONS
};

/* group[nranks]: out, numbered from 0 by first rank; a rank that neither sends nor receives is alone. O(nranks^2). */
enum mt_conversion mt_layout_groups(const struct mt_layouts *table, int from, int to, int *group);

/* The transfers of an ALL_TO_ALL between two layouts, in order of receiver, part and sender; the receiver itself comes
 * first among the senders. `group` null: all ranks together. The list is in `arena`; returns its length. */
struct mt_transfer {
    int from, to, part; /* ranks, and the old part */
    struct mt_box box;
};
int mt_layout_transfers(const struct mt_layouts *table, int from, int to, const int *group, struct mt_arena *arena,
                        struct mt_transfer **list);

/* to_part[from's nparts]: the new part that each old part goes to in an ALL_TO_ALL. */
void mt_layout_part_map(const struct mt_layout *from, const struct mt_layout *to, int nranks, int *to_part);

#endif
