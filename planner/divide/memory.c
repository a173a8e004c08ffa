/* How many micro-batches a choice needs at least: what the backward pass reads of the forward pass is held at once,
 * beside state and weights. */
#include <stdlib.h>

#include "planner/divide/internal.h"
#include "synth/ops/ops.h"

/* Operators that are fused leave some results out; so only a part of what is read is counted on. */
static const double surely = 0.5;

static bool is_read_by_backward(const struct mt_graph *g, int value, const bool *read) {
    const struct mt_value *v = &g->values[value];
    return read[value] && v->kind == MT_VALUE_TEMP && v->producer >= 0 && v->naxes &&
           g->ops[v->producer].role == MT_ROLE_FORWARD && v->label[0] == g->batch;
}

struct holding {
    struct mt_dividing *d;
    const struct mt_graph *graph;
    const struct mt_choice *choice;
    struct mt_layouts layouts;
};

/* Bytes of a value on each rank, as an operator makes it, or reads its input number `in`. */
static void add_value(struct holding *h, int o, int in, int value, double *bytes) {
    const struct mt_graph *g = h->graph;
    const struct mt_op *op = &g->ops[o];
    const struct mt_rule *rule = &h->choice->rules[o];
    const struct mt_mesh *mesh = &h->d->mesh;
    int64_t extent[MT_MAX_AXES];
    int out = 0;
    for (int a = 0; a < g->values[value].naxes; a++) extent[a] = mt_value_extent(g, value, a);
    while (in < 0 && op->out[out] != value) out++;
    int id = in < 0 ? mt_rule_output(&h->layouts, g, op, rule, mesh, out, extent)
                    : mt_rule_input(&h->layouts, g, op, rule, mesh, in, extent);
    const struct mt_layout *l = &h->layouts.items[id];
    double element_bytes = (double)mt_type_size(g->values[value].type);
    for (int r = 0; r < h->d->nranks; r++) bytes[r] += element_bytes * (double)mt_box_count(&l->box[r], l->naxes);
}

/* What does not become less with more micro-batches: optimizer state and, if they are gathered once a step, weights as
 * the first operator reads them. */
static void add_fixed(struct holding *h, bool *seen, double *bytes) {
    const struct mt_graph *g = h->graph;
    bool gathered = h->choice->decisions.gather != MT_GATHER_LAYER;
    for (int o = 0; o < g->nops; o++) {
        const struct mt_op *op = &g->ops[o];
        bool updates = op->kind == MT_OP_adamw || op->kind == MT_OP_sgd;
        for (int i = 0; i < op->nin; i++) {
            const struct mt_value *v = &g->values[op->in[i]];
            bool weight = op->role == MT_ROLE_FORWARD && gathered && v->kind == MT_VALUE_TEMP &&
                          mt_graph_param_of(g, op->in[i]) >= 0;
            if (!v->naxes || seen[op->in[i]] || !(weight || (updates && v->kind == MT_VALUE_STATE))) continue;
            seen[op->in[i]] = true;
            add_value(h, o, i, op->in[i], bytes);
        }
    }
}

static void list_read(const struct mt_graph *g, bool *read) {
    for (int o = 0; o < g->nops; o++)
        for (int i = 0; i < g->ops[o].nin && g->ops[o].role == MT_ROLE_BACKWARD; i++) read[g->ops[o].in[i]] = true;
}

double mt_divide_saved(const struct mt_graph *g) {
    bool *read = mt_calloc((size_t)g->nvalues + 1, sizeof *read);
    double bytes = 0;
    list_read(g, read);
    for (int v = 0; v < g->nvalues; v++)
        if (is_read_by_backward(g, v, read))
            bytes += (double)mt_value_count(g, v) * (double)mt_type_size(g->values[v].type);
    free(read);
    return bytes;
}

void mt_divide_held(struct mt_dividing *d, const struct mt_graph *g, const struct mt_choice *choice, double *saved,
                    double *fixed) {
    struct mt_arena scratch = MT_ARENA_INIT;
    struct holding h = {.d = d, .graph = g, .choice = choice};
    bool *read = mt_new(&scratch, bool, g->nvalues), *seen = mt_new(&scratch, bool, g->nvalues);
    mt_layouts_init(&h.layouts, d->nranks);
    list_read(g, read);
    for (int v = 0; v < g->nvalues; v++)
        if (is_read_by_backward(g, v, read)) add_value(&h, g->values[v].producer, -1, v, saved);
    add_fixed(&h, seen, fixed);
    mt_layouts_release(&h.layouts);
    mt_arena_release(&scratch);
}

int64_t mt_divide_least_micro(struct mt_dividing *d, const struct mt_divided *c, int64_t most) {
    struct mt_arena scratch = MT_ARENA_INIT;
    struct mt_choice few;
    struct mt_err ignored = MT_ERR_INIT;
    double *saved = mt_new(&scratch, double, 2 * d->nranks), *fixed = mt_new(&scratch, double, 2 * d->nranks);
    int64_t count = 1;
    mt_divide_held(d, d->divide->graph, &c->choice, saved, fixed);
    if (d->layers && !mt_divide_few(d, c, &scratch, &few, &ignored)) {
        int n = d->nranks;
        mt_divide_held(d, d->layers->few_graph, &few, saved + n, fixed + n);
        for (int r = 0; r < n; r++) {
            saved[r] = d->saved_more * mt_divide_of_all(d->layers, saved[n + r], saved[r]);
            fixed[r] = mt_divide_of_all(d->layers, fixed[n + r], fixed[r]);
        }
    }
    for (int r = 0; r < d->nranks && d->divide->memory_bytes; r++) {
        double limit = (double)d->divide->memory_bytes[r];
        while (limit > 0 && count <= most && surely * (fixed[r] + saved[r] / (double)count) > limit) count *= 2;
    }
    mt_arena_release(&scratch);
    return count;
}
