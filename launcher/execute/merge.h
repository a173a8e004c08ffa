/* Merge consecutive independent calls of one kind into one multi-tensor call, where the device supports it: a hundred
 * small updates become a few launches. The order of dependent calls is kept. */
#ifndef MT_LAUNCHER_EXECUTE_MERGE_H
#define MT_LAUNCHER_EXECUTE_MERGE_H

#include "kernels/base/arena.h"
#include "kernels/op/op.h"

/* Calls [0, n) of a stream, in order.
 *
 * merges[kind]   whether the device performs several calls of that kind as one
 * separate[i]    call i must not join the call before it: it waits for an event, or another stream waits for that call
 * many[n]        out: 1 for a call that stays alone; for the first of a merged group the group's size, and calls[i]
 * then performs the whole group; 0 for the others of the group, which are unchanged
 *
 * Operands of merged calls are allocated in the arena. */
void mt_merge_calls(struct mt_call *calls, const bool merges[MT_NOPS], const bool *separate, int n,
                    struct mt_arena *arena, int *many);

#endif
