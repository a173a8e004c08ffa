/* Qwen2 and 2.5: Llama with biases of queries, keys and values. Its windows are of some layers only, and refused. */
#include "synth/models/config/internal.h"

static const struct mt_config_key keys[] = {
    {.key = "num_key_value_heads", .meaning = MT_KEY_COUNT, .option = "kv_heads", .written = true},
    {.key = "use_sliding_window", .meaning = MT_KEY_ONLY, .optional = true, .values = "false", .written = true},
    {.key = "use_mrope", .meaning = MT_KEY_ONLY, .optional = true, .values = "false"},
    {.key = "layer_types", .meaning = MT_KEY_EACH, .optional = true, .values = "\"full_attention\""},
    {.key = "sliding_window", .meaning = MT_KEY_IGNORED, .optional = true}, /* without use_sliding_window */
    {.key = "max_window_layers", .meaning = MT_KEY_IGNORED, .optional = true},
    {0},
};

static bool fits(const struct mt_model *model) {
    return mt_model_get(model, "qkv_bias") && !mt_model_get(model, "window");
}

const struct mt_architecture mt_architecture_qwen2 = {.model_type = "qwen2",
                                                      .with_head = "Qwen2ForCausalLM",
                                                      .class = "llama",
                                                      .fixed = "qkv_bias=1",
                                                      .keys = {mt_config_llama_keys, keys},
                                                      .fits = fits};
