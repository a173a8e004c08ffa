/* Implementations of ReduceScatter and AllGather by NCCL, whose own take blocks of equal sizes only.
 *
 *   native   equal blocks: NCCL's own
 *   padded   NCCL's own on blocks padded to the longest, with a copy before and after
 *   rooted   a Reduce to, or a Broadcast from, each block's rank, all in one group call
 *   pairs    AllGather as Send and Recv between all pairs
 *
 * Costs follow the alpha-beta model. For n blocks of M bytes at most, m at least and T in total, a rank moves (n - 1) M
 * bytes if they are padded, else T - m; see nccl_unequal.c. */
#ifndef MT_KERNELS_COLL_NCCL_UNEQUAL_H
#define MT_KERNELS_COLL_NCCL_UNEQUAL_H

#include "kernels/coll/coll.h"

enum mt_nccl_impl { MT_NCCL_AUTO, MT_NCCL_NATIVE, MT_NCCL_PADDED, MT_NCCL_ROOTED, MT_NCCL_PAIRS, MT_NCCL_NIMPLS };

/* Whether the implementation can run this ReduceScatter or AllGather. */
bool mt_nccl_impl_serves(enum mt_nccl_impl impl, const struct mt_coll *problem);

/* Seconds within a host, by the model of nccl_unequal.c. */
double mt_nccl_impl_cost_s(enum mt_nccl_impl impl, const struct mt_coll *problem);

/* The cheapest implementation; the same on all ranks. */
enum mt_nccl_impl mt_nccl_impl_choose(const struct mt_coll *problem);

#endif
