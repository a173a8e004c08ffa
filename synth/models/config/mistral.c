/* Mistral: Llama with attention in a window. Its default is a window of 4096, so the key must be there. */
#include "synth/models/config/internal.h"

static const struct mt_config_key keys[] = {
    {.key = "num_key_value_heads", .meaning = MT_KEY_COUNT, .option = "kv_heads", .written = true},
    {.key = "sliding_window", .meaning = MT_KEY_COUNT, .option = "window", .nullable = true, .written = true},
    {.key = "layer_types", .meaning = MT_KEY_EACH, .optional = true, .values = "\"sliding_attention\""},
    {0},
};

static bool fits(const struct mt_model *model) {
    return !mt_model_get(model, "qkv_bias") && mt_model_get(model, "window");
}

const struct mt_architecture mt_architecture_mistral = {.model_type = "mistral",
                                                        .with_head = "MistralForCausalLM",
                                                        .class = "llama",
                                                        .fixed = "",
                                                        .keys = {mt_config_llama_keys, keys},
                                                        .fits = fits};
