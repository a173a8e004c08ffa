/* AllGather+GEMM: at the start each rank puts its rows, in chunks, into its peers' staging, to one peer after the other
 * (rank r to r + 1 first), so that every link has one sender at a time. Tiles of a rank's own rows come first and await
 * nothing; then those of rank r - 1, whose chunks arrive first, and so on. A tile has rows of one rank only, and awaits
 * the chunks that it reads. Last come the copies, where the gathered operand is kept. */
#include "kernels/overlap/internal.h"

/* Flags: the chunks of all ranks, in order. */
static int64_t chunks_before(const struct mt_overlap *p, int rank) {
    int64_t before = 0;
    for (int r = 0; r < rank; r++) before += mt_overlap_row_pieces(p, p->rows[r], p->chunk);
    return before;
}

static int chunk_flag(const struct mt_overlap *p, int rank, int64_t chunk) {
    return (int)(chunks_before(p, rank) + chunk);
}

int64_t mt_overlap_gather_flags(const struct mt_overlap *p) {
    return chunks_before(p, p->n);
}

static void put_rows(const struct mt_overlap *p, int me, int peer, struct mt_overlap_schedule *schedule) {
    int64_t first = mt_overlap_start(p->rows, me);
    for (int64_t c = 0; c < mt_overlap_row_pieces(p, p->rows[me], p->chunk); c++) {
        struct mt_overlap_put put = {.tile = -1,
                                     .peer = peer,
                                     .flag = chunk_flag(p, me, c),
                                     .from = MT_OVERLAP_A,
                                     .to = MT_OVERLAP_STAGED,
                                     .cols = p->k};
        put.from_row = mt_overlap_row_piece(p, p->rows[me], p->chunk, c, &put.rows);
        put.to_row = first + put.from_row;
        mt_overlap_await_ready(p, me, peer, schedule);
        mt_overlap_add_put(schedule, put);
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
            for (int64_t c = first_put; of != me && c <= last_put; c++)
                mt_overlap_await(schedule, chunk_flag(p, of, c), of, 1, 0);
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
