/* Model texts, parameter counts against the published ones, checkpoint shapes, and the loss before training. */
#include "synth/models/model.h"
#include "tests/synth/eval.h"

static struct mt_graph *graph_of(const char *text, enum mt_type type, int64_t batch) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_model model;
    struct mt_graph *g;
    CHECK_OK(mt_model_parse(text, &model, &err), err);
    CHECK_OK(mt_model_graph(&model, type, batch, 0, 0, &g, &err), err);
    return g;
}

static void published_counts(void) {
    static const struct {
        const char *text;
        long long parameters;
    } rows[] = {
        {"gpt2:124m", 124439808}, {"gpt2", 124439808},        {"gpt2:355m", 354823168},
        {"gpt2:774m", 774030080}, {"gpt2:1558m", 1557611200},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct mt_graph *g = graph_of(rows[r].text, MT_BF16, 1);
        CHECK_EQ(mt_graph_parameters(g), rows[r].parameters);
        mt_graph_free(g);
    }
    struct mt_graph *untied = graph_of("gpt2:124m,tied=0", MT_F32, 1);
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
    struct mt_graph *g = graph_of("gpt2:124m", MT_F32, 1);
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

/* Before training every token is about as likely as any other. */
static void first_loss(const char *text, double vocab) {
    struct mt_graph *g = graph_of(text, MT_F32, 8);
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
    struct mt_graph *g = graph_of("gpt2:char,layers=3,ffn=96", MT_F32, 1);
    CHECK_OK(mt_model_parse("gpt2:char,layers=3,ffn=96,tied=0", &model, &err), err);
    double n = (double)(mt_graph_parameters(g) - 64 * 128);
    CHECK_NEAR(mt_model_flops_per_token(&model, 32), 6 * n + 6.0 * 3 * 32 * 128, 0);
    mt_graph_free(g);
}

/* Texts that are refused: what the message says, and the hint. */
static const struct {
    const char *text, *says, *hints;
} refused[] = {
    {"", "no model \"\"", "gpt2, mlp"},
    {"gpt3:124m", "no model \"gpt3\"", "gpt2, mlp"},
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
    texts();
    formula();
    errors();
    first_loss("gpt2:layers=2,heads=2,embed=32,context=16,vocab=256", 256);
    first_loss("gpt2:layers=2,heads=2,embed=32,context=16,vocab=97,tied=0,bias=0", 97);
    first_loss("mlp:vocab=200", 200);
    return 0;
}
