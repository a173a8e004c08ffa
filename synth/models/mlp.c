/* A window model on the same data as the others: the concatenated embeddings of the last `context` tokens, hidden
 * layers with ReLU, and the next token. Bengio et al., "A neural probabilistic language model", JMLR 2003; layers after
 * the first are square and residual, so their weights have one label twice.
 *
 * A sample is one window: its targets are [batch], the token after the window's last. */
#include <math.h>

#include "synth/models/model.h"
#include "synth/ops/ops.h"

static const struct mt_model_option options[] = {
    {.name = "context", .least = 1, .most = 4096, .preset = 16, .help = "tokens in the window"},
    {.name = "embed", .least = 1, .most = 65536, .preset = 32, .help = "width of a token's embedding"},
    {.name = "hidden", .least = 1, .most = 1 << 20, .preset = 256, .help = "width of the hidden layers"},
    {.name = "layers", .least = 1, .most = 1000, .preset = 2, .help = "hidden layers"},
    {.name = "vocab", .least = 2, .most = 1 << 24, .preset = 256, .help = "tokens"},
    {0},
};

static const char *const named[] = {"tiny", "context=8,embed=16,hidden=64", NULL};

static enum mt_status make_labels(const struct mt_model *model, int64_t batch, struct mt_graph *graph,
                                  struct mt_err *err) {
    const struct mt_label labels[] = {
        {"batch", batch, 1},
        {"seq", mt_model_get(model, "context"), 1},
        {"embed", mt_model_get(model, "embed"), 8},
        {"hidden", mt_model_get(model, "hidden"), 8},
        {"vocab", mt_model_get(model, "vocab"), 8},
    };
    return mt_graph_labels(graph, labels, sizeof labels / sizeof *labels, err);
}

/* x W + b, summed over the last `nk` axes of x. */
static int linear(struct mt_graph *g, const char *of, int x, int nk, const char *axes, const char *bias_axes,
                  double std) {
    char name[64];
    snprintf(name, sizeof name, "%s.weight", of);
    int w = mt_graph_param(g, name, axes, MT_INIT_NORMAL, std);
    snprintf(name, sizeof name, "%s.bias", of);
    int bias = mt_graph_param(g, name, bias_axes, MT_INIT_ZERO, 0);
    snprintf(name, sizeof name, "%s.add_bias", of);
    return mt_op_add(g, name, mt_op_matmul(g, of, x, w, nk, 0), bias);
}

static enum mt_status build(const struct mt_model *model, int64_t batch, int64_t seq, double dropout,
                            struct mt_graph *graph, struct mt_err *err) {
    int64_t context = mt_model_get(model, "context");
    if (seq != context)
        return mt_fail(err, MT_EINPUT, "a window of %lld is not the model's context=%lld", (long long)seq,
                       (long long)context);
    enum mt_status st = make_labels(model, batch, graph, err);
    if (st) return st;
    double hidden = (double)mt_model_get(model, "hidden"), embed = (double)mt_model_get(model, "embed");
    int layers = (int)mt_model_get(model, "layers");

    int tokens = mt_graph_input(graph, "tokens", MT_I32, "batch seq");
    mt_graph_input(graph, "targets", MT_I32, "batch");
    int table = mt_graph_param(graph, "embed.weight", "vocab,embed", MT_INIT_NORMAL, 1);
    int x = mt_op_embedding(graph, "embed", table, tokens);
    x = linear(graph, "hidden.0", x, 2, "seq embed,hidden", "hidden", sqrt(2 / (embed * (double)context)));
    x = mt_op_dropout(graph, "hidden.0.dropout", mt_op_relu(graph, "hidden.0.relu", x), dropout);
    for (int layer = 1; layer < layers; layer++) {
        char of[32], name[64];
        snprintf(of, sizeof of, "hidden.%d", layer);
        int y = linear(graph, of, x, 1, "hidden,hidden", "hidden", sqrt(2 / (hidden * layers)));
        snprintf(name, sizeof name, "%s.relu", of);
        y = mt_op_relu(graph, name, y);
        snprintf(name, sizeof name, "%s.dropout", of);
        y = mt_op_dropout(graph, name, y, dropout);
        snprintf(name, sizeof name, "%s.residual", of);
        x = mt_op_add(graph, name, x, y);
    }
    graph->logits = linear(graph, "head", x, 1, "hidden,vocab", "vocab", 0.02);
    return MT_OK;
}

/* 6 N / T: a window of T tokens makes one prediction with every weight. The embedding is a look-up and counts nothing.
 */
static double flops_per_token(const struct mt_model *model, int64_t seq) {
    double context = (double)mt_model_get(model, "context"), embed = (double)mt_model_get(model, "embed");
    double hidden = (double)mt_model_get(model, "hidden"), layers = (double)mt_model_get(model, "layers");
    double vocab = (double)mt_model_get(model, "vocab");
    double n = context * embed * hidden + (layers - 1) * hidden * hidden + hidden * vocab + layers * hidden + vocab;
    return 6 * n / (double)seq;
}

const struct mt_model_class mt_model_class_mlp = {
    .name = "mlp",
    .help = "a window of tokens to the next token, through hidden layers with ReLU",
    .named = named,
    .options = options,
    .build = build,
    .flops_per_token = flops_per_token,
};
