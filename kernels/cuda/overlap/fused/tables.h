/* The tables that fused.cu reads, made of a schedule: rows as in call.cuh. */
#ifndef MT_KERNELS_CUDA_OVERLAP_TABLES_H
#define MT_KERNELS_CUDA_OVERLAP_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/arena.h"
#include "kernels/overlap/overlap.h"

struct wait_row {
    int32_t place, count, lag, from, slab;
};
struct signal_row {
    int32_t peer, place;
};
struct tile_row {
    int32_t staged, from_row, first, adds, to, row, column, more, first_wait, nwaits, first_ready, nready, first_signal,
        nsignals;
};
enum { ALL = -1, EMPTY = 2 };
struct box_row {
    int32_t kind, peer, staged, pieces, from_row, row, column, columns, first_wait, nwaits, first_signal, nsignals;
};
enum { PUT, SUM, COPY_SUM, COPY_OPERAND };
struct piece_row {
    int32_t box, row, rows, unused;
};

/* Vectors, then their place in one piece of device memory. */
struct cuda_fused_tables {
    struct mt_arena arena;
    struct tile_row *tiles;
    struct box_row *boxes;
    struct piece_row *pieces;
    struct wait_row *waits;
    struct signal_row *signals;
    int nputs; /* the first pieces: those of the thread that puts */
    int ntiles, nboxes, npieces, nwaits, nsignals, tiles_capacity, boxes_capacity, pieces_capacity;
};

/* Whether one thread of each block puts rows to peers (putter.cuh). */
bool cuda_fused_has_putter(const struct mt_overlap *problem);

/* Whether it pays that two blocks have tiles of the same columns at the same time, and load B together (SHARE 1 of
 * mainloop.cuh): of tiles that load more of B than of A, where pairs take at most a tenth more turns of so many blocks
 * than single tiles. */
bool cuda_fused_has_pairs(const struct mt_overlap *problem, const struct mt_overlap_schedule *schedule, int blocks);

/* Make rank `me`'s of a schedule, for so many blocks, in tables->arena, which the caller releases; *tables is zero
 * before. In pairs: tiles 2 i and 2 i + 1 have the same columns and first slab, both add or none does, and the second
 * may be EMPTY. */
void cuda_fused_tables_make(const struct mt_overlap *problem, int me, const struct mt_overlap_schedule *schedule,
                            int blocks, bool pairs, struct cuda_fused_tables *tables);

#endif
