/* How one layout becomes another: the collective, its groups, and the transfers of the general case.
 *
 * Each collective is tried in turn. Its candidate groups are the ranks with an equal key: the box that is reduced or
 * gathered, and its part. Where a key has replicas, the k-th replica joins the k-th group. Then the groups are checked
 * to reduce, scatter or gather exactly what the collective promises. O(nranks^2) comparisons of boxes. */
#include <assert.h>
#include <stdlib.h>

#include "synth/layout/region.h"

void mt_layout_part_map(const struct mt_layout *from, const struct mt_layout *to, int nranks, int *to_part) {
    bool other_reduction = from->nparts > 1 && to->nparts > 1 && from->reduce != to->reduce;
    for (int p = 0; p < from->nparts; p++) to_part[p] = 0;
    for (int r = nranks - 1; r >= 0 && !other_reduction; r--)
        if (mt_box_count(&from->box[r], from->naxes)) to_part[from->part[r]] = to->part[r];
}

/* A conversion while its collective is sought. */
struct study {
    const struct mt_layout *from, *to;
    int nranks;
    int *to_part; /* [from->nparts] */
    int *group;   /* [nranks]: any numbers */
};

static int64_t old_count(const struct study *s, int rank) {
    return mt_box_count(&s->from->box[rank], s->from->naxes);
}

static int64_t new_count(const struct study *s, int rank) {
    return mt_box_count(&s->to->box[rank], s->to->naxes);
}

static bool is_slice(const struct study *s) {
    if (s->from->nparts != s->to->nparts || s->from->reduce != s->to->reduce) return false;
    for (int r = 0; r < s->nranks; r++) {
        if (!new_count(s, r)) continue;
        if (s->from->part[r] != s->to->part[r]) return false;
        if (!mt_box_within(&s->to->box[r], &s->from->box[r], s->to->naxes)) return false;
    }
    return true;
}

/* Group the ranks that take part by the relation `equivalent`; among equivalent ranks `replica` finds replicas, each of
 * which goes to a group of its own. */
static void group_by(struct study *s, bool (*equivalent)(const struct study *, int, int),
                     bool (*replica)(const struct study *, int, int), bool (*takes_part)(const struct study *, int)) {
    int *turn = mt_calloc((size_t)s->nranks, sizeof *turn);
    for (int r = 0; r < s->nranks; r++) {
        s->group[r] = r;
        if (!takes_part(s, r)) continue;
        for (int q = 0; q < r; q++)
            if (takes_part(s, q) && equivalent(s, q, r) && replica(s, q, r)) turn[r]++;
        for (int q = 0; q < r; q++)
            if (takes_part(s, q) && equivalent(s, q, r) && turn[q] == turn[r]) {
                s->group[r] = s->group[q];
                break;
            }
    }
    free(turn);
}

static bool has_old(const struct study *s, int r) {
    return old_count(s, r) > 0;
}

static bool has_new(const struct study *s, int r) {
    return new_count(s, r) > 0;
}

static bool same_old_box(const struct study *s, int q, int r) {
    return s->to_part[s->from->part[q]] == s->to_part[s->from->part[r]] &&
           mt_box_equal(&s->from->box[q], &s->from->box[r], s->from->naxes);
}

static bool same_new_box(const struct study *s, int q, int r) {
    return s->to->part[q] == s->to->part[r] && mt_box_equal(&s->to->box[q], &s->to->box[r], s->to->naxes);
}

static bool same_old_part(const struct study *s, int q, int r) {
    return s->from->part[q] == s->from->part[r];
}

static bool replica_of_old_box(const struct study *s, int q, int r) {
    return has_old(s, q) && has_old(s, r) && mt_box_equal(&s->from->box[q], &s->from->box[r], s->from->naxes);
}

/* Members of a group are equivalent, so that only the first is examined. */
static bool first_of_group(const struct study *s, int rank) {
    for (int q = 0; q < rank; q++)
        if (s->group[q] == s->group[rank]) return false;
    return true;
}

/* Whether the group's boxes follow each other along some axis, and so are disjoint: the common case, in O(nranks). */
static bool group_in_order(const struct study *s, const struct mt_layout *layout, int rank) {
    for (int a = 0; a < layout->naxes; a++) {
        int64_t end = INT64_MIN;
        bool in_order = true;
        for (int q = 0; q < s->nranks && in_order; q++) {
            const struct mt_box *box = &layout->box[q];
            if (s->group[q] != s->group[rank] || !mt_box_count(box, layout->naxes)) continue;
            in_order = box->lo[a] >= end;
            end = box->hi[a];
        }
        if (in_order) return true;
    }
    return false;
}

/* Whether the boxes of the rank's group are disjoint and have `count` elements together. */
static bool group_tiles(const struct study *s, const struct mt_layout *layout, int rank, int64_t count) {
    bool in_order = group_in_order(s, layout, rank);
    for (int q = 0; q < s->nranks; q++) {
        if (s->group[q] != s->group[rank]) continue;
        struct mt_box common;
        for (int r = 0; r < q && !in_order; r++)
            if (s->group[r] == s->group[q] &&
                mt_box_intersect(&layout->box[q], &layout->box[r], layout->naxes, &common))
                return false;
        count -= mt_box_count(&layout->box[q], layout->naxes);
    }
    return count == 0;
}

/* AllReduce and ReduceScatter: every group has each of the parts that reduce to its new part once. */
static bool is_reduction(struct study *s, bool scatter) {
    const struct mt_layout *from = s->from, *to = s->to;
    for (int r = 0; r < s->nranks; r++) {
        if (has_new(s, r) && (!has_old(s, r) || s->to_part[from->part[r]] != to->part[r])) return false;
        if (!mt_box_within(&to->box[r], &from->box[r], to->naxes)) return false;
        if (!scatter && !mt_box_equal(&to->box[r], &from->box[r], to->naxes)) return false;
    }
    group_by(s, same_old_box, same_old_part, has_old);
    for (int r = 0; r < s->nranks; r++) {
        if (!has_old(s, r) || !first_of_group(s, r)) continue;
        int members = 0, parts = 0;
        for (int q = 0; q < s->nranks; q++) members += s->group[q] == s->group[r];
        for (int p = 0; p < from->nparts; p++) parts += s->to_part[p] == s->to_part[from->part[r]];
        if (members != parts) return false;
        if (scatter && !group_tiles(s, to, r, old_count(s, r))) return false;
    }
    return true;
}

static bool is_gather(struct study *s) {
    const struct mt_layout *from = s->from, *to = s->to;
    if (from->nparts != to->nparts || from->reduce != to->reduce) return false;
    for (int r = 0; r < s->nranks; r++) {
        if (!has_old(s, r)) continue;
        if (from->part[r] != to->part[r] || !mt_box_within(&from->box[r], &to->box[r], to->naxes)) return false;
    }
    group_by(s, same_new_box, replica_of_old_box, has_new);
    for (int r = 0; r < s->nranks; r++)
        if (has_new(s, r) && first_of_group(s, r) && !group_tiles(s, from, r, new_count(s, r))) return false;
    return true;
}

struct transfers {
    struct mt_arena *arena;
    struct mt_transfer *items;
    int count, capacity;
};

/* Move what `sender` holds of the region `wanted` to the list of transfers. */
static void take(struct transfers *list, struct mt_region *wanted, struct mt_arena *scratch,
                 const struct mt_layout *from, int sender, int receiver) {
    struct mt_region taken = {0};
    mt_region_take(wanted, scratch, &from->box[sender], from->naxes, &taken);
    for (int i = 0; i < taken.count; i++) {
        mt_arena_grow(list->arena, &list->items, list->count, &list->capacity, sizeof *list->items);
        list->items[list->count++] = (struct mt_transfer){sender, receiver, from->part[sender], taken.boxes[i]};
    }
}

int mt_layout_transfers(const struct mt_layouts *table, int from_id, int to_id, const int *group,
                        struct mt_arena *arena, struct mt_transfer **list) {
    const struct mt_layout *from = &table->items[from_id], *to = &table->items[to_id];
    struct mt_arena scratch = MT_ARENA_INIT;
    struct transfers transfers = {.arena = arena};
    int *to_part = mt_new(&scratch, int, from->nparts);
    mt_layout_part_map(from, to, table->nranks, to_part);
    for (int r = 0; r < table->nranks; r++) {
        if (!mt_box_count(&to->box[r], to->naxes)) continue;
        for (int p = 0; p < from->nparts; p++) {
            if (to_part[p] != to->part[r]) continue;
            struct mt_region wanted = {0};
            mt_region_add(&wanted, &scratch, &to->box[r], to->naxes);
            if (from->part[r] == p) take(&transfers, &wanted, &scratch, from, r, r);
            for (int q = 0; q < table->nranks && wanted.count; q++)
                if (q != r && from->part[q] == p && (!group || group[q] == group[r]))
                    take(&transfers, &wanted, &scratch, from, q, r);
        }
    }
    mt_arena_release(&scratch);
    *list = transfers.items;
    return transfers.count;
}

/* Groups are the connected components of the graph of transfers. */
static void connect(const struct mt_layouts *table, int from, int to, int *group) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_transfer *list;
    int count = mt_layout_transfers(table, from, to, NULL, &arena, &list);
    for (int r = 0; r < table->nranks; r++) group[r] = r;
    for (int i = 0; i < count; i++) {
        int joined = group[list[i].from], other = group[list[i].to];
        for (int r = 0; r < table->nranks; r++)
            if (group[r] == other) group[r] = joined;
    }
    mt_arena_release(&arena);
}

/* Number the groups from 0 by first rank. */
static void number_groups(int *group, int nranks) {
    int *number = mt_malloc((size_t)nranks * sizeof *number), next = 0;
    for (int r = 0; r < nranks; r++) {
        int first = r;
        for (int q = r - 1; q >= 0; q--)
            if (group[q] == group[r]) first = q;
        number[r] = first == r ? next++ : number[first];
    }
    for (int r = 0; r < nranks; r++) group[r] = number[r];
    free(number);
}

enum mt_conversion mt_layout_groups(const struct mt_layouts *table, int from, int to, int *group) {
    for (int r = 0; r < table->nranks; r++) group[r] = r;
    if (from == to) return MT_CONVERT_NOTHING;
    struct study s = {.from = &table->items[from], .to = &table->items[to], .nranks = table->nranks, .group = group};
    assert(s.from->naxes == s.to->naxes);
    if (is_slice(&s)) return MT_CONVERT_SLICE;

    enum mt_conversion conversion = MT_CONVERT_ALL_TO_ALL;
    s.to_part = mt_malloc((size_t)s.from->nparts * sizeof *s.to_part);
    mt_layout_part_map(s.from, s.to, s.nranks, s.to_part);
    if (is_reduction(&s, false))
        conversion = MT_CONVERT_ALL_REDUCE;
    else if (is_reduction(&s, true))
        conversion = MT_CONVERT_REDUCE_SCATTER;
    else if (is_gather(&s))
        conversion = MT_CONVERT_ALL_GATHER;
    else
        connect(table, from, to, group);
    free(s.to_part);
    number_groups(group, s.nranks);
    return conversion;
}
