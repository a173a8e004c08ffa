/* An AllToAll's blocks in memory (mt_coll_call.in_place).
 *
 * Algorithms know two packed messages. In memory a block is
 *   in place   at the piece that is the block, if there is one;
 *   own        what a rank sends to itself: at one place for both messages, that of message 1, unless it is in place in
 *              message 0; so it need not be copied from one to the other;
 *   staged     else: at message[b], after the staged blocks before it.
 *
 *     mt_coll_call_locate(&call, arena_of_the_tensors, &arena); // before the call is queued */
#ifndef MT_KERNELS_DEVICE_IN_PLACE_H
#define MT_KERNELS_DEVICE_IN_PLACE_H

#include "kernels/device/device.h"

/* Replace places in the messages by places in memory: all in elements from `base` on, which both messages become. The
 * call gets its own pieces and its own schedule, in `arena`; its pieces already have addresses. Blocks and base must be
 * apart by whole elements, and base the lowest. Calls that are no AllToAll are left alone. */
void mt_coll_call_locate(struct mt_coll_call *call, void *base, struct mt_arena *arena);

#endif
