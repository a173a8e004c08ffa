/* What each rank gets from which in the general conversion: box by box, cover by cover. */
#include "synth/layout/layout.h"
#include "synth/layout/region.h"

void mt_layout_part_map(const struct mt_layout *from, const struct mt_layout *to, int nranks, int cover, int *to_part) {
    bool other_reduction = mt_layout_is_partial(from) && mt_layout_is_partial(to) && from->reduce != to->reduce;
    int first = 0;
    while (to->cover[first] != cover) first++;
    for (int p = 0; p < from->nparts; p++) to_part[p] = first;
    for (int r = nranks - 1; r >= 0 && !other_reduction; r--)
        if (to->cover[to->part[r]] == cover && mt_box_count(&from->box[r], from->naxes) &&
            mt_box_count(&to->box[r], to->naxes))
            to_part[from->part[r]] = to->part[r];
}

/* Lists of things by number: those of number i are items[begin[i] .. begin[i + 1]). */
struct lists {
    int *items, *begin;
};

static struct lists list_by(const int *number, int count, int nnumbers, struct mt_arena *arena) {
    struct lists l = {mt_new(arena, int, count), mt_new(arena, int, nnumbers + 1)};
    int *next = mt_new(arena, int, nnumbers);
    for (int i = 0; i < count; i++) l.begin[number[i] + 1]++;
    for (int i = 0; i < nnumbers; i++) l.begin[i + 1] += l.begin[i], next[i] = l.begin[i];
    for (int i = 0; i < count; i++) l.items[next[number[i]]++] = i;
    return l;
}

struct transfers {
    const struct mt_layout *from, *to;
    int nranks;
    const int *group;        /* or null */
    struct lists ranks_of;   /* old parts */
    struct lists parts_of;   /* old covers */
    int **to_part;           /* [to->ncovers]: mt_layout_part_map, when asked for */
    struct mt_arena scratch; /* of the call */
    struct mt_arena work;    /* of one receiver */
    struct mt_arena *arena;  /* of the list */
    struct mt_transfer *items;
    int count, capacity;
};

static void add_transfers(struct transfers *t, const struct mt_region *boxes, struct mt_transfer transfer) {
    for (int i = 0; i < boxes->count; i++) {
        mt_arena_grow(t->arena, &t->items, t->count, &t->capacity, sizeof *t->items);
        transfer.box = boxes->boxes[i];
        t->items[t->count++] = transfer;
    }
}

static bool with(const struct transfers *t, int sender, int receiver) {
    return !t->group || t->group[sender] == t->group[receiver];
}

/* Move what ranks of a part hold of the region `wanted` to the list of transfers; the receiver comes first. */
static void take_part(struct transfers *t, struct mt_region *wanted, int receiver, int part, bool adds) {
    const struct mt_layout *from = t->from;
    bool self = from->part[receiver] == part && mt_box_count(&from->box[receiver], from->naxes);
    for (int i = t->ranks_of.begin[part] - self; i < t->ranks_of.begin[part + 1] && wanted->count; i++) {
        bool own = i < t->ranks_of.begin[part];
        int sender = own ? receiver : t->ranks_of.items[i];
        if ((!own && sender == receiver) || !with(t, sender, receiver)) continue;
        struct mt_region taken = {0};
        mt_region_take(wanted, &t->work, &from->box[sender], from->naxes, &taken);
        add_transfers(t, &taken, (struct mt_transfer){.from = sender, .to = receiver, .part = part, .adds = adds});
    }
}

/* Move what a cover holds of the region `left` to `held`; for a complete new box, what the group's ranks do. */
static void take_cover(struct transfers *t, struct mt_region *left, int receiver, int cover, struct mt_region *held) {
    bool all = !mt_layout_is_complete(t->to, receiver);
    for (int k = t->parts_of.begin[cover]; k < t->parts_of.begin[cover + 1]; k++) {
        int part = t->parts_of.items[k];
        for (int i = t->ranks_of.begin[part]; i < t->ranks_of.begin[part + 1] && left->count; i++)
            if (all || with(t, t->ranks_of.items[i], receiver))
                mt_region_take(left, &t->work, &t->from->box[t->ranks_of.items[i]], t->from->naxes, held);
    }
}

/* Whether an old part goes to the receiver's new part. */
static bool goes(struct transfers *t, int part, int receiver) {
    int new = t->to->part[receiver], cover = t->to->cover[new];
    if (t->to->cover_parts[cover] == 1) return true;
    if (!t->to_part[cover]) {
        t->to_part[cover] = mt_new(&t->scratch, int, t->from->nparts);
        mt_layout_part_map(t->from, t->to, t->nranks, cover, t->to_part[cover]);
    }
    return t->to_part[cover][part] == new;
}

/* What the receiver gets from one old cover; false if the group lacks some of it. */
static bool take_from_cover(struct transfers *t, struct mt_region *left, int receiver, int cover) {
    int first = t->parts_of.begin[cover], end = t->parts_of.begin[cover + 1];
    if (end - first == 1 && mt_layout_is_complete(t->to, receiver)) {
        take_part(t, left, receiver, t->parts_of.items[first], false);
        return true;
    }
    struct mt_region held = {0};
    bool adds = false;
    take_cover(t, left, receiver, cover, &held);
    for (int k = first; k < end && held.count; k++) {
        struct mt_region wanted = {0};
        if (!goes(t, t->parts_of.items[k], receiver)) continue;
        for (int i = 0; i < held.count; i++) mt_region_add(&wanted, &t->work, &held.boxes[i], t->from->naxes);
        take_part(t, &wanted, receiver, t->parts_of.items[k], adds);
        if (wanted.count) return false;
        adds = true;
    }
    if (!adds) add_transfers(t, &held, (struct mt_transfer){.from = -1, .to = receiver, .part = -1});
    return true;
}

static bool take_all(struct transfers *t, int receiver) {
    const struct mt_box *old = &t->from->box[receiver];
    bool has = mt_box_count(old, t->from->naxes) && mt_layout_is_complete(t->to, receiver);
    int own = has ? t->from->cover[t->from->part[receiver]] : -1;
    struct mt_region left = {0};
    bool all = true;
    mt_region_add(&left, &t->work, &t->to->box[receiver], t->to->naxes);
    for (int k = -1; k < t->from->ncovers && left.count && all; k++) {
        if (k < 0 ? own >= 0 : k != own) all = take_from_cover(t, &left, receiver, k < 0 ? own : k);
    }
    mt_arena_release(&t->work);
    return all && !left.count;
}

int mt_layout_transfers(const struct mt_layouts *table, int from_id, int to_id, const int *group, int only,
                        struct mt_arena *arena, struct mt_transfer **list) {
    struct transfers t = {.from = &table->items[from_id],
                          .to = &table->items[to_id],
                          .nranks = table->nranks,
                          .group = group,
                          .arena = arena};
    t.ranks_of = list_by(t.from->part, t.nranks, t.from->nparts, &t.scratch);
    t.parts_of = list_by(t.from->cover, t.from->nparts, t.from->ncovers, &t.scratch);
    t.to_part = mt_new(&t.scratch, int *, t.to->ncovers);
    bool all = true;
    for (int r = 0; r < t.nranks; r++)
        if ((only < 0 || group[r] == only) && mt_box_count(&t.to->box[r], t.to->naxes)) all = take_all(&t, r) && all;
    mt_arena_release(&t.scratch);
    *list = t.items;
    return all ? t.count : -1;
}
