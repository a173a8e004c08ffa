/* Splits and layouts: which rank holds which box of a value, and which ranks reduce together.
 *
 *   split       how one extent is divided over the ranks, as whole numbers that sum to it
 *   share       a rank's part of a split: an interval of the extent
 *   box         an interval [lo, hi) on every axis of a value, possibly empty
 *   terms       what is summed, or what the maximum is of, to make a value: the places of the indices that it lacks
 *   part        ranks with the same part number have the same terms of the elements that they hold
 *   cover       a set of parts that together have all terms of every element that one of them holds, each once. An
 *               element may be in several covers, which divide its terms differently: node A sums 5 + 3 of them, node B
 *               4 + 4. A cover of one part is complete: its ranks have the value itself
 *   replica     ranks that hold an element in the same part hold the same number
 *   layout      for each rank a box and a part, and for each part its cover. The regular ones have names:
 *                 R              replicated: every box whole, one part
 *                 S(axis,split)  split: the boxes tile the axis, one part
 *                 P(sum), P(max) partial: every box whole, each rank its own part, one cover
 *               Mixtures (S over nodes and P within them, ...) are boxes, parts and covers without a name
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
#include "synth/layout/mesh.h"

/* Shares of an extent. By axis (mesh.h):
 *   ALL     sizes[nranks], starts[nranks + 1]: running sums
 *   HOST    sizes[nnodes], starts[nnodes + 1]: each node's share
 *   DEVICE  sizes[nranks], starts[nranks]: the ranks of each node, in order, divide the extent, or the share that a
 * HOST split of the same index gives to their node; starts count from the beginning of that */
struct mt_split {
    const char *name; /* "batch", "storage:embed" */
    int label;        /* of the graph */
    enum mt_axis axis;
    int64_t *sizes;
    int64_t *starts;
};

struct mt_box {
    int64_t lo[MT_MAX_AXES], hi[MT_MAX_AXES];
};

struct mt_layout {
    int naxes;
    int64_t extent[MT_MAX_AXES]; /* of the value */
    enum mt_reduce reduce;       /* NONE when nparts == 1 */
    int nparts, ncovers;
    struct mt_box *box; /* [nranks] */
    int *part;          /* [nranks], 0..nparts-1, numbered in order of first rank */
    int *cover;         /* [nparts], 0..ncovers-1, numbered in order of first part */
    int *cover_parts;   /* [ncovers]: how many parts each has; 1: complete */
    uint64_t hash;      /* of all that is above; of layouts in a table */
};

/* Whether some ranks hold parts of the value only. */
static inline bool mt_layout_is_partial(const struct mt_layout *layout) {
    return layout->nparts > 1;
}
/* Whether a rank's box has all terms. */
static inline bool mt_layout_is_complete(const struct mt_layout *layout, int rank) {
    return layout->cover_parts[layout->cover[layout->part[rank]]] == 1;
}

struct mt_regular_layout { /* R, S, P, or what a rule gives, found by a hash of what it was made from */
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

/* Intern a layout in canonical form. Returns its id. The vectors are copied; `cover` may be null: all parts are of one
 * cover; ncovers and cover_parts are not read. Old pointers to items stay readable when the table grows.
 *
 * Canonical form: ranks of one cover whose boxes are not connected by overlaps are of different covers; all complete
 * parts are one part; parts are numbered by first rank, covers by first part; empty boxes are all zero and in part 0;
 * reduce is NONE if there is one part. */
int mt_layout_intern(struct mt_layouts *table, const struct mt_layout *layout);
int mt_layout_replicated(struct mt_layouts *table, int naxes, const int64_t *extent);
int mt_layout_split(struct mt_layouts *table, int naxes, const int64_t *extent, int axis, const struct mt_split *split);
int mt_layout_partial(struct mt_layouts *table, int naxes, const int64_t *extent, enum mt_reduce reduce);

/* The layout of a value of which rank r holds box[r] with the terms term[r], a box over `nterms` further axes. Ranks
 * whose boxes overlap and whose terms are equal are replicas; of ranks without terms, whose intervals are empty, those
 * are replicas whose intervals are empty at the same places. Ranks with some terms in common are of different covers.
 * -1 if the ranks form no covers: terms are missing somewhere. */
#define MT_MAX_TERMS 4
struct mt_terms {
    int64_t lo[MT_MAX_TERMS], hi[MT_MAX_TERMS];
};
struct mt_division {
    const struct mt_box *box; /* [nranks] */
    int nterms;
    int64_t term_extent[MT_MAX_TERMS];
    const struct mt_terms *term; /* [nranks] */
    enum mt_reduce reduce;
    const int *order; /* [nranks]: covers are formed from the ranks in this order, node by node; null: that of ranks */
};
int mt_layout_of(struct mt_layouts *table, int naxes, const int64_t *extent, const struct mt_division *division);

/* Where the layout with this hash of what it is made from is noted: its id + 1, or 0 for the caller to set. Valid until
 * the next call. */
int *mt_layout_noted(struct mt_layouts *table, uint64_t hash);

/* Elements; 0 if empty; 1 for scalars. */
static inline int64_t mt_box_count(const struct mt_box *box, int naxes) {
    int64_t n = 1;
    for (int a = 0; a < naxes; a++) n *= box->hi[a] > box->lo[a] ? box->hi[a] - box->lo[a] : 0;
    return n;
}

static inline bool mt_box_equal(const struct mt_box *a, const struct mt_box *b, int naxes) {
    for (int i = 0; i < naxes; i++)
        if (a->lo[i] != b->lo[i] || a->hi[i] != b->hi[i]) return false;
    return true;
}

/* An empty box is within any. */
static inline bool mt_box_within(const struct mt_box *inner, const struct mt_box *outer, int naxes) {
    bool within = true, empty = false;
    for (int i = 0; i < naxes; i++) {
        within &= inner->lo[i] >= outer->lo[i] && inner->hi[i] <= outer->hi[i];
        empty |= inner->hi[i] <= inner->lo[i];
    }
    return within || empty;
}

/* False: empty. */
static inline bool mt_box_intersect(const struct mt_box *a, const struct mt_box *b, int naxes, struct mt_box *out) {
    for (int i = 0; i < naxes; i++)
        if ((a->lo[i] > b->lo[i] ? a->lo[i] : b->lo[i]) >= (a->hi[i] < b->hi[i] ? a->hi[i] : b->hi[i]))
            return *out = (struct mt_box){{0}, {0}}, false;
    struct mt_box box = {{0}, {0}};
    for (int i = 0; i < naxes; i++) {
        box.lo[i] = a->lo[i] > b->lo[i] ? a->lo[i] : b->lo[i];
        box.hi[i] = a->hi[i] < b->hi[i] ? a->hi[i] : b->hi[i];
    }
    *out = box;
    return true;
}

/* Whether every element is in some cover, and in all parts of the covers that it is in; MT_EBUG names an element that
 * is missing. */
enum mt_status mt_layout_check(const struct mt_layouts *table, int layout, struct mt_err *err);

/* The text, in `arena`: "R", "S(0: 45 45 25 13)", "P(sum)"; "P(sum: 0 0 1 1)" where ranks share parts;
 * "S(1: 3 5 3 5) P(sum: 0 0 1 1)" where the ranks of equal number tile the axis in order; else the boxes, with the part
 * after a slash: "0[0:3 0:8] 1[3:5 0:8]/1 2[]". Parts are numbered within their cover; where covers overlap, the cover
 * stands before: "P(sum: 0.0 0.1 1.0 1.1)". Of complete boxes among partial ones none is printed: "0[0:3]/0 1[0:3]/1
 * 2[3:8] sum". Of more than MT_TEXT_RANKS ranks, runs of equal neighbours are one entry: "S(0: 45 x128 25 x64)",
 * "0-127[0:3]". */
char *mt_layout_text(const struct mt_layouts *table, int layout, struct mt_arena *arena);

/* " 45 45 25", or " 45 x128 25 x64" of more than MT_TEXT_RANKS. */
#define MT_TEXT_RANKS 16
void mt_text_of_ranks(FILE *file, const int64_t *values, int count);

/* How one layout becomes another, computed from boxes and covers:
 *
 *   NOTHING         the layouts are equal
 *   SLICE           every rank's new box is within its old one, with the same terms; no communication
 *   ALL_REDUCE      boxes stay; a group's ranks have one box and different parts, which are all that reduce to the
 *                   new part: one whole cover, if the new box is complete
 *   REDUCE_SCATTER  the same, and the group's new boxes tile the old box
 *   ALL_GATHER      terms stay; a group's old boxes tile the new box, which is the same on all of them
 *   ALL_TO_ALL      all others. A new element that is complete is the reduction over all parts of one old cover, in
 *                   order of parts: the rank's own cover, if that holds the element, else the first that does. Of one
 *                   that is not, it is the reduction over the parts of the first old cover that holds it which go to
 *                   the rank's new part (mt_layout_part_map); if none does (R becoming P), it is zero, or -inf for a
 *                   maximum. Each part comes from the rank itself if it holds the element, else from the first rank
 *                   of the group that does. A cover holds an element if one of its ranks does; for a complete new
 *                   element, one in the group.
 *
 * Any valid layout can become any other: an AllToAll gives each new cover the terms of one old cover wherever it is,
 * whatever the two divisions of them.
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

/* The collective that carries a conversion, of those from MT_CONVERT_ALL_REDUCE on. */
extern const enum mt_coll_kind mt_conversion_coll[MT_NCONVERSIONS];

/* group[nranks]: out, numbered from 0 by first rank; a rank that neither sends nor receives is alone. Null: only the
 * conversion is asked for, which takes O(nranks); the groups of an ALL_TO_ALL take as long as its list of transfers. */
enum mt_conversion mt_layout_groups(const struct mt_layouts *table, int from, int to, int *group);

/* The transfers of an ALL_TO_ALL between two layouts, in order of receiver; of those that share elements, in order of
 * part and sender, but the receiver itself comes first among a part's senders. `group` null: all ranks together.
 * `only`: the receivers of one group, by its number; -1: all. The list is in `arena`; returns its length, or -1 if a
 * rank's group lacks something of its new box. */
struct mt_transfer {
    int from, to, part; /* ranks, and the old part; from -1: no part goes there, the elements are zero (or -inf) */
    bool adds;          /* reduced with an earlier part of the same elements */
    struct mt_box box;
};
int mt_layout_transfers(const struct mt_layouts *table, int from, int to, const int *group, int only,
                        struct mt_arena *arena, struct mt_transfer **list);

/* to_part[from's nparts]: the part of the new cover `cover` that each old part goes to in an ALL_TO_ALL, if its
 * elements do: that of the first rank with the old part and in the new cover, or the cover's first part if there is
 * none, or if old and new parts are reduced differently. */
void mt_layout_part_map(const struct mt_layout *from, const struct mt_layout *to, int nranks, int cover, int *to_part);

#endif
