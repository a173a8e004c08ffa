/* The update: the squared norm of all gradients, one scale for them, and each parameter's step; and dynamic loss
 * scaling (Micikevicius et al., "Mixed Precision Training", 2018). */
#include <assert.h>
#include <stdlib.h>

#include "synth/autodiff/autodiff.h"
#include "synth/job/job.h"
#include "synth/ops/ops.h"

/* The sum of the squared norms, in the order in which backward computes the gradients. */
static int total_sq_norm(struct mt_graph *g, const int *params, int nparams) {
    int total = -1;
    for (int i = 0; i < nparams; i++) {
        const struct mt_value *p = &g->values[params[i]];
        g->forward = params[i];
        int sq = mt_op_sq_norm(g, mt_arena_printf(&g->arena, "%s/sq_norm", p->name), p->gradient);
        g->forward = -1;
        total = total < 0 ? sq : mt_op_add(g, "sq_norm", total, sq);
    }
    return total;
}

static int state_of(struct mt_graph *g, const char *prefix, int param) {
    struct mt_value p = g->values[param];
    const char *name = mt_arena_printf(&g->arena, "%s.%s", prefix, p.name);
    int id = mt_graph_value(g, name, MT_VALUE_STATE, g->acc, p.naxes, p.label);
    struct mt_value *state = &g->values[id];
    state->owner = param;
    state->init = MT_INIT_ZERO;
    state->ndims = p.ndims;
    for (int d = 0; d < p.ndims; d++) state->group_end[d] = p.group_end[d];
    return id;
}

static void add_update(struct mt_graph *g, const struct mt_optimizer *optimizer, int param) {
    static const char *const adamw_states[] = {"adamw.m", "adamw.v"}, *const sgd_states[] = {"sgd.m"};
    bool adamw = optimizer->kind == MT_ADAMW;
    int nstates = adamw ? 2 : 1, in[MT_MAX_IN] = {param};
    for (int s = 0; s < nstates; s++) in[1 + s] = state_of(g, adamw ? adamw_states[s] : sgd_states[s], param);
    in[1 + nstates] = g->values[param].gradient;
    in[2 + nstates] = g->scale;
    int nin = 3 + nstates;
    if (adamw && g->loss_scale >= 0) in[nin++] = g->skipped_steps;
    struct mt_attr attr = {.lr_scale = 1, .decay = g->values[param].decay ? optimizer->decay : 0};
    if (adamw)
        attr.beta1 = optimizer->beta1, attr.beta2 = optimizer->beta2, attr.eps = optimizer->eps;
    else
        attr.momentum = optimizer->momentum, attr.nesterov = optimizer->nesterov;
    g->forward = param;
    const char *name = mt_arena_printf(&g->arena, "%s/update", g->values[param].name);
    int op = mt_op_update(g, name, adamw ? MT_OP_adamw : MT_OP_sgd, &attr, in, nin);
    g->forward = -1;
    for (int o = 0; o < 1 + nstates; o++) g->values[in[o]].next = g->ops[op].out[o];
}

static int scalar_state(struct mt_graph *g, const char *name, double begins) {
    int id = mt_graph_value(g, name, MT_VALUE_STATE, g->acc, 0, NULL);
    g->values[id].init = MT_INIT_CONSTANT;
    g->values[id].init_std = begins;
    return id;
}

void mt_graph_set_precision(struct mt_graph *graph, const struct mt_job *job) {
    graph->tf32 = job->tf32 && graph->type == MT_F32;
    for (int o = 0; o < graph->nops; o++)
        if (graph->ops[o].kind == MT_OP_matmul) graph->ops[o].attr.tf32 = graph->tf32;
    graph->any_order = job->any_order;
    if (!(job->loss_scale > 0)) return;
    graph->loss_scale = scalar_state(graph, "loss_scale", job->loss_scale);
    graph->good_steps = scalar_state(graph, "loss_scale.good", 0);
    graph->skipped_steps = scalar_state(graph, "loss_scale.skipped", 0);
    graph->growth_interval = job->loss_scale_interval;
}

static void update_loss_scale(struct mt_graph *g) {
    const int states[] = {g->loss_scale, g->good_steps, g->skipped_steps};
    int op = mt_op_loss_scale(g, "loss_scale/update", states, g->sq_norm, g->growth_interval);
    for (int s = 0; s < 3; s++) g->values[states[s]].next = g->ops[op].out[s];
}

/* By the operators that compute the gradients. */
static int by_producer(const void *a, const void *b, void *context) {
    const struct mt_graph *g = context;
    int pa = g->values[g->values[*(const int *)a].gradient].producer;
    int pb = g->values[g->values[*(const int *)b].gradient].producer;
    return pa != pb ? (pa > pb) - (pa < pb) : *(const int *)a - *(const int *)b;
}

enum mt_status mt_graph_optimize(struct mt_graph *graph, const struct mt_optimizer *optimizer, struct mt_err *err) {
    int *params = mt_calloc((size_t)graph->nvalues, sizeof *params), n = 0;
    for (int v = 0; v < graph->nvalues; v++)
        if (graph->values[v].param) params[n++] = v;
    enum mt_status st = MT_OK;
    if (n == 0) {
        st = mt_fail(err, MT_EINPUT, "the model has no parameters to train");
        goto out;
    }
    for (int i = 0; i < n; i++) assert(graph->values[params[i]].gradient >= 0 && "differentiate first");
    qsort_r(params, (size_t)n, sizeof *params, by_producer, graph);
    graph->role = MT_ROLE_UPDATE;
    graph->sq_norm = total_sq_norm(graph, params, n);
    graph->scale =
        mt_op_grad_scale(graph, "grad_scale", graph->sq_norm, graph->token_count, graph->loss_scale, optimizer->clip);
    for (int i = 0; i < n; i++) add_update(graph, optimizer, params[i]);
    if (graph->loss_scale >= 0) update_loss_scale(graph);
    graph->role = MT_ROLE_FORWARD;
out:
    free(params);
    return st;
}
