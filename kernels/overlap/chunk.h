/* Schedules in chunks, for devices where a GEMM of many tiles is faster than the tiles one by one, and one copy faster
 * than many: tiles that fill a rectangle become one, and so do their puts to a peer.
 *
 *     struct mt_overlap_chunks chunks;
 *     mt_overlap_chunks_make(&schedule, most_rows, &chunks);
 *     ... the puts [0, first_put of chunk 0), then each chunk, followed by its puts ...
 *     mt_overlap_chunks_release(&chunks);
 *
 * A chunk awaits all that its tiles await before it begins, slabs of K too, and raises all their flags when all are
 * done: ranks may be cut into chunks in different ways. Tiles that await something stay in order; others may move ahead
 * to a chunk that is open. So a rank that runs its chunks in order, with puts after their chunks, finishes whenever it
 * would finish by tiles, provided that no flag that a chunk awaits is raised by what comes after one of its flags: so
 * it is with our forms, where sums await products, copies await sums, and products nothing but puts of the start. */
#ifndef MT_KERNELS_OVERLAP_CHUNK_H
#define MT_KERNELS_OVERLAP_CHUNK_H

#include "kernels/op/op.h"
#include "kernels/overlap/overlap.h"

/* to[row, col] of `rows` by `cols`, as a tile has them. */
struct mt_overlap_chunk {
    struct mt_overlap_tile box; /* its waits are those of the chunk */
    int first_put, nputs;       /* of the chunks' puts */
    bool adds;                  /* a GEMM: rows of SLOTS from added_row on (mt_overlap_chunks_add) */
    int64_t added_row;
};
/* As a put; it raises nflags flags of the peer. */
struct mt_overlap_move {
    struct mt_overlap_put box; /* its waits are those of the chunks; its flag is the first */
    int first_flag, nflags;
};
struct mt_overlap_chunks {
    struct mt_arena arena;
    struct mt_overlap_chunk *chunks;
    struct mt_overlap_move *puts; /* those of the start first */
    struct mt_overlap_wait *waits;
    int *flags;
    int nchunks, nputs, nwaits, nflags, chunks_capacity, puts_capacity, waits_capacity, flags_capacity;
    int nstart;     /* puts of the start */
    int most_flags; /* of a put */
};

/* most_rows: of a chunk; a tile may have more. */
void mt_overlap_chunks_make(const struct mt_overlap_schedule *schedule, int64_t most_rows,
                            struct mt_overlap_chunks *chunks);
void mt_overlap_chunks_release(struct mt_overlap_chunks *chunks);

/* For devices whose GEMMs can add a matrix of the type of their result: let each GEMM of a rank's own rows add what the
 * peer sent of them, where there are two ranks, and write the sum. These GEMMs come last, in the order of the sums that
 * they replace: who awaits the peer has multiplied all of the peer's rows, so that both finish. A result that is stored
 * transposed has other rows than what is sent; then, and where no GEMM has the rows of a sum, nothing changes. */
void mt_overlap_chunks_add(const struct mt_overlap *problem, int me, bool trans_out, struct mt_overlap_chunks *chunks);
/* Whether they do so of such a problem, if the result is not transposed. */
bool mt_overlap_gemms_add(const struct mt_overlap *problem);

/* The most rows of a chunk for `workers` multiprocessors that compute tiles of 128 by 256: whole waves of them, about
 * eight chunks. */
int64_t mt_overlap_chunk_rows(const struct mt_overlap *problem, int me, int workers);

/* The GEMM of a chunk as a call of matmul, or of a gather's with an epilogue of fused_matmul, whose pointers are into
 * the struct itself: a call for which a device chooses the same kernel. The bias of sums is none of their GEMMs'. Its
 * data are addresses as well aligned as the chunk's matrices are, and nothing is there. False: the chunk has none.
 *
 * transposed[3]  of A, B and the result (struct mt_overlap_operands)
 * at[5]          of these, the epilogue's `extra`, and `pre`: bytes after an aligned address; 0 where there is none */
struct mt_overlap_gemm {
    struct mt_call call;
    struct mt_tensor in[3], out[2];
    struct mt_attr attr;
};
bool mt_overlap_chunk_gemm(const struct mt_overlap *problem, int me, const bool transposed[3], enum mt_op_kind epilogue,
                           const int64_t at[5], const struct mt_overlap_chunk *chunk, struct mt_overlap_gemm *gemm);

/* ---- memory of a run by chunks ---- */

struct mt_overlap_scratch {
    void *words;   /* [flags of the problem]: 64 bits, what a put's flags become */
    char *partial; /* MT_OVERLAP_PARTIAL */
    char *wide;    /* results of GEMMs in f32, where the device's have no such type as is wanted; all rows */
    void *gemm;    /* scratch of the GEMMs */
};
/* Lay it out from `memory` on, 256-byte aligned each; the bytes before the GEMMs'. */
int64_t mt_overlap_lay_out_scratch(const struct mt_overlap *problem, int me, void *memory,
                                   struct mt_overlap_scratch *scratch);
/* `scratch_bytes`: what the device's backend needs for a GEMM. */
int64_t mt_overlap_chunks_scratch_bytes(const struct mt_overlap *problem, int me, enum mt_op_kind epilogue,
                                        int64_t (*scratch_bytes)(void *context, const struct mt_call *call),
                                        void *context);

#endif
