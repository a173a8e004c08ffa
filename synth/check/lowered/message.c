/* Collectives on all ranks: the members of a group agree on the problem, and every element of every new box is computed
 * from exactly the contributions that program.h names.
 *
 * Each member's pieces give the elements that its message holds, and the schedules give the contributions to each place
 * of the final message (schedule.c). For each range of each piece that is unpacked, every contributor's piece at that
 * place must be the same elements of the same value. Ranges and boxes are compared, never single elements.
 *
 * Longer than other files: one proof, whose steps share the pieces of a group. */
#include <stdlib.h>
#include <string.h>

#include "synth/check/lowered/internal.h"

struct group {
    struct mt_lchecker *c;
    struct mt_arena arena;
    const struct mt_instr *source;
    const struct mt_lcollective *of; /* a chunk of the source: values [first, end) */
    int first, end;
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

enum { MOST_RUNS = 8, MOST_PROVEN = 64 }; /* that are kept, because layers repeat */

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

static const char *name_of(const struct group *g, const struct arrival *a) {
    return mt_lchecker_name(g->c, g->source->out[a->operand]);
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

/* Places [x, x + count) of a side are in pieces of the arrival's operand, and are the elements of its piece from place
 * y on. */
static enum mt_status check_elements(const struct group *g, int place, const struct mt_lside *side, int64_t x,
                                     const struct arrival *a, int64_t y, int64_t count) {
    while (count > 0) {
        const struct mt_lpiece *piece = piece_at(side, x);
        int64_t run = piece ? piece->at + piece->count - x : 0;
        if (run > count) run = count;
        if (!piece || piece->operand != a->piece->operand || !mt_lpiece_same(piece, x, a->piece, y, run))
            return mt_lchecker_refuse(g->c, "rank %d has other elements where %s is unpacked", g->ranks[place],
                                      name_of(g, a));
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
        return check_elements(g, 0, g->members[0]->pack, s->lo + s->shift, a, s->lo, s->hi - s->lo);
    }
    for (int p = 0; p < g->n; p++) {
        bool has = mt_lrun_has(g->run, s->expr, p);
        if (!exchanges(g) && has != must_contribute(g, a, p, first))
            return mt_lchecker_refuse(g->c, "%s is computed %s rank %d's", name_of(g, a), has ? "with" : "without",
                                      g->ranks[p]);
        if (holds_some(g, a, p)) first = false;
        if (!has) continue;
        enum mt_status st = check_elements(g, p, g->members[p]->pack, s->lo + s->shift, a, s->lo, s->hi - s->lo);
        if (st) return st;
    }
    return MT_OK;
}

/* All members that get the elements end with the same bits: they have the same expression at the same place. */
static enum mt_status check_equal_bits(const struct group *g, const struct arrival *a) {
    const struct mt_layout *to = mt_lchecker_layout(g->c, g->source->out[a->operand]);
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
                                      name_of(g, a), g->ranks[other]);
    }
    return check_elements(g, other, g->members[other]->unpack, a->segment.lo, a, a->segment.lo,
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
            return mt_lchecker_refuse(g->c, "%s comes from rank %d, though rank %d holds it", name_of(g, a),
                                      g->ranks[sender], g->ranks[p]);
    }
    return MT_OK;
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

/* Note what arrives of an AllToAll; what is not all of its box, by a part below -1. */
static void note_arrival(const struct group *g, const struct arrival *a, int part) {
    struct mt_larrived *arrived = &g->of->members[g->ranks[a->place]].arrived;
    bool box = part < 0 || mt_box_count(&a->box, a->piece->naxes) == a->segment.hi - a->segment.lo;
    mt_arena_grow(&g->c->arena, &arrived->items, arrived->count, &arrived->capacity, sizeof *arrived->items);
    arrived->items[arrived->count++] =
        (struct mt_larrival){a->piece->operand, box ? part : -2 - part, a->piece->reduce, a->box};
}

/* What has been noted of a piece, from `first` on, is the piece where it is of one part. A tensor that serves as the
 * message may be of several. */
static enum mt_status join_arrivals(const struct group *g, const struct arrival *a, int first) {
    struct mt_larrived *arrived = &g->of->members[g->ranks[a->place]].arrived;
    struct mt_larrival *items = arrived->items + first;
    int n = arrived->count - first;
    bool one = true, boxes = true;
    for (int i = 0; i < n; i++) {
        int part = items[i].part < -1 ? -2 - items[i].part : items[i].part;
        boxes &= items[i].part >= -1;
        if (i == 0) items[0].part = part;
        one &= part == items[0].part;
    }
    if (!one) return boxes ? MT_OK : mt_lchecker_refuse(g->c, "a piece is of two parts");
    if (n) items[0].box = a->piece->box, arrived->count = first + 1;
    return MT_OK;
}

static enum mt_status check_arrivals(const struct group *g, struct arrival a) {
    if (a.segment.expr == MT_EXPR_GARBAGE) return mt_lchecker_refuse(g->c, "part of %s never arrives", name_of(g, &a));
    int64_t end = a.segment.hi;
    while (a.segment.lo < end) {
        a.segment.hi = end;
        cut_to_sender(g, &a);
        enum mt_status st = check_contributions(g, &a);
        if (!st) st = check_equal_bits(g, &a);
        int part = -1;
        if (!st && exchanges(g)) st = check_sender(g, &a, &part);
        if (st) return st;
        if (exchanges(g)) note_arrival(g, &a, part);
        a.segment.lo = a.segment.hi;
    }
    return MT_OK;
}

/* All ranges of a piece. */
static enum mt_status check_piece(const struct group *g, int place, int operand, const struct mt_lpiece *piece) {
    const struct mt_segments *all = &g->run->buffer[place][piece->buffer];
    struct arrival whole = {.place = place, .operand = operand, .piece = piece, .box = piece->box};
    int first = g->of->members[g->ranks[place]].arrived.count;
    if (piece->at < 0 && exchanges(g)) {
        note_arrival(g, &whole, -1);
        return MT_OK;
    }
    if (piece->at < 0 || (!exchanges(g) && piece->reduce != MT_REDUCE_NONE))
        return mt_lchecker_refuse(g->c, "unpacks what does not come from the message");
    for (int i = 0; i < all->count; i++) {
        struct arrival a = {.place = place, .operand = operand, .piece = piece, .segment = all->items[i]};
        int64_t end = piece->at + piece->count;
        if (a.segment.lo < piece->at) a.segment.lo = piece->at;
        if (a.segment.hi > end) a.segment.hi = end;
        enum mt_status st = a.segment.lo < a.segment.hi ? check_arrivals(g, a) : MT_OK;
        if (st) return st;
    }
    return exchanges(g) ? join_arrivals(g, &whole, first) : MT_OK;
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
    for (int k = g->first; k < g->end; k++) {
        const struct mt_layout *to = mt_lchecker_layout(g->c, g->source->out[k]);
        if (!mt_box_equal(&to->box[g->ranks[a]], &to->box[g->ranks[b]], to->naxes)) return false;
    }
    return same_segments(&g->run->buffer[a][0], &g->run->buffer[b][0]);
}

/* What a member unpacks of the chunk's values. */
static enum mt_status check_pieces(const struct group *g, int place) {
    struct mt_lmember *m = &g->of->members[g->ranks[place]];
    m->arrived.count = 0;
    for (int k = g->first; k < g->end; k++)
        for (int i = 0; i < m->unpack->count; i++) {
            if (m->unpack->pieces[i].operand != k - g->first) continue;
            enum mt_status st = check_piece(g, place, k, &m->unpack->pieces[i]);
            if (st) return st;
        }
    return MT_OK;
}

/* Every member's pieces; of members that end alike the first's. */
static enum mt_status check_results(const struct group *g) {
    enum mt_status st = MT_OK;
    struct mt_arena arena = MT_ARENA_INIT;
    int *checked = mt_new(&arena, int, g->n), nchecked = 0;
    for (int p = 0; p < g->n && !st; p++) {
        bool known = false;
        for (int i = 0; i < nchecked && !known; i++) known = ends_alike(g, checked[i], p);
        if (known) continue;
        checked[nchecked++] = p;
        select_member(g, p);
        st = check_pieces(g, p);
    }
    mt_arena_release(&arena);
    return st;
}

/* ---- whole values, of all parts of a collective together ---- */

/* The last part is c->collectives' `of`; the others are before it. */
static const struct mt_lmember *member_of_part(const struct group *g, int place, int part) {
    const struct mt_lcollective *of = g->of - (g->of->chunk.parts - 1 - part);
    return &of->members[g->ranks[place]];
}

/* All that arrives of an operand of an AllToAll. */
static enum mt_status check_exchange(struct group *g, int place, int operand) {
    int count = 0, capacity = 0;
    struct mt_larrival *arrivals = NULL;
    for (int q = 0; q < g->of->chunk.parts; q++) {
        const struct mt_larrived *arrived = &member_of_part(g, place, q)->arrived;
        for (int i = 0; i < arrived->count; i++) {
            if (arrived->items[i].operand != operand - g->first) continue;
            mt_arena_grow(&g->arena, &arrivals, count, &capacity, sizeof *arrivals);
            arrivals[count++] = arrived->items[i];
        }
    }
    return mt_lchecker_parts(g->c, g->source, operand, g->ranks[place], arrivals, count);
}

static enum mt_status check_whole(struct group *g, int place, int operand) {
    int out = g->source->out[operand], count = 0, most = 0, parts = g->of->chunk.parts;
    const struct mt_layout *to = mt_lchecker_layout(g->c, out);
    const struct mt_box *box = &to->box[g->ranks[place]];
    if (mt_box_count(box, to->naxes) == 0) return MT_OK;
    if (exchanges(g)) return check_exchange(g, place, operand);
    for (int q = 0; q < parts; q++) most += member_of_part(g, place, q)->unpack->count;
    const struct mt_lpiece **pieces = mt_new(&g->arena, const struct mt_lpiece *, most);
    for (int q = 0; q < parts; q++) { /* in order of arrival */
        const struct mt_lmember *m = member_of_part(g, place, q);
        for (int i = 0; i < m->unpack->count; i++) {
            if (m->unpack->pieces[i].operand != operand - g->first) continue;
            pieces[count++] = &m->unpack->pieces[i];
        }
    }
    if (mt_lpieces_tile(pieces, count, box, to->naxes)) return MT_OK;
    return mt_lchecker_refuse(g->c, "%s does not arrive whole", mt_lchecker_name(g->c, out));
}

/* Whether two members unpack the same pieces in all parts, into the same boxes. */
static bool whole_alike(const struct group *g, int a, int b) {
    for (int q = 0; q < g->of->chunk.parts; q++)
        if (exchanges(g) || member_of_part(g, a, q)->unpack != member_of_part(g, b, q)->unpack) return false;
    for (int k = g->first; k < g->end; k++) {
        const struct mt_layout *to = mt_lchecker_layout(g->c, g->source->out[k]);
        if (!mt_box_equal(&to->box[g->ranks[a]], &to->box[g->ranks[b]], to->naxes)) return false;
    }
    return true;
}

/* When the last part has been checked: each member's new boxes are whole. */
static enum mt_status check_values(struct group *g) {
    enum mt_status st = MT_OK;
    struct mt_arena arena = MT_ARENA_INIT;
    int *checked = mt_new(&arena, int, g->n), nchecked = 0;
    for (int p = 0; p < g->n && !st; p++) {
        bool known = false;
        for (int i = 0; i < nchecked && !known; i++) known = whole_alike(g, checked[i], p);
        if (known) continue;
        checked[nchecked++] = p;
        select_member(g, p);
        for (int k = g->first; k < g->end && !st; k++) st = check_whole(g, p, k);
    }
    mt_arena_release(&arena);
    return st;
}

static void compare_members(struct group *g) {
    g->same_from = mt_new(&g->arena, bool, g->source->nin);
    g->same_pack = true;
    for (int p = 1; p < g->n; p++) g->same_pack &= g->members[p]->pack == g->members[0]->pack;
    for (int k = g->first; k < g->end; k++) {
        const struct mt_layout *from = old_layout(g, k);
        g->same_from[k] = true;
        for (int p = 1; p < g->n && g->same_from[k]; p++)
            g->same_from[k] = mt_box_equal(&from->box[g->ranks[p]], &from->box[g->ranks[0]], from->naxes);
    }
}

/* ---- groups that are proven ---- */

struct mt_lproven {
    const struct mt_lcollective *of;
    int first_rank;
};

/* Whether two members' sides, problems and schedules are the very same. */
static bool members_alike(const struct mt_lmember *a, const struct mt_lmember *b) {
    const struct mt_coll *x = &a->problem, *y = &b->problem;
    return x->kind == y->kind && x->reduce == y->reduce && x->wire == y->wire && x->acc == y->acc && x->n == y->n &&
           x->me == y->me && x->root == y->root && x->counts == y->counts && x->node == y->node && a->pack == b->pack &&
           a->unpack == b->unpack && a->message_count[0] == b->message_count[0] &&
           a->message_count[1] == b->message_count[1] && a->zero == b->zero && a->sends == b->sends &&
           a->algorithm == b->algorithm && a->schedule == b->schedule;
}

/* Whether the group's part of a collective is that of another collective, with other values of the same layouts. */
static bool parts_alike(const struct group *g, const struct mt_lcollective *a, const struct mt_lcollective *b) {
    const struct mt_program *p = g->c->program;
    const struct mt_instr *x = &p->blocks[a->block].instrs[a->source], *y = &p->blocks[b->block].instrs[b->source];
    if (x->coll != y->coll || x->reduce != y->reduce || x->wire != y->wire || x->acc != y->acc ||
        a->chunk.count != b->chunk.count || a->chunk.part != b->chunk.part || a->chunk.parts != b->chunk.parts)
        return false;
    for (int k = 0; k < a->chunk.count; k++) {
        int i = a->chunk.first + k, j = b->chunk.first + k;
        if (p->values[x->in[i]].layout != p->values[y->in[j]].layout ||
            p->values[x->out[i]].layout != p->values[y->out[j]].layout)
            return false;
    }
    if (memcmp(x->group, y->group, (size_t)p->nranks * sizeof *x->group)) return false;
    for (int m = 0; m < g->n; m++)
        if (!members_alike(&a->members[g->ranks[m]], &b->members[g->ranks[m]])) return false;
    return true;
}

/* Whether a group that is proven is this one but for its values: nothing of the proof depends on those. The last part
 * of a collective is proven with the parts before it; of an AllToAll they keep what arrives. */
static bool is_proven(const struct group *g) {
    const struct mt_lchecker *c = g->c;
    int part = g->of->chunk.part, parts = g->of->chunk.parts;
    if (parts > 1 && exchanges(g)) return false;
    for (int i = 0; i < MOST_PROVEN && i < c->nproven; i++) {
        const struct mt_lproven *p = &c->proven[i];
        bool alike = p->first_rank == g->ranks[0] && parts_alike(g, p->of, g->of);
        for (int q = 1; q <= part && part + 1 == parts && alike; q++) alike = parts_alike(g, p->of - q, g->of - q);
        if (alike) return true;
    }
    return false;
}

static void keep_proven(const struct group *g) {
    struct mt_lchecker *c = g->c;
    if (!c->proven) c->proven = mt_new(&c->arena, struct mt_lproven, MOST_PROVEN);
    c->proven[c->nproven++ % MOST_PROVEN] = (struct mt_lproven){g->of, g->ranks[0]};
}

static enum mt_status check_group(struct group *g) {
    if (is_proven(g)) return MT_OK;
    compare_members(g);
    select_member(g, 0);
    enum mt_status st = find_run(g);
    if (!st) st = check_results(g);
    bool last = g->of->chunk.part + 1 == g->of->chunk.parts;
    if (!st && last) st = check_values(g);
    if (!st) keep_proven(g);
    return st;
}

enum mt_status mt_lchecker_message(struct mt_lchecker *c, int k) {
    const struct mt_lcollective *of = &c->collectives[k];
    struct group g = {.c = c, .of = of, .source = &c->program->blocks[of->block].instrs[of->source]};
    g.first = of->chunk.first, g.end = g.first + of->chunk.count;
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
