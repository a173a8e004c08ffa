/* The Llama family: Touvron et al., "LLaMA: Open and efficient foundation language models" (2023), and those that share
 * its blocks: Llama 2 and 3, Mistral, Qwen2. Pre-norm blocks with RMSNorm, rotary positions, grouped-query attention
 * and SwiGLU; parameters have the names and shapes of the published checkpoints.
 *
 * Query heads are two axes, the heads of keys and values (label "heads") and the query heads that each serves
 * ("queries"): a division by heads keeps groups whole; one by queries leaves keys and values on every rank. */
#include <math.h>

#include "synth/models/model.h"
#include "synth/ops/ops.h"

enum { BILLION = 1000000000, THOUSAND = 1000 };

static const struct mt_model_option options[] = {
    {.name = "layers", .least = 1, .most = 1000, .preset = 22, .help = "blocks"},
    {.name = "heads", .least = 1, .most = 1024, .preset = 32, .help = "query heads; a multiple of kv_heads"},
    {.name = "kv_heads",
     .least = 0,
     .most = 1024,
     .preset = 0,
     .help = "heads of keys and values; 0: as many as heads"},
    {.name = "embed", .least = 1, .most = 65536, .preset = 2048, .help = "width"},
    {.name = "headsize", .least = 0, .most = 4096, .preset = 0, .help = "of a head, even; 0: embed / heads"},
    {.name = "ffn",
     .least = 0,
     .most = 1 << 20,
     .preset = 0,
     .help = "width within the MLP; 0: 8/3 embed, rounded up to a multiple of 256"},
    {.name = "context", .least = 1, .most = 1 << 24, .preset = 2048, .help = "longest sequence"},
    {.name = "vocab", .least = 2, .most = 1 << 24, .preset = 32000, .help = "tokens"},
    {.name = "window",
     .least = 0,
     .most = 1 << 24,
     .preset = 0,
     .help = "keys that a query sees at most; 0: all before it"},
    {.name = "qkv_bias", .least = 0, .most = 1, .preset = 0, .help = "biases of queries, keys and values"},
    {.name = "tied", .least = 0, .most = 1, .preset = 0, .help = "the output layer uses the token embedding"},
    {.name = "eps", .least = 0, .most = BILLION, .preset = 10000, .per = BILLION, .help = "of RMSNorm"},
    {.name = "theta", .least = 1, .most = INT64_C(1) << 40, .preset = 10000, .help = "base of rotary positions"},
    {.name = "rope_factor",
     .least = 0,
     .most = 1000 * THOUSAND,
     .preset = 0,
     .per = THOUSAND,
     .help = "by which slow rotations are slowed (Llama 3.1); 0: none are"},
    {.name = "rope_low",
     .least = 1,
     .most = 1000 * THOUSAND,
     .preset = THOUSAND,
     .per = THOUSAND,
     .help = "turns within rope_context below which rotations are slowed by the whole factor"},
    {.name = "rope_high",
     .least = 1,
     .most = 1000 * THOUSAND,
     .preset = 4 * THOUSAND,
     .per = THOUSAND,
     .help = "turns above which they are not slowed"},
    {.name = "rope_context", .least = 1, .most = 1 << 24, .preset = 8192, .help = "longest sequence before slowing"},
    {0},
};

/* As in the published config.json of each. */
static const char *const named[] = {
    "llama2-7b",
    "layers=32,heads=32,embed=4096,ffn=11008,context=4096,vocab=32000",
    "llama2-13b",
    "layers=40,heads=40,embed=5120,ffn=13824,context=4096,vocab=32000",
    "llama2-70b",
    "layers=80,heads=64,kv_heads=8,embed=8192,ffn=28672,context=4096,vocab=32000",
    "llama3-8b",
    "layers=32,heads=32,kv_heads=8,embed=4096,ffn=14336,context=8192,vocab=128256,theta=500000",
    "llama3-70b",
    "layers=80,heads=64,kv_heads=8,embed=8192,ffn=28672,context=8192,vocab=128256,theta=500000",
    "llama3.1-8b",
    "layers=32,heads=32,kv_heads=8,embed=4096,ffn=14336,context=131072,vocab=128256,theta=500000,"
    "rope_factor=8",
    "llama3.1-70b",
    "layers=80,heads=64,kv_heads=8,embed=8192,ffn=28672,context=131072,vocab=128256,theta=500000,"
    "rope_factor=8",
    "llama3.2-1b",
    "layers=16,heads=32,kv_heads=8,embed=2048,ffn=8192,context=131072,vocab=128256,theta=500000,tied=1,"
    "rope_factor=32",
    "llama3.2-3b",
    "layers=28,heads=24,kv_heads=8,embed=3072,ffn=8192,context=131072,vocab=128256,theta=500000,tied=1,"
    "rope_factor=32",
    "tinyllama-1.1b",
    "layers=22,heads=32,kv_heads=4,embed=2048,ffn=5632,context=2048,vocab=32000",
    "mistral-7b",
    "layers=32,heads=32,kv_heads=8,embed=4096,ffn=14336,context=32768,vocab=32000,window=4096",
    "qwen2-0.5b",
    "layers=24,heads=14,kv_heads=2,embed=896,ffn=4864,context=131072,vocab=151936,theta=1000000,eps=1e-6,"
    "qkv_bias=1,tied=1",
    "qwen2-1.5b",
    "layers=28,heads=12,kv_heads=2,embed=1536,ffn=8960,context=131072,vocab=151936,theta=1000000,"
    "eps=1e-6,qkv_bias=1,tied=1",
    "qwen2-7b",
    "layers=28,heads=28,kv_heads=4,embed=3584,ffn=18944,context=131072,vocab=152064,theta=1000000,"
    "eps=1e-6,qkv_bias=1",
    "llama-char",
    "layers=4,heads=4,kv_heads=2,embed=128,context=64,vocab=256", /* a small CPU setting, on bytes */
    NULL,
};

static enum mt_status complete(struct mt_model *model, struct mt_err *err) {
    int64_t embed = mt_model_get(model, "embed"), heads = mt_model_get(model, "heads");
    int64_t kv_heads = mt_model_get(model, "kv_heads"), size = mt_model_get(model, "headsize");
    if (!kv_heads) mt_model_set(model, "kv_heads", kv_heads = heads);
    if (heads % kv_heads)
        return mt_fail(err, MT_EINPUT, "heads=%lld is not a multiple of kv_heads=%lld", (long long)heads,
                       (long long)kv_heads);
    if (!size && embed % heads)
        return mt_fail(err, MT_EINPUT, "embed=%lld is not a multiple of heads=%lld", (long long)embed,
                       (long long)heads);
    if (!size) mt_model_set(model, "headsize", size = embed / heads);
    if (size % 2) return mt_fail(err, MT_EINPUT, "headsize=%lld is odd: rotary positions turn pairs", (long long)size);
    if (mt_model_get(model, "ffn") == 0) mt_model_set(model, "ffn", (8 * embed / 3 + 255) / 256 * 256);
    bool slowed = mt_model_get(model, "rope_factor") != 0; /* else the other three say nothing */
    if (slowed && mt_model_get(model, "rope_low") >= mt_model_get(model, "rope_high"))
        return mt_fail(err, MT_EINPUT, "rope_low=%g is not below rope_high=%g", mt_model_real(model, "rope_low"),
                       mt_model_real(model, "rope_high"));
    return MT_OK;
}

struct builder {
    struct mt_graph *graph;
    bool grouped, bias; /* several query heads for a head of keys; biases of q, k and v */
    int64_t window;
    double eps, dropout, residual_std;
    struct mt_attr rope;
    char name[96]; /* what `part` returns: until its next call */
};

static const char *part(struct builder *b, int layer, const char *rest) {
    snprintf(b->name, sizeof b->name, "model.layers.%d.%s", layer, rest);
    return b->name;
}

static int norm(struct builder *b, const char *of, int x) {
    char name[96], weight[112];
    snprintf(name, sizeof name, "%s", of);
    snprintf(weight, sizeof weight, "%s.weight", of);
    int gamma = mt_graph_param(b->graph, weight, "embed", MT_INIT_ONE, 0);
    return mt_op_rms_norm(b->graph, name, x, gamma, b->eps);
}

/* x W^T, summed over the last `nk` axes of x: a checkpoint has weights as [outputs, inputs]. */
static int linear(struct builder *b, int layer, const char *of, int x, int nk, const char *axes, double std) {
    char rest[64];
    snprintf(rest, sizeof rest, "%s.weight", of);
    int w = mt_graph_param(b->graph, part(b, layer, rest), axes, MT_INIT_NORMAL, std);
    return mt_op_matmul(b->graph, part(b, layer, of), x, w, nk, MT_TRANS_B);
}

/* Queries, keys or values: with their bias, where the model has them. */
static int project(struct builder *b, int layer, const char *of, int x, const char *axes, const char *bias_axes) {
    int y = linear(b, layer, of, x, 1, axes, 0.02);
    if (!b->bias) return y;
    char rest[64];
    snprintf(rest, sizeof rest, "%s.bias", of);
    int bias = mt_graph_param(b->graph, part(b, layer, rest), bias_axes, MT_INIT_ZERO, 0);
    snprintf(rest, sizeof rest, "%s.add_bias", of);
    return mt_op_add(b->graph, part(b, layer, rest), y, bias);
}

static int residual(struct builder *b, int layer, const char *of, int x, int branch) {
    return mt_model_residual(b->graph, part(b, layer, of), x, branch, b->dropout);
}

/* Keys and values are made apart, because a checkpoint has them so and only keys are turned; attention reads them as
 * one value. */
static int attention(struct builder *b, int layer, int x) {
    struct mt_graph *g = b->graph;
    bool grouped = b->grouped;
    int q = project(b, layer, "self_attn.q_proj", x, grouped ? "heads queries headsize,embed" : "heads headsize,embed",
                    grouped ? "heads queries headsize" : "heads headsize");
    int k = project(b, layer, "self_attn.k_proj", x, "heads headsize,embed", "heads headsize");
    int v = project(b, layer, "self_attn.v_proj", x, "heads headsize,embed", "heads headsize");
    q = mt_op_rotary(g, part(b, layer, "self_attn.q_rotary"), q, &b->rope);
    k = mt_op_rotary(g, part(b, layer, "self_attn.k_rotary"), k, &b->rope);
    int kv = mt_op_join(g, part(b, layer, "self_attn.kv"), (int[]){k, v}, 2, 5, 2, mt_graph_find_label(g, "two"));
    return mt_op_window_attention(g, part(b, layer, "self_attn"), q, kv, b->window, b->dropout);
}

static int block(struct builder *b, int layer, int x) {
    int y = norm(b, part(b, layer, "input_layernorm"), x);
    y = attention(b, layer, y);
    y = linear(b, layer, "self_attn.o_proj", y, b->grouped ? 3 : 2,
               b->grouped ? "embed,heads queries headsize" : "embed,heads headsize", b->residual_std);
    x = residual(b, layer, "self_attn", x, y);
    y = norm(b, part(b, layer, "post_attention_layernorm"), x);
    int gate = linear(b, layer, "mlp.gate_proj", y, 1, "ffn,embed", 0.02);
    int up = linear(b, layer, "mlp.up_proj", y, 1, "ffn,embed", 0.02);
    y = mt_op_silu_mul(b->graph, part(b, layer, "mlp.act"), gate, up);
    y = linear(b, layer, "mlp.down_proj", y, 1, "embed,ffn", b->residual_std);
    return residual(b, layer, "mlp", x, y);
}

static enum mt_status make_labels(const struct mt_model *model, int64_t batch, int64_t seq, struct mt_graph *graph,
                                  struct mt_err *err) {
    int64_t kv_heads = mt_model_get(model, "kv_heads"), queries = mt_model_get(model, "heads") / kv_heads;
    const struct mt_label labels[] = {
        {"batch", batch, 1},
        {"seq", seq, 1},
        {"embed", mt_model_get(model, "embed"), 8},
        {"heads", kv_heads, 1},
        {"two", 2, 1},
        {"headsize", mt_model_get(model, "headsize"), 1},
        {"vocab", mt_model_get(model, "vocab"), 8},
        {"ffn", mt_model_get(model, "ffn"), 8},
        {"queries", queries, 1},
    };
    size_t n = sizeof labels / sizeof *labels;
    return mt_graph_labels(graph, labels, queries > 1 ? n : n - 1, err);
}

static struct mt_attr rope_of(const struct mt_model *model) {
    struct mt_attr rope = {.rope_base = (double)mt_model_get(model, "theta")};
    if (!mt_model_get(model, "rope_factor")) return rope;
    rope.rope_factor = mt_model_real(model, "rope_factor");
    rope.rope_low = mt_model_real(model, "rope_low");
    rope.rope_high = mt_model_real(model, "rope_high");
    rope.rope_context = mt_model_get(model, "rope_context");
    return rope;
}

static enum mt_status build(const struct mt_model *model, int64_t batch, int64_t seq, double dropout,
                            struct mt_graph *graph, struct mt_err *err) {
    enum mt_status st = mt_model_check_seq(model, seq, err);
    if (!st) st = make_labels(model, batch, seq, graph, err);
    if (st) return st;
    int layers = (int)mt_model_get(model, "layers");
    struct builder b = {.graph = graph, .dropout = dropout, .eps = mt_model_real(model, "eps"), .rope = rope_of(model)};
    b.grouped = mt_model_get(model, "heads") > mt_model_get(model, "kv_heads");
    b.bias = mt_model_get(model, "qkv_bias");
    b.window = mt_model_get(model, "window");
    b.residual_std = 0.02 / sqrt(2.0 * layers);

    int tokens = mt_graph_input(graph, "tokens", MT_I32, "batch seq");
    mt_graph_input(graph, "targets", MT_I32, "batch seq");
    int table = mt_graph_param(graph, "model.embed_tokens.weight", "vocab,embed", MT_INIT_NORMAL, 0.02);
    int x = mt_op_embedding(graph, "model.embed_tokens", table, tokens);
    x = mt_op_dropout(graph, "model.embed_tokens.dropout", x, dropout);
    for (int layer = 0; layer < layers; layer++) x = block(&b, layer, x);
    x = norm(&b, "model.norm", x);
    mt_model_head(model, graph, table, x);
    return MT_OK;
}

/* 6 N + 12 L d a (model.h): d elements in all query heads, a the positions that a query sees on average: half of the
 * sequence, or fewer by a window. The embedding is a look-up and counts nothing, unless it is the output layer too. */
static double flops_per_token(const struct mt_model *model, int64_t seq) {
    double layers = (double)mt_model_get(model, "layers"), embed = (double)mt_model_get(model, "embed");
    double ffn = (double)mt_model_get(model, "ffn"), vocab = (double)mt_model_get(model, "vocab");
    double size = (double)mt_model_get(model, "headsize"), d = size * (double)mt_model_get(model, "heads");
    double kv = 2 * size * (double)mt_model_get(model, "kv_heads");
    double bias = mt_model_get(model, "qkv_bias") ? d + kv : 0;
    double n = vocab * embed + layers * (embed * (2 * d + kv) + 3 * embed * ffn + bias + 2 * embed) + embed;
    double t = (double)seq, behind = mt_model_get(model, "window") ? t - (double)mt_model_get(model, "window") : 0;
    double seen = t / 2 - (behind > 0 ? behind * behind / t / 2 : 0);
    return 6 * n + 12 * layers * d * seen;
}

const struct mt_model_class mt_model_class_llama = {
    .name = "llama",
    .help = "the Llama family (Llama 2 and 3, Mistral, Qwen2): tokens to the next token",
    .named = named,
    .options = options,
    .complete = complete,
    .build = build,
    .flops_per_token = flops_per_token,
};
