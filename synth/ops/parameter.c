/* Inputs and parameters by the labels of their axes. */
#include <assert.h>
#include <string.h>

#include "synth/ops/ops.h"

/* Read "embed,three heads": the labels of the axes, and the ends of the dimensions, which commas separate. */
static void parse_axes(const struct mt_graph *graph, const char *axes, struct mt_value *shape) {
    char name[64];
    while (*axes) {
        size_t n = strcspn(axes, " ,");
        assert(n > 0 && n < sizeof name && shape->naxes < MT_MAX_AXES);
        memcpy(name, axes, n);
        name[n] = 0;
        int label = mt_graph_find_label(graph, name);
        assert(label >= 0 && "the label was not made");
        shape->label[shape->naxes++] = label;
        axes += n;
        if (*axes != ' ') shape->group_end[shape->ndims++] = shape->naxes;
        if (*axes) axes++;
    }
}

int mt_graph_input(struct mt_graph *graph, const char *name, enum mt_type type, const char *axes) {
    struct mt_value shape = {0};
    parse_axes(graph, axes, &shape);
    return mt_graph_value(graph, name, MT_VALUE_INPUT, type, shape.naxes, shape.label);
}

int mt_graph_param(struct mt_graph *graph, const char *name, const char *axes, enum mt_init init, double init_std) {
    struct mt_value shape = {0};
    parse_axes(graph, axes, &shape);
    assert(mt_graph_find_value(graph, name) < 0 && "two parameters of one name");
    int id = mt_graph_value(graph, name, MT_VALUE_STATE, graph->acc, shape.naxes, shape.label);
    struct mt_value *v = &graph->values[id];
    v->param = true;
    v->init = init;
    v->init_std = init_std;
    v->ndims = shape.ndims;
    memcpy(v->group_end, shape.group_end, sizeof v->group_end);
    v->decay = v->ndims >= 2;
    if (graph->type == graph->acc) return id;
    return mt_op_cast(graph, mt_arena_printf(&graph->arena, "%s/cast", name), id, graph->type);
}
