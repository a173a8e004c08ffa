/* Collectives on all ranks: the members of a group agree on the problem, and every element of every new box is computed
 * from exactly the contributions that program.h names.
 *
 * Each member's pieces give the elements that its message holds, and the schedules give the contributions to each place
 * of the final message (schedule.c). For each range of each piece that is unpacked, every contributor's piece at that
 * place must be the same elements of the same value. Ranges and boxes are compared, never single elements. */
#include <stdlib.h>
#include <string.h>

#include "synth/check/lowered/internal.h"
#include "synth/check/regions.h"

struct group {
    struct mt_lchecker *c;
    struct mt_arena arena;
    const struct mt_instr *source;
    const struct mt_lcollective *of;
    int n;
    int *ranks; /* [n] */
    const struct mt_lmember **members;
    bool same_pack;            /* all members pack the same */
    bool *same_from;           /* [operands]: all members hold the same box before */
    const struct mt_lrun *run; /* to the end */
};

/* Make a member's instruction the current one. */
static void select_member(const struct group *g, int place) {
    g->c->rank = g->ranks[place];
    g->c->instr = g->members[place]->instr;
}

static bool exchanges(const struct group *g) {
    return g->source->coll == MT_ALL_TO_ALL;
}

static bool reduces(const struct group *g) {
    return mt_coll_reduces(g->source->coll);
}

/* ---- the contents of messages ---- */

static void begin_member(const struct group *g, int place, struct mt_lrun *run) {
    const struct mt_lmember *m = g->members[place];
    bool neutral = m->zero && m->problem.reduce != MT_REDUCE_NONE;
    for (int b = 0; b < 2; b++)
        mt_lrun_buffer(run, place, b, m->message_count[b], neutral && b == 0 ? MT_EXPR_NEUTRAL : MT_EXPR_GARBAGE);
    for (int i = 0; i < m->pack->count; i++) {
        const struct mt_lpiece *piece = &m->pack->pieces[i];
        mt_lrun_set(run, place, 0, piece->at, piece->at + piece->count, MT_EXPR_FIRST + place);
    }
}

/* The members' schedules; those that are kept as an algorithm are made again. */
static enum mt_status run_schedules(const struct group *g, struct mt_lrun *run) {
    struct mt_schedule *made = mt_calloc((size_t)g->n, sizeof *made);
    for (int p = 0; p < g->n; p++) {
        const struct mt_lmember *m = g->members[p];
        if (m->algorithm) m->algorithm->schedule(&m->problem, &made[p]);
        run->schedule[p] = !m->sends ? NULL : m->algorithm ? &made[p] : m->schedule;
    }
    enum mt_status st = mt_lrun_schedules(run, g->c);
    for (int p = 0; p < g->n; p++) mt_schedule_release(&made[p]);
    free(made);
    return st;
}

/* ---- runs that are known ---- */

/* Whether two sides are at the same places of the message. */
static bool same_places(const struct mt_lside *a, const struct mt_lside *b) {
    if (a == b) return true;
    for (int i = 0; i < a->count && a->count == b->count; i++)
        if (a->pieces[i].at != b->pieces[i].at || a->pieces[i].count != b->pieces[i].count) return false;
    return a->count == b->count;
}

/* Whether a run begins as this group and has the same schedules: those of the same algorithms for the same problem. */
static bool runs_alike(const struct group *g, const struct mt_lrun *run) {
    const struct mt_program *program = g->c->program;
    const int *groups = program->blocks[run->of->block].instrs[run->of->source].group;
    if (run->first_rank != g->ranks[0] || run->n != g->n) return false;
    if (memcmp(groups, g->source->group, (size_t)program->nranks * sizeof *groups)) return false;
    if (!mt_lmember_same_problem(&run->of->members[g->ranks[0]], g->members[0])) return false;
    for (int p = 0; p < g->n; p++) {
        const struct mt_lmember *a = &run->of->members[g->ranks[p]], *b = g->members[p];
        if (a->schedule || b->schedule || a->sends != b->sends || a->algorithm != b->algorithm || a->zero != b->zero ||
            a->message_count[0] != b->message_count[0] || a->message_count[1] != b->message_count[1] ||
            a->problem.me != b->problem.me || !same_places(a->pack, b->pack))
            return false;
    }
    return true;
}

enum { MOST_RUNS = 8 }; /* that are kept, because layers repeat */

static enum mt_status find_run(struct group *g) {
    struct mt_lchecker *c = g->c;
    if (!c->runs) c->runs = mt_calloc(MOST_RUNS, sizeof *c->runs);
    for (int i = 0; i < MOST_RUNS && i < c->nruns; i++)
        if (runs_alike(g, &c->runs[i])) return g->run = &c->runs[i], MT_OK;
    struct mt_lrun *run = &c->runs[c->nruns % MOST_RUNS];
    if (c->nruns++ >= MOST_RUNS) mt_lrun_release(run);
    mt_lrun_init(run, g->n, &g->members[0]->problem);
    run->of = g->of;
    run->first_rank = g->ranks[0];
    g->run = run;
    for (int p = 0; p < g->n; p++) begin_member(g, p, run);
    return run_schedules(g, run);
}

void mt_lchecker_forget_runs(struct mt_lchecker *c) {
    for (int i = 0; i < MOST_RUNS && i < c->nruns; i++) mt_lrun_release(&c->runs[i]);
    free(c->runs);
}

/* ---- the results ---- */

/* One range of one piece that a member unpacks, and the result of the schedules there: one expression, and within one
 * piece that its first contributor packed. */
struct arrival {
    int place, operand;
    const struct mt_lpiece *piece;
    struct mt_segment segment;
    struct mt_box box; /* contains all of its elements */
};

static const struct mt_layout *old_layout(const struct group *g, int operand) {
    return mt_lchecker_layout(g->c, g->source->in[operand]);
}

/* Whether a member holds any of the elements before the collective. */
static bool holds_some(const struct group *g, const struct arrival *a, int place) {
    const struct mt_layout *l = old_layout(g, a->operand);
    struct mt_box both;
    return mt_box_intersect(&l->box[g->ranks[place]], &a->box, l->naxes, &both);
}

/* The piece of a sorted side that contains place x; or null. */
static const struct mt_lpiece *piece_at(const struct mt_lside *side, int64_t x) {
    int lo = 0, hi = side->count;
    while (lo < hi) { /* the first that ends after x */
        int middle = (lo + hi) / 2;
        if (side->pieces[middle].at + side->pieces[middle].count <= x)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo < side->count && side->pieces[lo].at <= x ? &side->pieces[lo] : NULL;
}

/* Places [x, x + count) of a side are in pieces of `value`, and are the elements of the arrival's piece from place y
 * on. */
static enum mt_status check_elements(const struct group *g, int place, const struct mt_lside *side, int value,
                                     int64_t x, const struct arrival *a, int64_t y, int64_t count) {
    while (count > 0) {
        const struct mt_lpiece *piece = piece_at(side, x);
        int64_t run = piece ? piece->at + piece->count - x : 0;
        if (run > count) run = count;
        if (!piece || piece->value != value || !mt_lpiece_same(piece, x, a->piece, y, run))
            return mt_lchecker_refuse(g->c, "rank %d has other elements where %s is unpacked", g->ranks[place],
                                      mt_lchecker_name(g->c, a->piece->value));
        x += run, y += run, count -= run;
    }
    return MT_OK;
}

/* Whether a member must contribute: to a reduction every holder of the elements; to a gather the first holder; to a
 * broadcast the first member. */
static bool must_contribute(const struct group *g, const struct arrival *a, int place, bool first) {
    if (g->source->coll == MT_BROADCAST) return place == 0;
    return holds_some(g, a, place) && (reduces(g) || first);
}

/* Where all members hold the same box and pack the same, they contribute all or none, and the same elements. */
static bool contribute_alike(const struct group *g, const struct arrival *a) {
    if (!reduces(g) || !g->same_pack || !g->same_from[a->operand]) return false;
    return mt_lrun_contributors(g->run, a->segment.expr) == (holds_some(g, a, 0) ? g->n : 0);
}

static enum mt_status check_contributions(const struct group *g, const struct arrival *a) {
    const struct mt_segment *s = &a->segment;
    bool first = true;
    if (contribute_alike(g, a)) {
        if (!holds_some(g, a, 0)) return MT_OK;
        return check_elements(g, 0, g->members[0]->pack, g->source->in[a->operand], s->lo + s->shift, a, s->lo,
                              s->hi - s->lo);
    }
    for (int p = 0; p < g->n; p++) {
        bool has = mt_lrun_has(g->run, s->expr, p);
        if (!exchanges(g) && has != must_contribute(g, a, p, first))
            return mt_lchecker_refuse(g->c, "%s is computed %s rank %d's", mt_lchecker_name(g->c, a->piece->value),
                                      has ? "with" : "without", g->ranks[p]);
        if (holds_some(g, a, p)) first = false;
        if (!has) continue;
        enum mt_status st = check_elements(g, p, g->members[p]->pack, g->source->in[a->operand], s->lo + s->shift, a,
                                           s->lo, s->hi - s->lo);
        if (st) return st;
    }
    return MT_OK;
}

/* All members that get the elements end with the same bits: they have the same expression at the same place. */
static enum mt_status check_equal_bits(const struct group *g, const struct arrival *a) {
    const struct mt_layout *to = mt_lchecker_layout(g->c, a->piece->value);
    struct mt_box both;
    int other = 0;
    if (exchanges(g) || g->source->coll == MT_REDUCE_SCATTER) return MT_OK;
    while (!mt_box_intersect(&to->box[g->ranks[other]], &a->box, to->naxes, &both)) other++;
    if (other >= a->place) return MT_OK;
    const struct mt_segments *theirs = &g->run->buffer[other][0];
    for (int i = 0; i < theirs->count; i++) {
        const struct mt_segment *s = &theirs->items[i];
        if (s->hi <= a->segment.lo || s->lo >= a->segment.hi) continue;
        if (s->expr != a->segment.expr || s->shift != a->segment.shift)
            return mt_lchecker_refuse(g->c, "%s is not computed in the same order as on rank %d: bits may differ",
                                      mt_lchecker_name(g->c, a->piece->value), g->ranks[other]);
    }
    return check_elements(g, other, g->members[other]->unpack, a->piece->value, a->segment.lo, a, a->segment.lo,
                          a->segment.hi - a->segment.lo);
}

/* ---- AllToAll ---- */

/* The sender of an arrival is the receiver itself if it holds the part, else the first of the group that does. *part
 * gets the old part. */
static enum mt_status check_sender(const struct group *g, const struct arrival *a, int *part) {
    const struct mt_layout *from = old_layout(g, a->operand);
    int sender = 0;
    while (sender < g->n && !mt_lrun_has(g->run, a->segment.expr, sender)) sender++;
    if (sender == g->n) return mt_lchecker_refuse(g->c, "a piece has no sender");
    int old = from->part[g->ranks[sender]];
    *part = old;
    for (int p = 0; p < g->n; p++) {
        bool sooner = p == a->place || (p < sender && sender != a->place);
        if (p != sender && sooner && from->part[g->ranks[p]] == old && holds_some(g, a, p))
            return mt_lchecker_refuse(g->c, "%s comes from rank %d, though rank %d holds it",
                                      mt_lchecker_name(g->c, a->piece->value), g->ranks[sender], g->ranks[p]);
    }
    return MT_OK;
}

/* A box that arrives, of one old part (-1: zeros). */
struct got {
    struct mt_box box;
    int part;
    enum mt_reduce reduce;
};

struct arrived {
    struct got *items;
    int count, capacity;
};

/* What a member gets of one operand. */
struct parcel {
    const struct group *g;
    const struct mt_layout *from, *to;
    int rank;
    bool complete;         /* its new box is */
    const struct got *got; /* [count], in order of arrival */
    int count;
    const int *goes_to; /* [from->nparts]: the new part that each old part goes to, if the new box is not complete */
    int64_t arrived;    /* elements */
};

/* That of the first rank that has the old part and is in the new cover; or the cover's first, or where reductions
 * differ. */
static const int *new_parts(struct group *g, const struct parcel *p) {
    const struct mt_layout *from = p->from, *to = p->to;
    int *goes_to = mt_new(&g->arena, int, from->nparts), cover = to->cover[to->part[p->rank]], first = -1;
    bool *known = mt_new(&g->arena, bool, from->nparts);
    for (int k = to->nparts - 1; k >= 0; k--)
        if (to->cover[k] == cover) first = k;
    for (int k = 0; k < from->nparts; k++) goes_to[k] = first;
    for (int r = 0; r < g->c->program->nranks && (from->nparts == 1 || from->reduce == to->reduce); r++) {
        int k = from->part[r];
        if (known[k] || to->cover[to->part[r]] != cover) continue;
        if (!mt_box_count(&from->box[r], from->naxes) || !mt_box_count(&to->box[r], to->naxes)) continue;
        known[k] = true;
        goes_to[k] = to->part[r];
    }
    return goes_to;
}

/* The old cover that a region comes from; holders are the boxes after those of the pieces, by rank. */
static int region_cover(const struct parcel *p, const struct mt_tagged_box *there, int count) {
    bool has_own = p->complete && mt_box_count(&p->from->box[p->rank], p->from->naxes);
    int own = has_own ? p->from->cover[p->from->part[p->rank]] : -1, least = -1;
    for (int i = 0; i < count; i++) {
        if (there[i].id < p->count) continue;
        int cover = p->from->cover[p->from->part[there[i].id - p->count]];
        if (cover == own) return own;
        if (least < 0 || cover < least) least = cover;
    }
    return least;
}

/* The pieces of a region are the parts of its cover that go to the new part, in order; the first overwrites and the
 * others reduce. */
static enum mt_status check_region(void *context, const struct mt_box *region, const struct mt_tagged_box *there,
                                   int count) {
    struct parcel *p = context;
    const struct mt_lchecker *c = p->g->c;
    int cover = region_cover(p, there, count), at = 0, npieces = 0, found = 0;
    while (npieces < count && there[npieces].id < p->count) npieces++;
    if (npieces) p->arrived += mt_box_count(region, p->to->naxes);
    for (int k = 0; k < p->from->nparts && cover >= 0; k++) {
        if (p->from->cover[k] != cover || (!p->complete && p->goes_to[k] != p->to->part[p->rank])) continue;
        if (at == npieces || p->got[there[at].id].part != k)
            return mt_lchecker_refuse(c, "part %d does not arrive, or not in order", k);
        if (p->got[there[at].id].reduce != (found++ ? p->from->reduce : MT_REDUCE_NONE))
            return mt_lchecker_refuse(c, "part %d is reduced differently", k);
        at++;
    }
    if (!found && npieces == 1 && p->got[there[0].id].part < 0 && p->got[there[0].id].reduce == p->to->reduce)
        return MT_OK;
    return at == npieces && found ? MT_OK : mt_lchecker_refuse(c, "a part does not belong here");
}

/* Every element of the new box is made of the old parts that go there. */
static enum mt_status check_parts(struct group *g, int place, int operand, const struct arrived *arrived) {
    int nranks = g->c->program->nranks, nboxes = 0, rank = g->ranks[place], count = arrived->count;
    const struct mt_layout *to = mt_lchecker_layout(g->c, g->source->out[operand]);
    struct parcel p = {.g = g,
                       .from = old_layout(g, operand),
                       .to = to,
                       .rank = rank,
                       .complete = to->cover_parts[to->cover[to->part[rank]]] == 1,
                       .got = arrived->items,
                       .count = count};
    if (!p.complete) p.goes_to = new_parts(g, &p);
    struct mt_tagged_box *boxes = mt_calloc((size_t)(count + nranks), sizeof *boxes);
    struct mt_box *clipped = mt_calloc((size_t)nranks, sizeof *clipped);
    enum mt_status st = MT_OK;
    for (; nboxes < count && !st; nboxes++) {
        boxes[nboxes] = (struct mt_tagged_box){&p.got[nboxes].box, nboxes};
        if (!mt_box_within(&p.got[nboxes].box, &to->box[rank], to->naxes))
            st = mt_lchecker_refuse(g->c, "a piece lies outside of the new box");
    }
    for (int r = 0; r < nranks; r++) {
        if (p.complete && g->source->group[r] != g->source->group[rank]) continue;
        if (mt_box_intersect(&p.from->box[r], &to->box[rank], to->naxes, &clipped[r]))
            boxes[nboxes++] = (struct mt_tagged_box){&clipped[r], count + r};
    }
    if (!st) st = mt_check_regions(to->naxes, boxes, nboxes, check_region, &p);
    if (!st && p.arrived != mt_box_count(&to->box[rank], to->naxes))
        st = mt_lchecker_refuse(g->c, "%s does not arrive whole", mt_lchecker_name(g->c, g->source->out[operand]));
    free(clipped);
    free(boxes);
    return st;
}

/* ---- a member's new boxes ---- */

/* Shorten the arrival to one piece of its first contributor. */
static void cut_to_sender(const struct group *g, struct arrival *a) {
    int sender = 0;
    a->box = a->piece->box;
    while (sender < g->n && !mt_lrun_has(g->run, a->segment.expr, sender)) sender++;
    if (sender == g->n) return;
    int64_t x = a->segment.lo + a->segment.shift;
    const struct mt_lpiece *piece = piece_at(g->members[sender]->pack, x);
    if (!piece || piece->naxes != a->piece->naxes) return; /* check_elements refuses it */
    int64_t run = piece->at + piece->count - x;
    if (a->segment.hi - a->segment.lo > run) a->segment.hi = a->segment.lo + run;
    mt_box_intersect(&piece->box, &a->piece->box, piece->naxes, &a->box);
}

/* All arrivals of a range; those of an AllToAll are noted. */
static enum mt_status check_arrivals(struct group *g, struct arrival a, struct arrived *arrived) {
    if (a.segment.expr == MT_EXPR_GARBAGE)
        return mt_lchecker_refuse(g->c, "part of %s never arrives", mt_lchecker_name(g->c, a.piece->value));
    int64_t end = a.segment.hi;
    while (a.segment.lo < end) {
        struct got got = {.reduce = a.piece->reduce};
        a.segment.hi = end;
        cut_to_sender(g, &a);
        enum mt_status st = check_contributions(g, &a);
        if (!st) st = check_equal_bits(g, &a);
        if (!st && exchanges(g)) st = check_sender(g, &a, &got.part);
        if (st) return st;
        if (exchanges(g)) {
            mt_arena_grow(&g->arena, &arrived->items, arrived->count, &arrived->capacity, sizeof *arrived->items);
            got.box = a.box;
            if (mt_box_count(&a.box, a.piece->naxes) != a.segment.hi - a.segment.lo)
                got.part = -2 - got.part; /* no box */
            arrived->items[arrived->count++] = got;
        }
        a.segment.lo = a.segment.hi;
    }
    return MT_OK;
}

/* The part of what has been noted of an arrival, whose box may be larger than it. */
static int part_of(const struct got *got) {
    return got->part < -1 ? -2 - got->part : got->part;
}

/* What has been noted of a piece, from `first` on, is the piece if it is of one part. */
static enum mt_status join_arrived(const struct group *g, const struct mt_lpiece *piece, int first,
                                   struct arrived *arrived) {
    struct got *got = arrived->items + first;
    bool one = true, boxes = true;
    for (int i = first; i < arrived->count; i++) {
        one &= part_of(&arrived->items[i]) == part_of(got);
        boxes &= arrived->items[i].part >= 0;
    }
    if (!one) return boxes ? MT_OK : mt_lchecker_refuse(g->c, "a piece is of two parts");
    *got = (struct got){piece->box, part_of(got), piece->reduce};
    arrived->count = first + 1;
    return MT_OK;
}

/* All ranges of a piece. Those of an AllToAll are noted as one where they are of one part; a tensor that serves as the
 * message may be of several. */
static enum mt_status check_piece(struct group *g, int place, int operand, const struct mt_lpiece *piece,
                                  struct arrived *arrived) {
    const struct mt_segments *all = &g->run->buffer[place][piece->buffer];
    int first = arrived->count;
    if (piece->at < 0 && exchanges(g)) {
        mt_arena_grow(&g->arena, &arrived->items, arrived->count, &arrived->capacity, sizeof *arrived->items);
        arrived->items[arrived->count++] = (struct got){piece->box, -1, piece->reduce};
        return MT_OK;
    }
    if (piece->at < 0 || (!exchanges(g) && piece->reduce != MT_REDUCE_NONE))
        return mt_lchecker_refuse(g->c, "unpacks what does not come from the message");
    for (int i = 0; i < all->count; i++) {
        struct arrival a = {.place = place, .operand = operand, .piece = piece, .segment = all->items[i]};
        int64_t end = piece->at + piece->count;
        if (a.segment.lo < piece->at) a.segment.lo = piece->at;
        if (a.segment.hi > end) a.segment.hi = end;
        enum mt_status st = a.segment.lo < a.segment.hi ? check_arrivals(g, a, arrived) : MT_OK;
        if (st) return st;
    }
    return first < arrived->count ? join_arrived(g, piece, first, arrived) : MT_OK;
}

static enum mt_status check_operand(struct group *g, int place, int operand) {
    const struct mt_lmember *m = g->members[place];
    int out = g->source->out[operand], count = 0;
    const struct mt_layout *to = mt_lchecker_layout(g->c, out);
    const struct mt_box *box = &to->box[g->ranks[place]];
    const struct mt_lpiece **pieces = mt_new(&g->arena, const struct mt_lpiece *, m->unpack->count + 1);
    struct arrived arrived = {0};
    for (int i = 0; i < m->unpack->count; i++) {
        if (m->unpack->pieces[i].value != out) continue;
        pieces[count] = &m->unpack->pieces[i];
        enum mt_status st = check_piece(g, place, operand, pieces[count], &arrived);
        if (st) return st;
        count++;
    }
    if (mt_box_count(box, to->naxes) == 0) return MT_OK;
    if (exchanges(g)) return check_parts(g, place, operand, &arrived);
    if (mt_lpieces_tile(pieces, count, box, to->naxes)) return MT_OK;
    return mt_lchecker_refuse(g->c, "%s does not arrive whole", mt_lchecker_name(g->c, out));
}

static bool same_segments(const struct mt_segments *a, const struct mt_segments *b) {
    for (int i = 0; i < a->count && a->count == b->count; i++) {
        const struct mt_segment *x = &a->items[i], *y = &b->items[i];
        if (x->lo != y->lo || x->hi != y->hi || x->shift != y->shift || x->expr != y->expr) return false;
    }
    return a->count == b->count;
}

/* Whether two members unpack the same pieces of the same results into the same boxes: what is proven of one holds for
 * the other. In an AllToAll the proof depends on the receiver. */
static bool ends_alike(const struct group *g, int a, int b) {
    if (exchanges(g) || g->members[a]->unpack != g->members[b]->unpack) return false;
    for (int k = 0; k < g->source->nout; k++) {
        const struct mt_layout *to = mt_lchecker_layout(g->c, g->source->out[k]);
        if (!mt_box_equal(&to->box[g->ranks[a]], &to->box[g->ranks[b]], to->naxes)) return false;
    }
    return same_segments(&g->run->buffer[a][0], &g->run->buffer[b][0]);
}

/* Every member's results; of members that end alike the first's. */
static enum mt_status check_results(struct group *g) {
    enum mt_status st = MT_OK;
    int *checked = mt_new(&g->arena, int, g->n), nchecked = 0;
    for (int p = 0; p < g->n && !st; p++) {
        bool known = false;
        for (int i = 0; i < nchecked && !known; i++) known = ends_alike(g, checked[i], p);
        if (known) continue;
        checked[nchecked++] = p;
        select_member(g, p);
        for (int k = 0; k < g->source->nin && !st; k++) st = check_operand(g, p, k);
    }
    return st;
}

static void compare_members(struct group *g) {
    g->same_from = mt_new(&g->arena, bool, g->source->nin);
    g->same_pack = true;
    for (int p = 1; p < g->n; p++) g->same_pack &= g->members[p]->pack == g->members[0]->pack;
    for (int k = 0; k < g->source->nin; k++) {
        const struct mt_layout *from = old_layout(g, k);
        g->same_from[k] = true;
        for (int p = 1; p < g->n && g->same_from[k]; p++)
            g->same_from[k] = mt_box_equal(&from->box[g->ranks[p]], &from->box[g->ranks[0]], from->naxes);
    }
}

static enum mt_status check_group(struct group *g) {
    compare_members(g);
    select_member(g, 0);
    enum mt_status st = find_run(g);
    return st ? st : check_results(g);
}

enum mt_status mt_lchecker_message(struct mt_lchecker *c, int k) {
    const struct mt_lcollective *of = &c->collectives[k];
    struct group g = {.c = c, .of = of, .source = &c->program->blocks[of->block].instrs[of->source]};
    enum mt_status st = MT_OK;
    int nranks = c->program->nranks;
    bool *seen = mt_new(&g.arena, bool, nranks);
    g.ranks = mt_new(&g.arena, int, nranks);
    g.members = mt_new(&g.arena, const struct mt_lmember *, nranks);
    c->low = NULL;
    c->collective = of;
    for (int first = 0; first < nranks && !st; first++) {
        if (seen[first]) continue;
        g.n = 0;
        for (int r = first; r < nranks; r++) {
            if (g.source->group[r] != g.source->group[first]) continue;
            seen[r] = true;
            g.ranks[g.n] = r;
            g.members[g.n++] = &of->members[r];
        }
        st = check_group(&g);
    }
    mt_arena_release(&g.arena);
    return st;
}
