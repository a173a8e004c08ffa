/* Random training graphs: an embedding, then chains and diamonds of at most 8 operators (matrix products, additions,
 * GELU, ReLU, layer norm, attention), then the logits and the loss; differentiated, with SGD or AdamW. */
#ifndef MT_TESTS_SYNTH_RANDOM_GRAPH_H
#define MT_TESTS_SYNTH_RANDOM_GRAPH_H

#include "synth/ops/ops.h"
#include "tests/synth/random_program.h"

enum { MOST_MIDDLE = 8 };

struct growing { /* a graph as it grows, with the value that the next operator takes */
    struct mt_graph *graph;
    int x, operators, made; /* made: of parameters, which numbers their names */
};

static inline const char *fresh_name(struct growing *w, const char *base) {
    return mt_arena_printf(&w->graph->arena, "%s%d", base, w->made++);
}

static inline int weight(struct growing *w, const char *axes) {
    return mt_graph_param(w->graph, fresh_name(w, "w"), axes, MT_INIT_NORMAL, 0.5);
}

/* x [batch seq embed] w [embed, ffn], perhaps with a bias and an activation, and back to embed. */
static inline int grow_mlp(struct growing *w, int x) {
    struct mt_graph *g = w->graph;
    int h = mt_op_matmul(g, "up", x, weight(w, "embed,ffn"), 1, 0);
    if (below(2))
        h = mt_op_add(g, "bias", h, mt_graph_param(g, fresh_name(w, "b"), "ffn", MT_INIT_NORMAL, 0.1)), w->operators++;
    h = below(2) ? mt_op_gelu(g, "gelu", h) : mt_op_relu(g, "relu", h);
    w->operators += 3;
    return mt_op_matmul(g, "down", h, weight(w, "ffn,embed"), 1, 0);
}

static inline int grow_attention(struct growing *w, int x) {
    struct mt_graph *g = w->graph;
    int h = mt_op_matmul(g, "qkv", x, weight(w, "embed,three heads headsize"), 1, 0), of[2];
    const struct mt_part parts[] = {{".q", -1}, {".kv", mt_graph_find_label(g, "two")}};
    mt_op_separate(g, "parts", h, 2, parts, 2, of);
    h = mt_op_attention(g, "attention", of[0], of[1], below(2) > 0, 0);
    w->operators += 5;
    return mt_op_matmul(g, "proj", h, weight(w, "heads headsize,embed"), 2, 0);
}

static inline int grow_norm(struct growing *w, int x) {
    struct mt_graph *g = w->graph;
    int gamma = mt_graph_param(g, fresh_name(w, "gamma"), "embed", MT_INIT_ONE, 0);
    int beta = below(2) ? mt_graph_param(g, fresh_name(w, "beta"), "embed", MT_INIT_ZERO, 0) : -1;
    w->operators += 3;
    return mt_op_layer_norm(g, "norm", x, gamma, beta, 1e-5);
}

static inline int grow_one(struct growing *w, int x) {
    switch (below(6)) {
    case 0: return grow_mlp(w, x);
    case 1: return grow_attention(w, x);
    case 2: return grow_norm(w, x);
    case 3: w->operators++; return mt_op_matmul(w->graph, "square", x, weight(w, "embed,embed"), 1, 0);
    case 4: w->operators++; return mt_op_gelu(w->graph, "gelu", x);
    default: w->operators++; return mt_op_relu(w->graph, "relu", x);
    }
}

/* A chain, and sometimes a diamond: two ways from one value, added up; or a value added to itself changed. */
static inline void grow(struct growing *w) {
    while (w->operators < 4) {
        int one = grow_one(w, w->x);
        bool diamond = below(2) && w->operators < MOST_MIDDLE - 3;
        int other = diamond && below(2) ? grow_one(w, w->x) : w->x;
        w->x = diamond ? (w->operators++, mt_op_add(w->graph, "sum", one, other)) : one;
    }
}

/* Gradients and the updates of SGD or AdamW, some of them with clipping. */
static inline enum mt_optimizer_kind add_random_training(struct mt_graph *g) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_job job;
    mt_job_default(&job);
    job.precision = MT_F64;
    job.optimizer.kind = below(2) ? MT_SGD : MT_ADAMW;
    job.optimizer.momentum = 0.9;
    job.optimizer.clip = below(2) ? 0.5 : 0;
    mt_graph_set_precision(g, &job);
    CHECK_OK(mt_graph_differentiate(g, &err), err);
    CHECK_OK(mt_graph_optimize(g, &job.optimizer, &err), err);
    return job.optimizer.kind;
}

static inline struct mt_graph *random_graph(int64_t batch, char *text, size_t size) {
    struct mt_graph *g = mt_graph_new(MT_F64);
    struct mt_err err = MT_ERR_INIT;
    const struct mt_label labels[] = {{"batch", batch, 1},
                                      {"seq", 2 + below(3), 1},
                                      {"embed", 3 + below(5), 1},
                                      {"ffn", 3 + below(6), 1},
                                      {"heads", 1 + below(3), 1},
                                      {"headsize", 2, 1},
                                      {"three", 3, 1},
                                      {"two", 2, 1},
                                      {"vocab", 7 + below(4), 1}};
    CHECK_OK(mt_graph_labels(g, labels, sizeof labels / sizeof *labels, &err), err);
    int tokens = mt_graph_input(g, "tokens", MT_I32, "batch seq");
    int targets = mt_graph_input(g, "targets", MT_I32, "batch seq");
    int wte = mt_graph_param(g, "wte", "vocab,embed", MT_INIT_NORMAL, 0.5);
    struct growing w = {.graph = g, .x = mt_op_embedding(g, "embedding", wte, tokens)};
    grow(&w);
    bool tied = below(2);
    int head = tied ? wte : mt_graph_param(g, "head", "embed,vocab", MT_INIT_NORMAL, 0.5);
    g->logits = mt_op_matmul(g, "logits", w.x, head, 1, tied ? MT_TRANS_B : 0);
    int forward = g->nops;
    g->loss_sum = mt_op_cross_entropy(g, "loss", g->logits, targets);
    g->token_count = mt_op_count(g, "count", targets);
    enum mt_optimizer_kind optimizer = add_random_training(g);
    snprintf(text, size, "%d forward operators, %s, batch %lld", forward, optimizer == MT_SGD ? "SGD" : "AdamW",
             (long long)batch);
    return g;
}

#endif
