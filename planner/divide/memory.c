/* How many micro-batches a choice needs at least: what the backward pass reads of the forward pass is held at once,
 * beside state and weights. */
#include "planner/divide/internal.h"
#include "synth/ops/ops.h"

/* Operators that are fused leave some results out; so only a part of what is read is counted on. */
static const double surely = 0.5;

static bool is_read_by_backward(const struct mt_graph *g, int value, const bool *read) {
    const struct mt_value *v = &g->values[value];
    return read[value] && v->kind == MT_VALUE_TEMP && v->producer >= 0 && v->naxes &&
           g->ops[v->producer].role == MT_ROLE_FORWARD && v->label[0] == g->batch;
}

/* Bytes of a value on each rank, as an operator makes it, or reads its input number `in`. */
static void add_value(struct mt_dividing *d, struct mt_layouts *layouts, const struct mt_choice *choice, int o, int in,
                      int value, double *bytes) {
    const struct mt_graph *g = d->divide->graph;
    const struct mt_op *op = &g->ops[o];
    int64_t extent[MT_MAX_AXES];
    int out = 0;
    for (int a = 0; a < g->values[value].naxes; a++) extent[a] = mt_value_extent(g, value, a);
    while (in < 0 && op->out[out] != value) out++;
    int id = in < 0 ? mt_rule_output(layouts, g, op, &choice->rules[o], &d->mesh, out, extent)
                    : mt_rule_input(layouts, g, op, &choice->rules[o], &d->mesh, in, extent);
    const struct mt_layout *l = &layouts->items[id];
    double element_bytes = (double)mt_type_size(g->values[value].type);
    for (int r = 0; r < d->nranks; r++) bytes[r] += element_bytes * (double)mt_box_count(&l->box[r], l->naxes);
}

/* What does not become less with more micro-batches: optimizer state and, if they are gathered once a step, weights as
 * the first operator reads them. */
static void add_fixed(struct mt_dividing *d, struct mt_layouts *layouts, const struct mt_choice *choice, bool *seen,
                      double *bytes) {
    const struct mt_graph *g = d->divide->graph;
    bool gathered = choice->decisions.gather != MT_GATHER_LAYER;
    for (int o = 0; o < g->nops; o++) {
        const struct mt_op *op = &g->ops[o];
        bool updates = op->kind == MT_OP_adamw || op->kind == MT_OP_sgd;
        for (int i = 0; i < op->nin; i++) {
            const struct mt_value *v = &g->values[op->in[i]];
            bool weight = op->role == MT_ROLE_FORWARD && gathered && v->kind == MT_VALUE_TEMP &&
                          mt_graph_param_of(g, op->in[i]) >= 0;
            if (!v->naxes || seen[op->in[i]] || !(weight || (updates && v->kind == MT_VALUE_STATE))) continue;
            seen[op->in[i]] = true;
            add_value(d, layouts, choice, o, i, op->in[i], bytes);
        }
    }
}

int64_t mt_divide_least_micro(struct mt_dividing *d, const struct mt_choice *choice, int64_t most) {
    const struct mt_graph *g = d->divide->graph;
    struct mt_arena scratch = MT_ARENA_INIT;
    struct mt_layouts layouts;
    double *bytes = mt_new(&scratch, double, d->nranks), *fixed = mt_new(&scratch, double, d->nranks);
    bool *read = mt_new(&scratch, bool, g->nvalues), *seen = mt_new(&scratch, bool, g->nvalues);
    int64_t count = 1;
    mt_layouts_init(&layouts, d->nranks);
    for (int o = 0; o < g->nops; o++)
        for (int i = 0; i < g->ops[o].nin && g->ops[o].role == MT_ROLE_BACKWARD; i++) read[g->ops[o].in[i]] = true;
    for (int v = 0; v < g->nvalues; v++)
        if (is_read_by_backward(g, v, read)) add_value(d, &layouts, choice, g->values[v].producer, -1, v, bytes);
    add_fixed(d, &layouts, choice, seen, fixed);
    for (int r = 0; r < d->nranks && d->divide->memory_bytes; r++) {
        double limit = (double)d->divide->memory_bytes[r];
        while (limit > 0 && count <= most && surely * (fixed[r] + bytes[r] / (double)count) > limit) count *= 2;
    }
    mt_layouts_release(&layouts);
    mt_arena_release(&scratch);
    return count;
}
