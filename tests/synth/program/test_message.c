/* Messages of every conversion between random layouts, and of buckets of them, moved here by the definitions of coll.h:
 * what arrives reduces to the whole value. Whole numbers, so that sums are exact in any order. */
#include "synth/program/message.h"

#include "tests/check.h"
#include "tests/synth/layout/random_layout.h"

enum { SEED = 20261120, MOST_RANKS = 6, MOST_VALUES = 3, MOST_ELEMENTS = 7 * 5 * 4 };

/* Every rank's part of a value, in the coordinates of the whole; NaN where it holds nothing. */
struct held {
    double at[MOST_RANKS][MOST_ELEMENTS];
};

static int64_t place_of(const struct mt_layout *l, const int64_t *at) {
    int64_t place = 0;
    for (int a = 0; a < l->naxes; a++) place = place * l->extent[a] + at[a];
    return place;
}

/* Visit a box's elements in row-major order: their places in the whole. */
static int64_t places_of(const struct mt_layout *l, const struct mt_box *box, int64_t *places) {
    int64_t n = mt_box_count(box, l->naxes), at[MT_MAX_AXES];
    for (int a = 0; a < l->naxes; a++) at[a] = box->lo[a];
    for (int64_t i = 0; i < n; i++) {
        places[i] = place_of(l, at);
        for (int a = l->naxes - 1; a >= 0; a--) {
            if (++at[a] < box->hi[a]) break;
            at[a] = box->lo[a];
        }
    }
    return n;
}

static double reduced(enum mt_reduce reduce, double a, double b) {
    return reduce == MT_MAX ? fmax(a, b) : a + b;
}

/* The message buffers of all ranks before and after, by the table in coll.h. */
static void communicate(const struct mt_message *m, int n, double **buffer, double **received) {
    for (int r = 0; r < n; r++) {
        const struct mt_coll *c = &m[r].problem;
        int64_t at = 0;
        for (int p = 0; p < c->n; p++) {
            int64_t row = 0, other = m[r].group[p];
            if (c->kind == MT_ALL_TO_ALL) {
                for (int q = 0; q < c->me; q++) row += c->counts[p * c->n + q];
                for (int64_t i = 0; i < c->counts[p * c->n + c->me]; i++) received[r][at++] = buffer[other][row + i];
                continue;
            }
            for (int64_t i = 0; i < c->counts[p]; i++, at++) {
                bool sums = c->kind == MT_ALL_REDUCE || c->kind == MT_REDUCE_SCATTER;
                double x = buffer[c->kind == MT_BROADCAST ? m[r].group[c->root] : other][at];
                for (int q = 0; q < c->n && sums; q++)
                    x = q == 0 ? buffer[m[r].group[0]][at] : reduced(c->reduce, x, buffer[m[r].group[q]][at]);
                received[r][at] = c->kind == MT_REDUCE_SCATTER && p != c->me ? NAN : x;
            }
        }
    }
}

/* Those in place, which are there before others are unpacked, and then those that are copied. */
static const struct mt_message_piece *piece_of(const struct mt_message_side *side, int i) {
    return i < side->nin_place ? &side->in_place[i] : &side->pieces[i - side->nin_place];
}

static int64_t in_place_count(const struct mt_message_side *side, int naxes) {
    int64_t count = 0;
    for (int i = 0; i < side->nin_place; i++) count += mt_box_count(&side->in_place[i].box, naxes);
    return count;
}

/* Pieces in place are contiguous, overwrite, and all agree on what the others must stage: of a rank's own block, which
 * is in place on one side at most, nothing in message 0. */
static void check_in_place(const struct mt_program *p, const struct mt_instr *instr, const struct mt_message *m,
                           int rank) {
    const struct mt_message *mine = &m[rank];
    const int naxes = mt_pvalue_layout(p, instr->in[0])->naxes, me = mine->problem.me, n = mine->problem.n;
    int64_t own = instr->coll == MT_ALL_TO_ALL ? mine->problem.counts[me * n + me] : 0, start, at[2] = {0},
            owns[2] = {0};
    for (int q = 0; q < me && own; q++)
        at[0] += mine->problem.counts[me * n + q], at[1] += mine->problem.counts[q * n + me];
    for (int b = 0; b < 2; b++) {
        const struct mt_message_side *side = b ? &mine->unpack : &mine->pack;
        for (int i = 0; i < side->nin_place; i++) {
            const struct mt_message_piece *piece = &side->in_place[i];
            int value = (b ? instr->out : instr->in)[piece->operand];
            CHECK_EQ(piece->reduce, MT_REDUCE_NONE);
            CHECK_EQ(piece->buffer, b);
            CHECK(mt_box_run(&piece->box, mt_pvalue_box(p, value, rank), naxes, &start), "a piece in place has gaps");
            if (own && piece->at == at[b]) owns[b] = own;
        }
    }
    CHECK(!owns[0] || !owns[1], "a rank's own block is in place twice");
    for (int q = 0; q < n && instr->coll == MT_ALL_TO_ALL; q++) {
        const struct mt_message *theirs = &m[mine->group[q]];
        int64_t left = mine->count[0] - in_place_count(&mine->pack, naxes);
        CHECK_EQ(theirs->staged[0][me], left - (own - owns[0]));
        CHECK_EQ(theirs->staged[1][me], mine->count[1] - in_place_count(&mine->unpack, naxes) - owns[0]);
    }
}

static void pack(const struct mt_program *p, const struct mt_instr *instr, const struct mt_message *m, int rank,
                 const struct held *from, double *buffer) {
    int64_t places[MOST_ELEMENTS];
    for (int64_t i = 0; i < m->count[0]; i++) buffer[i] = m->zero ? 0 : NAN;
    for (int i = 0; i < m->pack.nin_place + m->pack.count; i++) {
        const struct mt_message_piece *piece = piece_of(&m->pack, i);
        const struct mt_layout *l = &p->layouts.items[p->values[instr->in[piece->operand]].layout];
        int64_t n = places_of(l, &piece->box, places);
        for (int64_t e = 0; e < n; e++) buffer[piece->at + e] = from[piece->operand].at[rank][places[e]];
    }
}

static void unpack(const struct mt_program *p, const struct mt_instr *instr, const struct mt_message *m, int rank,
                   struct held *to, const double *buffer) {
    int64_t places[MOST_ELEMENTS];
    for (int i = 0; i < m->unpack.nin_place + m->unpack.count; i++) {
        const struct mt_message_piece *piece = piece_of(&m->unpack, i);
        const struct mt_layout *l = &p->layouts.items[p->values[instr->out[piece->operand]].layout];
        int64_t n = places_of(l, &piece->box, places);
        CHECK_EQ(piece->buffer, instr->coll == MT_ALL_TO_ALL);
        for (int64_t e = 0; e < n; e++) {
            double *x = &to[piece->operand].at[rank][places[e]];
            if (piece->at < 0)
                *x = piece->reduce == MT_MAX ? -INFINITY : 0;
            else if (piece->reduce == MT_REDUCE_NONE)
                *x = buffer[piece->at + e];
            else
                *x = reduced(piece->reduce, *x, buffer[piece->at + e]);
        }
    }
}

/* Random parts of random whole numbers; the first part of each cover gives the rest. */
static void scatter(struct dice *dice, const struct mt_layout *l, int n, double *truth, struct held *held) {
    int64_t count = 1, places[MOST_ELEMENTS];
    for (int a = 0; a < l->naxes; a++) count *= l->extent[a];
    double parts[MOST_RANKS][MOST_ELEMENTS];
    for (int64_t e = 0; e < count; e++) {
        int first[MOST_RANKS];
        truth[e] = (double)(roll(dice, 201) - 100);
        for (int p = l->nparts - 1; p >= 0; p--) first[l->cover[p]] = p;
        for (int c = 0; c < l->ncovers; c++) parts[first[c]][e] = truth[e];
        for (int p = 0; p < l->nparts; p++) {
            if (first[l->cover[p]] == p) continue;
            parts[p][e] = (double)roll(dice, 41) - 20;
            if (l->reduce == MT_MAX)
                parts[p][e] = truth[e] - (double)roll(dice, 3);
            else
                parts[first[l->cover[p]]][e] -= parts[p][e];
        }
    }
    for (int r = 0; r < n; r++) {
        for (int64_t e = 0; e < MOST_ELEMENTS; e++) held->at[r][e] = NAN;
        int64_t here = places_of(l, &l->box[r], places);
        for (int64_t e = 0; e < here; e++) held->at[r][places[e]] = parts[l->part[r]][places[e]];
    }
}

/* All elements are held, in all parts of their covers, equally by replicas, and reduce to the truth. */
static void check_held(const struct mt_layout *l, int n, const double *truth, const struct held *held) {
    int64_t places[MOST_ELEMENTS], count = 1;
    for (int a = 0; a < l->naxes; a++) count *= l->extent[a];
    double parts[MOST_RANKS][MOST_ELEMENTS];
    for (int p = 0; p < l->nparts; p++)
        for (int64_t e = 0; e < count; e++) parts[p][e] = NAN;
    for (int r = 0; r < n; r++) {
        int64_t here = places_of(l, &l->box[r], places);
        for (int64_t e = 0; e < here; e++) {
            double x = held->at[r][places[e]], *part = &parts[l->part[r]][places[e]];
            CHECK(!isnan(x), "rank %d lacks element %lld", r, (long long)places[e]);
            CHECK(isnan(*part) || *part == x, "replicas differ");
            *part = x;
        }
    }
    for (int64_t e = 0; e < count; e++) {
        bool found = false;
        for (int c = 0; c < l->ncovers; c++) {
            double whole = NAN;
            int seen = 0, held_parts = 0;
            for (int p = 0; p < l->nparts; p++) {
                if (l->cover[p] != c) continue;
                whole = seen++ ? reduced(l->reduce, whole, parts[p][e]) : parts[p][e];
                held_parts += !isnan(parts[p][e]);
            }
            if (!held_parts) continue;
            found = true;
            CHECK_EQ(held_parts, seen);
            CHECK(whole == truth[e], "element %lld is %g, not %g", (long long)e, whole, truth[e]);
        }
        CHECK(found, "nobody holds element %lld", (long long)e);
    }
}

/* Counts are the same on all ranks of a group. */
static void check_counts(const struct mt_message *m, int n) {
    for (int r = 0; r < n; r++)
        for (int p = 0; p < m[r].problem.n; p++) {
            const struct mt_coll *a = &m[r].problem, *b = &m[m[r].group[p]].problem;
            CHECK_EQ(b->n, a->n);
            CHECK_EQ(b->me, p);
            int64_t vectors = a->kind == MT_ALL_TO_ALL ? a->n * a->n : a->n;
            CHECK(!memcmp(a->counts, b->counts, (size_t)vectors * sizeof *a->counts), "counts differ");
        }
}

static void move(const struct mt_program *p, const struct mt_instr *instr, const struct held *from, struct held *to) {
    struct mt_message m[MOST_RANKS];
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_err err = MT_ERR_INIT;
    double *buffer[MOST_RANKS], *received[MOST_RANKS];
    for (int r = 0; r < p->nranks; r++) {
        CHECK_OK(mt_message_make(p, instr, r, NULL, &arena, &m[r], &err), err);
        buffer[r] = mt_new(&arena, double, m[r].count[0] + 1);
        received[r] = mt_new(&arena, double, m[r].count[0] + m[r].count[1] + 1);
        pack(p, instr, &m[r], r, from, buffer[r]);
    }
    check_counts(m, p->nranks);
    for (int r = 0; r < p->nranks; r++) check_in_place(p, instr, m, r);
    int64_t most = 0;
    for (int r = 0; r < p->nranks; r++) {
        int64_t count = 0, nblocks = m[r].problem.kind == MT_ALL_TO_ALL ? m[r].problem.n : 1;
        for (int64_t i = 0; i < m[r].problem.n * nblocks; i++) count += m[r].problem.counts[i];
        if (count > most) most = count;
    }
    CHECK_EQ(mt_message_bytes(p, instr), most * mt_type_size(instr->wire));
    communicate(m, p->nranks, buffer, received);
    for (int r = 0; r < p->nranks; r++) unpack(p, instr, &m[r], r, to, received[r]);
    mt_arena_release(&arena);
}

/* One random conversion of one to three values (of the same layouts: one bucket). Returns its kind. */
static enum mt_conversion convert(struct dice *dice, bool broadcast) {
    int n = 1 + (int)roll(dice, MOST_RANKS), naxes = (int)roll(dice, 4), nvalues = 1 + (int)roll(dice, MOST_VALUES),
        group[6];
    int64_t extent[3] = {1 + roll(dice, 7), 1 + roll(dice, 5), 1 + roll(dice, 4)};
    enum mt_reduce reduce = roll(dice, 3) ? MT_SUM : MT_MAX, other = roll(dice, 5) ? reduce : MT_SUM;
    static const char *const names[] = {"a", "b", "c"};
    struct mt_err err = MT_ERR_INIT;
    struct mt_graph *g = mt_graph_new(MT_F64);
    struct mt_program p;
    int labels[3], in[MOST_VALUES], out[MOST_VALUES];
    for (int a = 0; a < naxes; a++) CHECK_OK(mt_graph_label(g, names[a], extent[a], 1, &labels[a], &err), err);
    mt_graph_value(g, "x", MT_VALUE_STATE, MT_F64, naxes, labels);
    mt_program_init(&p, g, n);
    int from = random_layout(dice, &p.layouts, naxes, extent, reduce);
    int to = random_layout(dice, &p.layouts, naxes, extent, other);
    if (broadcast) from = to = mt_layout_replicated(&p.layouts, naxes, extent);
    enum mt_conversion c = mt_layout_groups(&p.layouts, from, to, group);
    if (broadcast) memset(group, 0, sizeof group);
    struct mt_instr instr = {.kind = MT_INSTR_COLLECTIVE,
                             .gop = -1,
                             .nin = nvalues,
                             .nout = nvalues,
                             .in = in,
                             .out = out,
                             .coll = broadcast ? MT_BROADCAST : mt_conversion_coll[c],
                             .reduce = p.layouts.items[from].reduce,
                             .wire = MT_F64,
                             .acc = MT_F64,
                             .group = group,
                             .algorithm = "auto"};
    struct held *held = calloc(2 * MOST_VALUES, sizeof *held);
    double truth[MOST_VALUES][MOST_ELEMENTS];
    for (int v = 0; v < nvalues; v++) {
        in[v] = mt_program_value(&p, 0, from, MT_F64, MT_LAST);
        out[v] = mt_program_value(&p, 0, to, MT_F64, MT_LAST);
        scatter(dice, &p.layouts.items[from], n, truth[v], &held[v]);
        memset(&held[MOST_VALUES + v], 0xff, sizeof *held);
    }
    if (broadcast || c > MT_CONVERT_SLICE) {
        move(&p, &instr, held, held + MOST_VALUES);
        for (int v = 0; v < nvalues; v++) check_held(&p.layouts.items[to], n, truth[v], &held[MOST_VALUES + v]);
    }
    free(held);
    mt_program_release(&p);
    mt_graph_free(g);
    return c;
}

static void test_runs(void) {
    struct mt_box whole = {.lo = {2, 0, 1}, .hi = {6, 3, 6}}; /* 4 x 3 x 5 */
    int64_t start;
    CHECK(mt_box_run(&(struct mt_box){.lo = {3, 0, 1}, .hi = {5, 3, 6}}, &whole, 3, &start));
    CHECK_EQ(start, 15);
    CHECK(mt_box_run(&(struct mt_box){.lo = {3, 1, 2}, .hi = {4, 2, 4}}, &whole, 3, &start));
    CHECK_EQ(start, 15 + 5 + 1);
    CHECK(!mt_box_run(&(struct mt_box){.lo = {3, 0, 1}, .hi = {5, 2, 6}}, &whole, 3, &start));
    CHECK(!mt_box_run(&(struct mt_box){.lo = {3, 0, 1}, .hi = {4, 2, 3}}, &whole, 3, &start));
}

int main(void) {
    struct dice dice = {.seed = SEED};
    int seen[MT_NCONVERSIONS] = {0};
    printf("seed %d\n", SEED);
    for (int round = 0; round < 3000; round++) seen[convert(&dice, false)]++;
    for (int round = 0; round < 50; round++) convert(&dice, true);
    for (int c = 0; c < MT_NCONVERSIONS; c++) printf("%s %d\n", conversion_names[c], seen[c]);
    for (int c = 0; c < MT_NCONVERSIONS; c++) CHECK(seen[c] >= 20, "%s", conversion_names[c]);
    test_runs();
    return 0;
}
