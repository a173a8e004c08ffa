/* The table of layouts: a vector that only grows, and a hash table of its contents. */
#include "synth/layout/layout.h"

#include <assert.h>
#include <stdlib.h>

#include "kernels/base/number/hash.h"
#include "synth/layout/cover.h"

void mt_layouts_init(struct mt_layouts *table, int nranks) {
    *table = (struct mt_layouts){.nranks = nranks};
}

void mt_layouts_release(struct mt_layouts *table) {
    mt_arena_release(&table->arena);
    *table = (struct mt_layouts){0};
}

/* One number more; numbers are few and short, so that a call for each would take longer. */
static inline uint64_t mixed(uint64_t h, int64_t x) {
    h = (h ^ (uint64_t)x) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static uint64_t content_hash(const struct mt_layout *l, int nranks) {
    uint64_t h = mt_hash64(l->extent, (size_t)l->naxes * sizeof *l->extent, (uint64_t)l->naxes);
    h = mt_hash64(l->part, (size_t)nranks * sizeof *l->part, h ^ (uint64_t)l->reduce);
    h = mt_hash64(l->cover, (size_t)l->nparts * sizeof *l->cover, h);
    for (int r = 0; r < nranks; r++)
        for (int a = 0; a < l->naxes; a++) h = mixed(mixed(h, l->box[r].lo[a]), l->box[r].hi[a]);
    return h ^ h >> 32;
}

static bool content_equal(const struct mt_layout *a, const struct mt_layout *b, int nranks) {
    if (a->naxes != b->naxes || a->reduce != b->reduce || a->nparts != b->nparts) return false;
    for (int i = 0; i < a->naxes; i++)
        if (a->extent[i] != b->extent[i]) return false;
    for (int p = 0; p < a->nparts; p++)
        if (a->cover[p] != b->cover[p]) return false;
    for (int r = 0; r < nranks; r++)
        if (a->part[r] != b->part[r] || !mt_box_equal(&a->box[r], &b->box[r], a->naxes)) return false;
    return true;
}

/* The slot that holds an equal layout, or the free one where it belongs. */
static int *find_slot(const struct mt_layouts *table, const struct mt_layout *layout) {
    uint64_t mask = (uint64_t)table->nslots - 1, at = layout->hash & mask;
    for (; table->slots[at]; at = (at + 1) & mask) {
        const struct mt_layout *other = &table->items[table->slots[at] - 1];
        if (other->hash == layout->hash && content_equal(other, layout, table->nranks)) break;
    }
    return &table->slots[at];
}

static void grow_slots(struct mt_layouts *table) {
    if (2 * (table->count + 1) <= table->nslots) return;
    table->nslots = table->nslots ? 2 * table->nslots : 32;
    table->slots = mt_new(&table->arena, int, table->nslots);
    for (int i = 0; i < table->count; i++) *find_slot(table, &table->items[i]) = i + 1;
}

int mt_layout_intern(struct mt_layouts *table, const struct mt_layout *layout) {
    int n = table->nranks;
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_layout own = *layout;
    assert(own.naxes >= 0 && own.naxes <= MT_MAX_AXES && own.nparts >= 1);
    own.box = mt_arena_memdup(&arena, layout->box, (size_t)n * sizeof *own.box);
    own.part = mt_arena_memdup(&arena, layout->part, (size_t)n * sizeof *own.part);
    mt_cover_canonical(&own, n, &arena);
    assert(own.nparts == 1 || own.reduce != MT_REDUCE_NONE);
    own.hash = content_hash(&own, n);
    grow_slots(table);
    int *slot = find_slot(table, &own);
    if (!*slot) {
        mt_arena_grow(&table->arena, &table->items, table->count, &table->capacity, sizeof *table->items);
        own.box = mt_arena_memdup(&table->arena, own.box, (size_t)n * sizeof *own.box);
        own.part = mt_arena_memdup(&table->arena, own.part, (size_t)n * sizeof *own.part);
        own.cover = mt_arena_memdup(&table->arena, own.cover, (size_t)own.nparts * sizeof *own.cover);
        own.cover_parts =
            mt_arena_memdup(&table->arena, own.cover_parts, (size_t)own.ncovers * sizeof *own.cover_parts);
        table->items[table->count++] = own;
        *slot = table->count;
    }
    mt_arena_release(&arena);
    return *slot - 1;
}

/* A layout of whole boxes in part 0, for the caller to change and intern. */
static struct mt_layout whole_boxes(struct mt_arena *arena, int nranks, int naxes, const int64_t *extent) {
    struct mt_layout l = {
        .naxes = naxes, .nparts = 1, .box = mt_new(arena, struct mt_box, nranks), .part = mt_new(arena, int, nranks)};
    for (int a = 0; a < naxes; a++) {
        l.extent[a] = extent[a];
        for (int r = 0; r < nranks; r++) l.box[r].hi[a] = extent[a];
    }
    return l;
}

/* Making and hashing the boxes of all ranks is slow: many layouts are found by what they are made from as well. */
static uint64_t regular_hash(const struct mt_layouts *table, int naxes, const int64_t *extent, int axis,
                             const int64_t *starts, enum mt_reduce reduce) {
    int what[] = {naxes, axis, (int)reduce};
    uint64_t hash = mt_hash64(extent, (size_t)naxes * sizeof *extent, mt_hash64(what, sizeof what, 0));
    return starts ? mt_hash64(starts, (size_t)(table->nranks + 1) * sizeof *starts, hash) : hash;
}

static struct mt_regular_layout *regular_at(const struct mt_layouts *table, uint64_t hash) {
    uint64_t mask = (uint64_t)table->regular_capacity - 1, at = hash & mask;
    while (table->regular[at].layout && table->regular[at].hash != hash) at = (at + 1) & mask;
    return &table->regular[at];
}

static void grow_regular(struct mt_layouts *table) {
    if (2 * (table->nregular + 1) <= table->regular_capacity) return;
    struct mt_regular_layout *old = table->regular;
    int capacity = table->regular_capacity;
    table->regular_capacity = capacity ? 2 * capacity : 32;
    table->regular = mt_new(&table->arena, struct mt_regular_layout, table->regular_capacity);
    for (int i = 0; i < capacity; i++)
        if (old[i].layout) *regular_at(table, old[i].hash) = old[i];
}

int *mt_layout_noted(struct mt_layouts *table, uint64_t hash) {
    grow_regular(table);
    struct mt_regular_layout *place = regular_at(table, hash);
    if (!place->layout) table->nregular++; /* the caller sets it; if not, it is overwritten some time */
    place->hash = hash;
    return &place->layout;
}

static int regular(struct mt_layouts *table, int naxes, const int64_t *extent, int axis, const int64_t *starts,
                   enum mt_reduce reduce) {
    uint64_t hash = regular_hash(table, naxes, extent, axis, starts, reduce);
    int *noted = mt_layout_noted(table, hash);
    if (*noted) return *noted - 1;
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_layout l = whole_boxes(&arena, table->nranks, naxes, extent);
    for (int r = 0; r < table->nranks && starts; r++) {
        l.box[r].lo[axis] = starts[r];
        l.box[r].hi[axis] = starts[r + 1];
    }
    if (reduce) {
        l.reduce = reduce;
        l.nparts = table->nranks;
        for (int r = 0; r < table->nranks; r++) l.part[r] = r;
    }
    int id = mt_layout_intern(table, &l);
    mt_arena_release(&arena);
    *noted = id + 1;
    return id;
}

int mt_layout_replicated(struct mt_layouts *table, int naxes, const int64_t *extent) {
    return regular(table, naxes, extent, -1, NULL, MT_REDUCE_NONE);
}

int mt_layout_split(struct mt_layouts *table, int naxes, const int64_t *extent, int axis,
                    const struct mt_split *split) {
    assert(axis >= 0 && axis < naxes && split->starts[table->nranks] == extent[axis]);
    return regular(table, naxes, extent, axis, split->starts, MT_REDUCE_NONE);
}

int mt_layout_partial(struct mt_layouts *table, int naxes, const int64_t *extent, enum mt_reduce reduce) {
    return regular(table, naxes, extent, -1, NULL, reduce);
}
