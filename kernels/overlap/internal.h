/* Inside overlapped forms: how generators write schedules, and number flags. */
#ifndef MT_KERNELS_OVERLAP_INTERNAL_H
#define MT_KERNELS_OVERLAP_INTERNAL_H

#include "kernels/overlap/overlap.h"

/* A wait for the next tile or put that is added. */
void mt_overlap_await(struct mt_overlap_schedule *schedule, struct mt_overlap_wait wait);
int mt_overlap_add_tile(struct mt_overlap_schedule *schedule, struct mt_overlap_tile tile); /* its number */
void mt_overlap_add_put(struct mt_overlap_schedule *schedule, struct mt_overlap_put put);

static inline int64_t mt_overlap_pieces(int64_t extent, int64_t most) {
    return (extent + most - 1) / most;
}
/* Piece i of `extent` in pieces of at most `most`: where it begins; *size. */
static inline int64_t mt_overlap_piece(int64_t extent, int64_t most, int64_t i, int64_t *size) {
    *size = extent - i * most < most ? extent - i * most : most;
    return i * most;
}
/* Pieces of a share's rows: groups, where the problem has them, else of at most `most`. */
int64_t mt_overlap_row_pieces(const struct mt_overlap *problem, int64_t rows, int64_t most);
int64_t mt_overlap_row_piece(const struct mt_overlap *problem, int64_t rows, int64_t most, int64_t i, int64_t *size);
int64_t mt_overlap_start(const int64_t *shares, int rank); /* the sum of the shares before */

/* Whether rank s puts data to r, which awaits it. */
bool mt_overlap_sends(const struct mt_overlap *problem, int s, int r);

/* Make the call of a GEMM of m by n by k, whose attributes are set but for the groups of axes, and that has operands at
 * `data`. */
struct mt_overlap_gemm;
void mt_overlap_gemm_call(struct mt_overlap_gemm *gemm, const int64_t mnk[3], enum mt_type in, enum mt_type out,
                          void *data);

/* Ready flags of this rank to those that put to it and get nothing back. */
void mt_overlap_add_ready(const struct mt_overlap *problem, int me, struct mt_overlap_schedule *schedule);
/* Before a put of this rank to `peer`: await its ready flag, if it sends one. */
void mt_overlap_await_ready(const struct mt_overlap *problem, int me, int peer, struct mt_overlap_schedule *schedule);

int64_t mt_overlap_gather_flags(const struct mt_overlap *problem);
void mt_overlap_gather(const struct mt_overlap *problem, int me, struct mt_overlap_schedule *schedule);
int64_t mt_overlap_sum_flags(const struct mt_overlap *problem);
void mt_overlap_sum(const struct mt_overlap *problem, int me, struct mt_overlap_schedule *schedule);

#endif
