/* A collective as one rank runs it: its problem is the program's and the group's first member's, its pieces are boxes
 * of its values, and its schedule is kept where it is not that of its algorithm. */
#include <stdlib.h>
#include <string.h>

#include "synth/check/lowered/internal.h"

struct reading {
    struct mt_lchecker *c;
    const struct mt_linstr *l;
    const struct mt_instr *source;
    enum mt_block_kind block;
    int n, place, first_rank;
    const struct mt_lmember *before; /* the group's member before, or null */
    struct mt_lmember *first;        /* the group's first, and the one that is read */
    struct mt_lmember *m;
    const struct mt_lmember *twin; /* of an earlier collective, whose instruction moves other values alike; or null */
};

static bool exchanges(const struct reading *r) {
    return r->source->coll == MT_ALL_TO_ALL;
}

/* ---- blocks of an AllToAll ---- */

/* Elements that this rank sends to a place (message 0), or receives from it. */
static int64_t block_count(const struct reading *r, int message, int place) {
    const int64_t *counts = r->l->problem.counts;
    return message ? counts[(int64_t)place * r->n + r->place] : counts[(int64_t)r->place * r->n + place];
}

static int64_t block_start(const struct reading *r, int message, int place) {
    int64_t start = 0;
    for (int p = 0; p < place; p++) start += block_count(r, message, p);
    return start;
}

static bool is_in_place(const struct reading *r, int message, int place) {
    const struct mt_linstr *l = r->l;
    for (int i = 0; i < l->nin_place[message]; i++)
        if (l->in_place[message][i].at == block_start(r, message, place)) return true;
    return false;
}

/* The elements of a message that need memory (kernels/device/in_place.h). */
static int64_t staged_count(const struct reading *r, int message) {
    int64_t count = 0;
    for (int p = 0; p < r->n; p++) {
        bool own = p == r->place, elsewhere = own && (message == 0 || is_in_place(r, 0, p));
        if (!elsewhere && block_count(r, message, p) && !is_in_place(r, message, p))
            count += block_count(r, message, p);
    }
    return count;
}

/* ---- the problem ---- */

/* The messages' memory. */
static enum mt_status check_room(const struct reading *r) {
    const struct mt_linstr *l = r->l;
    for (int b = 0; b < 2; b++) {
        int64_t staged = exchanges(r) ? staged_count(r, b) : l->message_count[b];
        if (staged == 0) continue;
        const struct mt_lvalue *m = l->message[b] >= 0 ? &r->c->low->values[l->message[b]] : NULL;
        int64_t size = mt_type_size(l->problem.acc);
        if (!m || m->offset_bytes < 0 || m->offset_bytes % size || m->size_bytes < staged * size)
            return mt_lchecker_refuse(r->c, "message %d has no room for %lld elements", b, (long long)staged);
    }
    return MT_OK;
}

static enum mt_status check_counts(const struct reading *r) {
    const struct mt_linstr *l = r->l;
    const int64_t *counts = l->problem.counts;
    int64_t count[2] = {0}, ncounts = exchanges(r) ? (int64_t)r->n * r->n : r->n;
    if (r->twin) return check_room(r);
    if (r->place && memcmp(counts, r->first->problem.counts, (size_t)ncounts * sizeof(int64_t)))
        return mt_lchecker_refuse(r->c, "its counts are not those of rank %d", r->first_rank);
    for (int64_t i = 0; i < ncounts; i++)
        if (counts[i] < 0) return mt_lchecker_refuse(r->c, "a count is negative");
    for (int p = 0; p < r->n; p++) {
        if (exchanges(r)) {
            count[0] += counts[(int64_t)r->place * r->n + p];
            count[1] += counts[(int64_t)p * r->n + r->place];
        } else {
            count[0] += counts[p];
        }
    }
    for (int b = 0; b < 2; b++) {
        if (l->message_count[b] != count[b])
            return mt_lchecker_refuse(r->c, "message %d has %lld elements, not %lld", b, (long long)l->message_count[b],
                                      (long long)count[b]);
    }
    return check_room(r);
}

/* The first member's nodes are the program's, numbered by first member, and none where it is one node; the others' are
 * the first's. */
static enum mt_status check_nodes(const struct reading *r) {
    const int *node = r->l->problem.node, *of = r->c->program->node;
    if (r->place) {
        const int *first = r->first->problem.node;
        bool same = node && first ? !memcmp(node, first, (size_t)r->n * sizeof *node) : node == first;
        return same ? MT_OK : mt_lchecker_refuse(r->c, "its nodes are not those of rank %d", r->first_rank);
    }
    int known = 0, nranks = r->c->program->nranks;
    int *number = mt_calloc((size_t)nranks, sizeof *number); /* + 1; 0: not met */
    bool right = true;
    for (int m = 0; of && m < r->n && right; m++) {
        int host = of[r->l->group[m]];
        right = host >= 0 && host < nranks;
        if (!right) break;
        if (!number[host]) number[host] = ++known;
        right = !node || node[m] == number[host] - 1;
    }
    free(number);
    right = right && (node != NULL) == (known > 1);
    return right ? MT_OK : mt_lchecker_refuse(r->c, "its nodes are not those of the program's ranks");
}

static enum mt_status check_problem(const struct reading *r) {
    const struct mt_linstr *l = r->l;
    const struct mt_instr *s = r->source;
    const struct mt_coll *p = &l->problem;
    struct mt_lchecker *c = r->c;
    bool reduces = mt_coll_reduces(s->coll);
    if (p->kind != s->coll || p->n != r->n || p->me != r->place || p->root != 0)
        return mt_lchecker_refuse(c, "is not the program's collective of %d ranks", r->n);
    if (p->reduce != (reduces ? s->reduce : MT_REDUCE_NONE) || p->wire != s->wire ||
        p->acc != (reduces && !c->options->wire_sums ? s->acc : s->wire))
        return mt_lchecker_refuse(c, "has another reduction, wire type or accumulation type than the program's");
    for (int q = 0, at = 0; q < c->program->nranks; q++) {
        if (s->group[q] != s->group[c->rank]) continue;
        if (l->group[at] != q) return mt_lchecker_refuse(c, "place %d is not rank %d", at, q);
        at++;
    }
    if (r->block == MT_BODY && c->low->body_count != c->program->body_count[r->first_rank])
        return mt_lchecker_refuse(c, "takes part a different number of times than rank %d", r->first_rank);
    for (int k = 0; k < l->nin; k++)
        if (c->low->values[l->in[k]].iteration_bytes && c->low->body_count > 1)
            return mt_lchecker_refuse(c, "sends the same samples in every iteration");
    enum mt_status st = check_nodes(r);
    return st ? st : check_counts(r);
}

/* ---- the contents of messages ---- */

static int compare_pieces(const void *left, const void *right) {
    const struct mt_lpiece *a = left, *b = right;
    return a->buffer != b->buffer ? a->buffer - b->buffer : (a->at > b->at) - (a->at < b->at);
}

static void sort_pieces(struct mt_lside *side) {
    for (int i = 1; i < side->count; i++)
        if (compare_pieces(&side->pieces[i - 1], &side->pieces[i]) > 0) {
            qsort(side->pieces, (size_t)side->count, sizeof *side->pieces, compare_pieces);
            return;
        }
}

/* The position of the lvalue in `list`, or -1. */
static int operand_of(const int *list, int count, int lvalue) {
    for (int k = 0; k < count; k++)
        if (list[k] == lvalue) return k;
    return -1;
}

/* A side in the checker's scratch, with room for `most` pieces. */
static struct mt_lside scratch_side(const struct reading *r, int most) {
    if (most > r->c->pieces_capacity) {
        r->c->pieces_capacity = 2 * most;
        r->c->pieces = mt_realloc(r->c->pieces, (size_t)(2 * most) * sizeof *r->c->pieces);
    }
    return (struct mt_lside){.pieces = r->c->pieces};
}

/* A copy of the side; or one that is equal to it. */
static const struct mt_lside *keep_side(const struct reading *r, const struct mt_lside *side,
                                        const struct mt_lside *before) {
    size_t bytes = (size_t)side->count * sizeof *side->pieces;
    if (before && before->count == side->count && !memcmp(before->pieces, side->pieces, bytes)) return before;
    struct mt_lside *kept = mt_new(&r->c->arena, struct mt_lside, 1);
    kept->count = side->count;
    kept->pieces = mt_arena_memdup(&r->c->arena, side->pieces, bytes);
    return kept;
}

/* Pieces of operands; of[count]: of which. */
static enum mt_status read_pieces(const struct reading *r, bool unpack, const struct mt_piece *pieces, const int *of,
                                  int count, struct mt_lside *side) {
    const int *values = unpack ? r->l->out : r->l->in;
    for (int i = 0; i < count; i++) {
        struct mt_lpiece *piece = &side->pieces[side->count];
        if (of[i] < 0 || of[i] >= (unpack ? r->l->nout : r->l->nin))
            return mt_lchecker_refuse(r->c, "piece %d is of a value that is no operand", i);
        enum mt_status st = mt_lchecker_piece(r->c, &pieces[i], values, of[i], piece);
        if (st) return st;
        if (piece->count == 0) continue;
        if (piece->at < -1 || (piece->at >= 0 && piece->at > r->l->message_count[piece->buffer] - piece->count))
            return mt_lchecker_refuse(r->c, "piece %d is outside of the message", i);
        side->count++;
    }
    return MT_OK;
}

/* Add the blocks of an AllToAll that are in place: whole, contiguous, of the message's type, and in order. */
static enum mt_status read_in_place(const struct reading *r, int message, struct mt_lside *side) {
    const struct mt_linstr *l = r->l;
    const int *values = message ? l->out : l->in;
    int place = -1, before = side->count;
    if (!exchanges(r)) return l->nin_place[message] ? mt_lchecker_refuse(r->c, "has blocks in place") : MT_OK;
    if (l->zero) return mt_lchecker_refuse(r->c, "fills a message whose blocks are not in one place");
    if (l->message[message] >= 0 && l->message[message] < r->c->program->nvalues)
        return mt_lchecker_refuse(r->c, "a value is memory of its messages");
    enum mt_status st =
        read_pieces(r, message, l->in_place[message], l->in_place_of[message], l->nin_place[message], side);
    for (int i = before; i < side->count && !st; i++) {
        const struct mt_lpiece *piece = &side->pieces[i];
        const struct mt_lpiece whole = mt_lchecker_whole(r->c, values, piece->operand, message);
        const struct mt_lvalue *value = &r->c->low->values[values[piece->operand]];
        int64_t size = mt_type_size(value->tensor.type);
        int64_t at = (int64_t)(uintptr_t)l->in_place[message][i - before].data / size;
        do place++;
        while (place < r->n && (!block_count(r, message, place) || block_start(r, message, place) != piece->at));
        if (place >= r->n || block_count(r, message, place) != piece->count || piece->buffer != message)
            return mt_lchecker_refuse(r->c, "block %d in place of message %d is no block of it", i - before, message);
        if (piece->reduce != MT_REDUCE_NONE || value->tensor.type != l->problem.acc ||
            at > whole.count - piece->count || !mt_lpiece_same(&whole, at, piece, piece->at, piece->count))
            return mt_lchecker_refuse(r->c, "block %d of message %d cannot be in place", place, message);
        if (place == r->place && message && is_in_place(r, 0, place))
            return mt_lchecker_refuse(r->c, "its own block is in place twice");
    }
    if (!st && side->count != before + l->nin_place[message])
        return mt_lchecker_refuse(r->c, "a block in place is empty");
    return st;
}

/* Add a whole tensor that serves as the message, as one piece. */
static enum mt_status add_tensor(const struct reading *r, const int *values, int operand, int buffer,
                                 struct mt_lside *side) {
    struct mt_lpiece piece = mt_lchecker_whole(r->c, values, operand, buffer);
    int lvalue = values[operand];
    if (piece.count == 0) return MT_OK;
    if (piece.count != r->l->message_count[buffer] || r->c->low->values[lvalue].tensor.type != r->l->problem.acc)
        return mt_lchecker_refuse(r->c, "%s cannot serve as the message", mt_lchecker_name(r->c, lvalue));
    side->pieces[side->count++] = piece;
    return MT_OK;
}

/* The contents of message 0 at the start: what is packed, or a tensor that serves as the message. */
static enum mt_status read_pack(const struct reading *r) {
    const struct mt_linstr *l = r->l;
    if (r->twin && l->npack + l->nin_place[0]) return r->m->pack = r->twin->pack, MT_OK;
    struct mt_lside side = scratch_side(r, l->npack + l->nin_place[0] + 1);
    enum mt_status st = read_in_place(r, 0, &side);
    if (!st) st = read_pieces(r, false, l->pack, l->pack_of, l->npack, &side);
    if (st) return st;
    const struct mt_lvalue *values = r->c->low->values;
    for (int k = 0; k < l->nin && l->npack == 0 && l->message[0] >= 0 && !l->zero && !exchanges(r); k++) {
        bool named = l->message[0] == l->in[k];
        bool in_place = operand_of(l->out, l->nout, l->message[0]) == k &&
                        values[l->message[0]].offset_bytes == values[l->in[k]].offset_bytes;
        if ((named || in_place) && side.count == 0) st = add_tensor(r, l->in, k, 0, &side);
        if (st) return st;
    }
    sort_pieces(&side);
    for (int i = 0; i < side.count; i++) {
        const struct mt_lpiece *piece = &side.pieces[i];
        if (piece->buffer != 0 || piece->at < 0 || piece->reduce != MT_REDUCE_NONE)
            return mt_lchecker_refuse(r->c, "packs a piece that is no copy to message 0");
        if (i && piece[-1].at + piece[-1].count > piece->at)
            return mt_lchecker_refuse(r->c, "packs two pieces to one place");
    }
    r->m->pack = keep_side(r, &side, r->before ? r->before->pack : NULL);
    return MT_OK;
}

static enum mt_status read_unpack(const struct reading *r) {
    const struct mt_linstr *l = r->l;
    int last = exchanges(r);
    if (r->twin && l->nunpack + l->nin_place[1]) return r->m->unpack = r->twin->unpack, MT_OK;
    struct mt_lside side = scratch_side(r, l->nunpack + l->nin_place[1] + 1);
    enum mt_status st = read_in_place(r, 1, &side);
    if (!st) st = read_pieces(r, true, l->unpack, l->unpack_of, l->nunpack, &side);
    for (int i = 0; i < side.count && !st; i++)
        if (side.pieces[i].at >= 0 && side.pieces[i].buffer != last)
            st = mt_lchecker_refuse(r->c, "unpacks the wrong message");
    int tensor = operand_of(l->out, l->nout, l->message[last]);
    if (!st && !last && tensor >= 0) st = add_tensor(r, l->out, tensor, last, &side);
    if (st) return st;
    if (!exchanges(r)) sort_pieces(&side);
    r->m->unpack = keep_side(r, &side, r->before ? r->before->unpack : NULL);
    return MT_OK;
}

/* ---- the schedule ---- */

static bool same_schedule(const struct mt_schedule *a, const struct mt_schedule *b) {
    return a->nsteps == b->nsteps && a->nrounds == b->nrounds && a->scratch_count == b->scratch_count &&
           (!a->nsteps || !memcmp(a->steps, b->steps, (size_t)a->nsteps * sizeof *a->steps)) &&
           (!a->nrounds || !memcmp(a->round_end, b->round_end, (size_t)a->nrounds * sizeof *a->round_end));
}

bool mt_lmember_same_problem(const struct mt_lmember *a, const struct mt_lmember *b) {
    const struct mt_coll *x = &a->problem, *y = &b->problem;
    size_t n = (size_t)x->n, ncounts = x->kind == MT_ALL_TO_ALL ? n * n : n;
    return x->kind == y->kind && x->reduce == y->reduce && x->wire == y->wire && x->acc == y->acc && x->n == y->n &&
           x->root == y->root && !memcmp(x->counts, y->counts, ncounts * sizeof *x->counts) && !x->node == !y->node &&
           (!x->node || !memcmp(x->node, y->node, n * sizeof *x->node));
}

/* Whether the instruction has the schedule of its algorithm, which makes it again. An earlier instruction of the rank
 * may have the very same. */
static bool is_algorithms(const struct reading *r, int k) {
    const struct mt_linstr *l = r->l;
    if (!l->algorithm || l->algorithm->kind != l->problem.kind || !l->algorithm->applies(&l->problem)) return false;
    for (int before = 0; before < k; before++) {
        const struct mt_lmember *other = &r->c->collectives[before].members[r->c->rank];
        if (r->c->kept[before]->schedule == l->schedule && other->algorithm == l->algorithm &&
            other->problem.me == r->m->problem.me && mt_lmember_same_problem(other, r->m))
            return true;
    }
    struct mt_schedule made = MT_SCHEDULE_INIT;
    l->algorithm->schedule(&l->problem, &made);
    bool same = same_schedule(&made, l->schedule);
    mt_schedule_release(&made);
    return same;
}

/* An AllToAll's blocks have places of their own in memory, so that a step is of one whole block; and the two messages
 * share that of what a rank sends to itself, which is copied from one to the other and not touched otherwise. */
static enum mt_status check_steps(const struct reading *r) {
    const struct mt_schedule *schedule = r->l->schedule;
    if (r->twin) return MT_OK;
    for (int i = 0; schedule && exchanges(r) && i < schedule->nsteps; i++) {
        const struct mt_step *s = &schedule->steps[i];
        int b = s->kind == MT_STEP_RECV, place = s->kind == MT_STEP_COPY ? r->place : s->peer;
        bool right = s->kind == MT_STEP_SEND || s->kind == MT_STEP_RECV || s->kind == MT_STEP_COPY;
        right = right && place >= 0 && place < r->n && (place == r->place) == (s->kind == MT_STEP_COPY);
        right =
            right && s->buffer == b && s->offset == block_start(r, b, place) && s->count == block_count(r, b, place);
        if (right && s->kind == MT_STEP_COPY) right = s->to_buffer == 1 && s->to == block_start(r, 1, place);
        if (!right) return mt_lchecker_refuse(r->c, "step %d is of no block of its messages", i);
    }
    return MT_OK;
}

/* Keep the schedule: as its algorithm, or as it is. What it does is proven in either case. */
static void keep_schedule(const struct reading *r, int k) {
    struct mt_arena *arena = &r->c->arena;
    r->m->sends = r->l->schedule != NULL;
    if (!r->m->sends) return;
    if (r->twin) {
        r->m->algorithm = r->twin->algorithm, r->m->schedule = r->twin->schedule;
        return;
    }
    if (is_algorithms(r, k)) {
        r->m->algorithm = r->l->algorithm;
        return;
    }
    struct mt_schedule *own = mt_new(arena, struct mt_schedule, 1);
    *own = *r->l->schedule;
    own->arena = (struct mt_arena)MT_ARENA_INIT;
    own->steps = mt_arena_memdup(arena, own->steps, (size_t)own->nsteps * sizeof *own->steps);
    own->round_end = mt_arena_memdup(arena, own->round_end, (size_t)own->nrounds * sizeof *own->round_end);
    r->m->schedule = own;
}

/* ---- twins ---- */

/* Whether what serves as message b is of the same kind: the same operand, or memory of no value. */
static bool same_tensor(const struct reading *r, const struct mt_linstr *a, const struct mt_linstr *b, int message) {
    int x = a->message[message], y = b->message[message], nvalues = r->c->program->nvalues;
    if (x < 0 || y < 0 || x >= nvalues || y >= nvalues) return (x >= 0 && x < nvalues) == (y >= 0 && y < nvalues);
    return operand_of(a->in, a->nin, x) == operand_of(b->in, b->nin, y) &&
           operand_of(a->out, a->nout, x) == operand_of(b->out, b->nout, y);
}

/* Whether operands have the same boxes and types on all ranks, and memory. */
static bool same_operands(const struct reading *r, const int *a, const int *b, int count) {
    const struct mt_pvalue *p = r->c->program->values;
    const struct mt_lvalue *values = r->c->low->values;
    for (int k = 0; k < count; k++)
        if (p[a[k]].layout != p[b[k]].layout || p[a[k]].type != p[b[k]].type ||
            (values[a[k]].offset_bytes < 0) != (values[b[k]].offset_bytes < 0))
            return false;
    return true;
}

/* Whether two instructions of the current rank differ in the values that they move, and the places of those and of
 * messages in the arena, alone: they have the very same counts, nodes, pieces and schedules. */
static bool moves_alike(const struct reading *r, const struct mt_linstr *a, const struct mt_linstr *b) {
    const struct mt_coll *x = &a->problem, *y = &b->problem;
    bool same = a->what == b->what && x->kind == y->kind && x->reduce == y->reduce && x->wire == y->wire &&
                x->acc == y->acc && x->n == y->n && x->me == y->me && x->root == y->root && x->counts == y->counts &&
                x->node == y->node && x->same_pieces == y->same_pieces && a->algorithm == b->algorithm &&
                a->schedule == b->schedule && a->pack == b->pack && a->pack_of == b->pack_of && a->npack == b->npack &&
                a->unpack == b->unpack && a->unpack_of == b->unpack_of && a->nunpack == b->nunpack &&
                a->zero == b->zero && a->nin == b->nin && a->nout == b->nout;
    for (int m = 0; m < 2; m++)
        same = same && a->in_place[m] == b->in_place[m] && a->in_place_of[m] == b->in_place_of[m] &&
               a->nin_place[m] == b->nin_place[m] && a->message_count[m] == b->message_count[m] &&
               same_tensor(r, a, b, m);
    return same && same_operands(r, a->in, b->in, a->nin) && same_operands(r, a->out, b->out, a->nout);
}

/* An earlier collective of the same groups of which all that is kept holds of the k-th too, because this rank's
 * instructions move alike, and the group's first member's did. */
static const struct mt_lmember *find_twin(const struct reading *r, int k) {
    enum { MOST_BEFORE = 64 }; /* layers repeat */
    const struct mt_lchecker *c = r->c;
    size_t bytes = (size_t)c->program->nranks * sizeof *r->source->group;
    for (int before = k - 1; before >= 0 && before >= k - MOST_BEFORE; before--) {
        const struct mt_lcollective *of = &c->collectives[before];
        const struct mt_lmember *first = &of->members[r->first_rank];
        if (!moves_alike(r, r->l, c->kept[before]) ||
            memcmp(c->program->blocks[of->block].instrs[of->source].group, r->source->group, bytes))
            continue;
        if (!r->place || (first->problem.counts == r->first->problem.counts &&
                          first->problem.node == r->first->problem.node && first->ranges == r->first->ranges))
            return &of->members[c->rank];
    }
    return NULL;
}

/* ---- one member ---- */

static const char *keep_name(const struct reading *r) {
    const char *name = r->l->name;
    if (!name || (r->before && r->before->name && !strcmp(r->before->name, name))) return name ? r->before->name : NULL;
    return mt_arena_strdup(&r->c->arena, name);
}

static void keep_problem(const struct reading *r) {
    struct mt_arena *arena = &r->c->arena;
    struct mt_coll *kept = &r->m->problem;
    *kept = r->l->problem;
    if (r->place || r->twin) {
        const struct mt_lmember *of = r->place ? r->first : r->twin;
        kept->counts = of->problem.counts, kept->node = of->problem.node;
        if (!r->place) r->m->ranges = r->twin->ranges;
        return;
    }
    size_t ncounts = (size_t)r->n * (exchanges(r) ? (size_t)r->n : 1);
    kept->counts = mt_arena_memdup(arena, kept->counts, ncounts * sizeof *kept->counts);
    if (kept->node) kept->node = mt_arena_memdup(arena, kept->node, (size_t)r->n * sizeof *kept->node);
    if (!mt_coll_takes_arrays(kept)) return;
    r->m->ranges = mt_new(arena, struct mt_lranges, 1);
    *r->m->ranges = mt_lranges_of(r->l, arena);
}

enum mt_status mt_lchecker_keep(struct mt_lchecker *c, int k) {
    const struct mt_lcollective *of = &c->collectives[k];
    struct reading r = {.c = c, .l = mt_lchecker_instr(c), .block = of->block, .first_rank = -1};
    r.source = &c->program->blocks[of->block].instrs[of->source];
    r.m = &of->members[c->rank];
    for (int q = 0; q < c->program->nranks; q++) {
        if (r.source->group[q] != r.source->group[c->rank]) continue;
        if (r.first_rank < 0) r.first_rank = q;
        if (q < c->rank) r.before = &of->members[q];
        r.place += q < c->rank;
        r.n++;
    }
    r.first = &of->members[r.first_rank];
    r.m->instr = c->instr;
    r.m->name = keep_name(&r);
    r.twin = find_twin(&r, k);
    enum mt_status st = check_problem(&r);
    if (st) return st;
    keep_problem(&r);
    r.m->zero = r.l->zero;
    for (int b = 0; b < 2; b++) r.m->message_count[b] = r.l->message_count[b];
    st = read_pack(&r);
    if (!st) st = read_unpack(&r);
    struct mt_arena scratch = MT_ARENA_INIT;
    if (!st && !r.twin) st = mt_lchecker_arrays(c, r.first, &scratch);
    mt_arena_release(&scratch);
    if (!st) st = check_steps(&r);
    if (!st) keep_schedule(&r, k);
    return st;
}
