/* How one layout becomes another: the collective and its groups.
 *
 * Each collective is tried in turn. Its candidate groups are the ranks with an equal key: the box that is reduced or
 * gathered, and its cover or part. Where a key has replicas, the k-th replica joins the k-th group. Then the groups are
 * checked to reduce, scatter or gather exactly what the collective promises, and that the terms which each new part
 * gets are those that the new layout says (terms.c). Keys are numbered by hashing (number.c), in O(nranks); only groups
 * whose boxes do not follow each other along an axis are compared pair by pair. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "synth/layout/convert/exchange.h"
#include "synth/layout/number.h"
#include "synth/layout/study.h"

static int64_t old_count(const struct mt_study *s, int rank) {
    return mt_box_count(&s->from->box[rank], s->from->naxes);
}

static int64_t new_count(const struct mt_study *s, int rank) {
    return mt_box_count(&s->to->box[rank], s->to->naxes);
}

static bool is_slice(const struct mt_study *s) {
    for (int r = 0; r < s->nranks; r++)
        if (!mt_box_within(&s->to->box[r], &s->from->box[r], s->to->naxes)) return false;
    return mt_study_slice(s);
}

/* List the members of each group, in order of rank. */
static void list_members(struct mt_study *s) {
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
static void group_by_key(struct mt_study *s) {
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
static bool group_in_order(const struct mt_study *s, const struct mt_layout *layout, int group) {
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
static bool group_tiles(const struct mt_study *s, const struct mt_layout *layout, int group, int64_t count) {
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

/* Groups under division into subgroups, each named by its first rank. A rank whose new box was seen before begins at
 * the subgroup after the one that took it then: those before it held what overlaps, and still do. */
struct dividing {
    const struct mt_study *s;
    int *subgroup, *next, *taken; /* [nranks]: of a rank; the subgroup opened after one; by box: who took it last */
    struct mt_box *cover;         /* [nranks]: of a subgroup, around its boxes */
};

/* Whether the new box of the member at `at` overlaps those of a subgroup's members before it. */
static bool meets(const struct dividing *d, int first, int at) {
    const struct mt_study *s = d->s;
    const struct mt_box *box = &s->to->box[s->members[at]];
    struct mt_box common;
    if (!mt_box_intersect(&d->cover[first], box, s->to->naxes, &common)) return false;
    for (int i = s->begin[s->group[s->members[at]]]; i < at; i++)
        if (d->subgroup[s->members[i]] == first &&
            mt_box_intersect(&s->to->box[s->members[i]], box, s->to->naxes, &common))
            return true;
    return false;
}

static void join_subgroup(struct dividing *d, int first, int rank) {
    const struct mt_box *box = &d->s->to->box[rank];
    struct mt_box *cover = &d->cover[first];
    d->subgroup[rank] = first;
    if (first == rank || !mt_box_count(cover, d->s->to->naxes)) *cover = *box;
    for (int a = 0; a < d->s->to->naxes && mt_box_count(box, d->s->to->naxes); a++) {
        if (box->lo[a] < cover->lo[a]) cover->lo[a] = box->lo[a];
        if (box->hi[a] > cover->hi[a]) cover->hi[a] = box->hi[a];
    }
}

static void divide_group(struct dividing *d, int group, const int *number) {
    const struct mt_study *s = d->s;
    int last = -1; /* the subgroup that was opened last */
    for (int i = s->begin[group]; i < s->begin[group + 1]; i++) {
        int rank = s->members[i], first = last < 0 ? -1 : s->members[s->begin[group]];
        if (number[rank] >= 0 && d->taken[number[rank]] >= 0) first = d->next[d->taken[number[rank]]];
        while (first >= 0 && meets(d, first, i)) first = d->next[first];
        if (first < 0) {
            if (last >= 0) d->next[last] = rank;
            first = last = rank;
        }
        join_subgroup(d, first, rank);
        if (number[rank] >= 0) d->taken[number[rank]] = first;
    }
}

/* A ReduceScatter to parts: each group of one box is divided into subgroups whose new boxes are disjoint, by first fit.
 */
static void divide_groups(struct mt_study *s) {
    int n = s->nranks, *number = mt_malloc((size_t)n * sizeof *number);
    struct dividing d = {s, mt_malloc((size_t)n * sizeof *d.subgroup), mt_malloc((size_t)n * sizeof *d.next),
                         mt_malloc((size_t)n * sizeof *d.taken), mt_calloc((size_t)n, sizeof *d.cover)};
    mt_number_boxes(s->to, n, s->group, number);
    for (int r = 0; r < n; r++) d.subgroup[r] = r, d.next[r] = d.taken[r] = -1;
    for (int g = 0; g < n; g++)
        if (s->key[g] >= 0) divide_group(&d, g, number);
    memcpy(s->group, d.subgroup, (size_t)n * sizeof *s->group);
    free(number), free(d.subgroup), free(d.next), free(d.taken), free(d.cover);
    list_members(s);
}

/* AllReduce and ReduceScatter: every group has each of the parts that reduce to its new part once. */
static bool is_reduction(struct mt_study *s, bool scatter) {
    const struct mt_layout *from = s->from, *to = s->to;
    if (!mt_layout_is_partial(from) || (mt_layout_is_partial(to) && from->reduce != to->reduce)) return false;
    for (int r = 0; r < s->nranks; r++) {
        if (!mt_box_within(&to->box[r], &from->box[r], to->naxes)) return false;
        if (!scatter && !mt_box_equal(&to->box[r], &from->box[r], to->naxes)) return false;
    }
    int *tag = mt_malloc((size_t)s->nranks * sizeof *tag);
    struct mt_numbering tags; /* (old cover, new part) */
    mt_numbering_init(&tags, s->nranks);
    for (int r = 0; r < s->nranks; r++) {
        tag[r] = mt_numbering_pair(&tags, from->cover[from->part[r]], scatter ? 0 : to->part[r]);
        s->replica[r] = from->part[r];
    }
    mt_numbering_release(&tags);
    mt_number_boxes(from, s->nranks, tag, s->key);
    free(tag);
    group_by_key(s);
    if (scatter && mt_layout_is_partial(to)) divide_groups(s);
    for (int r = 0; r < s->nranks && scatter; r++)
        if (s->key[r] >= 0 && s->group[r] == r && !group_tiles(s, to, r, old_count(s, r))) return false;
    return mt_study_reduction(s);
}

static bool is_gather(struct mt_study *s) {
    const struct mt_layout *from = s->from, *to = s->to;
    for (int r = 0; r < s->nranks; r++)
        if (!mt_box_within(&from->box[r], &to->box[r], to->naxes)) return false;
    mt_number_boxes(to, s->nranks, to->part, s->key);
    mt_number_boxes(from, s->nranks, NULL, s->replica);
    group_by_key(s);
    for (int r = 0; r < s->nranks; r++)
        if (s->key[r] >= 0 && s->group[r] == r && !group_tiles(s, from, r, new_count(s, r))) return false;
    return mt_study_gather(s);
}

static int root_of(int *parent, int rank) {
    while (parent[rank] != rank) rank = parent[rank] = parent[parent[rank]];
    return rank;
}

static void join(int *group, int from, int to) {
    int a = root_of(group, from), b = root_of(group, to);
    group[a > b ? a : b] = a < b ? a : b;
}

static void connect_simple(const struct mt_exchange *x, int nranks, int *group) {
    struct mt_box box;
    for (int s = 0; s < nranks; s++)
        for (int r = 0; r < nranks && x->box[s] >= 0; r++)
            if (root_of(group, s) != root_of(group, r) && mt_exchange_box(x, s, r, &box)) join(group, s, r);
}

/* Groups are the connected components of the graph of transfers. */
static void connect(const struct mt_layouts *table, int from, int to, int *group) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_transfer *list;
    struct mt_exchange x;
    for (int r = 0; r < table->nranks; r++) group[r] = r;
    if (mt_exchange_open(table, from, to, NULL, &x)) {
        connect_simple(&x, table->nranks, group);
        mt_exchange_close(&x);
    } else {
        int count = mt_layout_transfers(table, from, to, NULL, -1, &arena, &list);
        for (int i = 0; i < count; i++)
            if (list[i].from >= 0) join(group, list[i].from, list[i].to);
        mt_arena_release(&arena);
    }
    for (int r = 0; r < table->nranks; r++) group[r] = root_of(group, r);
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

const enum mt_coll_kind mt_conversion_coll[MT_NCONVERSIONS] = {[MT_CONVERT_ALL_REDUCE] = MT_ALL_REDUCE,
                                                               [MT_CONVERT_REDUCE_SCATTER] = MT_REDUCE_SCATTER,
                                                               [MT_CONVERT_ALL_GATHER] = MT_ALL_GATHER,
                                                               [MT_CONVERT_ALL_TO_ALL] = MT_ALL_TO_ALL};

enum mt_conversion mt_layout_groups(const struct mt_layouts *table, int from, int to, int *group) {
    int n = table->nranks;
    for (int r = 0; r < n && group; r++) group[r] = r;
    if (from == to) return MT_CONVERT_NOTHING;
    struct mt_study s = {.from = &table->items[from], .to = &table->items[to], .nranks = n};
    assert(s.from->naxes == s.to->naxes);
    if (is_slice(&s)) return MT_CONVERT_SLICE;

    enum mt_conversion conversion = MT_CONVERT_ALL_TO_ALL;
    s.group = mt_malloc((size_t)(5 * n + 1) * sizeof *s.group);
    s.key = s.group + n, s.replica = s.key + n, s.members = s.replica + n, s.begin = s.members + n;
    if (is_reduction(&s, false))
        conversion = MT_CONVERT_ALL_REDUCE;
    else if (is_reduction(&s, true))
        conversion = MT_CONVERT_REDUCE_SCATTER;
    else if (is_gather(&s))
        conversion = MT_CONVERT_ALL_GATHER;
    else if (group)
        connect(table, from, to, s.group);
    if (group) {
        memcpy(group, s.group, (size_t)n * sizeof *group);
        number_groups(group, n);
    }
    free(s.group);
    return conversion;
}
