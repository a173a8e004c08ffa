/* AllGather+GEMM: at the start each rank puts its rows, in chunks, into its peers' staging, to one peer after the other
 * (rank r to r + 1 first), so that every link has one sender at a time; a chunk slab by slab in K. Tiles of a rank's
 * own rows come first and await nothing; then those of rank r - 1, whose chunks arrive first, and so on. A tile has
 * rows of one rank only, and awaits the chunks that it reads, each slab where it begins. So the first tiles of a chunk
 * begin a slab after it, and after the last byte there is a slab to multiply, not whole tiles. Last come the copies,
 * where the gathered operand is kept. */
#include "kernels/overlap/internal.h"

/* Flags: the slabs of the chunks of all ranks, in order. */
static int64_t chunks_before(const struct mt_overlap *p, int rank) {
    int64_t before = 0;
    for (int r = 0; r < rank; r++) before += mt_overlap_row_pieces(p, p->rows[r], p->chunk);
    return before;
}

static int slab_flag(const struct mt_overlap *p, int rank, int64_t chunk, int slab) {
    return (int)((chunks_before(p, rank) + chunk) * mt_overlap_nslabs(p) + slab);
}

int64_t mt_overlap_gather_flags(const struct mt_overlap *p) {
    int64_t chunks = chunks_before(p, p->n);
    return chunks > INT32_MAX ? chunks : chunks * mt_overlap_nslabs(p); /* too many as they are */
}

static void put_rows(const struct mt_overlap *p, int me, int peer, struct mt_overlap_schedule *schedule) {
    int64_t first = mt_overlap_start(p->rows, me);
    int nslabs = mt_overlap_nslabs(p);
    for (int64_t i = 0; i < mt_overlap_row_pieces(p, p->rows[me], p->chunk) * nslabs; i++) {
        struct mt_overlap_put put = {.tile = -1,
                                     .peer = peer,
                                     .flag = slab_flag(p, me, i / nslabs, (int)(i % nslabs)),
                                     .from = MT_OVERLAP_A,
                                     .to = MT_OVERLAP_STAGED};
        put.from_row = mt_overlap_row_piece(p, p->rows[me], p->chunk, i / nslabs, &put.rows);
        put.to_row = first + put.from_row;
        put.col = mt_overlap_slab(p, (int)(i % nslabs), &put.cols);
        mt_overlap_await_ready(p, me, peer, schedule);
        mt_overlap_add_put(schedule, put);
    }
}

/* What a tile reads of rank `of`: chunks [first, end), in the order of K; a copy the slabs of its columns, at once. */
static void await_chunks(const struct mt_overlap *p, int of, int64_t first, int64_t end,
                         const struct mt_overlap_tile *tile, struct mt_overlap_schedule *schedule) {
    bool copies = tile->kind == MT_TILE_COPY;
    for (int slab = 0; slab < mt_overlap_nslabs(p); slab++) {
        int64_t cols, col = mt_overlap_slab(p, slab, &cols);
        if (copies && (col + cols <= tile->col || col >= tile->col + tile->cols)) continue;
        for (int64_t c = first; c < end; c++)
            mt_overlap_await(schedule,
                             (struct mt_overlap_wait){
                                 .flag = slab_flag(p, of, c, slab), .from = of, .count = 1, .k = copies ? 0 : col});
    }
}

/* The tiles that read rows of rank `of`: of the product, or copies of the rows where they are kept. */
static void add_tiles(const struct mt_overlap *p, int me, int of, bool copies, struct mt_overlap_schedule *schedule) {
    int64_t first = mt_overlap_start(p->rows, of), cols = copies ? p->k : p->shares[me];
    for (int64_t i = 0; i < mt_overlap_row_pieces(p, p->rows[of], p->tile[0]); i++)
        for (int64_t j = 0; j < mt_overlap_pieces(cols, p->tile[1]); j++) {
            struct mt_overlap_tile tile = {.kind = copies ? MT_TILE_COPY : MT_TILE_MATMUL,
                                           .to = copies ? MT_OVERLAP_WHOLE : MT_OVERLAP_OUT};
            tile.from = of == me ? MT_OVERLAP_A : MT_OVERLAP_STAGED;
            int64_t at = mt_overlap_row_piece(p, p->rows[of], p->tile[0], i, &tile.rows);
            tile.col = mt_overlap_piece(cols, p->tile[1], j, &tile.cols);
            tile.row = first + at;
            tile.from_row = of == me ? at : first + at;
            int64_t first_put = p->ngroups ? i : at / p->chunk;
            int64_t last_put = p->ngroups ? i : (at + tile.rows - 1) / p->chunk;
            if (of != me) await_chunks(p, of, first_put, last_put + 1, &tile, schedule);
            mt_overlap_add_tile(schedule, tile);
        }
}

void mt_overlap_gather(const struct mt_overlap *p, int me, struct mt_overlap_schedule *schedule) {
    for (int k = 1; k < p->n; k++) {
        int peer = (me + k) % p->n;
        if (p->shares[peer] || p->keep) put_rows(p, me, peer, schedule);
    }
    for (int copies = 0; copies <= p->keep; copies++)
        for (int k = 0; k < p->n; k++) add_tiles(p, me, (me + p->n - k) % p->n, copies, schedule);
}
