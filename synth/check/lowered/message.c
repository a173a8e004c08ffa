/* Of collectives, every element of every new box is computed from exactly the contributions that program.h names.
 *
 * Each member's pieces give the elements that its message holds, and the schedules give the contributions to each place
 * of the final message (schedule.c). For each range of each piece that is unpacked, every contributor's piece at that
 * place must be the same elements of the same value. Ranges and boxes are compared, never single elements. */
#include "synth/check/lowered/internal.h"

/* One range of one piece that a member unpacks, and the result of the schedules there: one expression, and within one
 * piece that its first contributor packed. */
struct arrival {
    int place, operand;
    const struct mt_lpiece *piece;
    struct mt_segment segment;
    struct mt_box box; /* contains all of its elements */
};

static const struct mt_layout *old_layout(const struct mt_lgroup *g, int operand) {
    return mt_lchecker_layout(g->c, g->source->in[operand]);
}

static const char *name_of(const struct mt_lgroup *g, const struct arrival *a) {
    return mt_lchecker_name(g->c, g->source->out[a->operand]);
}

/* Whether a member holds any of the elements before the collective. */
static bool holds_some(const struct mt_lgroup *g, const struct arrival *a, int place) {
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
static enum mt_status check_elements(const struct mt_lgroup *g, int place, const struct mt_lside *side, int64_t x,
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
static bool must_contribute(const struct mt_lgroup *g, const struct arrival *a, int place, bool first) {
    if (g->source->coll == MT_BROADCAST) return place == 0;
    return holds_some(g, a, place) && (mt_lgroup_reduces(g) || first);
}

/* Where all members hold the same box and pack the same, they contribute all or none, and the same elements. */
static bool contribute_alike(const struct mt_lgroup *g, const struct arrival *a) {
    if (!mt_lgroup_reduces(g) || !g->same_pack || !g->same_from[a->operand]) return false;
    return mt_lrun_contributors(g->run, a->segment.expr) == (holds_some(g, a, 0) ? g->n : 0);
}

static enum mt_status check_contributions(const struct mt_lgroup *g, const struct arrival *a) {
    const struct mt_segment *s = &a->segment;
    bool first = true;
    if (contribute_alike(g, a)) {
        if (!holds_some(g, a, 0)) return MT_OK;
        return check_elements(g, 0, g->members[0]->pack, s->lo + s->shift, a, s->lo, s->hi - s->lo);
    }
    for (int p = 0; p < g->n; p++) {
        bool has = mt_lrun_has(g->run, s->expr, p);
        if (!mt_lgroup_exchanges(g) && has != must_contribute(g, a, p, first))
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
static enum mt_status check_equal_bits(const struct mt_lgroup *g, const struct arrival *a) {
    const struct mt_layout *to = mt_lchecker_layout(g->c, g->source->out[a->operand]);
    struct mt_box both;
    int other = 0;
    if (mt_lgroup_exchanges(g) || g->source->coll == MT_REDUCE_SCATTER) return MT_OK;
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
static enum mt_status check_sender(const struct mt_lgroup *g, const struct arrival *a, int *part) {
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
static void cut_to_sender(const struct mt_lgroup *g, struct arrival *a) {
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
static void note_arrival(const struct mt_lgroup *g, const struct arrival *a, int part) {
    struct mt_larrived *arrived = &g->of->members[g->ranks[a->place]].arrived;
    bool box = part < 0 || mt_box_count(&a->box, a->piece->naxes) == a->segment.hi - a->segment.lo;
    mt_arena_grow(&g->c->arena, &arrived->items, arrived->count, &arrived->capacity, sizeof *arrived->items);
    arrived->items[arrived->count++] =
        (struct mt_larrival){a->piece->operand, box ? part : -2 - part, a->piece->reduce, a->box};
}

/* What has been noted of a piece, from `first` on, is the piece where it is of one part. A tensor that serves as the
 * message may be of several. */
static enum mt_status join_arrivals(const struct mt_lgroup *g, const struct arrival *a, int first) {
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

static enum mt_status check_arrivals(const struct mt_lgroup *g, struct arrival a) {
    if (a.segment.expr == MT_EXPR_GARBAGE) return mt_lchecker_refuse(g->c, "part of %s never arrives", name_of(g, &a));
    int64_t end = a.segment.hi;
    while (a.segment.lo < end) {
        a.segment.hi = end;
        cut_to_sender(g, &a);
        enum mt_status st = check_contributions(g, &a);
        if (!st) st = check_equal_bits(g, &a);
        int part = -1;
        if (!st && mt_lgroup_exchanges(g)) st = check_sender(g, &a, &part);
        if (st) return st;
        if (mt_lgroup_exchanges(g)) note_arrival(g, &a, part);
        a.segment.lo = a.segment.hi;
    }
    return MT_OK;
}

/* All ranges of a piece. */
static enum mt_status check_piece(const struct mt_lgroup *g, int place, int operand, const struct mt_lpiece *piece) {
    const struct mt_segments *all = &g->run->buffer[place][piece->buffer];
    struct arrival whole = {.place = place, .operand = operand, .piece = piece, .box = piece->box};
    int first = g->of->members[g->ranks[place]].arrived.count;
    if (piece->at < 0 && mt_lgroup_exchanges(g)) {
        note_arrival(g, &whole, -1);
        return MT_OK;
    }
    if (piece->at < 0 || (!mt_lgroup_exchanges(g) && piece->reduce != MT_REDUCE_NONE))
        return mt_lchecker_refuse(g->c, "unpacks what does not come from the message");
    for (int i = 0; i < all->count; i++) {
        struct arrival a = {.place = place, .operand = operand, .piece = piece, .segment = all->items[i]};
        int64_t end = piece->at + piece->count;
        if (a.segment.lo < piece->at) a.segment.lo = piece->at;
        if (a.segment.hi > end) a.segment.hi = end;
        enum mt_status st = a.segment.lo < a.segment.hi ? check_arrivals(g, a) : MT_OK;
        if (st) return st;
    }
    return mt_lgroup_exchanges(g) ? join_arrivals(g, &whole, first) : MT_OK;
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
static bool ends_alike(const struct mt_lgroup *g, int a, int b) {
    if (mt_lgroup_exchanges(g) || g->members[a]->unpack != g->members[b]->unpack) return false;
    for (int k = g->first; k < g->end; k++) {
        const struct mt_layout *to = mt_lchecker_layout(g->c, g->source->out[k]);
        if (!mt_box_equal(&to->box[g->ranks[a]], &to->box[g->ranks[b]], to->naxes)) return false;
    }
    return same_segments(&g->run->buffer[a][0], &g->run->buffer[b][0]);
}

/* What a member unpacks of the chunk's values. */
static enum mt_status check_pieces(const struct mt_lgroup *g, int place) {
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
enum mt_status mt_lgroup_results(const struct mt_lgroup *g) {
    enum mt_status st = MT_OK;
    struct mt_arena arena = MT_ARENA_INIT;
    int *checked = mt_new(&arena, int, g->n), nchecked = 0;
    for (int p = 0; p < g->n && !st; p++) {
        bool known = false;
        for (int i = 0; i < nchecked && !known; i++) known = ends_alike(g, checked[i], p);
        if (known) continue;
        checked[nchecked++] = p;
        mt_lgroup_select(g, p);
        st = check_pieces(g, p);
    }
    mt_arena_release(&arena);
    return st;
}

/* ---- whole values, of all parts of a collective together ---- */

/* The last part is c->collectives' `of`; the others are before it. */
static const struct mt_lmember *member_of_part(const struct mt_lgroup *g, int place, int part) {
    const struct mt_lcollective *of = g->of - (g->of->chunk.parts - 1 - part);
    return &of->members[g->ranks[place]];
}

/* All that arrives of an operand of an AllToAll. */
static enum mt_status check_exchange(struct mt_lgroup *g, int place, int operand) {
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

static enum mt_status check_whole(struct mt_lgroup *g, int place, int operand) {
    int out = g->source->out[operand], count = 0, most = 0, parts = g->of->chunk.parts;
    const struct mt_layout *to = mt_lchecker_layout(g->c, out);
    const struct mt_box *box = &to->box[g->ranks[place]];
    if (mt_box_count(box, to->naxes) == 0) return MT_OK;
    if (mt_lgroup_exchanges(g)) return check_exchange(g, place, operand);
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
static bool whole_alike(const struct mt_lgroup *g, int a, int b) {
    for (int q = 0; q < g->of->chunk.parts; q++)
        if (mt_lgroup_exchanges(g) || member_of_part(g, a, q)->unpack != member_of_part(g, b, q)->unpack) return false;
    for (int k = g->first; k < g->end; k++) {
        const struct mt_layout *to = mt_lchecker_layout(g->c, g->source->out[k]);
        if (!mt_box_equal(&to->box[g->ranks[a]], &to->box[g->ranks[b]], to->naxes)) return false;
    }
    return true;
}

/* When the last part has been checked: each member's new boxes are whole. */
enum mt_status mt_lgroup_values(struct mt_lgroup *g) {
    enum mt_status st = MT_OK;
    struct mt_arena arena = MT_ARENA_INIT;
    int *checked = mt_new(&arena, int, g->n), nchecked = 0;
    for (int p = 0; p < g->n && !st; p++) {
        bool known = false;
        for (int i = 0; i < nchecked && !known; i++) known = whole_alike(g, checked[i], p);
        if (known) continue;
        checked[nchecked++] = p;
        mt_lgroup_select(g, p);
        for (int k = g->first; k < g->end && !st; k++) st = check_whole(g, p, k);
    }
    mt_arena_release(&arena);
    return st;
}
