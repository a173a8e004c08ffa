/* Llama 2 and 3; and the keys that others share. */
#include "synth/models/config/internal.h"

const struct mt_config_key mt_config_llama_keys[] = {
    {.key = "vocab_size", .meaning = MT_KEY_COUNT, .option = "vocab", .written = true},
    {.key = "hidden_size", .meaning = MT_KEY_COUNT, .option = "embed", .written = true},
    {.key = "intermediate_size", .meaning = MT_KEY_COUNT, .option = "ffn", .written = true},
    {.key = "num_hidden_layers", .meaning = MT_KEY_COUNT, .option = "layers", .written = true},
    {.key = "num_attention_heads", .meaning = MT_KEY_COUNT, .option = "heads", .written = true},
    {.key = "head_dim",
     .meaning = MT_KEY_COUNT,
     .option = "headsize",
     .optional = true,
     .nullable = true,
     .written = true},
    {.key = "max_position_embeddings", .meaning = MT_KEY_COUNT, .option = "context", .written = true},
    {.key = "rms_norm_eps", .meaning = MT_KEY_REAL, .option = "eps", .optional = true, .absent = 1e-6, .written = true},
    {.key = "rope_theta",
     .meaning = MT_KEY_REAL,
     .option = "theta",
     .optional = true,
     .absent = 10000,
     .written = true},
    {.key = "rope_scaling", .meaning = MT_KEY_ROPE, .optional = true, .written = true},
    {.key = "rope_parameters", .meaning = MT_KEY_ROPE, .optional = true},
    {.key = "tie_word_embeddings", .meaning = MT_KEY_TRUTH, .option = "tied", .optional = true, .written = true},
    {.key = "hidden_act", .meaning = MT_KEY_ONLY, .optional = true, .values = "\"silu\"|\"swish\"", .written = true},
    {.key = "attention_dropout",
     .meaning = MT_KEY_ONLY,
     .optional = true,
     .values = "0",
     .written = true,
     .instead = "set it to 0, if that is how you want to train: it changes no weights; --dropout drops elsewhere too"},
    {0},
};

static const struct mt_config_key keys[] = {
    {.key = "num_key_value_heads",
     .meaning = MT_KEY_COUNT,
     .option = "kv_heads",
     .optional = true,
     .nullable = true,
     .written = true},
    {.key = "attention_bias", .meaning = MT_KEY_ONLY, .optional = true, .values = "false", .written = true},
    {.key = "mlp_bias", .meaning = MT_KEY_ONLY, .optional = true, .values = "false", .written = true},
    {.key = "max_sequence_length", .meaning = MT_KEY_IGNORED, .optional = true}, /* of the first Llama */
    {.key = "pretraining_tp", .meaning = MT_KEY_IGNORED, .optional = true},      /* the order of sums */
    {0},
};

static bool fits(const struct mt_model *model) {
    return !mt_model_get(model, "qkv_bias") && !mt_model_get(model, "window");
}

const struct mt_architecture mt_architecture_llama = {.model_type = "llama",
                                                      .with_head = "LlamaForCausalLM",
                                                      .class = "llama",
                                                      .fixed = "",
                                                      .keys = {mt_config_llama_keys, keys},
                                                      .fits = fits};
