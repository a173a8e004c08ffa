/* Schedules in waves, for ranks that cannot write into each other's memory: the puts of all ranks' chunks as numbered
 * exchanges of messages, in which each rank sends and receives at once, as a group of NCCL's sends and receives does.
 *
 *     struct mt_overlap_waves waves;
 *     mt_overlap_waves_make(&problem, me, mt_overlap_common_rows(&problem), &waves);
 *     for (c = 0, w = 0; ...)
 *         ... chunk c, when waves [0, needs[c]) are over; wave w, when chunks [0, after[w]) are computed ...
 *     mt_overlap_waves_release(&waves);
 *
 * Every rank derives all ranks' schedules from the problem, so that sender and receiver agree on each message without a
 * word. Messages between two ranks have the same order on both, within a wave too. A put's wave is later than all that
 * its rank awaits up to it; so ranks that run chunks in order, and waves in order, finish. Staging of a rank is its own
 * memory, filled by what it receives: sums are added there in the order of ranks, to the same bits as by puts, but of
 * sums that GEMMs add there (chunk.h). Flags, ready flags and epochs are not needed: what a rank receives for a run
 * comes after its own work of the run before.
 *
 * What a rank puts to itself (joint tiles) is a message that it sends to itself, in one wave.
 *
 * Slabs of K are sent as they are put, row by row: right, but a GEMM begins when all of its slabs are there.
 *
 * A wave has one put of the start, to one peer after the other, as the schedule has them, or those of one chunk: ranks
 * that are alike then send to the next but k, and receive from the last but k. Of many, some go together. */
#ifndef MT_KERNELS_OVERLAP_WAVE_H
#define MT_KERNELS_OVERLAP_WAVE_H

#include "kernels/overlap/chunk.h"

struct mt_overlap_transfer {
    int peer; /* the receiver, or the sender */
    bool sends;
    struct mt_overlap_put box; /* the sender's */
};
struct mt_overlap_waves {
    struct mt_arena arena;
    struct mt_overlap_chunks chunks; /* this rank's; what they await and put is in the waves */
    struct mt_overlap_transfer *transfers;
    int *end;   /* [nwaves]: of the wave's transfers; a wave may have none on this rank */
    int *after; /* [nwaves]: of how many chunks a wave sends; it is not less than that of the wave before */
    int *needs; /* [chunks.nchunks]: how many waves come before a chunk; not less than that of the chunk before */
    int nwaves, ntransfers, transfers_capacity;
};

/* most_rows: of a chunk, equal on all ranks. */
void mt_overlap_waves_make(const struct mt_overlap *problem, int me, int64_t most_rows, struct mt_overlap_waves *waves);
void mt_overlap_waves_release(struct mt_overlap_waves *waves);

/* As mt_overlap_chunk_rows, for all ranks: by the one with most columns, and large GPUs. Groups stay as they are. */
int64_t mt_overlap_common_rows(const struct mt_overlap *problem);

#endif
