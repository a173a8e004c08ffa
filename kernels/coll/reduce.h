/* The arithmetic of collectives: what a communicator does with data as it goes out and comes in. */
#ifndef MT_KERNELS_COLL_REDUCE_H
#define MT_KERNELS_COLL_REDUCE_H

#include "kernels/coll/coll.h"

/* to[i] = to[i] + from[i], or their maximum; computed in to's type (bf16, f16: in f32, then rounded). A NaN wins over
 * numbers, +0 over -0, so that the order of operands does not matter. No integers. */
void mt_coll_reduce(enum mt_reduce reduce, enum mt_type to_type, void *to, enum mt_type from_type, const void *from,
                    int64_t count);

/* Round to `wire` and back, in place. */
void mt_coll_round(enum mt_type wire, enum mt_type type, void *data, int64_t count);

/* What changes no result: zeros, or -infinity for a maximum. */
void mt_coll_neutral(enum mt_reduce reduce, enum mt_type type, void *data, int64_t count);

#endif
