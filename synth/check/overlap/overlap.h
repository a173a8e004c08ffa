/* The proof of an overlapped instruction: that the schedules of all ranks (kernels/overlap/overlap.h) compute the
 * product, in every epoch, in whatever order flags let tiles and puts run.
 *
 *   1. every tile multiplies the rows that its place asks for, every put moves elements to the place that means the
 * same, every sum adds each contribution once                                                              (meaning.c)
 *   2. no two writes of an epoch to a buffer overlap, and a rank's tiles of its result cover it             (cover.c)
 *   3. what a tile or put reads is the rank's own, or written by puts that it awaits; a column of A at once,
 *      or by puts that a wait at an earlier position in K, or at this one, stands for                       (cover.c)
 *   4. a flag has one rank that raises it, as often in an epoch as those who await it say                    (order.c)
 *   5. one worker a rank, which takes tiles in order, never waits forever: waits have no circle              (order.c)
 *   6. a write to a copy of staging comes after the end of the epoch in which its owner read that copy last  (order.c)
 *
 *     st = mt_check_overlap(&problem, schedules, "AllGather+GEMM h.0.attn.qkv", err);
 *
 * It takes from a generator only the schedules. */
#ifndef MT_SYNTH_CHECK_OVERLAP_OVERLAP_H
#define MT_SYNTH_CHECK_OVERLAP_OVERLAP_H

#include "kernels/overlap/overlap.h"

/* schedules[problem->n]. MT_EPROOF with the rank, the tile or put, and what is wrong with it; MT_EINPUT for a problem
 * that is none. */
enum mt_status mt_check_overlap(const struct mt_overlap *problem, const struct mt_overlap_schedule *schedules,
                                const char *what, struct mt_err *err);

#endif
