/* How long an overlapped GEMM takes: its schedules simulated in time, in milliseconds of a host's time each.
 *
 *     struct mt_overlap_rates rates[n];                    // measured, or nominal
 *     mt_overlap_predict(&problem, schedules, rates, &links, &prediction, err);
 *     for (int i = 0; mt_overlap_candidate(&problem, i, &tried); i++)
 *         mt_overlap_predict_problem(&tried, rates, &links, &prediction, err);
 *
 * Workers of a rank take tiles in order, or those that are multiplied, and movers the others; one that awaits flags
 * holds its tile, at its start or at a position in K. A rank sends its puts in order, so many at a time, which share
 * the links and what ranks send and receive. Where a rank computes and communicates at the same time, both are slower.
 * The run begins at the same time on all ranks, which have ended the epoch before. */
#ifndef MT_PLANNER_OVERLAP_PREDICT_H
#define MT_PLANNER_OVERLAP_PREDICT_H

#include "kernels/overlap/overlap.h"

struct mt_overlap_rates { /* of a rank */
    int workers;          /* tiles at a time: multiprocessors that compute; on a CPU 1 */
    double begin_s;       /* before the first tile and put: of one kernel its launch */
    double flops;         /* of one worker, in the K loop, while all work */
    double tile_s;        /* of each tile beside that: prologue, epilogue */
    double adds_s;        /* of each tile of one kernel that adds, where these come one after the other (mix 0) */
    double sum_s;         /* of each tile that is added or copied, beside its bytes */
    double memory_Bps;    /* of one worker, or mover, that adds slots or copies; all put to the rank itself */
    bool whole_tiles;     /* a tile that is cut short takes as long as a whole one */
    bool within;          /* a tile waits at positions in K; else for all at its start */
    bool adds_slabs;      /* slabs' sums are added in memory */
    int movers;           /* that add and copy tiles, so many at a time, while workers multiply; 0: workers do */
    /* A worker that is a whole GPU multiplies a tile in units of so many rows and columns, `units` at a time: in whole
     * waves. 0: in one piece. */
    int64_t unit[2];
    int units;
    int streams;  /* puts at a time */
    double put_s; /* of each put beside its bytes, before them */
    bool holds;   /* a put holds its worker until it is sent: a CPU copies itself */
    /* Puts of a GEMM's tiles that may be unsent before a worker that ends a tile waits: one kernel stores a tile while
     * it multiplies the next, and no more. 0: any number. */
    int unsent;
    double egress_Bps, ingress_Bps;
    /* While it communicates tiles take so many times as long, while it computes puts do; both at least 1. While workers
     * multiply what movers do takes so many times as long; 0 or 1: as long. */
    double compute_slowdown, put_slowdown, moves_slowdown;
};
struct mt_overlap_links {        /* between ranks */
    const double *bandwidth_Bps; /* [n * n], from * n + to */
    const double *latency_s;     /* [n * n]: of a put with its flag */
};

struct mt_overlap_prediction {
    double s;         /* until the last rank ends */
    double compute_s; /* of the slowest rank, if nothing were awaited or slowed down */
    double waited_s;  /* of that rank which waited longest: all its workers without work, on average */
};

/* The schedules must have been checked; a circle of waits is MT_EBUG. */
enum mt_status mt_overlap_predict(const struct mt_overlap *problem, const struct mt_overlap_schedule *schedules,
                                  const struct mt_overlap_rates *rates, const struct mt_overlap_links *links,
                                  struct mt_overlap_prediction *prediction, struct mt_err *err);

/* Puts of a gather that one kernel of `blocks` blocks has on their way at a time, or copy engines; of other forms, of
 * tiles. */
int mt_overlap_fused_streams(const struct mt_overlap *problem, int blocks);
/* Tiles that are added or copied at a time by the movers of one kernel of so many blocks: beside what these multiply.
 */
int mt_overlap_fused_movers(const struct mt_overlap *problem, int blocks);
/* Bytes a second of all movers of a rank where there are no tiles to multiply, of a device with such a rate of memory;
 * and how many times as long they take beside tiles. */
double mt_overlap_fused_moves_Bps(const struct mt_overlap *problem, int rank, double memory_Bps);
extern const double mt_overlap_fused_moves_slowdown;
/* Of one kernel on so many multiprocessors: a tile of each. */
int mt_overlap_fused_unsent(const struct mt_overlap *problem, int blocks);

/* Of one kernel for few rows (few.c), on a rank with so many multiprocessors. */
struct mt_overlap_few {
    int workers, parts; /* tiles at a time; multiprocessors that divide K of each */
    double bytes;       /* of B, which these read in a tile's time */
    double again;       /* bytes that memory could read while they read A, all of it for each tile, from the cache */
    double beside_s;    /* of a tile's time: the launch, its store, and the sum of parts */
};
struct mt_overlap_few mt_overlap_few_of(const struct mt_overlap *problem, int rank, int multiprocessors);
/* Fill in the rates where a tile takes tile_s, with all that; but slowdowns and what it sends and receives in all.
 * memory_Bps is of the whole device before. */
void mt_overlap_few_rates(const struct mt_overlap *problem, int rank, const struct mt_overlap_few *few, double tile_s,
                          struct mt_overlap_rates *rates);

/* Candidate `i` of what the problem leaves open: its chunk, slabs and engines, or its mix and direct; false: there are
 * no more. */
bool mt_overlap_candidate(const struct mt_overlap *problem, int i, struct mt_overlap *candidate);
/* Those in one kernel for few rows, with a tile of these: a joint gather with up to 64 puts to each rank, a direct
 * reduce. */
bool mt_overlap_few_candidate(const struct mt_overlap *problem, int i, struct mt_overlap *candidate);

/* Choose groups of whole waves, unequal where that is faster (groups.c): tiles of all columns, in *problem's groups,
 * which are in the arena. */
enum mt_status mt_overlap_best_groups(struct mt_overlap *problem, const struct mt_overlap_rates *rates,
                                      const struct mt_overlap_links *links, struct mt_arena *arena,
                                      struct mt_overlap_prediction *prediction, struct mt_err *err);
/* Rows of a wave of the rank that has most to multiply; where it has no units, of a tile. */
int64_t mt_overlap_wave_rows(const struct mt_overlap *problem, const struct mt_overlap_rates *rates);
/* Simulate the schedules of a problem. */
enum mt_status mt_overlap_predict_problem(const struct mt_overlap *problem, const struct mt_overlap_rates *rates,
                                          const struct mt_overlap_links *links,
                                          struct mt_overlap_prediction *prediction, struct mt_err *err);

#endif
