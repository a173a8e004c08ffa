/* The contents of messages, from boxes. (Longer than other files: five collectives that share their makers.)
 *
 *   AllReduce      the group's common box of each value, one after another; any division into blocks is correct
 *   ReduceScatter  block r: the new boxes of the group's r-th rank
 *   AllGather      block r: what rank r holds of each value and no earlier member of the group holds
 *   Broadcast      the first member's boxes
 *   AllToAll       the transfers of mt_layout_transfers; sender and receiver list them in the same order
 *
 * A block of an AllToAll that is one contiguous piece needs no memory in the message, on the side where it is
 * contiguous.
 *
 * Of a collective in parts each of these boxes is cut alike on all ranks. Where an AllToAll reduces, the old parts of a
 * cover are cut along common boxes, so that each element arrives from all of them in one part of the collective, in
 * order. */
#include "synth/program/message.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "synth/layout/convert/exchange.h"
#include "synth/layout/region.h"
#include "synth/program/cut.h"

struct maker {
    const struct mt_program *program;
    const struct mt_instr *instr;
    struct mt_arena *arena; /* of the result */
    struct mt_arena scratch;
    int rank;
    struct mt_message_form form;
    int64_t tensor_count[2]; /* elements of all pieces that are unpacked; packed */
    struct mt_message *message;
    struct mt_err *err;
};

static const struct mt_layout *layout_in(const struct maker *m, int operand) {
    return &m->program->layouts.items[m->program->values[m->instr->in[operand]].layout];
}

static const struct mt_layout *layout_out(const struct maker *m, int operand) {
    return &m->program->layouts.items[m->program->values[m->instr->out[operand]].layout];
}

static enum mt_status fail(struct maker *m, int operand, const char *why) {
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

static void add_piece(struct maker *m, bool pack, struct mt_message_piece piece, int naxes) {
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

static void add_in_place(struct maker *m, bool pack, struct mt_message_piece piece) {
    struct mt_message_side *side = pack ? &m->message->pack : &m->message->unpack;
    side->is_tensor = false;
    if (!m->form.sketch) {
        mt_arena_grow(m->arena, &side->in_place, side->nin_place, &side->in_place_capacity, sizeof *side->in_place);
        int i = side->nin_place;
        for (; i > 0 && side->in_place[i - 1].at > piece.at; i--) side->in_place[i] = side->in_place[i - 1];
        side->in_place[i] = piece;
    }
    side->nin_place++;
}

/* The box's share of this part of the collective. */
static struct mt_box cut(const struct maker *m, const struct mt_box *box, int naxes) {
    return m->form.parts > 1 ? mt_box_cut(box, naxes, m->form.part, m->form.parts) : *box;
}

/* Whether the pieces are all of the message and of the tensor of the only value. */
static void finish_side(const struct maker *m, bool pack) {
    struct mt_message_side *side = pack ? &m->message->pack : &m->message->unpack;
    int value = pack ? m->instr->in[0] : m->instr->out[0];
    int buffer = !pack && m->instr->coll == MT_ALL_TO_ALL;
    int64_t count = mt_box_count(mt_pvalue_box(m->program, value, m->rank), mt_pvalue_layout(m->program, value)->naxes);
    side->bytes /= 2, side->rest_bytes /= 2;
    side->is_tensor &= m->instr->nin == 1 && m->message->count[buffer] == count && m->tensor_count[pack] == count;
}

/* Blocks of equal size but for the remainder: the division of a whole message over the ranks. */
static int64_t *even_counts(struct maker *m, int64_t total) {
    int n = m->message->problem.n;
    int64_t *counts = mt_new(m->arena, int64_t, n);
    for (int r = 0; r < n; r++) counts[r] = total / n + (r < total % n);
    return counts;
}

/* AllReduce and Broadcast: the whole boxes of the group's first rank. */
static enum mt_status make_whole(struct maker *m) {
    struct mt_message *g = m->message;
    bool reduce = m->instr->coll == MT_ALL_REDUCE;
    for (int v = 0; v < m->instr->nin; v++) {
        const struct mt_layout *from = layout_in(m, v), *to = layout_out(m, v);
        const struct mt_box *box = &from->box[g->group[0]], mine = cut(m, box, from->naxes);
        for (int r = 0; r < g->problem.n; r++) {
            if (reduce && !mt_box_equal(&from->box[g->group[r]], box, from->naxes))
                return fail(m, v, "the group's ranks do not hold the same box");
            if (!mt_box_equal(&to->box[g->group[r]], box, to->naxes))
                return fail(m, v, "the new boxes are not the old one");
        }
        struct mt_message_piece piece = {.operand = v, .at = g->count[0], .box = mine};
        if (reduce || g->problem.me == 0) add_piece(m, true, piece, from->naxes);
        add_piece(m, false, piece, to->naxes);
        g->count[0] += mt_box_count(&mine, from->naxes);
    }
    g->problem.counts = even_counts(m, g->count[0]);
    g->problem.same_pieces = reduce;
    return MT_OK;
}

static bool boxes_equal(const struct maker *m) {
    const struct mt_message *g = m->message;
    for (int v = 0; v < m->instr->nin; v++) {
        const struct mt_layout *from = layout_in(m, v);
        for (int r = 1; r < g->problem.n; r++)
            if (!mt_box_equal(&from->box[g->group[r]], &from->box[g->group[0]], from->naxes)) return false;
    }
    return true;
}

static enum mt_status make_reduce_scatter(struct maker *m) {
    struct mt_message *g = m->message;
    int64_t *counts = mt_new(m->arena, int64_t, g->problem.n);
    int me = g->group[g->problem.me];
    for (int r = 0; r < g->problem.n; r++)
        for (int v = 0; v < m->instr->nin; v++) {
            const struct mt_layout *from = layout_in(m, v), *to = layout_out(m, v);
            struct mt_message_piece piece = {
                .operand = v, .at = g->count[0], .box = cut(m, &to->box[g->group[r]], to->naxes)};
            int64_t count = mt_box_count(&piece.box, to->naxes);
            struct mt_box common;
            if (mt_box_intersect(&piece.box, &from->box[me], from->naxes, &common)) {
                if (!mt_box_equal(&common, &piece.box, from->naxes)) return fail(m, v, "a new box is held in part");
                add_piece(m, true, piece, from->naxes);
            } else if (count > 0) {
                if (m->instr->reduce != MT_SUM) return fail(m, v, "a new box is not held by all");
                g->zero = true;
            }
            if (r == g->problem.me) add_piece(m, false, piece, to->naxes);
            g->count[0] += count;
            counts[r] += count;
        }
    g->problem.counts = counts;
    g->problem.same_pieces = !g->zero && boxes_equal(m);
    return MT_OK;
}

static enum mt_status make_all_gather(struct maker *m) {
    struct mt_message *g = m->message;
    int64_t *counts = mt_new(m->arena, int64_t, g->problem.n);
    int me = g->group[g->problem.me];
    struct mt_region *left = mt_new(&m->scratch, struct mt_region, m->instr->nin); /* not held by an earlier member */
    for (int v = 0; v < m->instr->nin; v++) {
        const struct mt_layout *to = layout_out(m, v);
        mt_region_add(&left[v], &m->scratch, &to->box[me], to->naxes);
        for (int r = 0; r < g->problem.n; r++)
            if (!mt_box_equal(&to->box[g->group[r]], &to->box[me], to->naxes))
                return fail(m, v, "the group's new boxes differ");
    }
    struct mt_region block = {0};
    for (int r = 0; r < g->problem.n; r++)
        for (int v = 0; v < m->instr->nin; v++) {
            const struct mt_layout *from = layout_in(m, v);
            const struct mt_box *box = &from->box[g->group[r]];
            if (!mt_box_count(box, from->naxes)) continue;
            bool front = mt_region_take_front(&left[v], box, from->naxes);
            block.count = 0;
            if (!front) mt_region_take(&left[v], &m->scratch, box, from->naxes, &block);
            for (int i = 0; i < (front ? 1 : block.count); i++) {
                struct mt_message_piece piece = {
                    .operand = v, .at = g->count[0], .box = cut(m, front ? box : &block.boxes[i], from->naxes)};
                int64_t count = mt_box_count(&piece.box, from->naxes);
                if (r == g->problem.me) add_piece(m, true, piece, from->naxes);
                add_piece(m, false, piece, from->naxes);
                g->count[0] += count;
                counts[r] += count;
            }
        }
    for (int v = 0; v < m->instr->nin; v++)
        if (left[v].count) return fail(m, v, "no rank of the group holds a part of the new box");
    g->problem.counts = counts;
    g->problem.same_pieces = true;
    return MT_OK;
}

/* One transfer of an AllToAll. */
struct move {
    int value, from, to; /* places in the group */
    int part, cover;     /* the old ones */
    enum mt_reduce reduce;
    struct mt_box box;
};
struct moves {
    struct move *items;
    int count, capacity;
};

static int by_cover_and_part(const void *left, const void *right) {
    const struct move *a = *(const struct move *const *)left, *b = *(const struct move *const *)right;
    int order = a->cover != b->cover ? a->cover - b->cover : a->part - b->part;
    return order ? order : (a > b) - (a < b);
}

/* The boxes that each are within one transfer of every old part: intersections of the parts' transfers, all of which
 * make the same elements. */
static struct mt_box *common_boxes(const struct move *const *moves, int nmoves, int naxes, struct mt_arena *arena,
                                   int *count) {
    struct mt_box *common = NULL;
    *count = 0;
    for (int begin = 0, end; begin < nmoves; begin = end) {
        struct mt_box *finer = NULL;
        int nfiner = 0, capacity = 0;
        for (end = begin; end < nmoves && moves[end]->part == moves[begin]->part; end++)
            for (int i = 0; i < (begin ? *count : 1); i++) {
                struct mt_box box = moves[end]->box;
                if (begin && !mt_box_intersect(&common[i], &moves[end]->box, naxes, &box)) continue;
                mt_arena_grow(arena, &finer, nfiner, &capacity, sizeof *finer);
                finer[nfiner++] = box;
            }
        common = finer, *count = nfiner;
    }
    return common;
}

static void add_cut(struct maker *m, struct moves *moves, struct move move, const struct mt_box *box, int naxes) {
    move.box = cut(m, box, naxes);
    if (!mt_box_count(&move.box, naxes)) return;
    mt_arena_grow(&m->scratch, &moves->items, moves->count, &moves->capacity, sizeof *moves->items);
    moves->items[moves->count++] = move;
}

/* Transfers of one cover to one receiver, by part. */
static void cut_cover(struct maker *m, struct moves *moves, const struct move *const *whole, int count, int naxes) {
    bool one_part = whole[0]->part == whole[count - 1]->part;
    int ncommon = 0;
    struct mt_box *common = one_part ? NULL : common_boxes(whole, count, naxes, &m->scratch, &ncommon), both;
    for (int i = 0; i < count; i++) {
        if (one_part) add_cut(m, moves, *whole[i], &whole[i]->box, naxes);
        for (int c = 0; c < ncommon; c++)
            if (mt_box_intersect(&common[c], &whole[i]->box, naxes, &both)) add_cut(m, moves, *whole[i], &both, naxes);
    }
}

/* Replace a receiver's transfers of one value by their shares of this part of the collective. */
static void cut_moves(struct maker *m, struct moves *moves, int naxes) {
    const struct moves whole = *moves;
    const struct move **sorted = mt_new(&m->scratch, const struct move *, whole.count);
    *moves = (struct moves){0};
    for (int i = 0; i < whole.count; i++) sorted[i] = &whole.items[i];
    qsort(sorted, (size_t)whole.count, sizeof(struct move *), by_cover_and_part);
    for (int begin = 0, end; begin < whole.count; begin = end) {
        for (end = begin; end < whole.count && sorted[end]->cover == sorted[begin]->cover;) end++;
        cut_cover(m, moves, sorted + begin, end - begin, naxes);
    }
}

/* Members of the group in order of their old parts. */
static int *order_by_part(struct maker *m, const struct mt_layout *old) {
    const struct mt_message *g = m->message;
    int *begin = mt_new(&m->scratch, int, old->nparts + 1), *order = mt_new(&m->scratch, int, g->problem.n);
    for (int i = 0; i < g->problem.n; i++) begin[old->part[g->group[i]] + 1]++;
    for (int p = 0; p < old->nparts; p++) begin[p + 1] += begin[p];
    for (int i = 0; i < g->problem.n; i++) order[begin[old->part[g->group[i]]]++] = i;
    return order;
}

/* The transfers of a simple exchange, by old part. */
static void list_simple(struct maker *m, int v, const struct mt_exchange *x, struct moves *moves) {
    struct mt_message *g = m->message;
    int n = g->problem.n, naxes = x->from->naxes, *order = order_by_part(m, x->from);
    bool *adds = mt_new(&m->scratch, bool, x->from->nparts), *begun = mt_new(&m->scratch, bool, x->from->ncovers);
    for (int p = 0; p < x->from->nparts; p++) adds[p] = begun[x->from->cover[p]], begun[x->from->cover[p]] = true;
    for (int c = 0; c < n; c++)
        for (int i = 0; i < n; i++) {
            int s = order[i], part = x->from->part[g->group[s]];
            struct move move = {.value = v, .from = s, .to = c, .part = part, .cover = x->from->cover[part]};
            if (adds[part]) move.reduce = x->from->reduce;
            if (!mt_exchange_box(x, g->group[s], g->group[c], &move.box)) continue;
            move.box = cut(m, &move.box, naxes);
            if (!mt_box_count(&move.box, naxes)) continue;
            mt_arena_grow(&m->scratch, &moves[c].items, moves[c].count, &moves[c].capacity, sizeof move);
            moves[c].items[moves[c].count++] = move;
        }
}

/* Append value v's transfers within the group to moves[receiver], in parts as the collective is. */
static enum mt_status list_moves(struct maker *m, int v, const int *places, struct moves *moves) {
    const struct mt_program *p = m->program;
    const struct mt_layout *old = layout_in(m, v), *new = layout_out(m, v);
    struct mt_message *g = m->message;
    struct mt_transfer *list;
    struct mt_exchange x;
    if (mt_exchange_open(&p->layouts, p->values[m->instr->in[v]].layout, p->values[m->instr->out[v]].layout,
                         m->instr->group, &x)) {
        list_simple(m, v, &x, moves);
        mt_exchange_close(&x);
        return MT_OK;
    }
    int count = mt_layout_transfers(&p->layouts, p->values[m->instr->in[v]].layout, p->values[m->instr->out[v]].layout,
                                    m->instr->group, m->instr->group[m->rank], &m->scratch, &list);
    if (count < 0) return fail(m, v, "no rank of the group holds a part of a new box");
    for (int i = 0; i < count; i++) {
        int to = places[list[i].to];
        if (to < 0) continue;
        if (list[i].from < 0) { /* no part goes there */
            struct mt_message_piece none = {
                .operand = v, .buffer = 1, .at = -1, .reduce = new->reduce, .box = cut(m, &list[i].box, new->naxes)};
            if (to == g->problem.me) add_piece(m, false, none, new->naxes);
            continue;
        }
        struct moves *mine = &moves[to];
        mt_arena_grow(&m->scratch, &mine->items, mine->count, &mine->capacity, sizeof *mine->items);
        mine->items[mine->count++] = (struct move){.value = v,
                                                   .from = places[list[i].from],
                                                   .to = to,
                                                   .part = list[i].part,
                                                   .cover = old->cover[list[i].part],
                                                   .reduce = list[i].adds ? old->reduce : MT_REDUCE_NONE,
                                                   .box = list[i].box};
    }
    for (int c = 0; c < g->problem.n && m->form.parts > 1; c++) cut_moves(m, &moves[c], old->naxes);
    return MT_OK;
}

/* What a member sends to another. */
struct block {
    int npieces;
    bool in_place[2]; /* it is sent from, received into, the tensor */
};

/* Whether the box is contiguous in the value's tensor on a rank, and of the message's type. */
static bool is_contiguous(const struct maker *m, int value, int rank, const struct mt_box *box, int naxes) {
    int64_t start;
    return m->program->values[value].type == m->message->problem.acc &&
           mt_box_run(box, mt_pvalue_box(m->program, value, rank), naxes, &start);
}

/* The blocks [from * n + to], and the elements that members stage. */
static struct block *find_blocks(struct maker *m, const struct moves *moves) {
    struct mt_message *g = m->message;
    int n = g->problem.n;
    struct block *blocks = mt_new(&m->scratch, struct block, n * n);
    for (int b = 0; b < 2; b++) g->staged[b] = mt_new(m->arena, int64_t, n);
    for (int c = 0; c < n; c++)
        for (int i = 0; i < moves[c].count; i++) {
            const struct move *move = &moves[c].items[i];
            struct block *block = &blocks[move->from * n + c];
            int naxes = layout_in(m, move->value)->naxes;
            bool only = mt_box_count(&move->box, naxes) && !block->npieces++;
            block->in_place[0] =
                only && is_contiguous(m, m->instr->in[move->value], g->group[move->from], &move->box, naxes);
            block->in_place[1] = only && move->reduce == MT_REDUCE_NONE &&
                                 is_contiguous(m, m->instr->out[move->value], g->group[c], &move->box, naxes);
        }
    for (int from = 0; from < n; from++)
        for (int to = 0; to < n; to++) {
            struct block *block = &blocks[from * n + to];
            int64_t count = g->problem.counts[from * n + to];
            if (from == to) {
                block->in_place[0] = block->in_place[0] && !block->in_place[1];
                if (!block->in_place[0] && !block->in_place[1]) g->staged[1][to] += count;
                continue;
            }
            if (!block->in_place[0]) g->staged[0][from] += count;
            if (!block->in_place[1]) g->staged[1][to] += count;
        }
    return blocks;
}

static void count_moves(const struct maker *m, const struct moves *moves, int64_t *counts) {
    int n = m->message->problem.n;
    for (int c = 0; c < n; c++)
        for (int i = 0; i < moves[c].count; i++) {
            const struct move *move = &moves[c].items[i];
            counts[move->from * n + c] += mt_box_count(&move->box, layout_in(m, move->value)->naxes);
        }
}

static enum mt_status make_all_to_all(struct maker *m) {
    struct mt_message *g = m->message;
    int n = g->problem.n, me = g->problem.me;
    int64_t *counts = mt_new(m->arena, int64_t, n * n);
    int64_t *at = mt_new(&m->scratch, int64_t, n); /* the place of the next piece from each sender */
    struct moves *moves = mt_new(&m->scratch, struct moves, n);
    int *places = mt_new(&m->scratch, int, m->program->nranks);
    for (int r = 0; r < m->program->nranks; r++) places[r] = -1;
    for (int c = 0; c < n; c++) places[g->group[c]] = c;
    for (int v = 0; v < m->instr->nin; v++) {
        enum mt_status st = list_moves(m, v, places, moves);
        if (st) return st;
    }
    count_moves(m, moves, counts);
    g->problem.counts = counts;
    const struct block *blocks = find_blocks(m, moves);
    for (int c = 0; c < n; c++)
        for (int i = 0; i < moves[c].count; i++) {
            struct move *move = &moves[c].items[i];
            if (move->from != me) continue;
            int naxes = layout_in(m, move->value)->naxes;
            struct mt_message_piece piece = {.operand = move->value, .at = g->count[0], .box = move->box};
            if (blocks[me * n + c].in_place[0])
                add_in_place(m, true, piece);
            else
                add_piece(m, true, piece, naxes);
            g->count[0] += mt_box_count(&move->box, naxes);
        }
    for (int r = 0; r < n; r++) at[r] = g->count[1], g->count[1] += counts[r * n + me];
    for (int i = 0; i < moves[me].count; i++) {
        struct move *move = &moves[me].items[i];
        int naxes = layout_in(m, move->value)->naxes;
        struct mt_message_piece piece = {
            .operand = move->value, .buffer = 1, .at = at[move->from], .reduce = move->reduce, .box = move->box};
        if (blocks[move->from * n + me].in_place[1])
            add_in_place(m, false, piece);
        else
            add_piece(m, false, piece, naxes);
        at[move->from] += mt_box_count(&move->box, naxes);
    }
    return MT_OK;
}

/* The nodes of a group's ranks, numbered anew by first place; null: all on one. */
static int *group_nodes(struct maker *m, const int *group, int n) {
    int *node = mt_new(m->arena, int, n), *number = mt_new(&m->scratch, int, m->program->nranks), nnodes = 0;
    for (int i = 0; i < n; i++) {
        int *of = &number[m->program->node[group[i]]]; /* + 1; 0: not met */
        if (!*of) *of = ++nnodes;
        node[i] = *of - 1;
    }
    return nnodes > 1 ? node : NULL;
}

static enum mt_status make_message(struct maker *m) {
    const struct mt_instr *instr = m->instr;
    assert(instr->kind == MT_INSTR_COLLECTIVE && instr->nin == instr->nout);
    static enum mt_status (*const make[MT_NCOLLS])(struct maker *) = {
        [MT_ALL_REDUCE] = make_whole,      [MT_BROADCAST] = make_whole,       [MT_REDUCE_SCATTER] = make_reduce_scatter,
        [MT_ALL_GATHER] = make_all_gather, [MT_ALL_TO_ALL] = make_all_to_all,
    };
    struct mt_message *message = m->message;
    bool sums = mt_coll_reduces(instr->coll);
    *message = (struct mt_message){
        .group = mt_new(m->arena, int, m->program->nranks), .pack.is_tensor = true, .unpack.is_tensor = true};
    message->problem = (struct mt_coll){.kind = instr->coll,
                                        .reduce = sums ? instr->reduce : MT_REDUCE_NONE,
                                        .wire = instr->wire,
                                        .acc = sums ? instr->acc : instr->wire};
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
    struct maker m = {.program = program, .instr = instr, .arena = arena, .rank = rank, .message = message, .err = err};
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
