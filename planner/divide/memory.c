/* How many micro-batches a choice needs at least: what the backward pass reads of the forward pass is held at once. */
#include "planner/divide/internal.h"
#include "synth/ops/ops.h"

/* Operators that are fused leave some results out; so only a part of what is read is counted on. */
static const double surely = 0.5;

static bool is_read_by_backward(const struct mt_graph *g, int value, const bool *read) {
    const struct mt_value *v = &g->values[value];
    return read[value] && v->kind == MT_VALUE_TEMP && v->producer >= 0 && v->naxes &&
           g->ops[v->producer].role == MT_ROLE_FORWARD && v->label[0] == g->batch;
}

/* Bytes of a value on each rank, as its operator makes it. */
static void add_value(struct mt_dividing *d, struct mt_layouts *layouts, const struct mt_choice *choice, int value,
                      double *bytes) {
    const struct mt_graph *g = d->divide->graph;
    const struct mt_op *op = &g->ops[g->values[value].producer];
    int64_t extent[MT_MAX_AXES];
    int out = 0;
    while (op->out[out] != value) out++;
    for (int a = 0; a < g->values[value].naxes; a++) extent[a] = mt_value_extent(g, value, a);
    int id = mt_rule_output(layouts, g, op, &choice->rules[g->values[value].producer], &d->mesh, out, extent);
    const struct mt_layout *l = &layouts->items[id];
    double element_bytes = (double)mt_type_size(g->values[value].type);
    for (int r = 0; r < d->nranks; r++) bytes[r] += element_bytes * (double)mt_box_count(&l->box[r], l->naxes);
}

int64_t mt_divide_least_micro(struct mt_dividing *d, const struct mt_choice *choice) {
    const struct mt_graph *g = d->divide->graph;
    struct mt_arena scratch = MT_ARENA_INIT;
    struct mt_layouts layouts;
    double *bytes = mt_new(&scratch, double, d->nranks);
    bool *read = mt_new(&scratch, bool, g->nvalues);
    int64_t count = 1;
    mt_layouts_init(&layouts, d->nranks);
    for (int o = 0; o < g->nops; o++)
        for (int i = 0; i < g->ops[o].nin && g->ops[o].role == MT_ROLE_BACKWARD; i++) read[g->ops[o].in[i]] = true;
    for (int v = 0; v < g->nvalues; v++)
        if (is_read_by_backward(g, v, read)) add_value(d, &layouts, choice, v, bytes);
    for (int r = 0; r < d->nranks && d->divide->memory_bytes; r++)
        while (d->divide->memory_bytes[r] && surely * bytes[r] / (double)count > (double)d->divide->memory_bytes[r])
            count *= 2;
    mt_layouts_release(&layouts);
    mt_arena_release(&scratch);
    return count;
}
