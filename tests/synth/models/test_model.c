/* Model texts, parameter counts against the published ones, checkpoint shapes, and the loss before training. */
#include "synth/models/model.h"
#include "tests/synth/eval.h"

static struct mt_graph *graph_of(const char *text, enum mt_type type, int64_t batch, int64_t seq) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_model model;
    struct mt_graph *g;
    CHECK_OK(mt_model_parse(text, &model, &err), err);
    CHECK_OK(mt_model_graph(&model, type, batch, seq, 0, &g, &err), err);
    return g;
}

static void published_counts(void) {
    static const struct {
        const char *text;
        long long parameters;
    } rows[] = {
        {"gpt2:124m", 124439808},          {"gpt2", 124439808},
        {"gpt2:355m", 354823168},          {"gpt2:774m", 774030080},
        {"gpt2:1558m", 1557611200},        {"llama2-7b", 6738415616},
        {"llama2-13b", 13015864320},       {"llama2-70b", 68976648192},
        {"llama3-8b", 8030261248},         {"llama3-70b", 70553706496},
        {"llama:llama3.1-8b", 8030261248}, {"llama3.2-1b", 1235814400},
        {"llama3.2-3b", 3212749824},       {"tinyllama-1.1b", 1100048384},
        {"mistral-7b", 7241732096},        {"qwen2-0.5b", 494032768},
        {"qwen2-1.5b", 1543714304},        {"qwen2-7b", 7615616512},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct mt_graph *g = graph_of(rows[r].text, MT_BF16, 1, r < 5 ? 0 : 8);
        CHECK_EQ(mt_graph_parameters(g), rows[r].parameters);
        mt_graph_free(g);
    }
    struct mt_graph *untied = graph_of("gpt2:124m,tied=0", MT_F32, 1, 0);
    CHECK_EQ(mt_graph_parameters(untied), 124439808 + 50257 * 768);
    mt_graph_free(untied);
}

/* A checkpoint dimension is the product of its axes. */
static void check_shape(const struct mt_graph *g, const char *name, int ndims, long long d0, long long d1, bool decay) {
    int v = mt_graph_find_value(g, name);
    CHECK(v >= 0, "%s", name);
    const long long want[2] = {d0, d1};
    CHECK_EQ(g->values[v].ndims, ndims);
    for (int d = 0, a = 0; d < ndims; d++) {
        long long extent = 1;
        for (; a < g->values[v].group_end[d]; a++) extent *= mt_value_extent(g, v, a);
        CHECK_EQ(extent, want[d]);
    }
    CHECK_EQ(g->values[v].decay, decay);
    CHECK(g->values[v].param, "%s", name);
}

/* As in the published model.safetensors of GPT-2. */
static void checkpoint_names(void) {
    struct mt_graph *g = graph_of("gpt2:124m", MT_F32, 1, 0);
    check_shape(g, "wte.weight", 2, 50257, 768, true);
    check_shape(g, "wpe.weight", 2, 1024, 768, true);
    check_shape(g, "ln_f.weight", 1, 768, 0, false);
    check_shape(g, "ln_f.bias", 1, 768, 0, false);
    for (int layer = 0; layer < 12; layer++) {
        static const struct {
            const char *name;
            int ndims;
            long long d0, d1;
        } rows[] = {
            {"ln_1.weight", 1, 768, 0},          {"ln_1.bias", 1, 768, 0},
            {"ln_2.weight", 1, 768, 0},          {"ln_2.bias", 1, 768, 0},
            {"attn.c_attn.bias", 1, 2304, 0},    {"attn.c_attn.weight", 2, 768, 2304},
            {"attn.c_proj.weight", 2, 768, 768}, {"attn.c_proj.bias", 1, 768, 0},
            {"mlp.c_fc.weight", 2, 768, 3072},   {"mlp.c_fc.bias", 1, 3072, 0},
            {"mlp.c_proj.bias", 1, 768, 0},      {"mlp.c_proj.weight", 2, 3072, 768},
        };
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            char name[64];
            snprintf(name, sizeof name, "h.%d.%s", layer, rows[r].name);
            check_shape(g, name, rows[r].ndims, rows[r].d0, rows[r].d1, rows[r].ndims == 2);
        }
    }
    int params = 0;
    for (int v = 0; v < g->nvalues; v++) params += g->values[v].param;
    CHECK_EQ(params, 148);
    CHECK_NEAR(g->values[mt_graph_find_value(g, "h.3.mlp.c_fc.weight")].init_std, 0.02, 0);
    CHECK_NEAR(g->values[mt_graph_find_value(g, "h.3.mlp.c_proj.weight")].init_std, 0.0040824829046386302, 1e-17);
    CHECK_EQ(g->values[mt_graph_find_value(g, "h.3.ln_1.weight")].init, MT_INIT_ONE);
    CHECK_EQ(g->values[mt_graph_find_value(g, "h.3.ln_1.bias")].init, MT_INIT_ZERO);
    mt_graph_free(g);
}

/* As in the published model.safetensors of Qwen2 0.5B, which has everything but an output layer. */
static void llama_names(void) {
    struct mt_graph *g = graph_of("qwen2-0.5b", MT_F32, 1, 8);
    check_shape(g, "model.embed_tokens.weight", 2, 151936, 896, true);
    check_shape(g, "model.norm.weight", 1, 896, 0, false);
    for (int layer = 0; layer < 24; layer++) {
        static const struct {
            const char *name;
            int ndims;
            long long d0, d1;
        } rows[] = {
            {"input_layernorm.weight", 1, 896, 0},    {"post_attention_layernorm.weight", 1, 896, 0},
            {"self_attn.q_proj.weight", 2, 896, 896}, {"self_attn.q_proj.bias", 1, 896, 0},
            {"self_attn.k_proj.weight", 2, 128, 896}, {"self_attn.k_proj.bias", 1, 128, 0},
            {"self_attn.v_proj.weight", 2, 128, 896}, {"self_attn.v_proj.bias", 1, 128, 0},
            {"self_attn.o_proj.weight", 2, 896, 896}, {"mlp.gate_proj.weight", 2, 4864, 896},
            {"mlp.up_proj.weight", 2, 4864, 896},     {"mlp.down_proj.weight", 2, 896, 4864},
        };
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            char name[96];
            snprintf(name, sizeof name, "model.layers.%d.%s", layer, rows[r].name);
            check_shape(g, name, rows[r].ndims, rows[r].d0, rows[r].d1, rows[r].ndims == 2);
        }
    }
    int params = 0;
    for (int v = 0; v < g->nvalues; v++) params += g->values[v].param;
    CHECK_EQ(params, 290);
    mt_graph_free(g);
    g = graph_of("mistral-7b", MT_F32, 1, 8);
    check_shape(g, "lm_head.weight", 2, 32000, 4096, true);
    CHECK(mt_graph_find_value(g, "model.layers.0.self_attn.q_proj.bias") < 0, "Mistral has no biases");
    mt_graph_free(g);
}

/* Before training every token is about as likely as any other. */
static void first_loss(const char *text, double vocab) {
    struct mt_graph *g = graph_of(text, MT_F32, 8, 0);
    struct eval e = eval_new(g);
    eval_inputs(&e, 3);
    eval_init(&e, 1234);
    eval_run(&e, 1u << MT_ROLE_FORWARD);
    double counted = eval_get(&e, g->token_count, 0);
    int64_t targets = mt_value_count(g, mt_graph_find_value(g, "targets"));
    CHECK_EQ(counted, targets - (targets + 3) / 7);
    CHECK_NEAR(eval_get(&e, g->loss_sum, 0) / counted, log(vocab), 0.15);
    eval_free(&e);
    mt_graph_free(g);
}

static void texts(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_model model, again;
    struct mt_arena arena = MT_ARENA_INIT;
    CHECK_OK(mt_model_parse("gpt2:char,layers=6", &model, &err), err);
    const char *text = mt_model_text(&model, &arena);
    CHECK_TEXT(text, "gpt2:layers=6,heads=4,embed=128,context=64,vocab=256,ffn=512,bias=0,tied=1");
    CHECK_OK(mt_model_parse(text, &again, &err), err);
    CHECK_TEXT(mt_model_text(&again, &arena), text);
    CHECK_EQ(mt_model_get(&again, "ffn"), 512);
    CHECK_OK(mt_model_parse("llama3.2-1b,layers=3,eps=0.000001,rope_low=1.25", &model, &err), err);
    text = mt_model_text(&model, &arena);
    CHECK_TEXT(text, "llama:layers=3,heads=32,kv_heads=8,embed=2048,headsize=64,ffn=8192,context=131072,vocab=128256,"
                     "window=0,qkv_bias=0,tied=1,eps=1e-06,theta=500000,rope_factor=32,rope_low=1.25,rope_high=4,"
                     "rope_context=8192");
    CHECK_OK(mt_model_parse(text, &again, &err), err);
    CHECK_TEXT(mt_model_text(&again, &arena), text);
    CHECK(mt_model_real(&again, "eps") == 1e-6 && mt_model_real(&again, "rope_low") == 1.25, "numbers that are read");
    CHECK_OK(mt_model_parse("llama:rope_factor=0,rope_low=4", &model, &err), err); /* where nothing is slowed */
    CHECK_OK(mt_model_parse("llama:embed=4096", &model, &err), err);
    CHECK_EQ(mt_model_get(&model, "ffn"), 11008); /* as Llama 2's */
    CHECK_EQ(mt_model_get(&model, "kv_heads"), mt_model_get(&model, "heads"));
    CHECK_OK(mt_model_parse("mlp", &model, &err), err);
    CHECK_TEXT(mt_model_text(&model, &arena), "mlp:context=16,embed=32,hidden=256,layers=2,vocab=256");
    mt_arena_release(&arena);
}

/* 6 N + 6 L T d, N from the published count less the position table, and from the graph's own parameters. */
static void formula(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_model model;
    CHECK_OK(mt_model_parse("gpt2:124m", &model, &err), err);
    CHECK_NEAR(mt_model_flops_per_token(&model, 1024), 6.0 * (124439808 - 1024 * 768) + 6.0 * 12 * 1024 * 768, 0);
    struct mt_graph *g = graph_of("gpt2:char,layers=3,ffn=96", MT_F32, 1, 0);
    CHECK_OK(mt_model_parse("gpt2:char,layers=3,ffn=96,tied=0", &model, &err), err);
    double n = (double)(mt_graph_parameters(g) - 64 * 128);
    CHECK_NEAR(mt_model_flops_per_token(&model, 32), 6 * n + 6.0 * 3 * 32 * 128, 0);
    mt_graph_free(g);
    /* 2 flops for each weight and forward, two backward passes: the flops of the graph's GEMMs */
    g = graph_of("llama:layers=3,heads=6,kv_heads=2,embed=32,headsize=8,ffn=96,vocab=64,tied=1", MT_F32, 1, 32);
    CHECK_OK(mt_model_parse("llama:layers=3,heads=6,kv_heads=2,embed=32,headsize=8,ffn=96,vocab=64", &model, &err),
             err);
    n = (double)mt_graph_parameters(g);
    CHECK_NEAR(mt_model_flops_per_token(&model, 32), 6 * n + 6.0 * 3 * 32 * 48, 0);
    mt_graph_free(g);
    CHECK_OK(mt_model_parse("mistral-7b", &model, &err), err);
    CHECK_NEAR(mt_model_flops_per_token(&model, 4096) - mt_model_flops_per_token(&model, 2048), 6.0 * 32 * 2048 * 4096,
               0);
    double seen = 0; /* keys of all queries, on average */
    for (int i = 0; i < 16384; i++) seen += fmin(i + 0.5, 4096) / 16384;
    CHECK_NEAR((mt_model_flops_per_token(&model, 16384) - mt_model_flops_per_token(&model, 4096)) /
                   (12.0 * 32 * 4096 * (seen - 2048)),
               1, 1e-4);
}

/* Texts that are refused: what the message says, and the hint. */
static const struct {
    const char *text, *says, *hints;
} refused[] = {
    {"", "no model \"\"", "gpt2, llama, mlp"},
    {"gpt3:124m", "no model \"gpt3\"", "gpt2, llama, mlp"},
    {"llama3-9b", "no model \"llama3-9b\"", "gpt2, llama, mlp"},
    {"llama:llama3-9b", "no size \"llama3-9b\"", "llama3-8b"},
    {"llama:heads=6,kv_heads=4,embed=24", "heads=6 is not a multiple of kv_heads=4", NULL},
    {"llama:heads=7,embed=24", "embed=24 is not a multiple of heads=7", NULL},
    {"llama:heads=8,embed=24", "headsize=3 is odd", NULL},
    {"llama:eps=1e-12", "eps is \"1e-12\"", NULL},
    {"llama:eps=2", "from 0 to 1", NULL},
    {"llama:eps=1e-5x", "eps is \"1e-5x\"", NULL},
    {"llama:rope_factor=1e400", "rope_factor is \"1e400\"", NULL},
    {"llama:rope_factor=2,rope_low=4", "rope_low=4 is not below rope_high=4", NULL},
    {"gpt2:", "no size \"\"", "124m"},
    {"gpt2:125m", "no size \"125m\"", "124m, 355m"},
    {"gpt2:124m,124m", "no option \"124m\"", "layers, heads"},
    {"gpt2:depth=3", "no option \"depth\"", "layers, heads"},
    {"gpt2:layers=3,", "no option \"\"", NULL},
    {"gpt2:layers=3,layers=4", "layers is given twice", NULL},
    {"gpt2:layers=3,heads", "heads has no value", NULL},
    {"gpt2:layers=", "layers is \"\"", NULL},
    {"gpt2:layers=0", "from 1 to 1000", NULL},
    {"gpt2:layers=-1", "layers is \"-1\"", NULL},
    {"gpt2:layers= 3", "layers is \" 3\"", NULL},
    {"gpt2:layers=3x", "layers is \"3x\"", NULL},
    {"gpt2:layers=99999999999999999999999", "from 1 to 1000", NULL},
    {"gpt2:layers=1111111111111111111111111111111111111111111111111111", "from 1 to 1000", NULL},
    {"gpt2:bias=2", "from 0 to 1", NULL},
    {"gpt2:124m,heads=7", "embed=768 is not a multiple of heads=7", NULL},
    {"mlp:ffn=3", "no option \"ffn\"", "hidden"},
};

static void errors(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_model model;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct mt_err why = MT_ERR_INIT;
        CHECK_EQ(mt_model_parse(refused[i].text, &model, &why), MT_EINPUT);
        CHECK(strstr(why.text, refused[i].says), "\"%s\" does not say \"%s\"", why.text, refused[i].says);
        CHECK(!refused[i].hints || strstr(why.hint, refused[i].hints), "\"%s\" does not hint \"%s\"", why.hint,
              refused[i].hints);
    }
    struct mt_graph *g;
    CHECK_OK(mt_model_parse("gpt2:char", &model, &err), err);
    CHECK_EQ(mt_model_graph(&model, MT_F32, 1, 65, 0, &g, &err), MT_EINPUT);
    CHECK(strstr(err.text, "65") && strstr(err.text, "context=64"), "%s", err.text);
    CHECK_EQ(mt_model_graph(&model, MT_F32, 0, 64, 0, &g, &err), MT_EINPUT);
    CHECK_EQ(mt_model_graph(&model, MT_F32, 1, -1, 0, &g, &err), MT_EINPUT);
    CHECK_EQ(mt_model_graph(&model, MT_F32, 1, 64, 1, &g, &err), MT_EINPUT);
    CHECK_EQ(mt_model_graph(&model, MT_F32, 1, 64, NAN, &g, &err), MT_EINPUT);
    CHECK_EQ(mt_model_graph(&model, MT_F32, INT64_C(1) << 45, 64, 0, &g, &err), MT_EINPUT);
    CHECK(strstr(err.text, "elements"), "%s", err.text);
    CHECK_OK(mt_model_parse("mlp", &model, &err), err);
    CHECK_EQ(mt_model_graph(&model, MT_F32, 1, 8, 0, &g, &err), MT_EINPUT);
    CHECK(strstr(err.text, "context=16"), "%s", err.text);
}

int main(void) {
    published_counts();
    checkpoint_names();
    llama_names();
    texts();
    formula();
    errors();
    first_loss("gpt2:layers=2,heads=2,embed=32,context=16,vocab=256", 256);
    first_loss("gpt2:layers=2,heads=2,embed=32,context=16,vocab=97,tied=0,bias=0", 97);
    first_loss("mlp:vocab=200", 200);
    first_loss("llama:layers=2,heads=4,kv_heads=2,embed=32,context=16,vocab=97,tied=1", 97);
    first_loss("llama:layers=2,heads=4,embed=32,context=16,vocab=256,qkv_bias=1,window=5,rope_factor=8", 256);
    return 0;
}
