/* Initial values of states, by global element: the same numbers for any number of ranks and any layout. */
#ifndef MT_SYNTH_INTERP_INIT_H
#define MT_SYNTH_INTERP_INIT_H

#include "synth/graph/graph.h"
#include "synth/layout/layout.h"

/* Fill `buffer` (dense, of the value's type) with what `box` holds of the value at the start: element i, row-major in
 * the whole value, is a function of (seed, the value's name, i). Rows are filled in parallel. */
void mt_init_fill(const struct mt_graph *graph, int value, const struct mt_box *box, uint64_t seed, void *buffer);

#endif
