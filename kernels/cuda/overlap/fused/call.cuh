/* What fused.cu, its movers and few.cu share: the tables that are their schedule, the call, and flags. The macros are
 * theirs. */
#ifndef MT_KERNELS_CUDA_OVERLAP_CALL_CUH
#define MT_KERNELS_CUDA_OVERLAP_CALL_CUH

#include "kernels/cuda/gemm/mainloop.cuh"
#include "kernels/cuda/window/window.cuh"

/* ---- tables: as tables.c writes them ---- */

struct wait_row {
    int place, count, lag, from; /* place: of the flag, in this rank's part of the window; from: who raises it */
    int slab;                    /* of a tile: the first that is loaded after it; those of a tile come in this order */
};
struct signal_row {
    int peer, place;
};
struct tile_row {
    int staged, from_row, first; /* from A, or from what was gathered; the slab at which it begins, and goes round */
    /* 1: what the peer sent is added, and the sum is stored; with a signal, sent to the peer as well. */
    int adds;
    int to, row, column, more; /* the rank whose map it is stored by, or ALL; more: 1; or EMPTY; 0: there are no more */
    int first_wait, nwaits;    /* before its slabs are loaded */
    int first_ready, nready;   /* before it is stored, or before it is added to */
    int first_signal, nsignals; /* when it is stored, or sent */
};
enum { ALL = -1, EMPTY = 2 }; /* EMPTY: the other tile of a pair has none beside it; nothing is stored */
struct box_row {
    int kind, peer, staged, pieces;     /* peer: a put's; staged: as of a tile */
    int from_row, row, column, columns; /* row: of where it goes */
    int first_wait, nwaits, first_signal, nsignals;
};
enum { PUT, SUM, COPY_SUM, COPY_OPERAND };
struct piece_row {
    int box, row, rows, unused; /* rows of the box */
};

/* ---- the call ---- */

#ifndef EPILOGUE
#define EPILOGUE 0
#endif

enum { MOST_RANKS = 8 };
struct maps {
    tensor_map a, b, staged[2]; /* of both copies of staging */
    /* Gather: a rank's rows of the result; with an activation the second ones are of what is before that, with a slope
     * of what it is taken at. Else this rank's slot there, both copies. */
    tensor_map to[2][MOST_RANKS];
    /* Of tiles that add: what the peer sent, in both copies; this rank's rows of its result, and of where the peer gets
     * sums. */
    tensor_map slot[2], out, peer_sums[2];
};
enum { TILES, PUTS, PIECES, ENDED, GIVEN_UP, DONE }; /* counters: given out; blocks; 1: someone has said so */
struct call {
    char *part[MOST_RANKS]; /* of the window */
    const TYPE *a;
    RESULT *out;
    TYPE *whole;
    u64 *epoch; /* of the last run */
    /* Tiles, puts, other pieces given out; blocks that have ended, or in few.cu take no more; then of each box the
     * pieces that are done. */
    u32 *work;
    const tile_row *tiles;
    const box_row *boxes;
    const piece_row *pieces;
    const wait_row *waits;
    const signal_row *signals;
    i64 staged[2], slots[2], sums[2];               /* places in parts of the window, of both copies */
    int ntiles, nboxes, nputs, npieces, copies, me; /* nputs: the first pieces, of what is put */
    int begun;                                      /* 1: the epoch has been counted up */
    int slabs, k, columns, owned;                   /* of the result; rows that this rank adds */
    u32 adds;                                       /* the ranks that have a part in sums */
    watch w;
    const TYPE *bias; /* [columns], or null */
};

/* What a kernel knows of its epoch. */
struct run {
    const call &c;
    u64 epoch;
    int copy;
};

/* ---- flags ---- */

__device__ inline bool claim(const run &r) {
    return !atomicExch(r.c.work + GIVEN_UP, 1);
}
/* One thread; looks are as far apart as those of level L. */
template <level L> __device__ inline bool await_flag(const run &r, const wait_row &flag) {
    i64 least = ((i64)r.epoch - flag.lag) * flag.count;
    watch w = r.c.w;
    if (flag.from == r.c.me) w.deadline_ns *= 2; /* what this rank awaits of itself awaits a peer, which is named */
    const u64 *word = (const u64 *)(r.c.part[r.c.me] + flag.place);
    return least <= 0 || wait<THREAD, L>(word, (u64)least, w, [&] { return claim(r); });
}
/* One thread, a flag after the other. */
__device__ inline bool await_all(const run &r, int first, int count) {
    bool fine = true;
    for (int i = first; i < first + count && fine; i++) fine = await_flag<THREAD>(r, r.c.waits[i]);
    return fine;
}
/* A warp, a flag a lane: to acquire one takes about a microsecond. */
__device__ inline bool await_together(const run &r, int first, int count) {
    bool fine = true;
    for (int i = (int)threadIdx.x % 32; i < count && fine; i += 32) fine = await_flag<WARP>(r, r.c.waits[first + i]);
    fine = __all_sync(~0u, fine);
    __syncwarp(); /* what a lane has seen, all have */
    return fine;
}
/* A flag has one writer, which raises it once in an epoch: so it is set, as copy engines do, not added to, which over
 * PCIe would not be atomic. */
__device__ inline void raise(const run &r, const signal_row &flag) {
    word_set((u64 *)(r.c.part[flag.peer] + flag.place), r.epoch);
}
__device__ inline void raise_all(const run &r, int first, int count) {
    for (int i = first; i < first + count; i++) raise(r, r.c.signals[i]);
}
/* Count one more of so many, after what this thread has seen; returns whether it is the last. Who releases after that,
 * releases what came before all of them: they are of one GPU, so that only the last needs a fence of the whole system,
 * which takes some microseconds beside stores to peers. */
__device__ inline bool is_last(u32 *done, u32 all) {
    u32 before;
    asm volatile("atom.release.gpu.global.inc.u32 %0, [%1], %2;" : "=r"(before) : "l"(done), "r"(all - 1) : "memory");
    if (before != all - 1) return false;
    asm volatile("fence.acq_rel.sys;" ::: "memory");
    return true;
}

#endif
