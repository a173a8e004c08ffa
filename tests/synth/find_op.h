/* Operators of a graph by name. */
#ifndef MT_TESTS_SYNTH_FIND_OP_H
#define MT_TESTS_SYNTH_FIND_OP_H

#include <string.h>

#include "synth/graph/graph.h"

static inline int find_op(const struct mt_graph *graph, const char *name) {
    for (int o = 0; o < graph->nops; o++)
        if (!strcmp(graph->ops[o].name, name)) return o;
    return -1;
}

#endif
