/* A graph run as it stands, operator by operator on whole values, with the plain C operators. */
#ifndef MT_TESTS_SYNTH_EVAL_H
#define MT_TESTS_SYNTH_EVAL_H

#include "kernels/base/number/rng.h"
#include "synth/graph/graph.h"
#include "tests/check.h"

struct eval {
    const struct mt_graph *graph;
    void **data; /* [nvalues] */
    struct mt_clock clock;
};

static inline struct eval eval_new(const struct mt_graph *graph) {
    struct eval e = {.graph = graph, .clock = {.step = 3, .seed = 7, .lr = 1e-3}};
    e.data = mt_calloc((size_t)graph->nvalues, sizeof *e.data);
    for (int v = 0; v < graph->nvalues; v++)
        e.data[v] = mt_calloc((size_t)mt_value_count(graph, v), (size_t)mt_type_size(graph->values[v].type));
    return e;
}

static inline void eval_free(struct eval *e) {
    for (int v = 0; v < e->graph->nvalues; v++) free(e->data[v]);
    free(e->data);
}

static inline double eval_get(const struct eval *e, int value, int64_t i) {
    return mt_type_load(e->graph->values[value].type, e->data[value], i);
}

static inline void eval_set(struct eval *e, int value, int64_t i, double x) {
    mt_type_store(e->graph->values[value].type, e->data[value], i, x);
}

static inline void eval_set_ids(struct eval *e, int value, int64_t i, int32_t id) {
    ((int32_t *)e->data[value])[i] = id;
}

/* Random tokens, random targets of which one in seven is not counted, positions in order. */
static inline void eval_inputs(struct eval *e, uint64_t seed) {
    const struct mt_graph *g = e->graph;
    uint64_t vocab = (uint64_t)g->labels[mt_graph_find_label(g, "vocab")].extent;
    for (int v = 0; v < g->nvalues; v++) {
        if (g->values[v].kind != MT_VALUE_INPUT) continue;
        bool positions = !strcmp(g->values[v].name, "positions"), targets = !strcmp(g->values[v].name, "targets");
        for (int64_t i = 0; i < mt_value_count(g, v); i++) {
            int32_t id = (int32_t)mt_random_below(seed, (uint64_t)v, (uint64_t)i, vocab);
            eval_set_ids(e, v, i, positions ? (int32_t)i : targets && i % 7 == 3 ? -1 : id);
        }
    }
}

/* Parameters as they would begin. */
static inline void eval_init(struct eval *e, uint64_t seed) {
    const struct mt_graph *g = e->graph;
    for (int v = 0; v < g->nvalues; v++) {
        const struct mt_value *value = &g->values[v];
        if (value->kind != MT_VALUE_STATE) continue;
        for (int64_t i = 0; i < mt_value_count(g, v); i++) {
            double normal = value->init_std * mt_random_normal(seed, 1000 + (uint64_t)v, (uint64_t)i);
            eval_set(e, v, i, value->init == MT_INIT_NORMAL ? normal : value->init == MT_INIT_ONE);
        }
    }
}

static inline struct mt_tensor eval_tensor(const struct eval *e, int value) {
    const struct mt_value *v = &e->graph->values[value];
    struct mt_tensor t = {.data = e->data[value], .type = v->type, .naxes = v->naxes};
    for (int a = 0; a < v->naxes; a++) t.extent[a] = t.global[a] = mt_value_extent(e->graph, value, a);
    return t;
}

/* All operators of the roles in `roles` (bits). */
static inline void eval_run(struct eval *e, unsigned roles) {
    struct mt_err err = MT_ERR_INIT;
    for (int i = 0; i < e->graph->nops; i++) {
        const struct mt_op *op = &e->graph->ops[i];
        if (!(roles >> op->role & 1)) continue;
        struct mt_tensor in[MT_MAX_IN], out[MT_MAX_OUT];
        for (int k = 0; k < op->nin; k++) in[k] = eval_tensor(e, op->in[k]);
        for (int o = 0; o < op->nout; o++) out[o] = eval_tensor(e, op->out[o]);
        struct mt_call call = {.kind = op->kind, .attr = &op->attr, .nin = op->nin, .nout = op->nout};
        call.in = in, call.out = out, call.clock = &e->clock;
        CHECK(mt_backend_c.supports(&call), "%s", op->name);
        int64_t scratch = mt_backend_c.scratch_bytes(&call);
        call.scratch = scratch ? aligned_alloc(64, (size_t)(scratch + 63) / 64 * 64) : NULL;
        CHECK_OK(mt_backend_c.run(&call, &err), err);
        free(call.scratch);
    }
}

#endif
