/* GEMM+ReduceScatter and GEMM+AllReduce: each rank multiplies for every owner of rows in turn, tile by tile, and puts
 * each tile into its slot at the owner, which adds the slots of a tile once all are there. For an AllReduce the owner
 * puts the sum into everyone's RESULT, from which each copies; with `direct` everyone owns all rows.
 *
 * Tiles for peers come first, one for each peer in turn, since they have a way to go; one of a rank's own after every
 * `mix` of them, where links are slower than the GEMM.
 *
 * The partial sums of its own rows go to its slot at once. */
#include "kernels/overlap/internal.h"

/* The tiles of the rows that a rank owns: a grid. */
static int64_t tiles_of(const struct mt_overlap *p, int owner) {
    int64_t first;
    return mt_overlap_row_pieces(p, mt_overlap_owned(p, owner, &first), p->tile[0]) *
           mt_overlap_pieces(p->cols, p->tile[1]);
}

/* Rows (from the owner's first on) and columns of tile t of the grid. */
static struct mt_overlap_tile grid_tile(const struct mt_overlap *p, int owner, int64_t t) {
    struct mt_overlap_tile tile = {0};
    int64_t first, owned = mt_overlap_owned(p, owner, &first), across = mt_overlap_pieces(p->cols, p->tile[1]);
    tile.row = mt_overlap_row_piece(p, owned, p->tile[0], t / across, &tile.rows);
    tile.col = mt_overlap_piece(p->cols, p->tile[1], t % across, &tile.cols);
    return tile;
}

/* Flags: of every tile of an owner's grid the slots of all ranks; then the results of all owners' tiles. */
static int slot_flag(const struct mt_overlap *p, int64_t t, int rank) {
    return (int)(t * p->n + rank);
}

static int64_t slot_flags(const struct mt_overlap *p) {
    int64_t most = 0;
    for (int r = 0; r < p->n; r++)
        if (tiles_of(p, r) > most) most = tiles_of(p, r);
    return most * p->n;
}

static int64_t results_before(const struct mt_overlap *p, int owner) {
    int64_t before = slot_flags(p);
    for (int r = 0; r < owner; r++) before += tiles_of(p, r);
    return before;
}

static int result_flag(const struct mt_overlap *p, int owner, int64_t t) {
    return (int)(results_before(p, owner) + t);
}

static bool sends_results(const struct mt_overlap *p) {
    return p->form == MT_OVERLAP_REDUCE && !p->direct;
}

int64_t mt_overlap_sum_flags(const struct mt_overlap *p) {
    return sends_results(p) ? results_before(p, p->n) : slot_flags(p);
}

static void multiply(const struct mt_overlap *p, int me, int owner, int64_t t, struct mt_overlap_schedule *schedule) {
    struct mt_overlap_tile tile = grid_tile(p, owner, t);
    int64_t first, owned = mt_overlap_owned(p, owner, &first), slot = me * owned + tile.row;
    tile.kind = MT_TILE_MATMUL;
    tile.from = MT_OVERLAP_A;
    tile.from_row = first + tile.row;
    tile.to = owner == me ? MT_OVERLAP_SLOTS : MT_OVERLAP_PARTIAL;
    tile.row = owner == me ? slot : first + tile.row;
    struct mt_overlap_put put = {.peer = owner,
                                 .flag = slot_flag(p, t, me),
                                 .from = MT_OVERLAP_PARTIAL,
                                 .to = MT_OVERLAP_SLOTS,
                                 .from_row = tile.row,
                                 .to_row = slot,
                                 .rows = tile.rows,
                                 .col = tile.col,
                                 .cols = tile.cols};
    if (owner == me) put = (struct mt_overlap_put){.peer = owner, .flag = put.flag};
    put.tile = mt_overlap_add_tile(schedule, tile);
    mt_overlap_await_ready(p, me, owner, schedule);
    mt_overlap_add_put(schedule, put);
}

/* Of a direct reduce, one tile is for everyone. */
static void multiply_for_all(const struct mt_overlap *p, int me, int64_t t, struct mt_overlap_schedule *schedule) {
    struct mt_overlap_tile tile = grid_tile(p, me, t);
    struct mt_overlap_put put = {.flag = slot_flag(p, t, me),
                                 .from = MT_OVERLAP_SLOTS,
                                 .to = MT_OVERLAP_SLOTS,
                                 .col = tile.col,
                                 .cols = tile.cols};
    tile.kind = MT_TILE_MATMUL;
    tile.from = MT_OVERLAP_A, tile.to = MT_OVERLAP_SLOTS;
    tile.from_row = tile.row;
    tile.row += me * p->m;
    put.from_row = put.to_row = tile.row;
    put.tile = mt_overlap_add_tile(schedule, tile);
    for (int k = 1; k <= p->n; k++) {
        put.peer = (me + k) % p->n;
        put.rows = put.peer == me ? 0 : tile.rows;
        mt_overlap_await_ready(p, me, put.peer, schedule);
        mt_overlap_add_put(schedule, put);
    }
}

static void multiply_all(const struct mt_overlap *p, int me, struct mt_overlap_schedule *schedule) {
    int64_t own = 0, nown = tiles_of(p, me), since = 0;
    if (p->direct) {
        for (int64_t t = 0; t < nown; t++) multiply_for_all(p, me, t, schedule);
        return;
    }
    bool any = true;
    for (int64_t t = 0; any; t++) {
        any = false;
        for (int k = 1; k < p->n; k++) {
            int owner = (me + k) % p->n;
            if (t >= tiles_of(p, owner)) continue;
            any = true;
            multiply(p, me, owner, t, schedule);
            if (!p->mix || ++since < p->mix || own == nown) continue;
            multiply(p, me, me, own++, schedule);
            since = 0;
        }
    }
    while (own < nown) multiply(p, me, me, own++, schedule);
}

static void add_all(const struct mt_overlap *p, int me, struct mt_overlap_schedule *schedule) {
    int64_t first;
    mt_overlap_owned(p, me, &first);
    for (int64_t t = 0; t < tiles_of(p, me); t++) {
        struct mt_overlap_tile tile = grid_tile(p, me, t);
        tile.kind = MT_TILE_ADD;
        tile.from = MT_OVERLAP_SLOTS, tile.to = sends_results(p) ? MT_OVERLAP_RESULT : MT_OVERLAP_OUT;
        tile.from_row = tile.row;
        if (sends_results(p)) tile.row += first;
        for (int s = 0; s < p->n; s++)
            if (mt_overlap_contributes(p, s))
                mt_overlap_await(schedule, (struct mt_overlap_wait){.flag = slot_flag(p, t, s), .from = s, .count = 1});
        int number = mt_overlap_add_tile(schedule, tile);
        for (int k = 1; k <= p->n && sends_results(p); k++) {
            int peer = (me + k) % p->n;
            mt_overlap_await_ready(p, me, peer, schedule);
            mt_overlap_add_put(schedule, (struct mt_overlap_put){.tile = number,
                                                                 .peer = peer,
                                                                 .flag = result_flag(p, me, t),
                                                                 .from = MT_OVERLAP_RESULT,
                                                                 .to = MT_OVERLAP_RESULT,
                                                                 .from_row = tile.row,
                                                                 .to_row = tile.row,
                                                                 .rows = peer == me ? 0 : tile.rows,
                                                                 .col = tile.col,
                                                                 .cols = tile.cols});
        }
    }
}

static void copy_all(const struct mt_overlap *p, int me, struct mt_overlap_schedule *schedule) {
    for (int k = 0; k < p->n; k++) {
        int owner = (me + p->n - k) % p->n;
        int64_t first;
        mt_overlap_owned(p, owner, &first);
        for (int64_t t = 0; t < tiles_of(p, owner); t++) {
            struct mt_overlap_tile tile = grid_tile(p, owner, t);
            tile.kind = MT_TILE_COPY;
            tile.from = MT_OVERLAP_RESULT, tile.to = MT_OVERLAP_OUT;
            tile.row = tile.from_row = first + tile.row;
            mt_overlap_await(schedule,
                             (struct mt_overlap_wait){.flag = result_flag(p, owner, t), .from = owner, .count = 1});
            mt_overlap_add_tile(schedule, tile);
        }
    }
}

void mt_overlap_sum(const struct mt_overlap *p, int me, struct mt_overlap_schedule *schedule) {
    if (mt_overlap_contributes(p, me)) multiply_all(p, me, schedule);
    add_all(p, me, schedule);
    if (sends_results(p)) copy_all(p, me, schedule);
}
