/* Overlapped computation and communication: a GEMM whose operand is gathered, or whose result is reduced, tile by tile,
 * by one-sided puts between ranks (kernels/window/window.h).
 *
 *   form      before                                       after
 *   gather    rank r: rows[r] rows of A, its columns of B  its columns of A B                  AllGather+GEMM
 *   scatter   rank r: its columns of A, its rows of B      its rows of the sum of all A B      GEMM+ReduceScatter
 *   reduce    as scatter                                   all rows of the sum                 GEMM+AllReduce
 *
 * What ranks do is data, a *schedule* for each rank, which kernels, CPU execution, simulator and checker
 * (synth/check/overlap) all read:
 *
 *   tile    a rectangle that one worker computes, once the flags that it awaits have their counts
 *   put     a box of a buffer, copied to a peer's window when its tile is done; then the peer's flag is raised by 1.
 *           Without rows it is the flag alone
 *   flag    a counter of a rank, raised by one rank only, and never reset: a wait in epoch e is for (e - lag) * count
 *   epoch   which run of the instruction it is, from 1; the same on all ranks
 *   staging the buffers in the window, in `copies`: epoch e uses copy e % copies; two, so by parity
 *   slab    a range of K. A gather may put rows slab by slab; a GEMM's tile begins at a position in K, and goes on at 0
 *           after the end; a wait has a position too, and only what the tile reads from there on is read after it: so a
 *           tile begins when its first slab is there
 *
 * A rank runs its puts that have no tile, then its tiles in order, each followed by its puts; several workers take
 * tiles in that order. A run ends when all its tiles and puts are done.
 *
 * A rank writes into a peer's staging of epoch e only if that peer has ended epoch e - 2. Mostly it knows, since it
 * awaited something in epoch e - 1 that the peer sent in epoch e - 1. Where nothing comes back, the peer sends a
 * *ready* flag when it begins an epoch, and puts await that of the epoch before (lag 1).
 *
 * Partial sums are rounded to the wire type, put into a slot of their owner, and added there in the order of ranks in
 * the accumulation type (of two ranks some GPUs' GEMMs add the peer's to their own, before that is rounded): equal bits
 * in every run. With `direct`, each rank of a reduce owns all rows: less latency, n
 * times the bytes.
 *
 * A gather's tile has rows of one rank, so each column of B is read once for every rank. Of a GEMM with few rows the
 * time is that of reading B: with `joint` a tile's rows are those of all ranks, as far as it reaches, and it awaits all
 * puts of them. Its rows are contiguous in STAGED alone, so a rank puts its own rows there too, last; they have neither
 * slabs nor groups.
 *
 * A gather's tiles on a CPU, those of a rank's own rows too, are multiplied slab by slab, and the slabs' sums are added
 * in the tile's order, in the accumulation type: so bits depend on how many slabs there are and on where tiles begin,
 * which the problem says, but not on what arrives when, and are the same in every run. One kernel of a GPU adds on in
 * one accumulator, in the tile's order, or in that of the tile with which it shares B, which depends on the number of
 * multiprocessors: of tiles that are begun at 0 its bits are those without slabs.
 *
 * A gather's GEMM may have an epilogue, as fused_matmul has them (kernels/op/ops.def), and sums a bias. It is not of
 * the problem: schedules are the same without. Of a gather each rank applies it to a tile of its own columns when the
 * tile's sums are complete. Of sums, who adds the slots of a tile adds the bias of its columns too, in the accumulation
 * type, before the sum is rounded (a GEMM that adds the peer's sums adds it to one of the two, which it rounds before,
 * or to the rounded sum): the owner of the rows, of a direct reduce each rank; who copies a sum adds nothing. So of a
 * reduce all ranks have the bias, or none.
 *
 *     struct mt_overlap problem = {MT_OVERLAP_GATHER, n,    m,       cols,       k,   rows, shares,
 *                                  MT_BF16, MT_BF16, MT_BF16, {128, 256}, 512};
 *     mt_overlap_schedule(&problem, rank, &schedule);
 *     mt_overlap_run(&problem, &schedule, window, 0, epoch, &operands, &err);
 *     mt_overlap_schedule_release(&schedule); */
#ifndef MT_KERNELS_OVERLAP_OVERLAP_H
#define MT_KERNELS_OVERLAP_OVERLAP_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/arena.h"
#include "kernels/base/err.h"
#include "kernels/base/number/type.h"
#include "kernels/op/op.h"

enum mt_overlap_form { MT_OVERLAP_GATHER, MT_OVERLAP_SCATTER, MT_OVERLAP_REDUCE, MT_OVERLAP_NFORMS };

/* Implementations, of devices that have several (GPUs). */
enum mt_overlap_how {
    MT_OVERLAP_ANY,    /* the device chooses */
    MT_OVERLAP_CHUNKS, /* copy engines, and a GEMM for each chunk of tiles */
    MT_OVERLAP_FUSED,  /* one kernel, which multiplies, puts and waits */
    MT_OVERLAP_NCCL,   /* NCCL, and a GEMM for each chunk (wave.h): where a peer's memory is out of reach */
    MT_OVERLAP_APART,  /* none: of a choice (choice.h) alone */
    MT_OVERLAP_NHOWS
};

/* The problem, equal on all ranks of the group, which are numbered by place. */
struct mt_overlap {
    enum mt_overlap_form form;
    int n;
    int64_t m, cols, k;    /* of the whole GEMM: A is m by k, B is k by cols */
    const int64_t *rows;   /* [n]: shares of m: who has rows of A (gather), who adds and gets rows of the sum */
    const int64_t *shares; /* [n]: of cols (gather) or of k */
    enum mt_type type;     /* of A and B */
    enum mt_type out;      /* of the result */
    enum mt_type wire;     /* of what is sent; gather: equal to type */
    int64_t tile[2];       /* most rows and columns of a tile */
    int64_t chunk;         /* gather: most rows of a put; with slabs: rows that are put slab by slab at a time */
    /* Rows of the tiles, and of a gather's puts, of each share one after the other, the last again and again: at most
     * tile[0] each; null: tile[0] rows, and puts of `chunk`. */
    const int64_t *groups;
    int ngroups;
    int slabs;    /* gather: into how many K is cut for puts, about (mt_overlap_nslabs); 0 or 1: rows are put whole */
    int mix;      /* scatter, reduce: after so many tiles for peers comes one of a rank's own; 0: all at the end */
    bool direct;  /* reduce: every rank adds all rows */
    bool keep;    /* gather: A as a whole is a result as well, of all ranks */
    bool engines; /* gather in one kernel: copy engines put, not the kernel */
    bool joint;   /* gather: a tile spans the rows of all ranks; a rank puts its own rows into its own staging too */
    bool tf32;    /* operands of f32 are rounded to tf32 (op.h) */
    /* The implementation that tiles were chosen for, and that devices which have it try first. */
    enum mt_overlap_how how;
};

const char *mt_overlap_name(enum mt_overlap_form form); /* "AllGather+GEMM", ... */

/* The matrices of a rank. */
enum mt_overlap_buffer {
    MT_OVERLAP_A,       /* its operand */
    MT_OVERLAP_PARTIAL, /* its partial sums for others, of the wire type: m by cols */
    MT_OVERLAP_OUT,     /* its result */
    MT_OVERLAP_WHOLE,   /* A, gathered, as a result */
    MT_OVERLAP_STAGED,  /* window: A, gathered; a rank's own rows stay in A, unless its tiles are joint */
    MT_OVERLAP_SLOTS,   /* window: partial sums of the rows it owns, a block of rows for each rank */
    MT_OVERLAP_RESULT,  /* window: the sums of all rows, rounded to the wire type */
    MT_OVERLAP_NBUFFERS
};
static inline bool mt_overlap_in_window(enum mt_overlap_buffer buffer) {
    return buffer >= MT_OVERLAP_STAGED;
}
/* Rows and columns of a rank's buffer; both 0 where it has none. */
void mt_overlap_extent(const struct mt_overlap *problem, int rank, enum mt_overlap_buffer buffer, int64_t extent[2]);
enum mt_type mt_overlap_type(const struct mt_overlap *problem, enum mt_overlap_buffer buffer);
/* The rows that a rank owns: *first and how many. */
int64_t mt_overlap_owned(const struct mt_overlap *problem, int rank, int64_t *first);
/* Whether a rank has a part in the sums: its share is not empty. */
static inline bool mt_overlap_contributes(const struct mt_overlap *problem, int rank) {
    return problem->shares[rank] > 0;
}

/* A gather's slabs: how many there are, at most `slabs`; those of other forms are one. Slab i begins at the column of A
 * that is returned, and has *cols: equally many, but for the last; whole multiples of 64 where K has as many.
 *
 * By copy engines, which take long to begin a put, slabs are few and *halved*: each has half of the columns that are
 * left, the last as many as the one before. So the last, which is multiplied when all has come, is small. A chunk is
 * put slab by slab, each in one put.
 *
 * Between two H100, beside a GEMM, puts of one range of columns of all rows were slow; so with slabs a chunk is cut
 * into *strips*, where tiles and chunks begin, both counted from the begin of the share. A put is a slab of a strip,
 * with a flag of its own. Of a chunk in step 0 one slab of each strip is put, in step 1 another of each, and so on:
 * slab (i + step) % slabs where the strip's rows are in the share's i-th tile. So at any time all slabs are on their
 * way; a tile begins with its strip's first. Slabs are *rotated* so only where the kernel puts, and all but the last
 * have a multiple of 64 columns; else step i is slab i of every strip. Groups, where there are any, are chunks, strips
 * and tiles. */
enum { MT_OVERLAP_MOST_SLABS = 256, MT_OVERLAP_SLAB_UNIT = 64 };
int mt_overlap_nslabs(const struct mt_overlap *problem);
int64_t mt_overlap_slab(const struct mt_overlap *problem, int i, int64_t *cols);
bool mt_overlap_rotates(const struct mt_overlap *problem);
static inline bool mt_overlap_halves(const struct mt_overlap *problem) {
    return problem->engines && problem->slabs > 1;
}

/* Where a copy of a buffer of the window lies, and a flag; in bytes, equal on all ranks. Memory of flags must be zero
 * before epoch 1. */
enum { MT_OVERLAP_COPIES = 2 };
int64_t mt_overlap_place(const struct mt_overlap *problem, enum mt_overlap_buffer buffer, int copy);
/* The flags of a rank: those of data first, then the ready flags, one a rank. */
int mt_overlap_nflags(const struct mt_overlap *problem);
int64_t mt_overlap_flag_place(const struct mt_overlap *problem, int flag);
/* A word of the rank's own, which devices that count epochs in their memory keep there. */
int64_t mt_overlap_epoch_place(const struct mt_overlap *problem);
int64_t mt_overlap_window_bytes(const struct mt_overlap *problem);

struct mt_overlap_wait {
    int flag;
    int from;  /* the rank that raises it */
    int count; /* puts that raise it in an epoch */
    int lag;   /* 0: those of this epoch, 1: of the epoch before */
    /* Of a GEMM's tile: a column of A. The tile reads columns in the order tile.k, ..., K - 1, 0, ..., tile.k - 1; this
     * one, and what follows it in that order, is read only after the wait: tile.k is before all. Who cannot wait within
     * a tile waits before it. Of others 0: before all. */
    int64_t k;
};

enum mt_overlap_tile_kind {
    MT_TILE_MATMUL, /* to[row, col] = from[from_row, all of k] B[all of k, col]; B's column is that of `to` */
    MT_TILE_ADD,    /* to[row, col] = the sum over contributing ranks s of slot s [from_row, col] */
    MT_TILE_COPY,   /* to[row, col] = from[from_row, col]: a sum, or rows of A */
};
struct mt_overlap_tile {
    enum mt_overlap_tile_kind kind;
    enum mt_overlap_buffer from, to;
    int64_t from_row, row, rows, col, cols;
    /* Of a GEMM: the position in K at which it begins; it goes on at 0 after the end. 0, or the begin of a slab where
     * slabs are rotated, and then a multiple of 64; 0 for a rank's own rows, which await nothing. */
    int64_t k;
    int first_wait, nwaits;
};
struct mt_overlap_put {
    int tile; /* after which; -1: at the start */
    int peer; /* may be the rank itself */
    int flag; /* of the peer */
    enum mt_overlap_buffer from, to;
    int64_t from_row, to_row, rows, col, cols; /* rows 0: the flag alone */
    int first_wait, nwaits;
};

/* One rank's part. Puts are in the order of their tiles. */
struct mt_overlap_schedule {
    struct mt_arena arena;
    struct mt_overlap_tile *tiles;
    struct mt_overlap_put *puts;
    struct mt_overlap_wait *waits; /* of tiles and puts: [first_wait, + nwaits) */
    int ntiles, nputs, nwaits, tiles_capacity, puts_capacity, waits_capacity;
    int copies; /* of staging; equal on all ranks, at most MT_OVERLAP_COPIES */
    /* 0: as mt_overlap_schedule makes it. Who takes away from it or changes it says with another number how: devices
     * keep what they make of a schedule by its problem, rank and part. */
    int part;
};
#define MT_OVERLAP_SCHEDULE_INIT                                                                                       \
    { 0 }

/* MT_EINPUT for a problem that is none: shares that do not sum up, an unknown type, a tile without rows, a gather of
 * rows without columns (k = 0), slabs, engines or joint tiles of another form, joint tiles with slabs or engines, more
 * flags than an int counts. */
enum mt_status mt_overlap_check(const struct mt_overlap *problem, struct mt_err *err);
/* Fill in what a problem leaves open: its tiles, its puts of a tile's rows, and whether a small reduce is direct. */
void mt_overlap_choose_tiles(struct mt_overlap *problem);
/* Whether two problems are equal in everything. */
bool mt_overlap_equal(const struct mt_overlap *a, const struct mt_overlap *b);

/* Whether MT_OVERLAP_FUSED runs such a problem at all, on a GPU that has it (compute capability 9.0) with a tile that
 * it has: 128 by 256, 192, 128 or 64, 256 by 128, or 64 by 256, 128 or 64. Transposes are those of the operands.
 * Copy engines await nothing, so all ranks must have something to send to each other (ready flags). Problems of few
 * rows have tiles of their own, all ranks a part in the sums, no transposed A and result, and keep no operand. */
bool mt_overlap_fused_serves(const struct mt_overlap *problem, int me, bool trans_a, bool trans_b, bool trans_out);
/* Whether one kernel runs the problem by its form for few rows: a joint gather or a direct reduce of at most
 * 256 rows, which one tile of 64 or 128 columns spans, all of one half type. Its tiles run at once, where they are as
 * many as multiprocessors or fewer: each then on several, which divide K. */
bool mt_overlap_fused_few(const struct mt_overlap *problem);
/* Tile `i` of those that such a problem may have, all rows by 64 and by 128; false: there are no more, or the problem
 * has too many rows or another form. */
bool mt_overlap_few_tile(const struct mt_overlap *problem, int i, int64_t tile[2]);
/* Whether one kernel adds what the peer sends to a rank's own tiles as it stores them: the sums of two ranks, in one
 * half type. Others are added beside, from slots in memory. */
bool mt_overlap_fused_adds(const struct mt_overlap *problem);
/* Tile `i` of those that are worth trying on GPUs of so many multiprocessors: 128 by 256 and 128 by 128, and where the
 * rank that multiplies most has too few of the latter for its multiprocessors, smaller ones; false: there are no more.
 */
bool mt_overlap_fused_tile(const struct mt_overlap *problem, int i, int multiprocessors, int64_t tile[2]);
/* How long a multiprocessor takes for a tile, beside one of 128 by 256: the longer of multiplying it and of loading its
 * operands. 0: there is no such tile. */
double mt_overlap_fused_time(const int64_t tile[2]);

/* Whether the GEMM may have an epilogue of fused_matmul: in a gather a bias, a bias with an activation, or an
 * activation's slope; in sums a bias. All is of one type but what is sent, the result does not lie transposed, and it
 * is not one of few rows, which one kernel runs. Lowering, checker and devices ask this. */
bool mt_overlap_takes_epilogue(const struct mt_overlap *problem, bool trans_out, enum mt_op_kind epilogue);

/* Make rank `me`'s schedule of a problem that has been checked. */
void mt_overlap_schedule(const struct mt_overlap *problem, int me, struct mt_overlap_schedule *schedule);
void mt_overlap_schedule_release(struct mt_overlap_schedule *schedule);

/* ---- on a CPU ---- */

struct mt_window;
struct mt_overlap_operands {
    const void *a, *b;                /* a is [rows, k] or with trans_a (not to be gathered) [k, rows]; */
    bool trans_a, trans_b, trans_out; /* b is [k, columns] or with trans_b [columns, k]; */
    void *whole;                      /* [m, k], where it is kept */
    void *out;                        /* out is [rows, columns] or with trans_out [columns, rows] */
    enum mt_op_kind epilogue;         /* one that mt_overlap_takes_epilogue; 0: none */
    const void *extra;                /* its input: a bias [columns of out], or x [rows, columns] like out */
    void *pre;                        /* before an activation: [rows, columns] */
    const struct mt_backend *matmul;  /* runs the tiles */
    const struct mt_backend *ops;     /* runs an epilogue's operators: plain C; without one null */
    void *scratch;                    /* of mt_overlap_scratch_bytes, 64-byte aligned */
    const int *ranks;                 /* [n]: the window's ranks of the problem's; null: the same */
    const int *names;                 /* [window's ranks]: for messages; null: their numbers */
    const char *what;                 /* for messages: "AllGather+GEMM h.0.mlp.c_fc" */
    double computed_s;                /* out: in tiles, without waits and puts */
};
/* `scratch_bytes`: what the backend needs for a call of a tile. */
int64_t mt_overlap_scratch_bytes(const struct mt_overlap *problem, int me, enum mt_op_kind epilogue,
                                 int64_t (*scratch_bytes)(void *context, const struct mt_call *call), void *context);

/* Run one rank's schedule of epoch `epoch` on the window, from byte `base` on; all ranks of the problem do so. Of tiles
 * that are multiplied slab by slab, each slab awaits what its columns need. Waits end as those of the window do;
 * messages name the tile and the peer. */
enum mt_status mt_overlap_run(const struct mt_overlap *problem, const struct mt_overlap_schedule *schedule,
                              struct mt_window *window, int64_t base, int64_t epoch,
                              struct mt_overlap_operands *operands, struct mt_err *err);

/* What a device's stream runs (kernels/device/device.h). On a GPU the operands are in its memory, and so is the window;
 * there are several implementations. */
struct mt_comm;
struct mt_overlap_call {
    const struct mt_overlap *problem;
    const struct mt_overlap_schedule *schedule;
    struct mt_window *window;
    int64_t base;
    struct mt_comm *comm; /* whose ranks are the window's, for MT_OVERLAP_NCCL, which takes one that queues; or null */
    /* Of the memory from `base` on: of its last run; this one counts it up, when it runs (CPU) or is queued (GPU). A
     * GPU counts along in its own memory, and a captured run takes the epoch's parity from here. */
    int64_t *epoch;
    /* ANY: as the problem says, or what else the device has; others: that one, or none. The same in all runs on a
     * memory of flags. */
    enum mt_overlap_how how;
    /* Not FUSED: most rows of a GEMM; 0: a group, or the device chooses. NCCL: equal on all ranks. */
    int64_t chunk_rows;
    struct mt_overlap_operands operands;
};
enum mt_status mt_overlap_call_run(struct mt_overlap_call *call, struct mt_err *err);

#endif
