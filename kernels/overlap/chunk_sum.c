/* GEMMs that add: of two ranks' sums a chunk that multiplies a rank's own rows also adds what the peer sent, in its
 * accumulators. So no pass reads the slots. */
#include <string.h>

#include "kernels/overlap/chunk.h"

/* Rows that libraries like. */
static bool aligned(int64_t extent, enum mt_type type) {
    return extent * mt_type_size(type) % 16 == 0;
}

bool mt_overlap_gemms_add(const struct mt_overlap *p) {
    bool adds = p->form != MT_OVERLAP_GATHER && p->n == 2 && !p->direct;
    for (int r = 0; r < p->n; r++) adds &= mt_overlap_contributes(p, r) && aligned(p->shares[r], p->type);
    adds &= aligned(p->cols, p->type) && aligned(p->cols, p->wire);
    return adds && (p->form == MT_OVERLAP_REDUCE || p->out == p->wire) && (p->wire == p->type || p->wire == MT_F32);
}

/* The chunk that multiplies this rank's part of what `sum` adds, into its slot; it raises no flag but this rank's.
 * Null: none. */
static const struct mt_overlap_chunk *own_of(const struct mt_overlap *p, int me, const struct mt_overlap_chunks *chunks,
                                             const struct mt_overlap_tile *sum) {
    int64_t first, owned = mt_overlap_owned(p, me, &first);
    for (int c = 0; c < chunks->nchunks; c++) {
        const struct mt_overlap_chunk *chunk = &chunks->chunks[c];
        const struct mt_overlap_tile *box = &chunk->box;
        bool alone = true;
        if (box->kind != MT_TILE_MATMUL || box->to != MT_OVERLAP_SLOTS || box->row != me * owned + sum->from_row ||
            box->rows != sum->rows || box->col != sum->col || box->cols != sum->cols)
            continue;
        for (int j = chunk->first_put; j < chunk->first_put + chunk->nputs; j++)
            alone &= chunks->puts[j].box.peer == me && !chunks->puts[j].box.rows;
        return alone ? chunk : NULL;
    }
    return NULL;
}

static void await(struct mt_overlap_chunks *chunks, struct mt_overlap_wait wait) {
    mt_arena_grow(&chunks->arena, &chunks->waits, chunks->nwaits, &chunks->waits_capacity, sizeof *chunks->waits);
    chunks->waits[chunks->nwaits++] = wait;
}

/* The GEMM, to where the sum goes, after what that awaits of the peer; then what follows the sum. */
static struct mt_overlap_chunk merged(const struct mt_overlap *p, int me, const struct mt_overlap_chunk *gemm,
                                      const struct mt_overlap_chunk *sum, struct mt_overlap_chunks *chunks) {
    struct mt_overlap_chunk chunk = *sum;
    int64_t first;
    chunk.adds = true;
    chunk.added_row = (1 - me) * mt_overlap_owned(p, me, &first) + sum->box.from_row;
    chunk.box.kind = MT_TILE_MATMUL;
    chunk.box.from = gemm->box.from, chunk.box.from_row = gemm->box.from_row;
    chunk.box.first_wait = chunks->nwaits;
    for (int w = sum->box.first_wait; w < sum->box.first_wait + sum->box.nwaits; w++)
        if (chunks->waits[w].from != me) await(chunks, chunks->waits[w]);
    chunk.box.nwaits = chunks->nwaits - chunk.box.first_wait;
    return chunk;
}

static bool is_own(const struct mt_overlap_chunk *chunk) {
    return chunk->box.kind == MT_TILE_MATMUL && chunk->box.to == MT_OVERLAP_SLOTS;
}

void mt_overlap_chunks_add(const struct mt_overlap *p, int me, bool trans_out, struct mt_overlap_chunks *chunks) {
    int count = 0, own = 0, sums = 0;
    if (!mt_overlap_gemms_add(p) || (trans_out && p->form == MT_OVERLAP_SCATTER)) return;
    for (int c = 0; c < chunks->nchunks; c++) {
        const struct mt_overlap_chunk *chunk = &chunks->chunks[c];
        own += is_own(chunk);
        if (chunk->box.kind != MT_TILE_ADD) continue;
        if (!own_of(p, me, chunks, &chunk->box)) return;
        sums++;
    }
    if (!sums || own != sums) return;
    struct mt_overlap_chunk *all = mt_new(&chunks->arena, struct mt_overlap_chunk, chunks->nchunks + 1);
    for (int c = 0; c < chunks->nchunks; c++) {
        const struct mt_overlap_chunk *chunk = &chunks->chunks[c];
        if (is_own(chunk)) continue;
        all[count++] =
            chunk->box.kind == MT_TILE_ADD ? merged(p, me, own_of(p, me, chunks, &chunk->box), chunk, chunks) : *chunk;
    }
    memcpy(chunks->chunks, all, (size_t)count * sizeof *all);
    chunks->nchunks = count;
}
