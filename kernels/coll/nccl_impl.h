/* How NCCL, whose own ReduceScatter and AllGather take equal blocks, is asked for blocks of unequal sizes.
 *
 *   native   equal blocks: NCCL's own
 *   padded   NCCL's own of blocks as long as the longest, between two copies
 *   rooted   a Reduce to, or a Broadcast from, each block's rank, all in one group
 *   pairs    a gather by sends and receives between all
 *
 * Costs are alpha + beta: of n blocks, the longest of M bytes and all of T, a rank moves (n - 1) M when they are
 * padded, and T less the least of them otherwise; see nccl_impl.c. */
#ifndef MT_KERNELS_COLL_NCCL_IMPL_H
#define MT_KERNELS_COLL_NCCL_IMPL_H

#include "kernels/coll/coll.h"

enum mt_nccl_impl { MT_NCCL_AUTO, MT_NCCL_NATIVE, MT_NCCL_PADDED, MT_NCCL_ROOTED, MT_NCCL_PAIRS, MT_NCCL_NIMPLS };

/* Whether a ReduceScatter or AllGather can go so. */
bool mt_nccl_impl_serves(enum mt_nccl_impl way, const struct mt_coll *problem);

/* Seconds within a host, by the rule's figures. */
double mt_nccl_impl_cost_s(enum mt_nccl_impl way, const struct mt_coll *problem);

/* The cheapest; the same on all ranks. */
enum mt_nccl_impl mt_nccl_impl_choose(const struct mt_coll *problem);

#endif
