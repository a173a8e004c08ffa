/* How one layout becomes another: the collective, its groups, and the transfers of the general case.
 *
 * Each collective is tried in turn. Its candidate groups are the ranks with an equal key: the box that is reduced or
 * gathered, and its part. Where a key has replicas, the k-th replica joins the k-th group. Then the groups are checked
 * to reduce, scatter or gather exactly what the collective promises. Keys are numbered by hashing (number.c), in
 * O(nranks); only groups whose boxes do not follow each other along an axis are compared pair by pair. */
#include <assert.h>
#include <stdlib.h>

#include "synth/layout/number.h"
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
    int *group;   /* [nranks]: the first rank of its group */
    int *key;     /* [nranks]: candidates for one group have equal keys; -1: takes no part */
    int *replica; /* [nranks]: ranks of one key with equal numbers are replicas; -1: has none */
    int *members; /* [nranks]: the ranks by group, in order; those of the group of first rank r begin at begin[r] */
    int *begin;   /* [nranks + 1] */
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

/* List the members of each group, in order of rank. */
static void list_members(struct study *s) {
    int n = s->nranks;
    for (int r = 0; r <= n; r++) s->begin[r] = 0;
    for (int r = 0; r < n; r++) s->begin[s->group[r] + 1]++;
    for (int r = 0; r < n; r++) s->begin[r + 1] += s->begin[r];
    int *next = mt_malloc((size_t)n * sizeof *next);
    for (int r = 0; r < n; r++) next[r] = s->begin[r];
    for (int r = 0; r < n; r++) s->members[next[s->group[r]]++] = r;
    free(next);
}

/* Group the ranks by key; the k-th replica of each number goes to the key's k-th group. */
static void group_by_key(struct study *s) {
    int n = s->nranks;
    struct mt_numbering among, groups; /* (key, replica), (key, turn) */
    mt_numbering_init(&among, n);
    mt_numbering_init(&groups, n);
    int *seen = mt_calloc((size_t)n, sizeof *seen), *first = mt_malloc((size_t)n * sizeof *first);
    for (int r = 0; r < n; r++) {
        s->group[r] = r;
        if (s->key[r] < 0) continue;
        int turn = s->replica[r] < 0 ? 0 : seen[mt_numbering_pair(&among, s->key[r], s->replica[r])]++;
        int groups_before = groups.count, g = mt_numbering_pair(&groups, s->key[r], turn);
        if (g == groups_before) first[g] = r;
        s->group[r] = first[g];
    }
    free(seen), free(first);
    mt_numbering_release(&among);
    mt_numbering_release(&groups);
    list_members(s);
}

/* Whether the boxes of the group of first rank `group` follow each other along some axis, and so are disjoint. */
static bool group_in_order(const struct study *s, const struct mt_layout *layout, int group) {
    for (int a = 0; a < layout->naxes; a++) {
        int64_t end = INT64_MIN;
        bool in_order = true;
        for (int i = s->begin[group]; i < s->begin[group + 1] && in_order; i++) {
            const struct mt_box *box = &layout->box[s->members[i]];
            if (!mt_box_count(box, layout->naxes)) continue;
            in_order = box->lo[a] >= end;
            end = box->hi[a];
        }
        if (in_order) return true;
    }
    return false;
}

/* Whether the boxes of the group are disjoint and have `count` elements together. */
static bool group_tiles(const struct study *s, const struct mt_layout *layout, int group, int64_t count) {
    bool in_order = group_in_order(s, layout, group);
    for (int i = s->begin[group]; i < s->begin[group + 1]; i++) {
        const struct mt_box *box = &layout->box[s->members[i]];
        struct mt_box common;
        for (int j = s->begin[group]; j < i && !in_order; j++)
            if (mt_box_intersect(box, &layout->box[s->members[j]], layout->naxes, &common)) return false;
        count -= mt_box_count(box, layout->naxes);
    }
    return count == 0;
}

/* AllReduce and ReduceScatter: every group has each of the parts that reduce to its new part once. */
static bool is_reduction(struct study *s, bool scatter) {
    const struct mt_layout *from = s->from, *to = s->to;
    for (int r = 0; r < s->nranks; r++) {
        if (new_count(s, r) && (!old_count(s, r) || s->to_part[from->part[r]] != to->part[r])) return false;
        if (!mt_box_within(&to->box[r], &from->box[r], to->naxes)) return false;
        if (!scatter && !mt_box_equal(&to->box[r], &from->box[r], to->naxes)) return false;
    }
    int *to_part = mt_malloc((size_t)s->nranks * sizeof *to_part), *parts;
    for (int r = 0; r < s->nranks; r++) to_part[r] = s->to_part[from->part[r]], s->replica[r] = from->part[r];
    mt_number_boxes(from, s->nranks, to_part, s->key);
    free(to_part);
    group_by_key(s);
    parts = mt_calloc((size_t)s->nranks + 1, sizeof *parts); /* by new part */
    for (int p = 0; p < from->nparts; p++) parts[s->to_part[p]]++;
    bool all = true;
    for (int r = 0; r < s->nranks && all; r++) {
        if (s->key[r] < 0 || s->group[r] != r) continue;
        all = s->begin[r + 1] - s->begin[r] == parts[s->to_part[from->part[r]]] &&
              (!scatter || group_tiles(s, to, r, old_count(s, r)));
    }
    free(parts);
    return all;
}

static bool is_gather(struct study *s) {
    const struct mt_layout *from = s->from, *to = s->to;
    if (from->nparts != to->nparts || from->reduce != to->reduce) return false;
    for (int r = 0; r < s->nranks; r++) {
        if (!old_count(s, r)) continue;
        if (from->part[r] != to->part[r] || !mt_box_within(&from->box[r], &to->box[r], to->naxes)) return false;
    }
    mt_number_boxes(to, s->nranks, to->part, s->key);
    mt_number_boxes(from, s->nranks, NULL, s->replica);
    group_by_key(s);
    for (int r = 0; r < s->nranks; r++)
        if (s->key[r] >= 0 && s->group[r] == r && !group_tiles(s, from, r, new_count(s, r))) return false;
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

static int root_of(int *parent, int rank) {
    while (parent[rank] != rank) rank = parent[rank] = parent[parent[rank]];
    return rank;
}

/* Groups are the connected components of the graph of transfers. */
static void connect(const struct mt_layouts *table, int from, int to, int *group) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_transfer *list;
    int count = mt_layout_transfers(table, from, to, NULL, &arena, &list);
    for (int r = 0; r < table->nranks; r++) group[r] = r;
    for (int i = 0; i < count; i++) {
        int a = root_of(group, list[i].from), b = root_of(group, list[i].to);
        group[a > b ? a : b] = a < b ? a : b;
    }
    for (int r = 0; r < table->nranks; r++) group[r] = root_of(group, r);
    mt_arena_release(&arena);
}

/* Number the groups from 0 in order of their first ranks, by which they are named. */
static void number_groups(int *group, int nranks) {
    int *number = mt_malloc((size_t)nranks * sizeof *number), next = 0;
    for (int r = 0; r < nranks; r++) {
        if (group[r] == r) number[r] = next++;
        group[r] = number[group[r]];
    }
    free(number);
}

enum mt_conversion mt_layout_groups(const struct mt_layouts *table, int from, int to, int *group) {
    int n = table->nranks;
    for (int r = 0; r < n; r++) group[r] = r;
    if (from == to) return MT_CONVERT_NOTHING;
    struct study s = {.from = &table->items[from], .to = &table->items[to], .nranks = n, .group = group};
    assert(s.from->naxes == s.to->naxes);
    if (is_slice(&s)) return MT_CONVERT_SLICE;

    enum mt_conversion conversion = MT_CONVERT_ALL_TO_ALL;
    s.to_part = mt_malloc((size_t)s.from->nparts * sizeof *s.to_part);
    s.key = mt_malloc((size_t)(4 * n + 1) * sizeof *s.key);
    s.replica = s.key + n, s.members = s.replica + n, s.begin = s.members + n;
    mt_layout_part_map(s.from, s.to, n, s.to_part);
    if (is_reduction(&s, false))
        conversion = MT_CONVERT_ALL_REDUCE;
    else if (is_reduction(&s, true))
        conversion = MT_CONVERT_REDUCE_SCATTER;
    else if (is_gather(&s))
        conversion = MT_CONVERT_ALL_GATHER;
    else
        connect(table, from, to, group);
    free(s.to_part);
    free(s.key);
    number_groups(group, n);
    return conversion;
}
