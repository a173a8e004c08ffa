/* Random small training jobs: a training graph of a few forward operators, a described cluster on which computing and
 * communication take about equally long, and one split for each label, in proportion to the devices' speeds: among all
 * ranks, or, with `meshed`, of samples among nodes and of all labels within nodes.
 *
 *     struct small_job job;
 *     small_job_open(&job, seed, nranks, nforward);     // job.graph, job.costs, job.splits
 *     small_job_close(&job); */
#ifndef MT_TESTS_PLANNER_FRONTIER_GRAPHS_H
#define MT_TESTS_PLANNER_FRONTIER_GRAPHS_H

#include "kernels/base/number/rng.h"
#include "planner/balance/split.h"
#include "planner/cost/cost.h"
#include "profiler/describe/describe.h"
#include "synth/autodiff/autodiff.h"
#include "synth/job/job.h"
#include "synth/layout/layout.h"
#include "synth/ops/ops.h"
#include "tests/check.h"

enum { SMALL_MOST_RANKS = 4, SMALL_MOST_LABELS = 8, SMALL_MOST_VALUES = 32 };

struct small_job {
    uint64_t seed;
    uint32_t draws;
    struct mt_arena arena;
    const char *cluster_text;
    struct mt_cluster *cluster;
    int device[SMALL_MOST_RANKS], node[SMALL_MOST_RANKS];
    struct mt_mesh mesh;
    struct mt_costs costs;
    struct mt_graph *graph;
    bool meshed;
    struct mt_split hosts; /* of samples, if meshed */
    struct mt_split splits[SMALL_MOST_LABELS];
    int nsplits;
    /* while the graph is made */
    int nparams, most_params, nvalues, values[SMALL_MOST_VALUES];
};

static inline int small_draw(struct small_job *j, int below) {
    return (int)mt_random_below(j->seed, 11, j->draws++, (uint64_t)below);
}

/* ---- clusters ---- */

/* The text's devices keep the ratios of their rates; all are slowed until operators of some thousand flops take
 * microseconds, as messages of some kilobytes do. */
static inline void small_slow_down(struct small_job *j) {
    struct mt_cluster *c = j->cluster;
    double fastest = 0, memory = 0, net = 0;
    for (int k = 0; k < c->nclasses; k++) {
        fastest = fmax(fastest, c->classes[k].flops[MT_F32]);
        memory = fmax(memory, c->classes[k].memory_Bps);
    }
    for (int l = 0; l < c->nlinks; l++) net = fmax(net, c->links[l].bandwidth_Bps);
    double flops = 1e9 * pow(3, small_draw(j, 4) - 1) / fastest, bytes = 2e9 * pow(2, small_draw(j, 3)) / memory;
    double wire = 1e9 * pow(3, small_draw(j, 4) - 1) / net, latency = 0.02 * pow(4, small_draw(j, 3) - 1);
    for (int k = 0; k < c->nclasses; k++) {
        for (int t = 0; t < MT_NTYPES; t++) c->classes[k].flops[t] *= flops;
        c->classes[k].memory_Bps *= bytes;
        c->classes[k].overhead_s *= 0.1;
    }
    for (int l = 0; l < c->nlinks; l++) {
        c->links[l].bandwidth_Bps *= wire;
        c->links[l].shared_Bps *= wire;
        c->links[l].latency_s *= latency;
    }
    for (int n = 0; n < c->nnodes; n++) c->nodes[n].egress_Bps *= wire, c->nodes[n].ingress_Bps *= wire;
}

static inline void small_cluster_of(struct small_job *j, const char *text) {
    struct mt_err err = MT_ERR_INIT;
    j->cluster_text = text;
    CHECK_OK(mt_cluster_describe(text, NULL, &j->cluster, &err), err);
    small_slow_down(j);
    CHECK_OK(mt_cluster_check(j->cluster, &err), err);
    mt_cluster_hash(j->cluster, j->cluster->hash);
    int n = j->cluster->ndevices;
    CHECK(n <= SMALL_MOST_RANKS, "%d ranks", n);
    for (int r = 0; r < n; r++) j->device[r] = r, j->node[r] = j->cluster->devices[r].node;
    j->mesh = (struct mt_mesh){.nranks = n, .nnodes = j->cluster->nnodes, .node = j->node};
    j->costs = (struct mt_costs){.cluster = j->cluster, .nranks = n, .device = j->device, .memo = mt_cost_memo_new()};
}

/* ---- splits ---- */

static inline void small_split(struct small_job *j, int label, const int64_t *sizes) {
    int n = j->costs.nranks;
    struct mt_split *s = &j->splits[j->nsplits++];
    CHECK(j->nsplits <= SMALL_MOST_LABELS);
    *s = (struct mt_split){.name = j->graph->labels[label].name, .label = label};
    s->sizes = mt_arena_memdup(&j->arena, sizes, (size_t)n * sizeof *sizes);
    s->starts = mt_new(&j->arena, int64_t, n + 1);
    for (int r = 0; r < n; r++) s->starts[r + 1] = s->starts[r] + sizes[r];
}

static inline void small_divide(int64_t extent, const double *speed, int n, int64_t *sizes) {
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_split_proportional(extent, 1, speed, n, sizes, &err), err);
}

/* A split among the nodes, or within each node of the label's extent or of the node's share of `hosts`. Ranks of a node
 * follow each other. */
static inline struct mt_split small_split_of_axis(struct small_job *j, int label, enum mt_axis axis,
                                                  const double *speed, const struct mt_split *hosts) {
    int nranks = j->costs.nranks, nnodes = j->mesh.nnodes;
    int64_t extent = j->graph->labels[label].extent;
    struct mt_split s = {.name = j->graph->labels[label].name, .label = label, .axis = axis};
    double of_node[SMALL_MOST_RANKS] = {0};
    s.sizes = mt_new(&j->arena, int64_t, nranks);
    s.starts = mt_new(&j->arena, int64_t, nranks + 1);
    for (int r = 0; r < nranks; r++) of_node[j->node[r]] += speed[r];
    if (axis == MT_AXIS_HOST) small_divide(extent, of_node, nnodes, s.sizes);
    for (int n = 0; n < nnodes && axis == MT_AXIS_HOST; n++) s.starts[n + 1] = s.starts[n] + s.sizes[n];
    for (int r = 0, end; r < nranks && axis == MT_AXIS_DEVICE; r = end) {
        for (end = r; end < nranks && j->node[end] == j->node[r];) end++;
        small_divide(hosts ? hosts->sizes[j->node[r]] : extent, speed + r, end - r, s.sizes + r);
        for (int k = r + 1; k < end; k++) s.starts[k] = s.starts[k - 1] + s.sizes[k - 1];
    }
    return s;
}

static inline void small_split_proportional(struct small_job *j) {
    double speed[SMALL_MOST_RANKS];
    for (int r = 0; r < j->costs.nranks; r++) {
        const struct mt_cluster_device *d = &j->cluster->devices[r];
        speed[r] = d->speed * j->cluster->classes[d->class].flops[MT_F32];
    }
    if (j->meshed) j->hosts = small_split_of_axis(j, j->graph->batch, MT_AXIS_HOST, speed, NULL);
    for (int l = 0; l < j->graph->nlabels; l++) {
        const char *name = j->graph->labels[l].name;
        int64_t sizes[SMALL_MOST_RANKS];
        if (!strcmp(name, "three") || !strcmp(name, "headsize")) continue;
        if (j->meshed) {
            j->splits[j->nsplits++] =
                small_split_of_axis(j, l, MT_AXIS_DEVICE, speed, l == j->graph->batch ? &j->hosts : NULL);
            continue;
        }
        small_divide(j->graph->labels[l].extent, speed, j->costs.nranks, sizes);
        small_split(j, l, sizes);
    }
}

/* ---- graphs ---- */

static inline int small_label(struct small_job *j, const char *name, int64_t extent) {
    struct mt_err err = MT_ERR_INIT;
    int label;
    CHECK_OK(mt_graph_label(j->graph, name, extent, 1, &label, &err), err);
    return label;
}

static inline int small_param(struct small_job *j, const char *axes) {
    const char *name = mt_arena_printf(&j->arena, "w%d", j->nparams++);
    return mt_graph_param(j->graph, name, axes, MT_INIT_NORMAL, 0.1);
}

static inline const char *small_last_label(const struct small_job *j, int value) {
    const struct mt_value *v = &j->graph->values[value];
    return j->graph->labels[v->label[v->naxes - 1]].name;
}

static inline int small_matmul(struct small_job *j, int x) {
    static const char *const labels[] = {"a", "b", "c"};
    const char *axes = mt_arena_printf(&j->arena, "%s,%s", small_last_label(j, x), labels[small_draw(j, 3)]);
    return mt_op_matmul(j->graph, "matmul", x, small_param(j, axes), 1, 0);
}

/* An earlier value of the same axes, or -1. */
static inline int small_residual(struct small_job *j, int x) {
    const struct mt_value *v = &j->graph->values[x];
    for (int i = 0; i < j->nvalues; i++) {
        const struct mt_value *w = &j->graph->values[j->values[i]];
        if (j->values[i] != x && w->naxes == v->naxes && !memcmp(w->label, v->label, (size_t)v->naxes * sizeof(int)))
            return j->values[i];
    }
    return -1;
}

static inline int small_step(struct small_job *j, int x) {
    struct mt_graph *g = j->graph;
    bool params = j->nparams < j->most_params;
    for (;;) {
        int kind = small_draw(j, 8), other = small_residual(j, x);
        if (kind < 3 && params) return small_matmul(j, x);
        if (kind == 3) return mt_op_gelu(g, "gelu", x);
        if (kind == 4) return mt_op_relu(g, "relu", x);
        if (kind == 5 && other >= 0) return mt_op_add(g, "residual", x, other);
        if (kind == 6 && params) return mt_op_add(g, "bias", x, small_param(j, small_last_label(j, x)));
        if (kind == 7 && params)
            return mt_op_layer_norm(g, "norm", x, small_param(j, small_last_label(j, x)), -1, 1e-5);
    }
}

/* Tokens in a table, or samples as they are; the first parameter. */
static inline int small_begin(struct small_job *j) {
    struct mt_graph *g = j->graph;
    if (small_draw(j, 3) == 0) {
        small_label(j, "vocab", 4 + small_draw(j, 21));
        int tokens = mt_graph_input(g, "tokens", MT_I32, "batch");
        return mt_op_embedding(g, "embed", small_param(j, "vocab,a"), tokens);
    }
    int x = mt_graph_input(g, "x", MT_F32, "batch a");
    return small_matmul(j, x);
}

static inline int small_attention(struct small_job *j) {
    struct mt_graph *g = j->graph;
    small_label(j, "seq", 2 + small_draw(j, 3));
    small_label(j, "three", 3);
    small_label(j, "two", 2);
    small_label(j, "heads", 2 + small_draw(j, 4));
    small_label(j, "headsize", 2 + small_draw(j, 3));
    int x = mt_graph_input(g, "x", MT_F32, "batch seq a");
    int qkv = mt_op_matmul(g, "qkv", x, small_param(j, "a,three heads headsize"), 1, 0);
    const struct mt_part parts[] = {{".q", -1}, {".kv", mt_graph_find_label(g, "two")}};
    int of[2];
    mt_op_separate(g, "parts", qkv, 2, parts, 2, of);
    int o = mt_op_attention(g, "attention", of[0], of[1], true, 0);
    return small_draw(j, 2) ? mt_op_matmul(g, "project", o, small_param(j, "heads headsize,a"), 2, 0) : o;
}

static inline void small_loss(struct small_job *j, int x) {
    struct mt_graph *g = j->graph;
    int targets = mt_graph_input(g, "targets", MT_I32, "batch");
    int naxes = g->values[x].naxes;
    g->loss_sum = naxes == 2 && small_draw(j, 2) ? mt_op_cross_entropy(g, "loss", x, targets)
                                                 : mt_op_sum(g, "loss", x, (1u << naxes) - 1);
    g->token_count = mt_op_count(g, "count", targets);
}

static inline void small_train(struct small_job *j) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_job job;
    mt_job_default(&job);
    job.precision = MT_F32;
    job.optimizer.kind = small_draw(j, 2) ? MT_ADAMW : MT_SGD;
    CHECK_OK(mt_graph_differentiate(j->graph, &err), err);
    CHECK_OK(mt_graph_optimize(j->graph, &job.optimizer, &err), err);
}

/* A cluster and an empty graph of labels batch, a, b, c. */
static inline void small_job_begin(struct small_job *j, uint64_t seed, const char *cluster) {
    *j = (struct small_job){.seed = seed, .most_params = 3};
    small_cluster_of(j, cluster);
    j->graph = mt_graph_new(MT_F32);
    j->graph->batch = small_label(j, "batch", 4 + small_draw(j, 21));
    small_label(j, "a", 4 + small_draw(j, 21));
    small_label(j, "b", 4 + small_draw(j, 21));
    small_label(j, "c", 4 + small_draw(j, 21));
}

/* `nforward` forward operators before the loss, every eighth time one of attention; four ranks are meshed. */
static inline void small_job_open(struct small_job *j, uint64_t seed, int nranks, int nforward) {
    static const char *const two[] = {"h100:1 net=25G + a10:1", "a100-40:1x2 nvlink=300G", "t4:1 net=10G + a10:1",
                                      "v100:1 net=25G + h100:1"};
    static const char *const three[] = {"h100:1x2 nvlink=450G net=25G + a10:1", "a10:1 net=25G + t4:1 + v100:1",
                                        "cpu-8t:3 net=10G"};
    static const char *const four[] = {"h100:1x2 nvlink=450G net=25G + a10:1x2", "a100-40:2x2 nvlink=300G net=10G",
                                       "v100:1x3 net=25G + t4:1"};
    small_job_begin(j, seed, nranks == 2 ? two[seed % 4] : nranks == 3 ? three[seed % 3] : four[seed % 3]);
    j->meshed = nranks == 4;
    int x;
    if (seed % 8 == 7) {
        x = small_attention(j);
    } else {
        x = small_begin(j);
        for (int i = 1; i < nforward; i++) {
            j->values[j->nvalues++] = x;
            x = small_step(j, x);
        }
    }
    small_loss(j, x);
    small_train(j);
    small_split_proportional(j);
}

static inline void small_job_close(struct small_job *j) {
    mt_cost_memo_free(j->costs.memo);
    mt_graph_free(j->graph);
    mt_cluster_free(j->cluster);
    mt_arena_release(&j->arena);
}

#endif
