/* The parts of a model by the names of its parameters and operators, for those who tell of it by kind of layer.
 *
 *   module    what the parameters "h.0.mlp.c_fc.weight" and ".bias" belong to: "h.0.mlp.c_fc"
 *   section   modules side by side, and the operators among them: "h.0.mlp"
 *   layer     a section whose name has a number: sections of one pattern, "h.*.mlp", are layers of one kind
 *
 *     struct mt_sections sections;
 *     mt_sections_find(graph, &sections);
 *     ... sections.items[sections.of_value[v]].kind ...
 *     mt_sections_release(&sections); */
#ifndef MT_LAUNCHER_SHOW_SECTIONS_H
#define MT_LAUNCHER_SHOW_SECTIONS_H

#include "synth/graph/graph.h"

struct mt_section {
    const char *pattern; /* "h.*.mlp" */
    const char *path;    /* "h.0.mlp" */
    int layer;           /* -1: has no number */
    const char *kind;    /* "attention", "mlp", "embedding", "head", "norm" or "" */
};

struct mt_sections {
    struct mt_arena arena;
    const struct mt_graph *graph;
    struct mt_section *items;
    int count, capacity;
    int *of_value; /* [graph->nvalues]; -1: of none. Gradients and casts are of their parameter's */
};

void mt_sections_find(const struct mt_graph *graph, struct mt_sections *sections);
void mt_sections_release(struct mt_sections *sections);

/* Whether a name is that of a module. */
bool mt_sections_is_module(const struct mt_sections *sections, const char *name);

#endif
