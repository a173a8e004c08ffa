/* Layouts from what each rank has: its box of the value, and its terms.
 *
 * Covers are formed by first fit: a rank joins the first cover with whose ranks it shares no terms of an element. First
 * ranks of equal boxes and terms are taken as one; if that leaves terms out, one by one, which lets them be in
 * different covers. Then covers of equal terms are joined, so that their ranks are replicas, and a rank whose own cover
 * lacks terms becomes a replica in one that has them. What results is checked; covers are few. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/number/hash.h"
#include "synth/layout/cover.h"
#include "synth/layout/number.h"

struct forming {
    int nranks, nterms;
    int64_t terms; /* of an element */
    struct mt_layout layout;
    const struct mt_terms *term; /* [nranks] */
    int *term_id;                /* [nranks]: equal for equal terms */
    int64_t *size;               /* [nranks]: how many terms */
    int *cover;                  /* [nranks]; -1: not yet, or an empty box */
    int ncovers;
    int *next, *first; /* the ranks of each cover that stand for their equals, as lists */
};

static int64_t term_count(const struct mt_terms *t, int nterms) {
    int64_t n = 1;
    for (int i = 0; i < nterms; i++) n *= t->hi[i] > t->lo[i] ? t->hi[i] - t->lo[i] : 0;
    return n;
}

static bool terms_meet(const struct mt_terms *a, const struct mt_terms *b, int nterms) {
    for (int i = 0; i < nterms; i++)
        if (a->hi[i] <= a->lo[i] || b->hi[i] <= b->lo[i] || a->lo[i] >= b->hi[i] || b->lo[i] >= a->hi[i]) return false;
    return true;
}

/* Equal terms have equal numbers; of empty ones, those that are empty at equal places. */
static void number_terms(struct forming *f) {
    struct mt_box *boxes = mt_calloc((size_t)f->nranks, sizeof *boxes);
    int *empty = mt_malloc((size_t)f->nranks * sizeof *empty);
    for (int r = 0; r < f->nranks; r++) {
        f->size[r] = term_count(&f->term[r], f->nterms);
        empty[r] = f->size[r] == 0;
        for (int i = 0; i < f->nterms; i++) {
            boxes[r].lo[i] = f->term[r].lo[i];
            boxes[r].hi[i] = empty[r] ? f->term[r].lo[i] + 1 : f->term[r].hi[i];
        }
    }
    struct mt_layout terms = {.naxes = f->nterms, .box = boxes};
    mt_number_boxes(&terms, f->nranks, empty, f->term_id);
    free(empty), free(boxes);
}

static bool fits(const struct forming *f, int cover, int rank) {
    struct mt_box both;
    for (int m = f->first[cover]; m >= 0; m = f->next[m])
        if (terms_meet(&f->term[m], &f->term[rank], f->nterms) &&
            mt_box_intersect(&f->layout.box[m], &f->layout.box[rank], f->layout.naxes, &both))
            return false;
    return true;
}

/* `same[rank]`: the number of its class, whose first rank decides for all; null: each for itself. A rank without terms
 * fits everywhere, and joins the ranks before it. */
static void first_fit(struct forming *f, const int *same) {
    int last = 0, classes = 0, *chosen = mt_malloc((size_t)f->nranks * sizeof *chosen);
    f->ncovers = 0;
    for (int r = 0; r < f->nranks; r++) {
        f->cover[r] = -1;
        if (!mt_box_count(&f->layout.box[r], f->layout.naxes)) continue;
        if (same && same[r] < classes) {
            f->cover[r] = chosen[same[r]];
            continue;
        }
        int c = f->size[r] ? 0 : last;
        while (c < f->ncovers && !fits(f, c, r)) c++;
        if (c == f->ncovers) f->first[f->ncovers++] = -1;
        f->next[r] = f->first[c];
        f->first[c] = r;
        f->cover[r] = last = c;
        if (same) chosen[classes++] = c;
    }
    free(chosen);
}

struct entry { /* a rank's terms in its component */
    int component, term_id, rank;
};

static int compare_entries(const void *a, const void *b) {
    const struct entry *x = a, *y = b;
    if (x->component != y->component) return x->component < y->component ? -1 : 1;
    return (x->term_id > y->term_id) - (x->term_id < y->term_id);
}

/* Terms of one component, by which it is recognised, and whether they are all. */
struct kind {
    uint64_t hash;
    int64_t size;
    int cover; /* of those with this hash */
};

static int list_entries(const struct forming *f, const int *component, struct entry *entries) {
    int count = 0, unique = 0;
    for (int r = 0; r < f->nranks; r++)
        if (component[r] >= 0) entries[count++] = (struct entry){component[r], f->term_id[r], r};
    qsort(entries, (size_t)count, sizeof *entries, compare_entries);
    for (int i = 0; i < count; i++)
        if (!unique || compare_entries(&entries[unique - 1], &entries[i])) entries[unique++] = entries[i];
    return unique;
}

/* Join components of equal terms to one cover each. */
static void join_equal(struct forming *f, const int *component, int ncomponents, struct kind *kinds) {
    struct entry *entries = mt_malloc((size_t)f->nranks * sizeof *entries);
    int count = list_entries(f, component, entries);
    for (int k = 0; k < ncomponents; k++) kinds[k] = (struct kind){0};
    for (int i = 0; i < count; i++) {
        struct kind *kind = &kinds[entries[i].component];
        kind->hash = mt_hash64(&entries[i].term_id, sizeof entries[i].term_id, kind->hash + 1);
        kind->size += f->size[entries[i].rank];
    }
    for (int k = 0; k < ncomponents; k++) {
        int other = 0;
        while (kinds[other].hash != kinds[k].hash) other++;
        kinds[k].cover = other;
    }
    free(entries);
}

/* The cover of a rank whose component lacks terms: one that has all, where it is a replica. -1: there is none. */
static int cover_with(const struct forming *f, const int *component, const struct kind *kinds, int rank) {
    struct mt_box both;
    for (int r = 0; r < f->nranks; r++)
        if (component[r] >= 0 && kinds[component[r]].size == f->terms && f->term_id[r] == f->term_id[rank] &&
            mt_box_intersect(&f->layout.box[r], &f->layout.box[rank], f->layout.naxes, &both))
            return kinds[component[r]].cover;
    return -1;
}

/* Parts and covers of the layout from f->cover; false if they lack terms. */
static bool form_parts(struct forming *f, struct mt_arena *arena) {
    int n = f->nranks, *component = mt_new(arena, int, n);
    int ncomponents = mt_cover_components(&f->layout, n, f->cover, component);
    struct kind *kinds = mt_new(arena, struct kind, ncomponents);
    struct mt_numbering parts;
    bool all = true;
    join_equal(f, component, ncomponents, kinds);
    mt_numbering_init(&parts, n);
    int *cover = mt_new(arena, int, n);
    for (int r = 0; r < n && all; r++) {
        f->layout.part[r] = 0;
        if (component[r] < 0) continue;
        const struct kind *kind = &kinds[component[r]];
        int mine = kind->size == f->terms ? kind->cover : cover_with(f, component, kinds, r);
        all = mine >= 0;
        if (all) f->layout.part[r] = mt_numbering_pair(&parts, mine, f->term_id[r]), cover[f->layout.part[r]] = mine;
    }
    f->layout.nparts = parts.count > 1 ? parts.count : 1;
    f->layout.cover = cover;
    mt_numbering_release(&parts);
    if (!all) return false;
    int part;
    int64_t hole[MT_MAX_AXES + 1];
    mt_cover_canonical(&f->layout, n, arena);
    return mt_cover_complete(&f->layout, n, &part, hole);
}

static bool form_covers(struct forming *f, struct mt_arena *arena) {
    int *same = mt_new(arena, int, f->nranks);
    mt_number_boxes(&f->layout, f->nranks, f->term_id, same);
    for (int pass = 0; pass < 2; pass++) {
        f->layout.reduce = MT_REDUCE_NONE;
        first_fit(f, pass ? NULL : same);
        if (form_parts(f, arena)) return true;
    }
    return false;
}

int mt_layout_of(struct mt_layouts *table, int naxes, const int64_t *extent, const struct mt_division *division) {
    struct mt_arena arena = MT_ARENA_INIT;
    int n = table->nranks, id = -1;
    struct mt_terms *term = mt_new(&arena, struct mt_terms, n);
    struct forming f = {.nranks = n, .nterms = division->nterms, .terms = 1, .term = term};
    f.layout = (struct mt_layout){
        .naxes = naxes, .nparts = 1, .box = mt_new(&arena, struct mt_box, n), .part = mt_new(&arena, int, n)};
    memcpy(f.layout.extent, extent, (size_t)naxes * sizeof *extent);
    f.term_id = mt_new(&arena, int, n), f.cover = mt_new(&arena, int, n);
    f.next = mt_new(&arena, int, n), f.first = mt_new(&arena, int, n);
    f.size = mt_new(&arena, int64_t, n);
    if (!f.nterms) {
        memcpy(f.layout.box, division->box, (size_t)n * sizeof *f.layout.box);
        id = mt_layout_intern(table, &f.layout);
        goto out;
    }
    for (int t = 0; t < f.nterms; t++) f.terms *= division->term_extent[t];
    for (int i = 0; i < n; i++) {
        int rank = division->order ? division->order[i] : i;
        f.layout.box[i] = division->box[rank];
        term[i] = division->term[rank];
    }
    number_terms(&f);
    if (form_covers(&f, &arena)) {
        struct mt_layout made = f.layout;
        made.box = mt_new(&arena, struct mt_box, n);
        made.part = mt_new(&arena, int, n);
        made.reduce = division->reduce;
        for (int i = 0; i < n; i++) {
            int rank = division->order ? division->order[i] : i;
            made.box[rank] = f.layout.box[i];
            made.part[rank] = f.layout.part[i];
        }
        id = mt_layout_intern(table, &made);
    }
out:
    mt_arena_release(&arena);
    return id;
}
