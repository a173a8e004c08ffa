/* Calls that follow one another and need nothing of each other become one, where the device merges their kind:
 * a hundred small updates are a few launches then. What is known of the order of instructions stays true. */
#ifndef MT_LAUNCHER_EXECUTE_MERGE_H
#define MT_LAUNCHER_EXECUTE_MERGE_H

#include "kernels/base/arena.h"
#include "kernels/op/op.h"

/* Calls [0, n) of a stream, in their order. apart[i]: call i does not join the one before it, since it waits for
 * something, or something waits for that one. Calls that a merge has taken in keep what they were, and many[i] is 0 for
 * them; for the first of a merge it is how many there are, and calls[i] is them all; else it is 1. merges[kind]:
 * whether calls of it may be one. The arena gets the operands of merged calls. */
void mt_merge_calls(struct mt_call *calls, const bool merges[MT_NOPS], const bool *apart, int n, struct mt_arena *arena,
                    int *many);

#endif
