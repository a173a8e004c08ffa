/* Layouts: interning, coverage against counting every element, text, conversions and their pieces. */
#include "synth/layout/convert/exchange.h"
#include "synth/layout/layout.h"
#include "tests/check.h"
#include "tests/synth/layout/random_layout.h"

static int64_t sizes_a[] = {3, 0, 5}, starts_a[] = {0, 3, 3, 8};
static int64_t sizes_b[] = {1, 6, 1}, starts_b[] = {0, 1, 7, 8};
static const struct mt_split split_a = {.name = "a", .sizes = sizes_a, .starts = starts_a};
static const struct mt_split split_b = {.name = "b", .sizes = sizes_b, .starts = starts_b};

static void check_text(const struct mt_layouts *table, int layout, const char *want) {
    struct mt_arena arena = MT_ARENA_INIT;
    CHECK_TEXT(mt_layout_text(table, layout, &arena), want);
    mt_arena_release(&arena);
}

static void test_intern(void) {
    struct mt_layouts t;
    mt_layouts_init(&t, 3);
    const int64_t extent[] = {8, 4};
    int r = mt_layout_replicated(&t, 2, extent), s = mt_layout_split(&t, 2, extent, 0, &split_a);
    int p = mt_layout_partial(&t, 2, extent, MT_SUM), m = mt_layout_partial(&t, 2, extent, MT_MAX);
    CHECK(r != s && r != p && s != p && p != m, "different layouts share an id");
    CHECK_EQ(mt_layout_replicated(&t, 2, extent), r);
    CHECK_EQ(mt_layout_split(&t, 2, extent, 0, &split_a), s);
    CHECK_EQ(mt_layout_partial(&t, 2, extent, MT_SUM), p);
    CHECK_EQ(mt_box_count(&t.items[s].box[1], 2), 0);
    CHECK_EQ(t.items[s].box[1].hi[1], 0);

    /* Other names for the same parts, a part that nobody holds, and an empty box's place make no difference. */
    struct mt_box boxes[3] = {{{0, 0}, {8, 4}}, {{0, 0}, {8, 4}}, {{0, 0}, {8, 4}}};
    int parts[3] = {7, 2, 5};
    struct mt_layout l = {.naxes = 2, .extent = {8, 4}, .reduce = MT_SUM, .nparts = 9, .box = boxes, .part = parts};
    CHECK_EQ(mt_layout_intern(&t, &l), p);
    CHECK_EQ(parts[0], 7);
    parts[0] = parts[1] = parts[2] = 3;
    CHECK_EQ(mt_layout_intern(&t, &l), r);
    boxes[0].hi[0] = 3, boxes[2].lo[0] = 3;
    boxes[1] = (struct mt_box){{5, 1}, {5, 3}};
    parts[1] = 0;
    CHECK_EQ(mt_layout_intern(&t, &l), s);

    for (int64_t e = 1; e < 200; e++) { /* the hash table grows */
        int64_t line[] = {e};
        mt_layout_replicated(&t, 1, line);
    }
    CHECK_EQ(mt_layout_split(&t, 2, extent, 0, &split_a), s);
    mt_layouts_release(&t);

    mt_layouts_init(&t, 1); /* with one rank a partial value is whole */
    CHECK_EQ(mt_layout_partial(&t, 2, extent, MT_SUM), mt_layout_replicated(&t, 2, extent));
    mt_layouts_release(&t);
}

static void test_text(void) {
    struct mt_layouts t;
    mt_layouts_init(&t, 3);
    const int64_t extent[] = {8, 4};
    check_text(&t, mt_layout_replicated(&t, 2, extent), "R");
    check_text(&t, mt_layout_replicated(&t, 0, extent), "R");
    check_text(&t, mt_layout_partial(&t, 0, extent, MT_SUM), "P(sum)");
    check_text(&t, mt_layout_partial(&t, 2, extent, MT_MAX), "P(max)");
    check_text(&t, mt_layout_split(&t, 2, extent, 0, &split_a), "S(0: 3 0 5)");
    struct mt_box boxes[3] = {{{0, 0}, {8, 3}}, {{0, 3}, {8, 4}}, {{0, 0}, {8, 4}}};
    int parts[3] = {0, 0, 1};
    struct mt_layout l = {.naxes = 2, .extent = {8, 4}, .reduce = MT_SUM, .nparts = 2, .box = boxes, .part = parts};
    check_text(&t, mt_layout_intern(&t, &l), "S(1: 3 1 4) P(sum: 0 0 1)");
    boxes[0].hi[1] = boxes[1].hi[1] = 4, boxes[1].lo[1] = 0;
    check_text(&t, mt_layout_intern(&t, &l), "P(sum: 0 0 1)");
    boxes[0].hi[0] = 2, boxes[1].lo[0] = 1;
    check_text(&t, mt_layout_intern(&t, &l), "0[0:2 0:4]/0 1[1:8 0:4]/0 2[0:8 0:4]/1 sum");
    l.nparts = 1, parts[2] = 0;
    boxes[2] = (struct mt_box){{0}, {0}};
    check_text(&t, mt_layout_intern(&t, &l), "0[0:2 0:4] 1[1:8 0:4] 2[]");
    boxes[0] = boxes[2], boxes[1].lo[0] = 0;
    check_text(&t, mt_layout_intern(&t, &l), "S(0: 0 8 0)");
    mt_layouts_release(&t);
}

/* Layouts from terms: each rank's rows [lo, hi) of 8 and terms [lo, hi) of 8, by the text of what they make. */
struct divided {
    int nranks;
    int64_t rows[6][2], terms[6][2];
    const char *text; /* null: the ranks form no covers */
};

static void check_divided(const struct divided *d) {
    struct mt_layouts t;
    struct mt_box box[6] = {{{0}, {0}}};
    struct mt_terms term[6] = {{{0}, {0}}};
    const int64_t extent[] = {8};
    mt_layouts_init(&t, d->nranks);
    for (int r = 0; r < d->nranks; r++) {
        box[r].lo[0] = d->rows[r][0], box[r].hi[0] = d->rows[r][1];
        term[r].lo[0] = d->terms[r][0], term[r].hi[0] = d->terms[r][1];
    }
    struct mt_division division = {.box = box, .nterms = 1, .term_extent = {8}, .term = term, .reduce = MT_SUM};
    int id = mt_layout_of(&t, 1, extent, &division);
    CHECK_EQ(id >= 0, d->text != NULL);
    struct mt_err err = MT_ERR_INIT;
    if (d->text) CHECK_OK(mt_layout_check(&t, id, &err), err);
    if (d->text) check_text(&t, id, d->text);
    mt_layouts_release(&t);
}

static void test_divided(void) {
    static const struct divided divided[] = {
        {3, {{0, 8}, {0, 8}, {0, 8}}, {{0, 8}, {0, 8}, {0, 8}}, "R"},
        {3, {{0, 3}, {3, 3}, {3, 8}}, {{0, 8}, {0, 8}, {0, 8}}, "S(0: 3 0 5)"},
        {3, {{0, 8}, {0, 8}, {0, 8}}, {{0, 3}, {3, 5}, {5, 8}}, "P(sum)"},
        {4, {{0, 8}, {0, 8}, {0, 8}, {0, 8}}, {{0, 3}, {0, 3}, {3, 8}, {3, 8}}, "P(sum: 0 0 1 1)"},
        {4, {{0, 8}, {0, 8}, {0, 8}, {0, 8}}, {{0, 5}, {5, 8}, {0, 4}, {4, 8}}, "P(sum: 0.0 0.1 1.0 1.1)"},
        /* one division is a finer one of the other's second part: equal terms are of different covers */
        {5,
         {{0, 8}, {0, 8}, {0, 8}, {0, 8}, {0, 8}},
         {{0, 5}, {5, 8}, {0, 5}, {5, 6}, {6, 8}},
         "P(sum: 0.0 0.1 1.0 1.1 1.2)"},
        {3, {{0, 8}, {0, 8}, {0, 8}}, {{0, 5}, {0, 5}, {5, 8}}, "P(sum: 0 0 1)"}, /* more replicas of one part */
        {4,
         {{0, 3}, {3, 8}, {0, 8}, {0, 8}},
         {{0, 5}, {0, 5}, {5, 8}, {5, 8}},
         "0[0:3]/0 1[3:8]/0 2[0:8]/1 3[0:8]/1 sum"},
        {3, {{0, 4}, {0, 4}, {4, 8}}, {{0, 5}, {5, 8}, {0, 8}}, "0[0:4]/0 1[0:4]/1 2[4:8] sum"},
        {5,
         {{0, 4}, {0, 4}, {0, 4}, {4, 8}, {4, 8}},
         {{0, 3}, {3, 4}, {4, 8}, {0, 6}, {6, 8}},
         "0[0:4]/0 1[0:4]/1 2[0:4]/2 3[4:8]/0 4[4:8]/1 sum"},
        {4, {{0, 4}, {4, 8}, {0, 4}, {4, 8}}, {{0, 5}, {0, 5}, {5, 8}, {5, 8}}, "S(0: 4 4 4 4) P(sum: 0 0 1 1)"},
        {3, {{0, 8}, {0, 8}, {0, 8}}, {{0, 5}, {1, 1}, {5, 8}}, "P(sum)"}, /* no terms */
        {4, {{0, 8}, {0, 8}, {0, 8}, {0, 8}}, {{0, 8}, {0, 8}, {1, 1}, {1, 1}}, "P(sum: 0 0 1 1)"},
        {2, {{0, 8}, {0, 8}}, {{0, 5}, {6, 8}}, NULL}, /* one is missing */
        {2, {{0, 8}, {0, 4}}, {{0, 5}, {5, 8}}, NULL}, /* of some elements */
    };
    for (size_t i = 0; i < sizeof divided / sizeof *divided; i++) check_divided(&divided[i]);
}

/* Element `at` (mixed radix) of the value lies in the box. */
static bool holds(const struct mt_layout *l, const struct mt_box *box, int64_t at) {
    for (int a = l->naxes - 1; a >= 0; a--) {
        int64_t i = at % l->extent[a];
        at /= l->extent[a];
        if (i < box->lo[a] || i >= box->hi[a]) return false;
    }
    return true;
}

static int64_t count_of(const struct mt_layout *l) {
    int64_t n = 1;
    for (int a = 0; a < l->naxes; a++) n *= l->extent[a];
    return n;
}

/* Whether a part has element e on some rank. */
static bool part_holds(const struct mt_layout *l, int nranks, int part, int64_t e) {
    for (int r = 0; r < nranks; r++)
        if (l->part[r] == part && holds(l, &l->box[r], e)) return true;
    return false;
}

/* Whether a cover has element e, and in all of its parts. */
static bool cover_holds(const struct mt_layout *l, int nranks, int cover, int64_t e, bool *all) {
    bool some = false;
    *all = true;
    for (int p = 0; p < l->nparts; p++) {
        if (l->cover[p] != cover) continue;
        bool held = part_holds(l, nranks, p, e);
        some = some || held;
        *all = *all && held;
    }
    return some;
}

static bool covers_all(const struct mt_layout *l, int nranks) {
    for (int64_t e = 0; e < count_of(l); e++) {
        bool found = false, all;
        for (int c = 0; c < l->ncovers; c++) {
            if (!cover_holds(l, nranks, c, e, &all)) continue;
            found = true;
            if (!all) return false;
        }
        if (!found) return false;
    }
    return true;
}

/* Random boxes, most of which leave holes, and random layouts, which leave none. */
static void test_check(struct dice *dice) {
    int good = 0, bad = 0;
    for (int round = 0; round < 3000; round++) {
        struct mt_layouts t;
        int n = 1 + (int)roll(dice, 5), naxes = (int)roll(dice, 4);
        mt_layouts_init(&t, n);
        int64_t extent[3] = {1 + roll(dice, 4), 1 + roll(dice, 3), 1 + roll(dice, 3)};
        int id = random_layout(dice, &t, naxes, extent, MT_SUM);
        struct mt_err err = MT_ERR_INIT;
        CHECK_OK(mt_layout_check(&t, id, &err), err);
        struct mt_layout *l = &t.items[id];
        CHECK(covers_all(l, n), "a random layout has a hole");
        struct mt_layout holed = *l;
        for (int k = 0; k < 2 && naxes; k++) {
            struct mt_box *box = &holed.box[roll(dice, n)];
            int a = (int)roll(dice, naxes);
            box->lo[a] = roll(dice, extent[a]);
            box->hi[a] = box->lo[a] + roll(dice, extent[a] - box->lo[a] + 1);
        }
        id = mt_layout_intern(&t, &holed);
        bool covered = covers_all(&t.items[id], n);
        CHECK_EQ(mt_layout_check(&t, id, &err), covered ? MT_OK : MT_EBUG);
        good += covered, bad += !covered;
        mt_layouts_release(&t);
    }
    CHECK(good > 300 && bad > 300, "%d good, %d bad", good, bad);

    struct mt_layouts t;
    mt_layouts_init(&t, 1);
    struct mt_box box = {{0}, {9}};
    int part = 0;
    struct mt_layout l = {.naxes = 1, .extent = {8}, .nparts = 1, .box = &box, .part = &part};
    struct mt_err err = MT_ERR_INIT;
    CHECK_EQ(mt_layout_check(&t, mt_layout_intern(&t, &l), &err), MT_EBUG);
    CHECK_EQ(mt_layout_check(&t, 5, &err), MT_EBUG);
    mt_layouts_release(&t);
}

static void check_conversion(const struct mt_layouts *t, int from, int to, enum mt_conversion want,
                             const char *groups) {
    int group[8];
    char text[9] = {0};
    CHECK_TEXT(conversion_names[mt_layout_groups(t, from, to, group)], conversion_names[want]);
    for (int r = 0; r < t->nranks; r++) text[r] = (char)('0' + group[r]);
    CHECK_TEXT(text, groups);
}

struct wanted {
    int from, to;
    enum mt_conversion conversion;
    const char *groups;
};

static void check_conversions(const struct mt_layouts *t, const struct wanted *wanted, size_t count) {
    for (size_t i = 0; i < count; i++)
        check_conversion(t, wanted[i].from, wanted[i].to, wanted[i].conversion, wanted[i].groups);
}

static void test_conversion(void) {
    struct mt_layouts t;
    mt_layouts_init(&t, 3);
    const int64_t extent[] = {8, 4};
    int r = mt_layout_replicated(&t, 2, extent), p = mt_layout_partial(&t, 2, extent, MT_SUM);
    int a = mt_layout_split(&t, 2, extent, 0, &split_a), b = mt_layout_split(&t, 2, extent, 0, &split_b);
    const struct wanted three[] = {
        {r, r, MT_CONVERT_NOTHING, "012"},
        {p, p, MT_CONVERT_NOTHING, "012"},
        {r, a, MT_CONVERT_SLICE, "012"},
        {p, r, MT_CONVERT_ALL_REDUCE, "000"},
        {p, a, MT_CONVERT_REDUCE_SCATTER, "000"},
        {a, r, MT_CONVERT_ALL_GATHER, "000"},
        {b, r, MT_CONVERT_ALL_GATHER, "000"},
        {a, b, MT_CONVERT_ALL_TO_ALL, "000"},
        {r, p, MT_CONVERT_ALL_TO_ALL, "012"}, /* zeros need no message */
        {p, mt_layout_partial(&t, 2, extent, MT_MAX), MT_CONVERT_ALL_TO_ALL, "000"},
    };
    check_conversions(&t, three, sizeof three / sizeof *three);
    mt_layouts_release(&t);

    /* Two nodes of two ranks: mixtures. Boxes by columns c (0 or 1), parts by node. */
    mt_layouts_init(&t, 4);
    struct mt_box boxes[4] = {{{0, 0}, {8, 3}}, {{0, 3}, {8, 4}}, {{0, 0}, {8, 3}}, {{0, 3}, {8, 4}}};
    int parts[4] = {0, 0, 1, 1};
    struct mt_layout l = {.naxes = 2, .extent = {8, 4}, .reduce = MT_SUM, .nparts = 2, .box = boxes, .part = parts};
    int column_partial = mt_layout_intern(&t, &l);
    l.nparts = 1;
    int zeros[4] = {0};
    l.part = zeros;
    int column = mt_layout_intern(&t, &l);
    for (int q = 0; q < 4; q++) boxes[q] = (struct mt_box){{0, 0}, {8, 4}};
    l.nparts = 2, l.part = parts;
    int node_partial = mt_layout_intern(&t, &l);
    int all = mt_layout_replicated(&t, 2, extent), each = mt_layout_partial(&t, 2, extent, MT_SUM);
    const struct wanted nodes[] = {
        {column_partial, column, MT_CONVERT_ALL_REDUCE, "0101"},
        {column_partial, node_partial, MT_CONVERT_ALL_GATHER, "0011"},
        {column, all, MT_CONVERT_ALL_GATHER, "0011"},
        {node_partial, all, MT_CONVERT_ALL_REDUCE, "0101"},
        {node_partial, column_partial, MT_CONVERT_SLICE, "0123"},
        {each, node_partial, MT_CONVERT_ALL_REDUCE, "0011"},
        {each, column_partial, MT_CONVERT_REDUCE_SCATTER, "0011"},
        {each, all, MT_CONVERT_ALL_REDUCE, "0000"},
        {each, column, MT_CONVERT_ALL_TO_ALL, "0000"},
    };
    check_conversions(&t, nodes, sizeof nodes / sizeof *nodes);
    mt_layouts_release(&t);

    /* Four ranks on a node, two on the next: the parts have unequal replicas. */
    mt_layouts_init(&t, 6);
    struct mt_box whole[6];
    for (int q = 0; q < 6; q++) whole[q] = (struct mt_box){{0, 0}, {8, 4}};
    int ragged[6] = {0, 0, 0, 0, 1, 1};
    l.box = whole, l.part = ragged;
    check_conversion(&t, mt_layout_intern(&t, &l), mt_layout_replicated(&t, 2, extent), MT_CONVERT_ALL_TO_ALL,
                     "000000");
    mt_layouts_release(&t);
}

/* Sums of all ranks to parts whose pieces lie on ranks in any order: the k-th rank that has a piece is of part k, and
 * each part is a group. */
static void test_parts_in_any_order(struct dice *dice) {
    enum { PIECES = 5, PARTS = 7, RANKS = PIECES * PARTS };
    const int64_t extent[] = {10};
    for (int round = 0; round < 50; round++) {
        struct mt_layouts t;
        struct mt_box boxes[RANKS];
        int piece[RANKS], parts[RANKS], group[RANKS], seen[PIECES] = {0}, number[PARTS], groups = 0;
        mt_layouts_init(&t, RANKS);
        for (int q = 0; q < RANKS; q++) piece[q] = q % PIECES;
        for (int q = RANKS - 1; q > 0 && round; q--) {
            int other = (int)roll(dice, q + 1), mine = piece[q];
            piece[q] = piece[other], piece[other] = mine;
        }
        for (int q = 0; q < RANKS; q++) {
            boxes[q] = (struct mt_box){{2 * piece[q]}, {2 * piece[q] + 2}};
            parts[q] = seen[piece[q]]++;
        }
        struct mt_layout l = {
            .naxes = 1, .extent = {10}, .reduce = MT_SUM, .nparts = PARTS, .box = boxes, .part = parts};
        int from = mt_layout_partial(&t, 1, extent, MT_SUM), to = mt_layout_intern(&t, &l);
        CHECK_TEXT(conversion_names[mt_layout_groups(&t, from, to, group)],
                   conversion_names[MT_CONVERT_REDUCE_SCATTER]);
        for (int k = 0; k < PARTS; k++) number[k] = -1;
        for (int q = 0; q < RANKS; q++) {
            if (number[parts[q]] < 0) number[parts[q]] = groups++;
            CHECK_EQ(group[q], number[parts[q]]);
        }
        mt_layouts_release(&t);
    }
}

/* The old cover from which rank r's new element e comes: its own if that has it and the element is complete, else the
 * first that has it. */
static int source_of(const struct mt_layout *from, const struct mt_layout *to, int nranks, int r, int64_t e) {
    bool all, complete = mt_layout_is_complete(to, r), empty = !mt_box_count(&from->box[r], from->naxes);
    int own = from->cover[from->part[r]];
    if (complete && !empty && cover_holds(from, nranks, own, e, &all)) return own;
    for (int c = 0; c < from->ncovers; c++)
        if (cover_holds(from, nranks, c, e, &all)) return c;
    return -1;
}

/* The rank that gives rank r element e of old part p: itself if it can, else the first. */
static int giver_of(const struct mt_layout *from, int nranks, int r, int p, int64_t e) {
    if (from->part[r] == p && holds(from, &from->box[r], e)) return r;
    for (int q = 0; q < nranks; q++)
        if (from->part[q] == p && holds(from, &from->box[q], e)) return q;
    return -1;
}

/* The simple AllToAll's pairs exchange what the list says. Returns whether it is one. */
static bool compare_simple(const struct mt_layouts *t, int from, int to, const struct mt_transfer *list, int count) {
    struct mt_exchange x;
    if (!mt_exchange_open(t, from, to, NULL, &x)) return false;
    for (int s = 0; s < t->nranks; s++)
        for (int r = 0; r < t->nranks; r++)
            for (int64_t e = 0; e < count_of(x.to); e++) {
                struct mt_box box;
                bool listed = false;
                for (int i = 0; i < count; i++)
                    listed |= list[i].from == s && list[i].to == r && holds(x.to, &list[i].box, e);
                CHECK_EQ(mt_exchange_box(&x, s, r, &box) && holds(x.to, &box, e), listed);
            }
    mt_exchange_close(&x);
    return true;
}

/* Transfers of random conversions: each new element is delivered once for each part of its old cover that goes to its
 * part, by the right rank; or once as nothing. */
static void test_transfers(struct dice *dice) {
    int several = 0, nothing = 0, simple = 0, sums = 0;
    for (int round = 0; round < 3000; round++) {
        struct mt_layouts t;
        struct mt_arena arena = MT_ARENA_INIT;
        int n = 1 + (int)roll(dice, 6), naxes = (int)roll(dice, 4), to_part[6];
        mt_layouts_init(&t, n);
        int64_t extent[3] = {1 + roll(dice, 4), 1 + roll(dice, 3), 1 + roll(dice, 3)};
        int from_id = random_layout(dice, &t, naxes, extent, MT_SUM),
            to_id = random_layout(dice, &t, naxes, extent, MT_SUM);
        const struct mt_layout *from = &t.items[from_id], *to = &t.items[to_id];
        struct mt_transfer *list;
        int count = mt_layout_transfers(&t, from_id, to_id, NULL, -1, &arena, &list);
        CHECK(count >= 0, "valid layouts lack nothing");
        bool is_simple = compare_simple(&t, from_id, to_id, list, count);
        simple += is_simple && from_id != to_id, sums += is_simple && mt_layout_is_partial(from);
        several += from->ncovers > 1 && to->ncovers > 1;
        for (int r = 0; r < n; r++)
            for (int64_t e = 0; e < count_of(to); e++) {
                int cover = source_of(from, to, n, r, e), seen = 0, want = 0;
                bool here = holds(to, &to->box[r], e);
                mt_layout_part_map(from, to, n, to->cover[to->part[r]], to_part);
                for (int p = 0; p < from->nparts; p++)
                    want += here && from->cover[p] == cover && to_part[p] == to->part[r];
                for (int i = 0; i < count; i++) {
                    if (list[i].to != r || !holds(to, &list[i].box, e)) continue;
                    CHECK(here, "rank %d gets what it does not hold", r);
                    CHECK_EQ(list[i].adds, seen > 0);
                    seen++;
                    if (list[i].from < 0) {
                        CHECK_EQ(want, 0);
                        nothing++;
                        continue;
                    }
                    CHECK_EQ(from->part[list[i].from], list[i].part);
                    CHECK_EQ(from->cover[list[i].part], cover);
                    CHECK_EQ(to_part[list[i].part], to->part[r]);
                    CHECK_EQ(list[i].from, giver_of(from, n, r, list[i].part, e));
                }
                CHECK_EQ(seen, here ? (want ? want : 1) : 0);
            }
        mt_arena_release(&arena);
        mt_layouts_release(&t);
    }
    CHECK(several > 100 && nothing > 300, "%d between several covers, %d nothings", several, nothing);
    CHECK(simple > 100 && sums > 30, "%d simple ones, %d of partial values", simple, sums);
}

int main(void) {
    struct dice dice = {.seed = 20261120};
    printf("seed %llu\n", (unsigned long long)dice.seed);
    test_intern();
    test_text();
    test_divided();
    test_check(&dice);
    test_conversion();
    test_parts_in_any_order(&dice);
    test_transfers(&dice);
    return 0;
}
