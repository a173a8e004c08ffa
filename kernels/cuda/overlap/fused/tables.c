/* A schedule as rows of tables: which tile is taken when, what it awaits and raises, and the boxes that movers move,
 * piece by piece. */
#include "kernels/cuda/overlap/fused/tables.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

#include "kernels/cuda/gemm/tile.h"
#include "kernels/cuda/jit/shape.h"

enum { MOST_RANKS = 8, PIECE_ELEMENTS = 4096, PIECE_PUT_BYTES = 32 << 10, BAND_ROWS = 1024 };

/* The waits of puts [first, end): one after the other in the schedule. */
static void waits_of(const struct mt_overlap_schedule *s, int first, int end, int32_t *first_wait, int32_t *nwaits) {
    *first_wait = first < end ? s->puts[first].first_wait : 0;
    *nwaits = 0;
    for (int j = first; j < end; j++) {
        assert(!s->puts[j].nwaits || s->puts[j].first_wait == *first_wait + *nwaits);
        *nwaits += s->puts[j].nwaits;
    }
}

static struct tile_row tile_row(const struct mt_overlap *p, int me, const struct mt_overlap_schedule *s, int t,
                                int first, int end) {
    const struct mt_overlap_tile *tile = &s->tiles[t];
    struct tile_row row = {.staged = tile->from == MT_OVERLAP_STAGED,
                           .from_row = (int32_t)tile->from_row,
                           .first = (int32_t)(tile->k / GEMM_SLAB),
                           .row = (int32_t)tile->row,
                           .column = (int32_t)tile->col,
                           .more = 1,
                           .nwaits = tile->nwaits,
                           .first_signal = first,
                           .nsignals = end - first};
    int64_t owned;
    waits_of(s, first, end, &row.first_ready, &row.nready);
    if (tile->to == MT_OVERLAP_OUT) {
        while (row.row >= p->rows[row.to]) row.row -= (int32_t)p->rows[row.to++];
        return row;
    }
    for (int j = first; j < end; j++) {
        row.to = j > first ? ALL : s->puts[j].peer;
        if (s->puts[j].rows) row.row = (int32_t)s->puts[j].to_row;
    }
    if (p->direct) row.to = ALL;
    row.row -= (int32_t)(me * mt_overlap_owned(p, row.to == ALL ? me : row.to, &owned));
    return row;
}

static void add_box(struct cuda_fused_tables *to, struct box_row box, int64_t rows, int64_t each) {
    box.pieces = (int32_t)largest(divide_up(rows, each), 1);
    for (int64_t i = 0; i < box.pieces; i++) {
        mt_arena_grow(&to->arena, &to->pieces, to->npieces, &to->pieces_capacity, sizeof *to->pieces);
        to->pieces[to->npieces++] =
            (struct piece_row){to->nboxes, (int32_t)(i * each), (int32_t)least(each, rows - i * each), 0};
    }
    mt_arena_grow(&to->arena, &to->boxes, to->nboxes, &to->boxes_capacity, sizeof *to->boxes);
    to->boxes[to->nboxes++] = box;
}

static void add_put(const struct mt_overlap *p, const struct mt_overlap_schedule *s, int j,
                    struct cuda_fused_tables *to) {
    const struct mt_overlap_put *put = &s->puts[j];
    assert(!put->rows || (put->from == MT_OVERLAP_A && put->to == MT_OVERLAP_STAGED));
    struct box_row box = {.kind = PUT,
                          .peer = put->peer,
                          .from_row = (int32_t)put->from_row,
                          .row = (int32_t)put->to_row,
                          .column = (int32_t)put->col,
                          .columns = (int32_t)put->cols,
                          .first_wait = put->first_wait,
                          .nwaits = put->nwaits,
                          .first_signal = j,
                          .nsignals = 1};
    add_box(to, box, put->rows, largest(PIECE_PUT_BYTES / largest(put->cols * mt_type_size(p->type), 1), 1));
}

/* A tile that is added or copied, and the puts [first, end) after it, whose waits follow its own. */
static void add_moved(const struct mt_overlap_schedule *s, int t, int first, int end, struct cuda_fused_tables *to) {
    const struct mt_overlap_tile *tile = &s->tiles[t];
    bool sum = tile->kind == MT_TILE_ADD;
    struct box_row box = {.kind = sum                          ? SUM
                                  : tile->to == MT_OVERLAP_OUT ? COPY_SUM
                                                               : COPY_OPERAND,
                          .staged = sum ? tile->to == MT_OVERLAP_RESULT : tile->from == MT_OVERLAP_STAGED,
                          .from_row = (int32_t)tile->from_row,
                          .row = (int32_t)tile->row,
                          .column = (int32_t)tile->col,
                          .columns = (int32_t)tile->cols,
                          .first_signal = first,
                          .nsignals = end - first};
    int32_t ready, nready;
    waits_of(s, first, end, &ready, &nready);
    assert(!tile->nwaits || !nready || ready == tile->first_wait + tile->nwaits);
    box.first_wait = tile->nwaits ? tile->first_wait : ready;
    box.nwaits = tile->nwaits + nready;
    add_box(to, box, tile->rows, largest(PIECE_ELEMENTS / tile->cols, 1));
}

/* ---- the order of tiles ----
 *
 * Those for one rank, or of its rows, change places among each other: by bands of rows, down the columns of a band, so
 * that tiles which are multiplied at the same time share operands in the L2 cache. Which rank's comes when stays.
 *
 * Tiles with numbers 2 i and 2 i + 1 in a column of a family stay together, and are a pair, if there are pairs: so at
 * most one tile of a column has no other beside it. Where slabs are rotated, tiles of the same first slab come together
 * as far as they are of one chunk. Others of a pair begin with the first slab of the lower tile, which is the second
 * that is put of the upper one. The order of other families is the same with pairs and without. */

struct ordered {
    int tile, family;
    int64_t band, column, row, place; /* place: in its column, which begins as the row */
    bool second;                      /* of two that stay together */
};

/* What is taken at once, in order: tiles, or pairs, some of one tile. */
struct units {
    bool pairs;
    int n, *first, *second_of; /* first[n]; second_of[a first tile]: the other, or -1 */
};
static int size_of(const struct units *u, int first) {
    return u->second_of[first] < 0 ? 1 : 2;
}

static int by_place(const void *a, const void *b) {
    const struct ordered *x = a, *y = b;
    if (x->family != y->family) return x->family < y->family ? -1 : 1;
    if (x->band != y->band) return x->band < y->band ? -1 : 1;
    if (x->column != y->column) return x->column < y->column ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

static struct ordered placed(const struct mt_overlap *p, const struct mt_overlap_tile *tile, int number) {
    bool whole = p->form == MT_OVERLAP_GATHER || tile->kind == MT_TILE_COPY;
    int64_t row = whole ? tile->row : tile->from_row;
    int rank = 0;
    while (tile->kind != MT_TILE_ADD && !p->direct && row >= p->rows[rank]) row -= p->rows[rank++];
    return (struct ordered){number, (int)tile->kind * MOST_RANKS + rank, 0, tile->col, row, row, false};
}

/* How many rows of tiles further down is one with the same first slab, so that both are of one chunk. */
static int rotation(const struct mt_overlap *p) {
    int slabs = mt_overlap_rotates(p) ? mt_overlap_nslabs(p) : 1;
    int64_t most = 0;
    for (int r = 0; r < p->n; r++) most = largest(most, p->rows[r]);
    return p->chunk >= most || p->chunk % (2 * slabs * p->tile[0]) == 0 ? slabs : 1;
}

/* Tiles i and i + `apart` of a column one after the other, of as many as are 2 * apart; then bands, of two tiles that
 * stay together that of the first. */
static void place_pairs(struct ordered *sorted, int n, int apart) {
    qsort(sorted, (size_t)n, sizeof *sorted, by_place);
    for (int t = 0, end = 0; t < n; t = end) {
        while (end < n && sorted[end].family == sorted[t].family && sorted[end].column == sorted[t].column) end++;
        int whole = (end - t) / (2 * apart) * 2 * apart;
        for (int i = 0; i < end - t; i++) {
            int in = i % (2 * apart);
            sorted[t + i].place = i < whole ? i - in + in % apart * 2 + in / apart : i;
        }
    }
    qsort(sorted, (size_t)n, sizeof *sorted, by_place);
    for (int t = 0; t < n; t++) {
        struct ordered *o = &sorted[t];
        o->second = o->place % 2;
        o->band = o->second ? o[-1].band : o->row / BAND_ROWS;
    }
    qsort(sorted, (size_t)n, sizeof *sorted, by_place);
}

/* A pair comes where the first of two tiles of its family does in the schedule. */
static struct units order_tiles(const struct mt_overlap *p, const struct mt_overlap_schedule *s, bool pairs,
                                struct mt_arena *arena) {
    struct ordered *sorted = mt_new(arena, struct ordered, s->ntiles);
    struct units u = {pairs, 0, mt_new(arena, int, s->ntiles), mt_new(arena, int, s->ntiles)};
    int next[(MT_TILE_COPY + 1) * MOST_RANKS] = {0}, ahead[(MT_TILE_COPY + 1) * MOST_RANKS] = {0};
    for (int t = 0; t < s->ntiles; t++) {
        sorted[t] = placed(p, &s->tiles[t], t);
        u.first[t] = sorted[t].family;
    }
    place_pairs(sorted, s->ntiles, pairs ? rotation(p) : 1);
    for (int t = s->ntiles - 1; t >= 0; t--) next[sorted[t].family] = t;
    for (int t = 0; t < s->ntiles; t++) {
        int family = u.first[t];
        if (ahead[family]) {
            ahead[family]--;
            continue;
        }
        const struct ordered *o = &sorted[next[family]++];
        u.first[u.n++] = o->tile, u.second_of[o->tile] = -1;
        if (!pairs || o == sorted + s->ntiles - 1 || !o[1].second) continue;
        u.second_of[o->tile] = o[1].tile;
        next[family]++, ahead[family]++;
    }
    return u;
}

bool cuda_fused_has_pairs(const struct mt_overlap *p, const struct mt_overlap_schedule *s, int blocks) {
    enum { GAIN_PERCENT = 10 };
    if (mt_overlap_fused_few(p) || p->tile[0] != 128 || p->tile[1] <= 128 || blocks < 2) return false;
    struct mt_arena arena = {0};
    struct units u = order_tiles(p, s, true, &arena);
    int pairs = 0, tiles = 0;
    for (int i = 0; i < u.n; i++)
        if (s->tiles[u.first[i]].kind == MT_TILE_MATMUL) pairs++, tiles += size_of(&u, u.first[i]);
    mt_arena_release(&arena);
    return divide_up(pairs, blocks / 2) * 100 <= divide_up(tiles, blocks) * (100 + GAIN_PERCENT);
}

/* ---- tiles that add (mt_overlap_fused_adds) ----
 *
 * A rank's own tile takes over its sum: it awaits the peer's tile before it is stored, and the sum's row goes away. Of
 * an AllReduce it takes over as well what is put of the sum, and the copy to this rank's own result.
 * Unlike all other waits this one is for the same epoch, so the order must not make a circle: own tile i comes after
 * more than i tiles for the peer, or after all of them, where none for the peer waits for it. The peer has its tiles
 * for this rank in the order of this rank's own, so what a tile awaits has fewer tiles for peers before it than the
 * tile itself, on any number of multiprocessors. LAG more for each block hide what the peer's tile takes on its way: it
 * is sent while the block multiplies the next, or two.
 *
 * Pairs come and wait as one. An own pair that ends with own tile i comes after more than i tiles for the peer, in
 * whole pairs. The peer has the same pairs for this rank, as they are of the same rows and columns: before the one that
 * is awaited it has as many tiles for this rank as this rank has own tiles before its pair, so that its own pairs
 * before that end earlier, and await tiles with still fewer own ones before them. It holds too where only one of the
 * two ranks has pairs: then what the pair's last tile awaits has own tiles up to i - 1 before it, and what these await
 * has own pairs before it that end by then. */

enum { LAG = 1 };

/* Tiles of some kind, in order. */
static int select_tiles(const struct mt_overlap_schedule *s, const struct units *u, enum mt_overlap_tile_kind kind,
                        enum mt_overlap_buffer to, int *selected) {
    int count = 0;
    for (int i = 0; i < u->n; i++)
        if (s->tiles[u->first[i]].kind == kind && s->tiles[u->first[i]].to == to) selected[count++] = u->first[i];
    return count;
}

/* Blocks keep step, and would find a tile of their own in each turn, or in none, where mix + 1 divides their number:
 * from turn to turn it comes one place earlier among those for peers. That is at most `mix` places, fewer than LAG
 * adds. */
static void stagger(const struct mt_overlap_schedule *s, int mix, int blocks, int *merged, int count) {
    int group = mix + 1;
    if (group < 2 || blocks % group) return;
    for (int i = 0; i + group <= count; i += group) {
        int last = i + group - 1, to = last - i / blocks % group, own = merged[last];
        bool regular = s->tiles[own].to == MT_OVERLAP_SLOTS;
        for (int k = i; k < last; k++) regular &= s->tiles[merged[k]].to != MT_OVERLAP_SLOTS;
        for (int k = last; k > to && regular; k--) merged[k] = merged[k - 1];
        if (regular) merged[to] = own;
    }
}

/* A copy of a sum that is this rank's own. */
static bool copies_own(const struct mt_overlap *p, int me, const struct mt_overlap_tile *tile) {
    int64_t first, owned = mt_overlap_owned(p, me, &first);
    return tile->kind == MT_TILE_COPY && tile->from == MT_OVERLAP_RESULT && tile->row >= first &&
           tile->row < first + owned;
}

/* merged[u->n]: the order without sums; sum_of[ntiles]: a tile's sum, or -1. Returns how many are in the order. A part
 * of a schedule that has not all sums stays as it is. */
static int merge_sums(const struct mt_overlap *p, int me, const struct mt_overlap_schedule *s, const struct units *u,
                      int blocks, int *merged, int *sum_of) {
    int *own = mt_calloc(3 * (size_t)s->ntiles + 1, sizeof *own), *sums = own + s->ntiles, *others = sums + s->ntiles;
    enum mt_overlap_buffer summed = p->form == MT_OVERLAP_REDUCE ? MT_OVERLAP_RESULT : MT_OVERLAP_OUT;
    int nown = select_tiles(s, u, MT_TILE_MATMUL, MT_OVERLAP_SLOTS, own);
    int nsums = select_tiles(s, u, MT_TILE_ADD, summed, sums);
    int nothers = select_tiles(s, u, MT_TILE_MATMUL, MT_OVERLAP_PARTIAL, others);
    int all_others = 0, count = 0, taken = 0, before = 0, passed = 0;
    int end = 0;       /* own tiles that have been taken when the next unit of them has */
    int nadds = nsums; /* to wherever */
    for (int i = 0; i < u->n; i++)
        nadds += s->tiles[u->first[i]].kind == MT_TILE_ADD && s->tiles[u->first[i]].to != summed;
    bool merges = nsums == nown && nadds == nown && mt_overlap_fused_adds(p);
    for (int t = 0; t < s->ntiles; t++) sum_of[t] = -1;
    for (int i = 0; i < u->n; i++) merged[i] = u->first[i];
    for (int i = 0; i < nothers; i++) all_others += size_of(u, others[i]);
    for (int i = 0; i < nown && merges; i++) {
        int second = u->second_of[own[i]], sum = u->second_of[sums[i]];
        assert((second < 0) == (sum < 0));
        sum_of[own[i]] = sums[i];
        if (second >= 0) sum_of[second] = sum;
    }
    if (nown) end = size_of(u, own[0]);
    for (int i = 0; i < u->n && merges; i++) {
        const struct mt_overlap_tile *tile = &s->tiles[u->first[i]];
        if (tile->kind == MT_TILE_ADD || copies_own(p, me, tile)) continue;
        if (tile->to == MT_OVERLAP_SLOTS) {
            passed++;
        } else {
            merged[count++] = u->first[i];
            if (tile->kind == MT_TILE_MATMUL) before += size_of(u, u->first[i]);
        }
        while (taken < passed && before >= least(all_others, end + LAG * blocks)) {
            merged[count++] = own[taken++];
            if (taken < nown) end += size_of(u, own[taken]);
        }
    }
    free(own);
    if (merges) stagger(s, p->mix, u->pairs ? (int)largest(blocks / 2, 1) : blocks, merged, count);
    return merges ? count : u->n;
}

/* The tile's row, with its sum's place and waits: of what this rank sends itself there is no flag. */
static void take_sum(const struct mt_overlap_schedule *s, int me, int sum, struct tile_row *row,
                     struct cuda_fused_tables *to) {
    const struct mt_overlap_tile *tile = &s->tiles[sum];
    row->adds = 1;
    row->row = (int32_t)tile->from_row;
    row->first_ready = to->nwaits, row->nready = 0;
    for (int w = tile->first_wait; w < tile->first_wait + tile->nwaits; w++)
        if (s->waits[w].from != me) to->waits[to->nwaits++] = to->waits[w], row->nready++;
}

/* Of the puts [first, end) of a sum the tile takes over the one to the peer. Where two ranks have parts in the sums,
 * these await nothing. */
static void take_put(const struct mt_overlap_schedule *s, int me, int first, int end, struct tile_row *row) {
    row->nsignals = 0;
    for (int j = first; j < end; j++) {
        assert(!s->puts[j].nwaits);
        if (s->puts[j].peer == me) continue;
        row->first_signal = j;
        row->nsignals++;
    }
    assert(row->nsignals <= 1);
}

/* A tile's waits once more, in its order of K, which begins at slab `begin` and goes round; where they begin. */
static int32_t add_tile_waits(const struct mt_overlap *p, const struct mt_overlap_tile *tile, int begin,
                              struct cuda_fused_tables *to) {
    int first = to->nwaits, slabs = begin ? (int)divide_up(p->k, GEMM_SLAB) : 0;
    for (int w = tile->first_wait; w < tile->first_wait + tile->nwaits; w++) {
        struct wait_row row = to->waits[w];
        int at = to->nwaits++;
        row.slab += row.slab < begin ? slabs - begin : -begin;
        for (; at > first && to->waits[at - 1].slab > row.slab; at--) to->waits[at] = to->waits[at - 1];
        to->waits[at] = row;
    }
    return first;
}

/* ---- few rows (few.cu) ----
 *
 * A tile of the GEMM takes over the sum of its columns, as tiles that add do; there is no counter, so they are in their
 * order, and each begins where the one before ends. A gather's puts and flags are so regular that few.c describes them
 * without a table. */

static void make_few(int me, const struct mt_overlap_schedule *s, struct cuda_fused_tables *to) {
    int j = 0, nsums = 0;
    while (j < s->nputs && s->puts[j].tile < 0) j++;
    for (int t = 0; t < s->ntiles; t++) {
        const struct mt_overlap_tile *tile = &s->tiles[t];
        if (tile->kind == MT_TILE_ADD) {
            assert(nsums < to->ntiles);
            take_sum(s, me, t, &to->tiles[nsums++], to);
            continue;
        }
        mt_arena_grow(&to->arena, &to->tiles, to->ntiles, &to->tiles_capacity, sizeof *to->tiles);
        struct tile_row *row = &to->tiles[to->ntiles++];
        assert(tile->kind == MT_TILE_MATMUL && !tile->from_row && (to->ntiles == 1 || tile->col > row[-1].column));
        *row = (struct tile_row){.column = (int32_t)tile->col,
                                 .more = 1,
                                 .first_wait = tile->first_wait,
                                 .nwaits = tile->nwaits,
                                 .first_signal = j};
        for (; j < s->nputs && s->puts[j].tile == t; j++) {
            assert(!s->puts[j].nwaits);
            row->nsignals += s->puts[j].peer != me; /* the last one is this rank's own */
        }
    }
}

bool cuda_fused_has_putter(const struct mt_overlap *p) {
    return p->form == MT_OVERLAP_GATHER && p->n > 1 && !p->engines;
}

static struct tile_row *add_row(struct cuda_fused_tables *to, struct tile_row row) {
    mt_arena_grow(&to->arena, &to->tiles, to->ntiles, &to->tiles_capacity, sizeof *to->tiles);
    to->tiles[to->ntiles] = row;
    return &to->tiles[to->ntiles++];
}

void cuda_fused_tables_make(const struct mt_overlap *p, int me, const struct mt_overlap_schedule *s, int blocks,
                            bool pairs, struct cuda_fused_tables *to) {
    int of_tiles = 0;
    for (int t = 0; t < s->ntiles; t++) of_tiles += s->tiles[t].nwaits;
    to->nwaits = s->nwaits, to->nsignals = s->nputs;
    to->waits = mt_new(&to->arena, struct wait_row, s->nwaits + of_tiles); /* a tile's may be there twice */
    to->signals = mt_new(&to->arena, struct signal_row, s->nputs);
    for (int w = 0; w < s->nwaits; w++) {
        assert(s->waits[w].count == 1); /* flags are set */
        to->waits[w] = (struct wait_row){(int32_t)mt_overlap_flag_place(p, s->waits[w].flag), s->waits[w].count,
                                         s->waits[w].lag, s->waits[w].from, (int32_t)(s->waits[w].k / GEMM_SLAB)};
    }
    for (int j = 0; j < s->nputs; j++)
        to->signals[j] = (struct signal_row){s->puts[j].peer, (int32_t)mt_overlap_flag_place(p, s->puts[j].flag)};
    if (mt_overlap_fused_few(p)) {
        make_few(me, s, to);
        return;
    }
    int *merged = mt_new(&to->arena, int, s->ntiles), *sum_of = mt_new(&to->arena, int, s->ntiles);
    int *first_put = mt_new(&to->arena, int, s->ntiles + 1), j = 0;
    struct units u = order_tiles(p, s, pairs, &to->arena);
    int count = merge_sums(p, me, s, &u, blocks, merged, sum_of);
    for (; j < s->nputs && s->puts[j].tile < 0; j++)
        if (!p->engines) add_put(p, s, j, to);
    if (cuda_fused_has_putter(p)) to->nputs = to->npieces;
    for (int t = 0; t <= s->ntiles; t++) {
        while (j < s->nputs && s->puts[j].tile < t) j++;
        first_put[t] = j;
    }
    for (int i = 0; i < count; i++) {
        int first = merged[i], second = u.second_of[first];
        int begin = (int)(s->tiles[second < 0 ? first : second].k / GEMM_SLAB);
        for (int t = first; t >= 0; t = t == first ? second : -1) {
            if (s->tiles[t].kind != MT_TILE_MATMUL) {
                add_moved(s, t, first_put[t], first_put[t + 1], to);
                continue;
            }
            assert(p->form == MT_OVERLAP_GATHER || !s->tiles[t].nwaits); /* see fused.cu */
            struct tile_row *row = add_row(to, tile_row(p, me, s, t, first_put[t], first_put[t + 1]));
            row->first = begin;
            row->first_wait = add_tile_waits(p, &s->tiles[t], begin, to);
            if (sum_of[t] < 0) continue;
            take_sum(s, me, sum_of[t], row, to);
            take_put(s, me, first_put[sum_of[t]], first_put[sum_of[t] + 1], row);
        }
        if (pairs && second < 0 && s->tiles[first].kind == MT_TILE_MATMUL)
            add_row(to, (struct tile_row){.first = begin, .column = (int32_t)s->tiles[first].col, .more = EMPTY});
    }
}
