/* Messages of AllToAlls: the transfers of mt_layout_transfers, which sender and receiver list in the same order.
 *
 * A block that is one contiguous piece needs no memory in the message, on the side where it is contiguous.
 *
 * In parts, where the AllToAll reduces, the old parts of a cover are cut along common boxes, so that each element
 * arrives from all of them in one part of the collective, in order. */
#include <stdlib.h>

#include "synth/layout/convert/exchange.h"
#include "synth/program/internal.h"

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

static void add_cut(struct mt_message_maker *m, struct moves *moves, struct move move, const struct mt_box *box,
                    int naxes) {
    move.box = mt_maker_cut(m, box, naxes);
    if (!mt_box_count(&move.box, naxes)) return;
    mt_arena_grow(&m->scratch, &moves->items, moves->count, &moves->capacity, sizeof *moves->items);
    moves->items[moves->count++] = move;
}

/* Transfers of one cover to one receiver, by part. */
static void cut_cover(struct mt_message_maker *m, struct moves *moves, const struct move *const *whole, int count,
                      int naxes) {
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
static void cut_moves(struct mt_message_maker *m, struct moves *moves, int naxes) {
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
static int *order_by_part(struct mt_message_maker *m, const struct mt_layout *old) {
    const struct mt_message *g = m->message;
    int *begin = mt_new(&m->scratch, int, old->nparts + 1), *order = mt_new(&m->scratch, int, g->problem.n);
    for (int i = 0; i < g->problem.n; i++) begin[old->part[g->group[i]] + 1]++;
    for (int p = 0; p < old->nparts; p++) begin[p + 1] += begin[p];
    for (int i = 0; i < g->problem.n; i++) order[begin[old->part[g->group[i]]]++] = i;
    return order;
}

/* The transfers of a simple exchange, by old part. */
static void list_simple(struct mt_message_maker *m, int v, const struct mt_exchange *x, struct moves *moves) {
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
            move.box = mt_maker_cut(m, &move.box, naxes);
            if (!mt_box_count(&move.box, naxes)) continue;
            mt_arena_grow(&m->scratch, &moves[c].items, moves[c].count, &moves[c].capacity, sizeof move);
            moves[c].items[moves[c].count++] = move;
        }
}

/* Append value v's transfers within the group to moves[receiver], in parts as the collective is. */
static enum mt_status list_moves(struct mt_message_maker *m, int v, const int *places, struct moves *moves) {
    const struct mt_program *p = m->program;
    const struct mt_layout *old = mt_maker_in(m, v), *new = mt_maker_out(m, v);
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
    if (count < 0) return mt_maker_fail(m, v, "no rank of the group holds a part of a new box");
    for (int i = 0; i < count; i++) {
        int to = places[list[i].to];
        if (to < 0) continue;
        if (list[i].from < 0) { /* no part goes there */
            struct mt_message_piece none = {.operand = v,
                                            .buffer = 1,
                                            .at = -1,
                                            .reduce = new->reduce,
                                            .box = mt_maker_cut(m, &list[i].box, new->naxes)};
            if (to == g->problem.me) mt_maker_add(m, false, none, new->naxes);
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

static void add_in_place(struct mt_message_maker *m, bool pack, struct mt_message_piece piece) {
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

/* What a member sends to another. */
struct block {
    int npieces;
    bool in_place[2]; /* it is sent from, received into, the tensor */
};

/* Whether the box is contiguous in the value's tensor on a rank, and of the message's type. */
static bool is_contiguous(const struct mt_message_maker *m, int value, int rank, const struct mt_box *box, int naxes) {
    int64_t start;
    return m->program->values[value].type == m->message->problem.acc &&
           mt_box_run(box, mt_pvalue_box(m->program, value, rank), naxes, &start);
}

/* The blocks [from * n + to], and the elements that members stage. */
static struct block *find_blocks(struct mt_message_maker *m, const struct moves *moves) {
    struct mt_message *g = m->message;
    int n = g->problem.n;
    struct block *blocks = mt_new(&m->scratch, struct block, n * n);
    for (int b = 0; b < 2; b++) g->staged[b] = mt_new(m->arena, int64_t, n);
    for (int c = 0; c < n; c++)
        for (int i = 0; i < moves[c].count; i++) {
            const struct move *move = &moves[c].items[i];
            struct block *block = &blocks[move->from * n + c];
            int naxes = mt_maker_in(m, move->value)->naxes;
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

static void count_moves(const struct mt_message_maker *m, const struct moves *moves, int64_t *counts) {
    int n = m->message->problem.n;
    for (int c = 0; c < n; c++)
        for (int i = 0; i < moves[c].count; i++) {
            const struct move *move = &moves[c].items[i];
            counts[move->from * n + c] += mt_box_count(&move->box, mt_maker_in(m, move->value)->naxes);
        }
}

enum mt_status mt_make_all_to_all(struct mt_message_maker *m) {
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
            int naxes = mt_maker_in(m, move->value)->naxes;
            struct mt_message_piece piece = {.operand = move->value, .at = g->count[0], .box = move->box};
            if (blocks[me * n + c].in_place[0])
                add_in_place(m, true, piece);
            else
                mt_maker_add(m, true, piece, naxes);
            g->count[0] += mt_box_count(&move->box, naxes);
        }
    for (int r = 0; r < n; r++) at[r] = g->count[1], g->count[1] += counts[r * n + me];
    for (int i = 0; i < moves[me].count; i++) {
        struct move *move = &moves[me].items[i];
        int naxes = mt_maker_in(m, move->value)->naxes;
        struct mt_message_piece piece = {
            .operand = move->value, .buffer = 1, .at = at[move->from], .reduce = move->reduce, .box = move->box};
        if (blocks[move->from * n + me].in_place[1])
            add_in_place(m, false, piece);
        else
            mt_maker_add(m, false, piece, naxes);
        at[move->from] += mt_box_count(&move->box, naxes);
    }
    return MT_OK;
}
