/* The axis by which a parameter and its optimizer state are divided over ranks. */
#include "synth/graph/graph.h"

int mt_sharding_axis(const struct mt_graph *graph, int value) {
    enum { FEWER = 4, ENOUGH = 256 };
    int naxes = graph->values[value].naxes, longest = naxes ? 0 : -1;
    for (int a = 1; a < naxes; a++)
        if (mt_value_extent(graph, value, a) > mt_value_extent(graph, value, longest)) longest = a;
    for (int a = 0; a < longest; a++) {
        int64_t extent = mt_value_extent(graph, value, a);
        if (extent >= ENOUGH && extent * FEWER >= mt_value_extent(graph, value, longest)) return a;
    }
    return longest;
}

int mt_sharding_labels(const struct mt_graph *graph, int *labels) {
    int n = 0;
    for (int v = 0; v < graph->nvalues; v++) {
        int axis = graph->values[v].param ? mt_sharding_axis(graph, v) : -1, i = 0;
        if (axis < 0) continue;
        while (i < n && labels[i] != graph->values[v].label[axis]) i++;
        if (i == n) labels[n++] = graph->values[v].label[axis];
    }
    return n;
}
