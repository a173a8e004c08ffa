/* GPT-2: Radford et al., "Language models are unsupervised multitask learners", 2019. Pre-norm blocks, learned
 * positions, GELU in its tanh form; parameters have the names and shapes of the published checkpoints. */
#include <math.h>

#include "synth/models/model.h"
#include "synth/ops/ops.h"

static const struct mt_model_option options[] = {
    {.name = "layers", .least = 1, .most = 1000, .preset = 12, .help = "blocks"},
    {.name = "heads", .least = 1, .most = 1024, .preset = 12, .help = "attention heads; divides embed"},
    {.name = "embed", .least = 1, .most = 65536, .preset = 768, .help = "width"},
    {.name = "context", .least = 1, .most = 1 << 20, .preset = 1024, .help = "longest sequence"},
    {.name = "vocab", .least = 2, .most = 1 << 24, .preset = 50257, .help = "tokens"},
    {.name = "ffn", .least = 0, .most = 1 << 20, .preset = 0, .help = "width within the MLP; 0: four times embed"},
    {.name = "bias", .least = 0, .most = 1, .preset = 1, .help = "biases, those of layer norms too"},
    {.name = "tied", .least = 0, .most = 1, .preset = 1, .help = "the output layer uses the token embedding"},
    {0},
};

static const char *const named[] = {
    "124m",  "layers=12,heads=12,embed=768",
    "355m",  "layers=24,heads=16,embed=1024",
    "774m",  "layers=36,heads=20,embed=1280",
    "1558m", "layers=48,heads=25,embed=1600",
    "char",  "layers=4,heads=4,embed=128,context=64,vocab=256,bias=0", /* nanoGPT's small CPU setting, on bytes */
    NULL,
};

static enum mt_status complete(struct mt_model *model, struct mt_err *err) {
    int64_t embed = mt_model_get(model, "embed"), heads = mt_model_get(model, "heads");
    if (embed % heads)
        return mt_fail(err, MT_EINPUT, "embed=%lld is not a multiple of heads=%lld", (long long)embed,
                       (long long)heads);
    if (mt_model_get(model, "ffn") == 0) mt_model_set(model, "ffn", 4 * embed);
    return MT_OK;
}

struct builder {
    struct mt_graph *graph;
    bool bias;
    double dropout, residual_std;
    char name[96]; /* what `part` returns: until its next call */
};

static const char *part(struct builder *b, int layer, const char *rest) {
    if (layer < 0)
        snprintf(b->name, sizeof b->name, "%s", rest);
    else
        snprintf(b->name, sizeof b->name, "h.%d.%s", layer, rest);
    return b->name;
}

static int param(struct builder *b, int layer, const char *of, const char *which, const char *axes, double std) {
    char rest[64];
    snprintf(rest, sizeof rest, "%s.%s", of, which);
    enum mt_init init = std > 0 ? MT_INIT_NORMAL : std < 0 ? MT_INIT_ONE : MT_INIT_ZERO;
    return mt_graph_param(b->graph, part(b, layer, rest), axes, init, std > 0 ? std : 0);
}

static int norm(struct builder *b, int layer, const char *of, int x) {
    int gamma = param(b, layer, of, "weight", "embed", -1);
    int beta = b->bias ? param(b, layer, of, "bias", "embed", 0) : -1;
    return mt_op_layer_norm(b->graph, part(b, layer, of), x, gamma, beta, 1e-5);
}

/* x W + b, summed over the last `nk` axes of x. */
static int linear(struct builder *b, int layer, const char *of, int x, int nk, const char *axes, const char *bias_axes,
                  double std) {
    int w = param(b, layer, of, "weight", axes, std);
    int bias = b->bias ? param(b, layer, of, "bias", bias_axes, 0) : -1;
    int y = mt_op_matmul(b->graph, part(b, layer, of), x, w, nk, 0);
    char rest[64];
    snprintf(rest, sizeof rest, "%s.add_bias", of);
    return bias < 0 ? y : mt_op_add(b->graph, part(b, layer, rest), y, bias);
}

static int residual(struct builder *b, int layer, const char *of, int x, int branch) {
    return mt_model_residual(b->graph, part(b, layer, of), x, branch, b->dropout);
}

/* The checkpoint has queries, keys and values in one weight, so that one GEMM makes all of them. */
static int attention(struct builder *b, int layer, int x) {
    int qkv = linear(b, layer, "attn.c_attn", x, 1, "embed,three heads headsize", "three heads headsize", 0.02), of[2];
    const struct mt_part parts[] = {{".q", -1}, {".kv", mt_graph_find_label(b->graph, "two")}};
    mt_op_separate(b->graph, part(b, layer, "attn.qkv"), qkv, 2, parts, 2, of);
    return mt_op_attention(b->graph, part(b, layer, "attn"), of[0], of[1], true, b->dropout);
}

static int block(struct builder *b, int layer, int x) {
    int y = norm(b, layer, "ln_1", x);
    y = attention(b, layer, y);
    y = linear(b, layer, "attn.c_proj", y, 2, "heads headsize,embed", "embed", b->residual_std);
    x = residual(b, layer, "attn", x, y);
    y = norm(b, layer, "ln_2", x);
    y = linear(b, layer, "mlp.c_fc", y, 1, "embed,ffn", "ffn", 0.02);
    y = mt_op_gelu(b->graph, part(b, layer, "mlp.gelu"), y);
    y = linear(b, layer, "mlp.c_proj", y, 1, "ffn,embed", "embed", b->residual_std);
    return residual(b, layer, "mlp", x, y);
}

static enum mt_status make_labels(const struct mt_model *model, int64_t batch, int64_t seq, struct mt_graph *graph,
                                  struct mt_err *err) {
    int64_t embed = mt_model_get(model, "embed"), heads = mt_model_get(model, "heads");
    const struct mt_label labels[] = {
        {"batch", batch, 1},
        {"seq", seq, 1},
        {"embed", embed, 8},
        {"heads", heads, 1},
        {"three", 3, 1},
        {"two", 2, 1},
        {"headsize", embed / heads, 1},
        {"vocab", mt_model_get(model, "vocab"), 8},
        {"ffn", mt_model_get(model, "ffn"), 8},
        {"context", mt_model_get(model, "context"), 1},
    };
    return mt_graph_labels(graph, labels, sizeof labels / sizeof *labels, err);
}

static enum mt_status build(const struct mt_model *model, int64_t batch, int64_t seq, double dropout,
                            struct mt_graph *graph, struct mt_err *err) {
    enum mt_status st = mt_model_check_seq(model, seq, err);
    if (!st) st = make_labels(model, batch, seq, graph, err);
    if (st) return st;
    int layers = (int)mt_model_get(model, "layers");
    struct builder b = {.graph = graph, .bias = mt_model_get(model, "bias"), .dropout = dropout};
    b.residual_std = 0.02 / sqrt(2.0 * layers);

    int tokens = mt_graph_input(graph, "tokens", MT_I32, "batch seq");
    mt_graph_input(graph, "targets", MT_I32, "batch seq");
    int positions = mt_graph_input(graph, "positions", MT_I32, "seq");
    int wte = mt_graph_param(graph, "wte.weight", "vocab,embed", MT_INIT_NORMAL, 0.02);
    int wpe = mt_graph_param(graph, "wpe.weight", "context,embed", MT_INIT_NORMAL, 0.02);
    int x = mt_op_embedding(graph, "wte", wte, tokens);
    x = mt_op_add(graph, "embed", x, mt_op_embedding(graph, "wpe", wpe, positions));
    x = mt_op_dropout(graph, "embed.dropout", x, dropout);
    for (int layer = 0; layer < layers; layer++) x = block(&b, layer, x);
    x = norm(&b, -1, "ln_f", x);
    mt_model_head(model, graph, wte, x);
    return MT_OK;
}

/* 6 N + 6 L T d (model.h): N in closed form; attention is 12 T d a layer, halved because it is causal. */
static double flops_per_token(const struct mt_model *model, int64_t seq) {
    double layers = (double)mt_model_get(model, "layers"), d = (double)mt_model_get(model, "embed");
    double ffn = (double)mt_model_get(model, "ffn"), vocab = (double)mt_model_get(model, "vocab");
    double vectors = mt_model_get(model, "bias") ? 2 * d + 2 * d + 3 * d + d + ffn + d : 2 * d;
    double last_norm = mt_model_get(model, "bias") ? 2 * d : d;
    double n = vocab * d + layers * (4 * d * d + 2 * d * ffn + vectors) + last_norm;
    return 6 * n + 6 * layers * (double)seq * d;
}

const struct mt_model_class mt_model_class_gpt2 = {
    .name = "gpt2",
    .help = "a GPT-2: tokens to the next token",
    .named = named,
    .options = options,
    .complete = complete,
    .build = build,
    .flops_per_token = flops_per_token,
};
