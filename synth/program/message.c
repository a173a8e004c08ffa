/* The contents of messages, from boxes.
 *
 *   AllReduce      the group's common box of each value, one after another; any division into blocks is correct
 *   ReduceScatter  block r: the new boxes of the group's r-th rank
 *   AllGather      block r: what rank r holds of each value and no earlier member of the group holds
 *   Broadcast      the first member's boxes
 *   AllToAll       the transfers of mt_layout_transfers; sender and receiver list them in the same order
 *                  (all_to_all.c)
 *
 * Of a collective in parts each of these boxes is cut alike on all ranks. */
#include "synth/program/message.h"

#include <assert.h>
#include <string.h>

#include "synth/layout/region.h"
#include "synth/program/internal.h"

enum mt_status mt_maker_fail(struct mt_message_maker *m, int operand, const char *why) {
    const struct mt_pvalue *v = &m->program->values[m->instr->in[operand]];
    return mt_fail(m->err, MT_EBUG, "%s of %s: %s", mt_coll_name(m->instr->coll),
                   m->program->graph->values[v->gvalue].name, why);
}

bool mt_box_run(const struct mt_box *part, const struct mt_box *whole, int naxes, int64_t *start) {
    int64_t at = 0, stride = 1;
    bool partial = false; /* an inner axis is not whole */
    for (int a = naxes - 1; a >= 0; a--) {
        int64_t extent = part->hi[a] - part->lo[a], all = whole->hi[a] - whole->lo[a];
        if (partial && extent != 1) return false;
        if (extent != all) partial = true;
        at += (part->lo[a] - whole->lo[a]) * stride;
        stride *= all;
    }
    *start = at;
    return true;
}

void mt_maker_add(struct mt_message_maker *m, bool pack, struct mt_message_piece piece, int naxes) {
    struct mt_message_side *side = pack ? &m->message->pack : &m->message->unpack;
    int64_t count = mt_box_count(&piece.box, naxes), start;
    if (count == 0) return;
    int value = pack ? m->instr->in[piece.operand] : m->instr->out[piece.operand];
    enum mt_type type = m->program->values[value].type, acc = m->message->problem.acc;
    int64_t bytes = count * (mt_type_size(type) + mt_type_size(acc));
    bool runs = mt_box_run(&piece.box, mt_pvalue_box(m->program, value, m->rank), naxes, &start);
    side->bytes += bytes;
    if (!runs || type != acc) side->rest_bytes += bytes, side->nrest++;
    side->is_tensor &= runs && start == piece.at && piece.reduce == MT_REDUCE_NONE;
    m->tensor_count[pack] += count;
    if (!m->form.sketch) {
        mt_arena_grow(m->arena, &side->pieces, side->count, &side->capacity, sizeof *side->pieces);
        side->pieces[side->count] = piece;
    }
    side->count++;
}

/* Whether the pieces are all of the message and of the tensor of the only value. */
static void finish_side(const struct mt_message_maker *m, bool pack) {
    struct mt_message_side *side = pack ? &m->message->pack : &m->message->unpack;
    int value = pack ? m->instr->in[0] : m->instr->out[0];
    int buffer = !pack && m->instr->coll == MT_ALL_TO_ALL;
    int64_t count = mt_box_count(mt_pvalue_box(m->program, value, m->rank), mt_pvalue_layout(m->program, value)->naxes);
    side->bytes /= 2, side->rest_bytes /= 2;
    side->is_tensor &= m->instr->nin == 1 && m->message->count[buffer] == count && m->tensor_count[pack] == count;
}

/* Blocks of equal size but for the remainder: the division of a whole message over the ranks. */
static int64_t *even_counts(struct mt_message_maker *m, int64_t total) {
    int n = m->message->problem.n;
    int64_t *counts = mt_new(m->arena, int64_t, n);
    for (int r = 0; r < n; r++) counts[r] = total / n + (r < total % n);
    return counts;
}

/* AllReduce and Broadcast: the whole boxes of the group's first rank. */
static enum mt_status make_whole(struct mt_message_maker *m) {
    struct mt_message *g = m->message;
    bool reduce = m->instr->coll == MT_ALL_REDUCE;
    for (int v = 0; v < m->instr->nin; v++) {
        const struct mt_layout *from = mt_maker_in(m, v), *to = mt_maker_out(m, v);
        const struct mt_box *box = &from->box[g->group[0]], mine = mt_maker_cut(m, box, from->naxes);
        for (int r = 0; r < g->problem.n; r++) {
            if (reduce && !mt_box_equal(&from->box[g->group[r]], box, from->naxes))
                return mt_maker_fail(m, v, "the group's ranks do not hold the same box");
            if (!mt_box_equal(&to->box[g->group[r]], box, to->naxes))
                return mt_maker_fail(m, v, "the new boxes are not the old one");
        }
        struct mt_message_piece piece = {.operand = v, .at = g->count[0], .box = mine};
        if (reduce || g->problem.me == 0) mt_maker_add(m, true, piece, from->naxes);
        mt_maker_add(m, false, piece, to->naxes);
        g->count[0] += mt_box_count(&mine, from->naxes);
    }
    g->problem.counts = even_counts(m, g->count[0]);
    g->problem.same_pieces = reduce;
    return MT_OK;
}

static bool boxes_equal(const struct mt_message_maker *m) {
    const struct mt_message *g = m->message;
    for (int v = 0; v < m->instr->nin; v++) {
        const struct mt_layout *from = mt_maker_in(m, v);
        for (int r = 1; r < g->problem.n; r++)
            if (!mt_box_equal(&from->box[g->group[r]], &from->box[g->group[0]], from->naxes)) return false;
    }
    return true;
}

static enum mt_status make_reduce_scatter(struct mt_message_maker *m) {
    struct mt_message *g = m->message;
    int64_t *counts = mt_new(m->arena, int64_t, g->problem.n);
    int me = g->group[g->problem.me];
    for (int r = 0; r < g->problem.n; r++)
        for (int v = 0; v < m->instr->nin; v++) {
            const struct mt_layout *from = mt_maker_in(m, v), *to = mt_maker_out(m, v);
            struct mt_message_piece piece = {
                .operand = v, .at = g->count[0], .box = mt_maker_cut(m, &to->box[g->group[r]], to->naxes)};
            int64_t count = mt_box_count(&piece.box, to->naxes);
            struct mt_box common;
            if (mt_box_intersect(&piece.box, &from->box[me], from->naxes, &common)) {
                if (!mt_box_equal(&common, &piece.box, from->naxes))
                    return mt_maker_fail(m, v, "a new box is held in part");
                mt_maker_add(m, true, piece, from->naxes);
            } else if (count > 0) {
                if (m->instr->reduce != MT_SUM) return mt_maker_fail(m, v, "a new box is not held by all");
                g->zero = true;
            }
            if (r == g->problem.me) mt_maker_add(m, false, piece, to->naxes);
            g->count[0] += count;
            counts[r] += count;
        }
    g->problem.counts = counts;
    g->problem.same_pieces = !g->zero && boxes_equal(m);
    return MT_OK;
}

static enum mt_status make_all_gather(struct mt_message_maker *m) {
    struct mt_message *g = m->message;
    int64_t *counts = mt_new(m->arena, int64_t, g->problem.n);
    int me = g->group[g->problem.me];
    struct mt_region *left = mt_new(&m->scratch, struct mt_region, m->instr->nin); /* not held by an earlier member */
    for (int v = 0; v < m->instr->nin; v++) {
        const struct mt_layout *to = mt_maker_out(m, v);
        mt_region_add(&left[v], &m->scratch, &to->box[me], to->naxes);
        for (int r = 0; r < g->problem.n; r++)
            if (!mt_box_equal(&to->box[g->group[r]], &to->box[me], to->naxes))
                return mt_maker_fail(m, v, "the group's new boxes differ");
    }
    struct mt_region block = {0};
    for (int r = 0; r < g->problem.n; r++)
        for (int v = 0; v < m->instr->nin; v++) {
            const struct mt_layout *from = mt_maker_in(m, v);
            const struct mt_box *box = &from->box[g->group[r]];
            if (!mt_box_count(box, from->naxes)) continue;
            bool front = mt_region_take_front(&left[v], box, from->naxes);
            block.count = 0;
            if (!front) mt_region_take(&left[v], &m->scratch, box, from->naxes, &block);
            for (int i = 0; i < (front ? 1 : block.count); i++) {
                struct mt_message_piece piece = {.operand = v,
                                                 .at = g->count[0],
                                                 .box = mt_maker_cut(m, front ? box : &block.boxes[i], from->naxes)};
                int64_t count = mt_box_count(&piece.box, from->naxes);
                if (r == g->problem.me) mt_maker_add(m, true, piece, from->naxes);
                mt_maker_add(m, false, piece, from->naxes);
                g->count[0] += count;
                counts[r] += count;
            }
        }
    for (int v = 0; v < m->instr->nin; v++)
        if (left[v].count) return mt_maker_fail(m, v, "no rank of the group holds a part of the new box");
    g->problem.counts = counts;
    g->problem.same_pieces = true;
    return MT_OK;
}

/* The nodes of a group's ranks, numbered anew by first place; null: all on one. */
static int *group_nodes(struct mt_message_maker *m, const int *group, int n) {
    int *node = mt_new(m->arena, int, n), *number = mt_new(&m->scratch, int, m->program->nranks), nnodes = 0;
    for (int i = 0; i < n; i++) {
        int *of = &number[m->program->node[group[i]]]; /* + 1; 0: not met */
        if (!*of) *of = ++nnodes;
        node[i] = *of - 1;
    }
    return nnodes > 1 ? node : NULL;
}

static enum mt_status make_message(struct mt_message_maker *m) {
    const struct mt_instr *instr = m->instr;
    assert(instr->kind == MT_INSTR_COLLECTIVE && instr->nin == instr->nout);
    static enum mt_status (*const make[MT_NCOLLS])(struct mt_message_maker *) = {
        [MT_ALL_REDUCE] = make_whole,
        [MT_BROADCAST] = make_whole,
        [MT_REDUCE_SCATTER] = make_reduce_scatter,
        [MT_ALL_GATHER] = make_all_gather,
        [MT_ALL_TO_ALL] = mt_make_all_to_all,
    };
    struct mt_message *message = m->message;
    bool sums = mt_coll_reduces(instr->coll);
    *message = (struct mt_message){
        .group = mt_new(m->arena, int, m->program->nranks), .pack.is_tensor = true, .unpack.is_tensor = true};
    message->problem = (struct mt_coll){.kind = instr->coll,
                                        .reduce = sums ? instr->reduce : MT_REDUCE_NONE,
                                        .wire = instr->wire,
                                        .acc = sums && !m->form.wire_sums ? instr->acc : instr->wire};
    for (int r = 0; r < m->program->nranks; r++) {
        if (instr->group[r] != instr->group[m->rank]) continue;
        if (r == m->rank) message->problem.me = message->problem.n;
        message->group[message->problem.n++] = r;
    }
    if (m->program->node) message->problem.node = group_nodes(m, message->group, message->problem.n);
    enum mt_status st = make[instr->coll](m);
    if (!st) finish_side(m, false), finish_side(m, true);
    mt_arena_release(&m->scratch);
    return st;
}

enum mt_status mt_message_make(const struct mt_program *program, const struct mt_instr *instr, int rank,
                               const struct mt_message_form *form, struct mt_arena *arena, struct mt_message *message,
                               struct mt_err *err) {
    struct mt_message_maker m = {
        .program = program, .instr = instr, .arena = arena, .rank = rank, .message = message, .err = err};
    if (form) m.form = *form;
    assert(m.form.parts <= 1 || instr->nin == 1);
    return make_message(&m);
}

/* Elements of value v that all members of a group send or keep, in an AllToAll: elements[nranks], by group, is added
 * to.
 */
static void add_exchanged(const struct mt_program *p, const struct mt_instr *instr, int v, int64_t *elements,
                          struct mt_arena *scratch) {
    int in = p->values[instr->in[v]].layout, out = p->values[instr->out[v]].layout;
    const struct mt_layout *to = &p->layouts.items[out];
    struct mt_transfer *list;
    if (!mt_layout_is_partial(&p->layouts.items[in]) && !mt_layout_is_partial(to)) { /* every element once */
        for (int r = 0; r < p->nranks; r++) elements[instr->group[r]] += mt_box_count(&to->box[r], to->naxes);
        return;
    }
    int count = mt_layout_transfers(&p->layouts, in, out, instr->group, -1, scratch, &list);
    for (int i = 0; i < count; i++)
        if (list[i].from >= 0) elements[instr->group[list[i].to]] += mt_box_count(&list[i].box, to->naxes);
}

int64_t mt_message_bytes(const struct mt_program *program, const struct mt_instr *instr) {
    struct mt_arena scratch = MT_ARENA_INIT;
    int64_t *elements = mt_new(&scratch, int64_t, program->nranks), most = 0; /* by group */
    bool *seen = mt_new(&scratch, bool, program->nranks);
    for (int v = 0; v < instr->nin; v++) {
        if (instr->coll == MT_ALL_TO_ALL) {
            add_exchanged(program, instr, v, elements, &scratch);
            continue;
        }
        bool all = instr->coll == MT_REDUCE_SCATTER, old = instr->coll == MT_ALL_REDUCE || instr->coll == MT_BROADCAST;
        const struct mt_layout *l = mt_pvalue_layout(program, old ? instr->in[v] : instr->out[v]);
        memset(seen, 0, (size_t)program->nranks * sizeof *seen);
        for (int r = 0; r < program->nranks; r++) { /* of a group's first rank, or of all */
            int group = instr->group[r];
            if (all || !seen[group]) elements[group] += mt_box_count(&l->box[r], l->naxes);
            seen[group] = true;
        }
    }
    for (int r = 0; r < program->nranks; r++)
        if (elements[r] > most) most = elements[r];
    mt_arena_release(&scratch);
    return most * mt_type_size(instr->wire);
}

bool mt_message_same(const struct mt_program *p, const struct mt_instr *a, const struct mt_instr *b) {
    if (a->coll != b->coll || a->reduce != b->reduce || a->wire != b->wire || a->acc != b->acc || a->nin != b->nin ||
        memcmp(a->group, b->group, (size_t)p->nranks * sizeof *a->group))
        return false;
    for (int v = 0; v < a->nin; v++)
        for (int side = 0; side < 2; side++) {
            const struct mt_pvalue *x = &p->values[side ? a->out[v] : a->in[v]];
            const struct mt_pvalue *y = &p->values[side ? b->out[v] : b->in[v]];
            if (x->layout != y->layout || x->type != y->type) return false;
        }
    return true;
}
