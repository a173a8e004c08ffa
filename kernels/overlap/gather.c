/* AllGather+GEMM: at the start each rank puts its rows, in chunks, into its peers' staging, to one peer after the other
 * (rank r to r + 1 first), so that every link has one sender at a time; a chunk slab by slab in K, strip by strip of
 * rows, in rotation (overlap.h). Tiles of a rank's own rows come first and await nothing; then those of rank r - 1,
 * whose chunks arrive first, and so on. A tile has rows of one rank only, begins with the slab of its rows that is put
 * first, and awaits each slab where it comes to it. So the first tiles of a chunk begin soon after the chunk does, and
 * after the last byte there is a slab to multiply, not whole tiles. Last come the copies, where the gathered operand is
 * kept.
 *
 * Joint tiles are of the matrix in staging, where a rank puts its own rows after its peers', which have a way to go;
 * each awaits all chunks of its rows. */
#include "kernels/overlap/internal.h"

/* How many multiples of a chunk's rows, or of a tile's, are in (0, row]. */
static int64_t cuts_before(const struct mt_overlap *p, int64_t row) {
    int64_t a = p->tile[0], b = p->chunk, in_chunks = row / p->chunk, both = 0;
    for (int64_t rest; b; a = b, b = rest) rest = a % b; /* a becomes their greatest common divisor */
    if (p->tile[0] / a <= in_chunks) both = row / (p->tile[0] / a * p->chunk);
    return in_chunks + row / p->tile[0] - both;
}

/* Whether chunks are cut into strips; else they are strips themselves. */
static bool has_strips(const struct mt_overlap *p) {
    return mt_overlap_nslabs(p) > 1 && !p->ngroups && !mt_overlap_halves(p);
}

/* Which strip of its share a row is in, and a tile whose rows begin there. Groups are strips and chunks. */
static int64_t strip_of(const struct mt_overlap *p, int64_t tile, int64_t row) {
    if (p->ngroups) return tile;
    return has_strips(p) ? cuts_before(p, row) : row / p->chunk;
}

static int64_t strips_before(const struct mt_overlap *p, int rank) {
    int64_t before = 0;
    for (int r = 0; r < rank; r++) {
        if (!p->rows[r]) continue;
        before += p->ngroups ? mt_overlap_row_pieces(p, p->rows[r], p->chunk) : strip_of(p, 0, p->rows[r] - 1) + 1;
    }
    return before;
}

/* Flags: the slabs of the strips of all ranks, in order. */
int64_t mt_overlap_gather_flags(const struct mt_overlap *p) {
    int64_t strips = strips_before(p, p->n);
    return strips > INT32_MAX ? strips : strips * mt_overlap_nslabs(p); /* too many as they are */
}

/* The slab that is put at a step, of a strip of the share's row `tile` of tiles. */
static int slab_at(const struct mt_overlap *p, int64_t tile, int step) {
    int nslabs = mt_overlap_nslabs(p);
    return mt_overlap_rotates(p) ? (int)((tile + step) % nslabs) : step;
}

/* The slabs that are put at a step, of the strips of chunk [row, end). */
static void put_step(const struct mt_overlap *p, int me, int peer, int64_t chunk, int64_t row, int64_t end, int step,
                     struct mt_overlap_schedule *schedule) {
    int nslabs = mt_overlap_nslabs(p);
    int64_t first_flag = strips_before(p, me) * nslabs, to_row = mt_overlap_start(p->rows, me);
    while (row < end) {
        int64_t tile = p->ngroups ? chunk : row / p->tile[0], left = p->tile[0] - row % p->tile[0];
        int slab = slab_at(p, tile, step);
        struct mt_overlap_put put = {.tile = -1,
                                     .peer = peer,
                                     .flag = (int)(first_flag + strip_of(p, tile, row) * nslabs + slab),
                                     .from = MT_OVERLAP_A,
                                     .to = MT_OVERLAP_STAGED,
                                     .from_row = row,
                                     .to_row = to_row + row,
                                     .rows = end - row};
        if (has_strips(p) && left < put.rows) put.rows = left;
        put.col = mt_overlap_slab(p, slab, &put.cols);
        mt_overlap_await_ready(p, me, peer, schedule);
        mt_overlap_add_put(schedule, put);
        row += put.rows;
    }
}

static void put_rows(const struct mt_overlap *p, int me, int peer, struct mt_overlap_schedule *schedule) {
    for (int64_t i = 0; i < mt_overlap_row_pieces(p, p->rows[me], p->chunk); i++) {
        int64_t rows, row = mt_overlap_row_piece(p, p->rows[me], p->chunk, i, &rows);
        for (int step = 0; step < mt_overlap_nslabs(p); step++)
            put_step(p, me, peer, i, row, row + rows, step, schedule);
    }
}

/* What a tile of row `number` of rank `of` reads, from row `at` of its share on: in the order of slabs in which it
 * reads them; a copy the slabs of its columns, at once. */
static void await_slabs(const struct mt_overlap *p, int of, int64_t number, int64_t at,
                        const struct mt_overlap_tile *tile, struct mt_overlap_schedule *schedule) {
    bool copies = tile->kind == MT_TILE_COPY;
    int nslabs = mt_overlap_nslabs(p);
    int64_t before = strips_before(p, of), first = before + strip_of(p, number, at);
    int64_t last = before + strip_of(p, number, at + tile->rows - 1);
    for (int step = 0; step < nslabs; step++) {
        int slab = slab_at(p, number, step);
        int64_t cols, col = mt_overlap_slab(p, slab, &cols);
        if (copies && (col + cols <= tile->col || col >= tile->col + tile->cols)) continue;
        for (int64_t s = first; s <= last; s++)
            mt_overlap_await(schedule,
                             (struct mt_overlap_wait){
                                 .flag = (int)(s * nslabs + slab), .from = of, .count = 1, .k = copies ? 0 : col});
    }
}

/* The tiles that read rows of rank `of`: of the product, or copies of the rows where they are kept. */
static void add_tiles(const struct mt_overlap *p, int me, int of, bool copies, struct mt_overlap_schedule *schedule) {
    int64_t first = mt_overlap_start(p->rows, of), cols = copies ? p->k : p->shares[me], width;
    for (int64_t i = 0; i < mt_overlap_row_pieces(p, p->rows[of], p->tile[0]); i++)
        for (int64_t j = 0; j < mt_overlap_pieces(cols, p->tile[1]); j++) {
            struct mt_overlap_tile tile = {.kind = copies ? MT_TILE_COPY : MT_TILE_MATMUL,
                                           .to = copies ? MT_OVERLAP_WHOLE : MT_OVERLAP_OUT};
            tile.from = of == me ? MT_OVERLAP_A : MT_OVERLAP_STAGED;
            int64_t at = mt_overlap_row_piece(p, p->rows[of], p->tile[0], i, &tile.rows);
            tile.col = mt_overlap_piece(cols, p->tile[1], j, &tile.cols);
            tile.row = first + at;
            tile.from_row = of == me ? at : first + at;
            if (of != me && !copies) tile.k = mt_overlap_slab(p, slab_at(p, i, 0), &width);
            if (of != me) await_slabs(p, of, i, at, &tile, schedule);
            mt_overlap_add_tile(schedule, tile);
        }
}

/* The chunks of all ranks that have some of the rows [row, + rows): a rank's own come first, then as they arrive. */
static void await_rows(const struct mt_overlap *p, int me, int64_t row, int64_t rows,
                       struct mt_overlap_schedule *schedule) {
    for (int k = 0; k < p->n; k++) {
        int of = (me + p->n - k) % p->n;
        int64_t first = row - mt_overlap_start(p->rows, of), end = first + rows, before = strips_before(p, of);
        if (first < 0) first = 0;
        if (end > p->rows[of]) end = p->rows[of];
        for (int64_t s = first / p->chunk; s * p->chunk < end && first < end; s++)
            mt_overlap_await(schedule, (struct mt_overlap_wait){.flag = (int)(before + s), .from = of, .count = 1});
    }
}

static void add_joint_tiles(const struct mt_overlap *p, int me, struct mt_overlap_schedule *schedule) {
    for (int64_t i = 0; i < mt_overlap_pieces(p->m, p->tile[0]); i++)
        for (int64_t j = 0; j < mt_overlap_pieces(p->shares[me], p->tile[1]); j++) {
            struct mt_overlap_tile tile = {.kind = MT_TILE_MATMUL, .from = MT_OVERLAP_STAGED, .to = MT_OVERLAP_OUT};
            tile.row = tile.from_row = mt_overlap_piece(p->m, p->tile[0], i, &tile.rows);
            tile.col = mt_overlap_piece(p->shares[me], p->tile[1], j, &tile.cols);
            await_rows(p, me, tile.row, tile.rows, schedule);
            mt_overlap_add_tile(schedule, tile);
        }
}

void mt_overlap_gather(const struct mt_overlap *p, int me, struct mt_overlap_schedule *schedule) {
    for (int k = 1; k < p->n; k++) {
        int peer = (me + k) % p->n;
        if (p->shares[peer] || p->keep) put_rows(p, me, peer, schedule);
    }
    if (p->joint && p->shares[me]) put_rows(p, me, me, schedule);
    if (p->joint) add_joint_tiles(p, me, schedule);
    for (int copies = p->joint; copies <= p->keep; copies++)
        for (int k = 0; k < p->n; k++) add_tiles(p, me, (me + p->n - k) % p->n, copies, schedule);
}
