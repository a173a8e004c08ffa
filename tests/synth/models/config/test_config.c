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

/* Llama 3.1 8B as it was published (by transformers 4), but smaller. */
static const char llama[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"attention_bias\": false, \"attention_dropout\": 0.0, "
    "\"bos_token_id\": 128000, \"eos_token_id\": [128001, 128008], \"hidden_act\": \"silu\", \"hidden_size\": 64, "
    "\"initializer_range\": 0.02, \"intermediate_size\": 96, \"max_position_embeddings\": 131072, \"mlp_bias\": false, "
    "\"model_type\": \"llama\", \"num_attention_heads\": 4, \"num_hidden_layers\": 2, \"num_key_value_heads\": 2, "
    "\"pretraining_tp\": 1, \"rms_norm_eps\": 1e-05, \"rope_scaling\": {\"factor\": 8.0, \"low_freq_factor\": 1.0, "
    "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192, \"rope_type\": \"llama3\"}, "
    "\"rope_theta\": 500000.0, \"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\", "
    "\"transformers_version\": \"4.43.0\", \"use_cache\": true, \"vocab_size\": 256}";

/* Mistral 7B; the same by transformers 5; Qwen2 7B. */
#define FAMILY                                                                                                         \
    "\"attention_dropout\": 0.0, \"hidden_act\": \"silu\", \"hidden_size\": 64, \"intermediate_size\": 96, "           \
    "\"max_position_embeddings\": 512, \"num_attention_heads\": 4, \"num_hidden_layers\": 2, "                         \
    "\"num_key_value_heads\": 2, \"vocab_size\": 256, "
static const char mistral[] = "{\"model_type\": \"mistral\", " FAMILY
                              "\"rms_norm_eps\": 1e-05, \"rope_theta\": 10000.0, \"sliding_window\": 4096}";
static const char mistral5[] =
    "{\"model_type\": \"mistral\", " FAMILY "\"head_dim\": 8, \"rope_parameters\": {\"rope_theta\": 1000000.0, "
    "\"rope_type\": \"default\"}, \"sliding_window\": null, \"dtype\": \"float16\"}";
static const char qwen2[] = "{\"model_type\": \"qwen2\", " FAMILY
                            "\"rms_norm_eps\": 1e-06, \"rope_theta\": 1000000.0, \"max_window_layers\": 28, "
                            "\"sliding_window\": 131072, \"use_sliding_window\": false, \"use_mrope\": false, "
                            "\"layer_types\": [\"full_attention\", \"full_attention\"], "
                            "\"tie_word_embeddings\": true}";

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
    /* GPT-2 medium, large and XL, and DistilGPT-2, as they were published. */
    expect(edited(gpt2, "\"n_layer\"",
                  "\"n_ctx\": 32, \"n_special\": 0, \"output_past\": true, \"predict_special_tokens\": true, "
                  "\"_num_labels\": 1, \"id2label\": {\"0\": \"LABEL_0\"}, \"n_layer\""),
           model, 0.1, "");
    const char *dry =
        edited(edited(edited(gpt2, "attn_pdrop\": 0.1", "attn_pdrop\": 0.0"), "embd_pdrop\": 0.1", "embd_pdrop\": 0"),
               "resid_pdrop\": 0.1", "resid_pdrop\": 0");
    expect(dry, model, 0, "");
}

#define ROPE ",rope_factor=0,rope_low=1,rope_high=4,rope_context=8192"
#define SIZES "llama:layers=2,heads=4,kv_heads=2,embed=64"

static void test_read_llama(void) {
    const char *slowed = ",rope_factor=8,rope_low=1,rope_high=4,rope_context=8192";
    const char *text = SIZES ",headsize=16,ffn=96,context=131072,vocab=256,window=0,qkv_bias=0,tied=0,eps=1e-05,"
                             "theta=500000";
    expect(llama, mt_arena_printf(&arena, "%s%s", text, slowed), -1, "");
    expect(edited(llama, "\"rope_type\": \"llama3\"", "\"type\": \"llama3\""),
           mt_arena_printf(&arena, "%s%s", text, slowed), -1, "");
    expect(edited(llama, "\"mlp_bias\"", "\"max_sequence_length\": 2048, \"add_cross_attention\": false, \"mlp_bias\""),
           mt_arena_printf(&arena, "%s%s", text, slowed), -1, "");
    expect(edited(llama, "\"num_key_value_heads\": 2, ", ""), /* as in transformers: as many as heads */
           mt_arena_printf(&arena, "%s%s", edited(text, "kv_heads=2", "kv_heads=4"), slowed), -1, "");
    expect(edited(llama, "\"rms_norm_eps\": 1e-05, ", ""),
           mt_arena_printf(&arena, "%s%s", edited(text, "1e-05", "1e-06"), slowed), -1, "");
    expect(mistral,
           SIZES ",headsize=16,ffn=96,context=512,vocab=256,window=4096,qkv_bias=0,tied=0,eps=1e-05,theta=10000" ROPE,
           -1, "");
    expect(mistral5,
           SIZES ",headsize=8,ffn=96,context=512,vocab=256,window=0,qkv_bias=0,tied=0,eps=1e-06,theta=1000000" ROPE, -1,
           "");
    expect(qwen2,
           SIZES ",headsize=16,ffn=96,context=512,vocab=256,window=0,qkv_bias=1,tied=1,eps=1e-06,theta=1000000" ROPE,
           -1, "");
}

static void test_refused_llama(void) {
    static const struct {
        const char *of, *from, *to, *message, *hint;
    } cases[] = {
        {llama, "\"attention_dropout\": 0.0", "\"attention_dropout\": 0.1",
         "attention_dropout: is 0.1, which would change what the model computes: Motley's llama has 0 only",
         "set it to 0, if that is how"},
        {llama, "\"llama3\"", "\"yarn\"",
         "rope_scaling.rope_type: is \"yarn\", but Motley turns positions as \"default\" or \"llama3\" only",
         "choose a model"},
        {llama, "\"rope_type\": \"llama3\"", "\"type\": \"linear\"", "rope_scaling.type: is \"linear\"", "choose"},
        {llama, "\"factor\": 8.0, ", "", "rope_scaling: has no \"factor\"", ""},
        {llama, "\"factor\": 8.0", "\"factor\": 0", "factor: must be above 0", ""},
        {llama, "\"factor\": 8.0", "\"factor\": 8.00007", "is 8.00007, but Motley has it in steps of 0.001", ""},
        {llama, "\"low_freq_factor\": 1.0", "\"low_freq_factor\": 4.0", "rope_low=4 is not below rope_high=4", ""},
        {llama, ", \"rope_type\": \"llama3\"", "", "rope_scaling: key \"", "remove it from the file"},
        {llama, "\"rope_type\": \"llama3\"", "\"rope_type\": \"llama3\", \"beta_fast\": 32",
         "rope_scaling: key \"beta_fast\" is not known", "remove it"},
        {llama, "{\"factor\": 8.0", "{\"rope_theta\": 10000, \"factor\": 8.0", "says otherwise", "correct the one"},
        {llama, "\"rope_scaling\": {", "\"rope_scaling\": [], \"x\": {", "rope_scaling: must be an object", ""},
        {llama, "\"silu\"", "\"gelu\"", "hidden_act: is \"gelu\", which would change", "choose"},
        {llama, "\"attention_bias\": false", "\"attention_bias\": true", "attention_bias: is true", "choose"},
        {llama, "\"mlp_bias\": false", "\"mlp_bias\": true", "mlp_bias: is true", "choose"},
        {llama, "\"mlp_bias\": false", "\"sliding_window\": 7", "key \"sliding_window\" is not known", "remove"},
        {llama, "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 0", "num_key_value_heads: is 0, but must be",
         ""},
        {llama, "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3", "heads=4 is not a multiple of kv_heads=3",
         ""},
        {llama, "1e-05", "1e-12", "rms_norm_eps: is 1e-12, but Motley has it in steps of 1e-09", ""},
        {llama, "500000.0", "500000.5", "rope_theta: is 500000.5, but Motley has it in steps of 1", ""},
        {llama, "500000.0", "0", "rope_theta: is 0, but must be from 1", ""},
        {mistral, ", \"sliding_window\": 4096", "", "has no \"sliding_window\"", ""},
        {mistral, "\"num_key_value_heads\": 2, ", "", "has no \"num_key_value_heads\"", ""},
        {mistral, "\"sliding_window\": 4096", "\"sliding_window\": -1", "sliding_window: is -1, but must be", ""},
        {mistral5, "\"rope_type\": \"default\"", "\"rope_type\": \"dynamic\"",
         "rope_parameters.rope_type: is \"dynamic\"", "choose"},
        {mistral5, "1000000.0", "1000000.0, \"partial_rotary_factor\": 0.5", "key \"partial_rotary_factor\" is not",
         ""},
        {qwen2, "use_sliding_window\": false", "use_sliding_window\": true", "use_sliding_window: is true", "choose"},
        {qwen2, "use_mrope\": false", "use_mrope\": true", "use_mrope: is true", "choose"},
        {qwen2, "[\"full_attention\"", "[\"sliding_attention\"", "layer_types[0]: is \"sliding_attention\"", "choose"},
        {qwen2, "\"attention_dropout\": 0.0", "\"attention_dropout\": 0.5", "Motley's qwen2 has 0 only", "set it to 0"},
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        struct mt_config config;
        struct mt_err err = MT_ERR_INIT;
        CHECK(parse(edited(cases[i].of, cases[i].from, cases[i].to), &config, &err) == MT_EINPUT, "%s", cases[i].to);
        CHECK(strstr(err.text, cases[i].message), "%s, not %s", err.text, cases[i].message);
        CHECK(strstr(err.hint, cases[i].hint), "%s, not %s", err.hint, cases[i].hint);
    }
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
        {"\"n_layer\": 3", "\"n_layer\": 3, \"n_special\": 2", "n_special: is 2, which would change", "choose"},
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

/* Token ids are those of the file that is given, one, several or none; others are no matter of models. */
static void test_tokens(void) {
    struct mt_config config, again;
    struct mt_model model;
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(parse(llama, &config, &err), err);
    CHECK(config.tokens[MT_TOKEN_BOS].count == 1 && config.tokens[MT_TOKEN_BOS].ids[0] == 128000);
    CHECK(config.tokens[MT_TOKEN_EOS].count == 2 && config.tokens[MT_TOKEN_EOS].ids[1] == 128008);
    CHECK_EQ(config.tokens[MT_TOKEN_PAD].count, 0);
    CHECK_OK(mt_model_parse(config.model, &model, &err), err);
    char *text = mt_config_text(&model, MT_F32, 0, &config);
    CHECK(strstr(text, "\"bos_token_id\": 128000,") && strstr(text, "\"eos_token_id\": [128001, 128008],"), "%s", text);
    CHECK_OK(parse(text, &again, &err), err);
    CHECK(!memcmp(again.tokens, config.tokens, sizeof config.tokens));
    free(text);
    CHECK_OK(parse(edited(llama, "128000", "\"<s>\""), &config, &err), err);
    CHECK_EQ(config.tokens[MT_TOKEN_BOS].count, 0);
    CHECK_EQ(parse(edited(llama, "128008", "\"</s>\""), &config, &err), MT_EINPUT);
    CHECK(strstr(err.text, "eos_token_id[1]: must be a whole number"), "%s", err.text);
}

/* What is written is read as the same model, with the numbers that transformers' keys have. */
static void test_write(void) {
    static const char *const models[] = {"gpt2:char,tied=0", "gpt2:124m", "gpt2:355m,ffn=64,vocab=77,context=5"};
    for (int i = 0; i < 3; i++) {
        struct mt_model model;
        struct mt_err err = MT_ERR_INIT;
        CHECK_OK(mt_model_parse(models[i], &model, &err), err);
        char *text = mt_config_text(&model, i ? MT_F32 : MT_F64, 0.25 * i, NULL);
        expect(text, mt_model_text(&model, &arena), 0.25 * i, "");
        CHECK(strstr(text, i ? "\"torch_dtype\": \"float32\"" : "\"torch_dtype\": \"float64\""), "%s", text);
        CHECK(strstr(text, "\"architectures\": [\"GPT2LMHeadModel\"]"), "%s", text);
        CHECK(strstr(text, "\"layer_norm_epsilon\": 1e-05"), "%s", text);
        CHECK(strstr(text, "\"activation_function\": \"gelu_new\""), "%s", text);
        CHECK(strstr(text, "\"eos_token_id\": null"), "%s", text);
        if (i == 2) CHECK(strstr(text, "\"n_inner\": 64") && strstr(text, "\"n_positions\": 5"), "%s", text);
        free(text);
    }
    static const struct {
        const char *model, *head;
    } llamas[] = {{"llama3.1-8b", "LlamaForCausalLM"},
                  {"llama2-7b,eps=1e-9", "LlamaForCausalLM"},
                  {"mistral-7b,headsize=96", "MistralForCausalLM"},
                  {"qwen2-0.5b", "Qwen2ForCausalLM"}};
    for (int i = 0; i < 4; i++) {
        struct mt_model model;
        struct mt_err err = MT_ERR_INIT;
        CHECK_OK(mt_model_parse(llamas[i].model, &model, &err), err);
        char *text = mt_config_text(&model, MT_F32, 0, NULL);
        expect(text, mt_model_text(&model, &arena), -1, "");
        CHECK(strstr(text, llamas[i].head), "%s", text);
        free(text);
    }
    static const char *const ours[] = {"mlp", "llama:qkv_bias=1,window=5"};
    for (int i = 0; i < 2; i++) {
        struct mt_model model;
        struct mt_err err = MT_ERR_INIT;
        CHECK_OK(mt_model_parse(ours[i], &model, &err), err);
        CHECK(!mt_config_text(&model, MT_F32, 0, NULL), "transformers has no such model");
    }
}

static void test_paths(void) {
    CHECK(mt_config_is_path("folder/") && mt_config_is_path("/a") && mt_config_is_path("./gpt2"));
    CHECK(!mt_config_is_path("llama3-8b,context=512") && !mt_config_is_path("llama3-8b"));
    CHECK(mt_config_is_path(".") && !mt_config_is_path("gpt2:124m") && !mt_config_is_path("gpt2"));
    CHECK(!mt_config_is_path("mlp") && !mt_config_is_path("nothing-here"));
}

/* Any damage is refused with a message, or leaves a text that is a model's. */
static void test_damaged(const char *good, uint64_t stream) {
    enum { ROUNDS = 8000, MOST = 4 };
    static const char bytes[] = "{}[]\",:0123456789.eE-+ntrufalse_ \x01\xff";
    int refused = 0;
    for (uint64_t round = stream; round < stream + ROUNDS; round++) {
        struct mt_config config;
        struct mt_err err = MT_ERR_INIT;
        struct mt_model model;
        struct mt_arena own = MT_ARENA_INIT;
        size_t length = strlen(good);
        char *text = mt_arena_strdup(&own, good);
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
    test_read_llama();
    test_refused();
    test_refused_llama();
    test_tokens();
    test_write();
    test_paths();
    const char *const good[] = {gpt2, llama, mistral5, qwen2};
    for (uint64_t i = 0; i < 4; i++) test_damaged(good[i], 100000 * i);
    mt_arena_release(&arena);
    return 0;
}
