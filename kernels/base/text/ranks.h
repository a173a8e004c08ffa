/* Lists of ranks as text. */
#ifndef MT_KERNELS_BASE_TEXT_RANKS_H
#define MT_KERNELS_BASE_TEXT_RANKS_H

#include "kernels/base/arena.h"

#define MT_RANKS_RANGES 32 /* that a line has room for */

/* "4 0-3 8", in the order of the list: ranks that follow one another are a range. Of a list with more than `most`
 * ranges the beginning, and the number of all ranks: "0 2 4 ... (500 ranks)". */
const char *mt_ranks_text(const int *ranks, int n, int most, struct mt_arena *arena);

#endif
