/* The arithmetic of collectives: reduction and rounding.
 *
 *     mt_coll_reduce(MT_SUM, MT_F32, sums, MT_BF16, received, count);
 *     mt_coll_round(MT_BF16, MT_F32, sums, count); */
#ifndef MT_KERNELS_COLL_REDUCE_H
#define MT_KERNELS_COLL_REDUCE_H

#include "kernels/coll/coll.h"

/* to[i] = to[i] + from[i], or their maximum; computed in to's type (bf16, f16: in f32, then rounded). The maximum of a
 * NaN and a number is NaN, that of +0 and -0 is +0: the order of operands does not matter. Floating-point types only.
 */
void mt_coll_reduce(enum mt_reduce reduce, enum mt_type to_type, void *to, enum mt_type from_type, const void *from,
                    int64_t count);

/* Round to `wire` and back, in place. */
void mt_coll_round(enum mt_type wire, enum mt_type type, void *data, int64_t count);

/* Fill with the neutral element: 0, or -infinity for a maximum. */
void mt_coll_neutral(enum mt_reduce reduce, enum mt_type type, void *data, int64_t count);

#endif
