/* Collectives on all ranks: the members of a group agree on the problem, and every element of every new box is computed
 * from exactly the contributions that program.h names.
 *
 * Each member's pieces give the elements that its message holds, and the schedules give the contributions to each place
 * of the final message (schedule.c). For each range of each piece that is unpacked, every contributor's piece at that
 * place must be the same elements of the same value. Ranges and boxes are compared, never single elements. */
#include <stdlib.h>
#include <string.h>

#include "synth/check/lowered/internal.h"

struct side {
    struct mt_lpiece *pieces;
    int count;
};

struct member {
    int rank;
    const struct mt_linstr *l;
    struct side pack, unpack;
};

struct group {
    struct mt_lchecker *c;
    struct mt_arena arena;
    const struct mt_instr *source;
    enum mt_block_kind block;
    int instr; /* of the program */
    int n;
    struct member *members;
    struct mt_lrun run;
};

/* Make a member's instruction the current one. */
static const struct mt_linstr *select_member(const struct group *g, int place) {
    struct mt_lchecker *c = g->c;
    c->rank = g->members[place].rank;
    c->low = c->lowered[c->rank];
    c->instr = c->lowered_as[c->rank][c->first[g->block] + g->instr];
    return mt_lchecker_instr(c);
}

static bool exchanges(const struct group *g) {
    return g->source->coll == MT_ALL_TO_ALL;
}

static bool reduces(const struct group *g) {
    return g->source->coll == MT_ALL_REDUCE || g->source->coll == MT_REDUCE_SCATTER;
}

/* ---- the problem ---- */

static enum mt_status check_counts(const struct group *g, int place) {
    const struct mt_linstr *l = g->members[place].l;
    int64_t count[2] = {0}, ncounts = exchanges(g) ? (int64_t)g->n * g->n : g->n;
    if (memcmp(l->problem.counts, g->members[0].l->problem.counts, (size_t)ncounts * sizeof(int64_t)))
        return mt_lchecker_refuse(g->c, "its counts are not those of rank %d", g->members[0].rank);
    for (int64_t i = 0; i < ncounts; i++)
        if (l->problem.counts[i] < 0) return mt_lchecker_refuse(g->c, "a count is negative");
    for (int p = 0; p < g->n; p++) {
        if (exchanges(g)) {
            count[0] += l->problem.counts[(int64_t)place * g->n + p];
            count[1] += l->problem.counts[(int64_t)p * g->n + place];
        } else {
            count[0] += l->problem.counts[p];
        }
    }
    for (int b = 0; b < 2; b++) {
        if (l->message_count[b] != count[b])
            return mt_lchecker_refuse(g->c, "message %d has %lld elements, not %lld", b, (long long)l->message_count[b],
                                      (long long)count[b]);
        if (count[b] == 0) continue;
        const struct mt_lvalue *m = l->message[b] >= 0 ? &g->c->low->values[l->message[b]] : NULL;
        int64_t size = mt_type_size(l->problem.acc);
        if (!m || m->offset_bytes < 0 || m->offset_bytes % size || m->size_bytes < count[b] * size)
            return mt_lchecker_refuse(g->c, "message %d has no room for %lld elements", b, (long long)count[b]);
    }
    return MT_OK;
}

/* The first member's nodes are the program's, numbered by first member, and none where it is one node; the others' are
 * the first's. */
static enum mt_status check_nodes(const struct group *g, int place) {
    const int *node = g->members[place].l->problem.node, *first = g->members[0].l->problem.node;
    const int *of = g->c->program->node;
    if (place) {
        bool same = node && first ? !memcmp(node, first, (size_t)g->n * sizeof *node) : node == first;
        return same ? MT_OK : mt_lchecker_refuse(g->c, "its nodes are not those of rank %d", g->members[0].rank);
    }
    int known = 0, nranks = g->c->program->nranks;
    int *number = mt_calloc((size_t)nranks, sizeof *number); /* + 1; 0: not met */
    bool right = true;
    for (int m = 0; of && m < g->n && right; m++) {
        int host = of[g->members[m].rank];
        right = host >= 0 && host < nranks;
        if (!right) break;
        if (!number[host]) number[host] = ++known;
        right = !node || node[m] == number[host] - 1;
    }
    free(number);
    right = right && (node != NULL) == (known > 1);
    return right ? MT_OK : mt_lchecker_refuse(g->c, "its nodes are not those of the program's ranks");
}

static enum mt_status check_problem(const struct group *g, int place) {
    const struct mt_linstr *l = select_member(g, place);
    const struct mt_instr *s = g->source;
    const struct mt_coll *p = &l->problem;
    if (p->kind != s->coll || p->n != g->n || p->me != place || p->root != 0)
        return mt_lchecker_refuse(g->c, "is not the program's collective of %d ranks", g->n);
    if (p->reduce != (reduces(g) ? s->reduce : MT_REDUCE_NONE) || p->wire != s->wire ||
        p->acc != (reduces(g) ? s->acc : s->wire))
        return mt_lchecker_refuse(g->c, "has another reduction, wire type or accumulation type than the program's");
    for (int m = 0; m < g->n; m++)
        if (l->group[m] != g->members[m].rank)
            return mt_lchecker_refuse(g->c, "place %d is not rank %d", m, g->members[m].rank);
    if (g->block == MT_BODY && g->c->low->body_count != g->c->lowered[g->members[0].rank]->body_count)
        return mt_lchecker_refuse(g->c, "takes part a different number of times than rank %d", g->members[0].rank);
    for (int k = 0; k < l->nin; k++)
        if (g->c->low->values[l->in[k]].iteration_bytes && g->c->low->body_count > 1)
            return mt_lchecker_refuse(g->c, "sends the same samples in every iteration");
    enum mt_status st = check_nodes(g, place);
    return st ? st : check_counts(g, place);
}

/* ---- the contents of messages ---- */

static int compare_pieces(const void *left, const void *right) {
    const struct mt_lpiece *a = left, *b = right;
    return a->buffer != b->buffer ? a->buffer - b->buffer : (a->at > b->at) - (a->at < b->at);
}

/* The position of the lvalue in `list`, or -1. */
static int operand_of(const int *list, int count, int lvalue) {
    for (int k = 0; k < count; k++)
        if (list[k] == lvalue) return k;
    return -1;
}

static enum mt_status read_pieces(const struct group *g, const struct mt_piece *pieces, const int *values, int count,
                                  const int *operands, int noperands, struct side *side) {
    const struct mt_linstr *l = mt_lchecker_instr(g->c);
    for (int i = 0; i < count; i++) {
        struct mt_lpiece *piece = &side->pieces[side->count];
        if (operand_of(operands, noperands, values[i]) < 0)
            return mt_lchecker_refuse(g->c, "piece %d is of a value that is no operand", i);
        enum mt_status st = mt_lchecker_piece(g->c, &pieces[i], values[i], piece);
        if (st) return st;
        if (piece->count == 0) continue;
        if (piece->at < -1 || (piece->at >= 0 && piece->at > l->message_count[piece->buffer] - piece->count))
            return mt_lchecker_refuse(g->c, "piece %d is outside of the message", i);
        side->count++;
    }
    return MT_OK;
}

/* Add a whole tensor that serves as the message, as one piece. */
static enum mt_status add_tensor(const struct group *g, int lvalue, int buffer, struct side *side) {
    const struct mt_linstr *l = mt_lchecker_instr(g->c);
    struct mt_lpiece piece = mt_lchecker_whole(g->c, lvalue, buffer);
    if (piece.count == 0) return MT_OK;
    if (piece.count != l->message_count[buffer] || g->c->low->values[lvalue].tensor.type != l->problem.acc)
        return mt_lchecker_refuse(g->c, "%s cannot serve as the message", mt_lchecker_name(g->c, lvalue));
    side->pieces[side->count++] = piece;
    return MT_OK;
}

/* The contents of message 0 at the start: what is packed, or a tensor that serves as the message. */
static enum mt_status read_pack(struct group *g, struct member *m) {
    const struct mt_linstr *l = m->l;
    m->pack.pieces = mt_new(&g->arena, struct mt_lpiece, l->npack + 1);
    enum mt_status st = read_pieces(g, l->pack, l->pack_value, l->npack, l->in, l->nin, &m->pack);
    if (st) return st;
    const struct mt_lvalue *values = g->c->low->values;
    for (int k = 0; k < l->nin && l->npack == 0 && l->message[0] >= 0 && !l->zero; k++) {
        bool named = l->message[0] == l->in[k];
        bool in_place = operand_of(l->out, l->nout, l->message[0]) == k &&
                        values[l->message[0]].offset_bytes == values[l->in[k]].offset_bytes;
        if ((named || in_place) && m->pack.count == 0) st = add_tensor(g, l->in[k], 0, &m->pack);
        if (st) return st;
    }
    qsort(m->pack.pieces, (size_t)m->pack.count, sizeof *m->pack.pieces, compare_pieces);
    for (int i = 0; i < m->pack.count; i++) {
        const struct mt_lpiece *piece = &m->pack.pieces[i];
        if (piece->buffer != 0 || piece->at < 0 || piece->reduce != MT_REDUCE_NONE)
            return mt_lchecker_refuse(g->c, "packs a piece that is no copy to message 0");
        if (i && piece[-1].at + piece[-1].count > piece->at)
            return mt_lchecker_refuse(g->c, "packs two pieces to one place");
    }
    return MT_OK;
}

static enum mt_status read_unpack(struct group *g, struct member *m) {
    const struct mt_linstr *l = m->l;
    int last = exchanges(g);
    m->unpack.pieces = mt_new(&g->arena, struct mt_lpiece, l->nunpack + 1);
    enum mt_status st = read_pieces(g, l->unpack, l->unpack_value, l->nunpack, l->out, l->nout, &m->unpack);
    for (int i = 0; i < m->unpack.count && !st; i++)
        if (m->unpack.pieces[i].at >= 0 && m->unpack.pieces[i].buffer != last)
            st = mt_lchecker_refuse(g->c, "unpacks the wrong message");
    if (!st && operand_of(l->out, l->nout, l->message[last]) >= 0)
        st = add_tensor(g, l->message[last], last, &m->unpack);
    if (!exchanges(g)) /* AllToAll: the order of pieces matters */
        qsort(m->unpack.pieces, (size_t)m->unpack.count, sizeof *m->unpack.pieces, compare_pieces);
    return st;
}

static enum mt_status read_member(struct group *g, int place) {
    struct member *m = &g->members[place];
    const struct mt_linstr *l = select_member(g, place);
    enum mt_status st = read_pack(g, m);
    if (!st) st = read_unpack(g, m);
    if (st) return st;
    bool neutral = l->zero && l->problem.reduce != MT_REDUCE_NONE;
    for (int b = 0; b < 2; b++)
        mt_lrun_buffer(&g->run, place, b, l->message_count[b], neutral && b == 0 ? MT_EXPR_NEUTRAL : MT_EXPR_GARBAGE);
    for (int i = 0; i < m->pack.count; i++) {
        const struct mt_lpiece *piece = &m->pack.pieces[i];
        mt_lrun_set(&g->run, place, 0, piece->at, piece->at + piece->count, MT_EXPR_FIRST + place);
    }
    g->run.schedule[place] = l->schedule;
    return MT_OK;
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
    return mt_box_intersect(&l->box[g->members[place].rank], &a->box, l->naxes, &both);
}

/* The piece of a sorted side that contains place x; or null. */
static const struct mt_lpiece *piece_at(const struct side *side, int64_t x) {
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
static enum mt_status check_elements(const struct group *g, int place, const struct side *side, int value, int64_t x,
                                     const struct arrival *a, int64_t y, int64_t count) {
    while (count > 0) {
        const struct mt_lpiece *piece = piece_at(side, x);
        int64_t run = piece ? piece->at + piece->count - x : 0;
        if (run > count) run = count;
        if (!piece || piece->value != value || !mt_lpiece_same(piece, x, a->piece, y, run))
            return mt_lchecker_refuse(g->c, "rank %d has other elements where %s is unpacked", g->members[place].rank,
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

static enum mt_status check_contributions(const struct group *g, const struct arrival *a) {
    const struct mt_segment *s = &a->segment;
    bool first = true;
    for (int p = 0; p < g->n; p++) {
        bool has = mt_lrun_has(&g->run, s->expr, p);
        if (!exchanges(g) && has != must_contribute(g, a, p, first))
            return mt_lchecker_refuse(g->c, "%s is computed %s rank %d's", mt_lchecker_name(g->c, a->piece->value),
                                      has ? "with" : "without", g->members[p].rank);
        if (holds_some(g, a, p)) first = false;
        if (!has) continue;
        enum mt_status st = check_elements(g, p, &g->members[p].pack, g->source->in[a->operand], s->lo + s->shift, a,
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
    while (!mt_box_intersect(&to->box[g->members[other].rank], &a->box, to->naxes, &both)) other++;
    if (other >= a->place) return MT_OK;
    const struct mt_segments *theirs = &g->run.buffer[other][0];
    for (int i = 0; i < theirs->count; i++) {
        const struct mt_segment *s = &theirs->items[i];
        if (s->hi <= a->segment.lo || s->lo >= a->segment.hi) continue;
        if (s->expr != a->segment.expr || s->shift != a->segment.shift)
            return mt_lchecker_refuse(g->c, "%s is not computed in the same order as on rank %d: bits may differ",
                                      mt_lchecker_name(g->c, a->piece->value), g->members[other].rank);
    }
    return check_elements(g, other, &g->members[other].unpack, a->piece->value, a->segment.lo, a, a->segment.lo,
                          a->segment.hi - a->segment.lo);
}

/* ---- AllToAll ---- */

/* The new part that each old part goes to: that of its first rank; or 0 where reductions differ. */
static int new_part(const struct mt_layout *from, const struct mt_layout *to, int nranks, int part) {
    if (from->nparts > 1 && to->nparts > 1 && from->reduce != to->reduce) return 0;
    for (int r = 0; r < nranks; r++)
        if (from->part[r] == part && mt_box_count(&from->box[r], from->naxes)) return to->part[r];
    return 0;
}

/* The sender of a piece is the receiver itself if it holds the part, else the first of the group that does. *part gets
 * the old part. */
static enum mt_status check_sender(const struct group *g, const struct arrival *a, int *part) {
    const struct mt_layout *from = old_layout(g, a->operand);
    int sender = 0;
    while (sender < g->n && !mt_lrun_has(&g->run, a->segment.expr, sender)) sender++;
    if (sender == g->n) return mt_lchecker_refuse(g->c, "a piece has no sender");
    int old = from->part[g->members[sender].rank];
    if (*part >= 0 && old != *part) return mt_lchecker_refuse(g->c, "a piece is of two parts");
    *part = old;
    for (int p = 0; p < g->n; p++) {
        bool sooner = p == a->place || (p < sender && sender != a->place);
        if (p != sender && sooner && from->part[g->members[p].rank] == old && holds_some(g, a, p))
            return mt_lchecker_refuse(g->c, "%s comes from rank %d, though rank %d holds it",
                                      mt_lchecker_name(g->c, a->piece->value), g->members[sender].rank,
                                      g->members[p].rank);
    }
    return MT_OK;
}

/* The pieces of one operand and the old part of each (-1: zeros): every old part that goes to the new part arrives
 * whole and in order; the first overwrites and the others reduce. */
static enum mt_status check_parts(const struct group *g, int place, int operand, const struct mt_lpiece **pieces,
                                  const int *part, int count) {
    const struct mt_layout *from = old_layout(g, operand);
    const struct mt_layout *to = mt_lchecker_layout(g->c, g->source->out[operand]);
    int rank = g->members[place].rank, at = 0, found = 0;
    for (int p = -1; p < from->nparts; p++) {
        int end = at;
        bool goes = p >= 0 && new_part(from, to, g->c->program->nranks, p) == to->part[rank];
        enum mt_reduce reduce = p < 0 ? to->reduce : found ? from->reduce : MT_REDUCE_NONE;
        for (; end < count && part[end] == p; end++)
            if (pieces[end]->reduce != reduce) return mt_lchecker_refuse(g->c, "part %d is reduced differently", p);
        if (p >= 0 ? goes : end > at) {
            if (!mt_lpieces_tile(pieces + at, end - at, &to->box[rank], to->naxes))
                return mt_lchecker_refuse(g->c, "part %d of %s does not arrive whole", p,
                                          mt_lchecker_name(g->c, g->source->out[operand]));
            if (found++ && part[0] < 0) return mt_lchecker_refuse(g->c, "zeros arrive together with parts");
        } else if (end > at) {
            return mt_lchecker_refuse(g->c, "part %d does not belong here", p);
        }
        at = end;
    }
    if (at < count || !found) return mt_lchecker_refuse(g->c, "parts do not arrive in order");
    return MT_OK;
}

/* ---- a member's new boxes ---- */

/* Shorten the arrival to one piece of its first contributor. */
static void cut_to_sender(const struct group *g, struct arrival *a) {
    int sender = 0;
    a->box = a->piece->box;
    while (sender < g->n && !mt_lrun_has(&g->run, a->segment.expr, sender)) sender++;
    if (sender == g->n) return;
    int64_t x = a->segment.lo + a->segment.shift;
    const struct mt_lpiece *piece = piece_at(&g->members[sender].pack, x);
    if (!piece || piece->naxes != a->piece->naxes) return; /* check_elements refuses it */
    int64_t run = piece->at + piece->count - x;
    if (a->segment.hi - a->segment.lo > run) a->segment.hi = a->segment.lo + run;
    mt_box_intersect(&piece->box, &a->piece->box, piece->naxes, &a->box);
}

static enum mt_status check_arrivals(const struct group *g, struct arrival a, int *part) {
    if (a.segment.expr == MT_EXPR_GARBAGE)
        return mt_lchecker_refuse(g->c, "part of %s never arrives", mt_lchecker_name(g->c, a.piece->value));
    int64_t end = a.segment.hi;
    while (a.segment.lo < end) {
        a.segment.hi = end;
        cut_to_sender(g, &a);
        enum mt_status st = check_contributions(g, &a);
        if (!st) st = check_equal_bits(g, &a);
        if (!st && exchanges(g)) st = check_sender(g, &a, part);
        if (st) return st;
        a.segment.lo = a.segment.hi;
    }
    return MT_OK;
}

/* All ranges of a piece; in an AllToAll *part gets its old part. */
static enum mt_status check_piece(const struct group *g, int place, int operand, const struct mt_lpiece *piece,
                                  int *part) {
    const struct mt_segments *all = &g->run.buffer[place][piece->buffer];
    *part = -1;
    if (piece->at < 0 && exchanges(g)) return MT_OK;
    if (piece->at < 0 || (!exchanges(g) && piece->reduce != MT_REDUCE_NONE))
        return mt_lchecker_refuse(g->c, "unpacks what does not come from the message");
    for (int i = 0; i < all->count; i++) {
        struct arrival a = {.place = place, .operand = operand, .piece = piece, .segment = all->items[i]};
        int64_t end = piece->at + piece->count;
        if (a.segment.lo < piece->at) a.segment.lo = piece->at;
        if (a.segment.hi > end) a.segment.hi = end;
        enum mt_status st = a.segment.lo < a.segment.hi ? check_arrivals(g, a, part) : MT_OK;
        if (st) return st;
    }
    return MT_OK;
}

static enum mt_status check_operand(struct group *g, int place, int operand) {
    const struct member *m = &g->members[place];
    int out = g->source->out[operand], count = 0;
    const struct mt_layout *to = mt_lchecker_layout(g->c, out);
    const struct mt_box *box = &to->box[m->rank];
    const struct mt_lpiece **pieces = mt_new(&g->arena, const struct mt_lpiece *, m->unpack.count + 1);
    int *part = mt_new(&g->arena, int, m->unpack.count + 1);
    for (int i = 0; i < m->unpack.count; i++) {
        if (m->unpack.pieces[i].value != out) continue;
        pieces[count] = &m->unpack.pieces[i];
        enum mt_status st = check_piece(g, place, operand, pieces[count], &part[count]);
        if (st) return st;
        count++;
    }
    if (mt_box_count(box, to->naxes) == 0) return MT_OK;
    if (exchanges(g)) return check_parts(g, place, operand, pieces, part, count);
    if (mt_lpieces_tile(pieces, count, box, to->naxes)) return MT_OK;
    return mt_lchecker_refuse(g->c, "%s does not arrive whole", mt_lchecker_name(g->c, out));
}

static enum mt_status check_group(struct group *g) {
    enum mt_status st = MT_OK;
    const struct mt_linstr **members = mt_new(&g->arena, const struct mt_linstr *, g->n);
    for (int p = 0; p < g->n; p++) members[p] = g->members[p].l = select_member(g, p);
    for (int p = 0; p < g->n && !st; p++) st = check_problem(g, p);
    if (st) return st;
    mt_lrun_init(&g->run, g->n, &g->members[0].l->problem);
    for (int p = 0; p < g->n && !st; p++) st = read_member(g, p);
    for (int p = 0; p < g->n && !st; p++) {
        select_member(g, p);
        st = mt_lchecker_arrays(g->c, members, p);
    }
    if (!st) st = mt_lrun_schedules(&g->run, g->c);
    for (int p = 0; p < g->n && !st; p++) {
        select_member(g, p);
        for (int k = 0; k < g->source->nin && !st; k++) st = check_operand(g, p, k);
    }
    mt_lrun_release(&g->run);
    return st;
}

enum mt_status mt_lchecker_message(struct mt_lchecker *c, enum mt_block_kind block, int instr) {
    struct group g = {.c = c, .source = &c->program->blocks[block].instrs[instr], .block = block, .instr = instr};
    enum mt_status st = MT_OK;
    g.members = mt_new(&g.arena, struct member, c->program->nranks);
    for (int first = 0; first < c->program->nranks && !st; first++) {
        bool leads = true;
        for (int r = 0; r < first; r++) leads &= g.source->group[r] != g.source->group[first];
        if (!leads) continue;
        g.n = 0;
        for (int r = first; r < c->program->nranks; r++)
            if (g.source->group[r] == g.source->group[first]) g.members[g.n++] = (struct member){.rank = r};
        st = check_group(&g);
    }
    mt_arena_release(&g.arena);
    return st;
}
