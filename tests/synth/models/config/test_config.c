/* config.json: what is read, what is refused and how it is said, what is written; and texts that are damaged at random.
 */
#include "kernels/base/number/rng.h"
#include "synth/models/config/config.h"
#include "tests/check.h"

enum { SEED = 20261123 };

/* As transformers 5 writes it. */
static const char gpt2[] = "{\"activation_function\": \"gelu_new\", \"add_cross_attention\": false, "
                           "\"architectures\": [\"GPT2LMHeadModel\"], \"attn_pdrop\": 0.1, \"bos_token_id\": 50256, "
                           "\"dtype\": \"float32\", \"embd_pdrop\": 0.1, \"eos_token_id\": 50256, "
                           "\"initializer_range\": 0.02, \"layer_norm_epsilon\": 1e-05, \"model_type\": \"gpt2\", "
                           "\"n_embd\": 16, \"n_head\": 2, \"n_inner\": null, \"n_layer\": 3, \"n_positions\": 32, "
                           "\"pad_token_id\": null, \"reorder_and_upcast_attn\": false, \"resid_pdrop\": 0.1, "
                           "\"scale_attn_by_inverse_layer_idx\": false, \"scale_attn_weights\": true, "
                           "\"summary_activation\": null, \"summary_first_dropout\": 0.1, "
                           "\"tie_word_embeddings\": true, \"transformers_version\": \"5.23.0\", \"use_cache\": true, "
                           "\"vocab_size\": 64}";

static struct mt_arena arena;

static enum mt_status parse(const char *text, struct mt_config *config, struct mt_err *err) {
    return mt_config_parse("config.json", text, strlen(text), &arena, config, err);
}

/* The text with its first `from` replaced; the arena's. */
static const char *edited(const char *text, const char *from, const char *to) {
    const char *at = strstr(text, from);
    CHECK(at, "%s", from);
    return mt_arena_printf(&arena, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}

static void expect(const char *text, const char *model, double dropout, const char *note) {
    struct mt_config config;
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(parse(text, &config, &err), err);
    CHECK_TEXT(config.model, model);
    CHECK_NEAR(config.dropout, dropout, 0);
    CHECK(strstr(config.note, note) && (*note || !*config.note), "%s, not %s", config.note, note);
}

static void test_read(void) {
    const char *model = "gpt2:layers=3,heads=2,embed=16,context=32,vocab=64,ffn=64,bias=1,tied=1";
    expect(gpt2, model, 0.1, "");
    expect(edited(gpt2, "\"n_inner\": null, ", ""), model, 0.1, "");
    expect(edited(gpt2, "\"gelu_new\"", "\"gelu_pytorch_tanh\""), model, 0.1, "");
    expect(edited(gpt2, "1e-05", "0.00001"), model, 0.1, "");
    expect(edited(gpt2, "\"initializer_range\": 0.02", "\"initializer_range\": 0.3"), model, 0.1,
           "initializer_range 0.3 is not used");
    expect(edited(gpt2, "\"n_inner\": null", "\"n_inner\": 40"),
           "gpt2:layers=3,heads=2,embed=16,context=32,vocab=64,ffn=40,bias=1,tied=1", 0.1, "");
    expect(edited(gpt2, "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false, \"bias\": false"),
           "gpt2:layers=3,heads=2,embed=16,context=32,vocab=64,ffn=64,bias=0,tied=0", 0.1, "");
    const char *dry =
        edited(edited(edited(gpt2, "attn_pdrop\": 0.1", "attn_pdrop\": 0.0"), "embd_pdrop\": 0.1", "embd_pdrop\": 0"),
               "resid_pdrop\": 0.1", "resid_pdrop\": 0");
    expect(dry, model, 0, "");
}

static void test_refused(void) {
    static const struct {
        const char *from, *to, *message, *hint;
    } cases[] = {
        {"\"gelu_new\"", "\"relu\"",
         "config.json: activation_function: is \"relu\", which would change what the model computes: Motley's gpt2 has "
         "\"gelu_new\" only",
         "choose a model with that value"},
        {"1e-05", "1e-06", "layer_norm_epsilon: is 1e-6", "choose a model"},
        {"\"scale_attn_weights\": true", "\"scale_attn_weights\": false", "scale_attn_weights: is false", "choose"},
        {"idx\": false", "idx\": true", "scale_attn_by_inverse_layer_idx: is true", "choose"},
        {"\"add_cross_attention\": false", "\"add_cross_attention\": true", "add_cross_attention: is true", "choose"},
        {"\"n_layer\": 3, ", "", "config.json: has no \"n_layer\"", ""},
        {"\"n_layer\": 3", "\"n_layer\": \"3\"", "n_layer: must be a whole number, not a string", ""},
        {"\"n_layer\": 3", "\"n_layer\": 3.5", "n_layer: must be a whole number, not 3.5", ""},
        {"\"n_layer\": 3", "\"n_layer\": 0", "n_layer: is 0, but must be from 1 to 1000", ""},
        {"\"n_layer\": 3", "\"n_layer\": null", "n_layer: must be a whole number, not null", ""},
        {"\"n_head\": 2", "\"n_head\": 3", "embed=16 is not a multiple of heads=3", ""},
        {"\"embd_pdrop\": 0.1", "\"embd_pdrop\": 0.2", "one probability everywhere", "make them equal"},
        {"\"embd_pdrop\": 0.1, ", "\"attn_pdrop\": 0.2, ", "duplicate object key", ""},
        {"\"resid_pdrop\": 0.1", "\"resid_pdrop\": 1", "resid_pdrop: is 1: nothing would be left", ""},
        {"\"resid_pdrop\": 0.1", "\"resid_pdrop\": -1", "resid_pdrop: is -1, but must be from 0 to 1", ""},
        {"\"use_cache\": true", "\"use_cash\": true", "key \"use_cash\" is not known: it may change what the model",
         "if you know that it does not, remove it"},
        {"\"use_cache\": true", "\"quantization_config\": {\"bits\": 4}", "quantization_config: is {\"bits\": 4}",
         "dequantize it"},
        {"\"use_cache\": true", "\"auto_map\": {\"AutoModel\": \"m.M\"}", "auto_map: is {\"AutoModel\": \"m.M\"}",
         "code of its own"},
        {"\"use_cache\": true", "\"pruned_heads\": {\"1\": [0]}", "pruned_heads: is {\"1\": [0]}", "choose"},
        {"\"use_cache\": true", "\"is_encoder_decoder\": true", "is_encoder_decoder: is true", "choose"},
        {"\"model_type\": \"gpt2\"", "\"model_type\": \"bert\"", "model_type: Motley has no model of type \"bert\"",
         "model types are: gpt2"},
        {"\"model_type\": \"gpt2\", ", "", "config.json: has no \"model_type\"", "says model_type"},
        {"\"model_type\": \"gpt2\"", "\"model_type\": 2", "model_type: must be a string", ""},
        {"\"tie_word_embeddings\": true", "\"tie_word_embeddings\": 1", "tie_word_embeddings: must be true or false",
         ""},
        {"0.02", "\"small\"", "initializer_range: must be a number", ""},
        {"}", "", "config.json:1:", ""},
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        struct mt_config config;
        struct mt_err err = MT_ERR_INIT;
        CHECK_EQ(parse(edited(gpt2, cases[i].from, cases[i].to), &config, &err), MT_EINPUT);
        CHECK(strstr(err.text, cases[i].message), "%s, not %s", err.text, cases[i].message);
        CHECK(strstr(err.hint, cases[i].hint), "%s, not %s", err.hint, cases[i].hint);
    }
    struct mt_config config;
    struct mt_err err = MT_ERR_INIT;
    CHECK_EQ(parse("[]", &config, &err), MT_EINPUT);
    CHECK_EQ(mt_config_read("no/such/folder", &arena, &config, &err), MT_EINPUT);
    CHECK_EQ(mt_config_read("/", &arena, &config, &err), MT_EINPUT);
    CHECK(strstr(err.text, "/config.json") && strstr(err.hint, "as transformers writes it"), "%s", err.text);
}

/* What is written is read as the same model, with the numbers that transformers' keys have. */
static void test_write(void) {
    static const char *const models[] = {"gpt2:char,tied=0", "gpt2:124m", "gpt2:355m,ffn=64,vocab=77,context=5"};
    for (int i = 0; i < 3; i++) {
        struct mt_model model;
        struct mt_err err = MT_ERR_INIT;
        CHECK_OK(mt_model_parse(models[i], &model, &err), err);
        char *text = mt_config_text(&model, i ? MT_F32 : MT_F64, 0.25 * i);
        expect(text, mt_model_text(&model, &arena), 0.25 * i, "");
        CHECK(strstr(text, i ? "\"torch_dtype\": \"float32\"" : "\"torch_dtype\": \"float64\""), "%s", text);
        CHECK(strstr(text, "\"architectures\": [\"GPT2LMHeadModel\"]"), "%s", text);
        CHECK(strstr(text, "\"layer_norm_epsilon\": 1e-05"), "%s", text);
        CHECK(strstr(text, "\"activation_function\": \"gelu_new\""), "%s", text);
        CHECK(strstr(text, "\"eos_token_id\": null"), "%s", text);
        if (i == 2) CHECK(strstr(text, "\"n_inner\": 64") && strstr(text, "\"n_positions\": 5"), "%s", text);
        free(text);
    }
    struct mt_model mlp;
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_model_parse("mlp", &mlp, &err), err);
    CHECK(!mt_config_text(&mlp, MT_F32, 0), "transformers has no such model");
}

static void test_paths(void) {
    CHECK(mt_config_is_path("folder/") && mt_config_is_path("/a") && mt_config_is_path("./gpt2"));
    CHECK(mt_config_is_path(".") && !mt_config_is_path("gpt2:124m") && !mt_config_is_path("gpt2"));
    CHECK(!mt_config_is_path("mlp") && !mt_config_is_path("nothing-here"));
}

/* Any damage is refused with a message, or leaves a text that is a model's. */
static void test_damaged(void) {
    enum { ROUNDS = 20000, MOST = 4 };
    static const char bytes[] = "{}[]\",:0123456789.eE-+ntrufalse_ \x01\xff";
    int refused = 0;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        struct mt_config config;
        struct mt_err err = MT_ERR_INIT;
        struct mt_model model;
        struct mt_arena own = MT_ARENA_INIT;
        char text[sizeof gpt2];
        size_t length = sizeof gpt2 - 1;
        memcpy(text, gpt2, sizeof gpt2);
        uint64_t count = 1 + (uint64_t)(MOST * mt_random_uniform(SEED, round, 0));
        for (uint64_t i = 0; i < count; i++) {
            size_t at = (size_t)((double)length * mt_random_uniform(SEED, round, 2 * i + 1));
            text[at] = bytes[(size_t)((double)(sizeof bytes - 1) * mt_random_uniform(SEED, round, 2 * i + 2))];
        }
        if (round % 5 == 0) length = (size_t)((double)length * mt_random_uniform(SEED, round, 99));
        if (mt_config_parse("config.json", text, length, &own, &config, &err)) {
            CHECK(err.status == MT_EINPUT && err.text[0], "%.*s", (int)length, text);
            refused++;
        } else {
            CHECK_OK(mt_model_parse(config.model, &model, &err), err);
            CHECK_TEXT(config.model, mt_model_text(&model, &own));
        }
        mt_arena_release(&own);
    }
    CHECK(refused > ROUNDS / 2 && refused < ROUNDS, "%d", refused);
}

int main(void) {
    printf("seed %d\n", SEED);
    test_read();
    test_refused();
    test_write();
    test_paths();
    test_damaged();
    mt_arena_release(&arena);
    return 0;
}
