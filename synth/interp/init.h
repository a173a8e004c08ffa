/* Initial values of states, by global element: equal for any number of ranks and any layout.
 *
 *     mt_init_fill(graph, weight, mt_pvalue_box(&program, value, rank), seed, buffer); */
#ifndef MT_SYNTH_INTERP_INIT_H
#define MT_SYNTH_INTERP_INIT_H

#include "synth/graph/graph.h"
#include "synth/layout/layout.h"

/* Fill `buffer` (dense, of the value's type) with the box's part of the initial value: element i, row-major in the
 * whole value, is a function of (seed, the value's name, i). Rows are filled in parallel. */
void mt_init_fill(const struct mt_graph *graph, int value, const struct mt_box *box, uint64_t seed, void *buffer);

#endif
