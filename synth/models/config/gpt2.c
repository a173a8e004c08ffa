/* GPT-2. "bias" is a key of ours: transformers' model has biases always, and takes those that a checkpoint lacks as 0.
 */
#include "synth/models/config/internal.h"

static const struct mt_config_key keys[] = {
    {.key = "n_layer", .meaning = MT_KEY_COUNT, .option = "layers", .written = true},
    {.key = "n_head", .meaning = MT_KEY_COUNT, .option = "heads", .written = true},
    {.key = "n_embd", .meaning = MT_KEY_COUNT, .option = "embed", .written = true},
    {.key = "n_positions", .meaning = MT_KEY_COUNT, .option = "context", .written = true},
    {.key = "vocab_size", .meaning = MT_KEY_COUNT, .option = "vocab", .written = true},
    {.key = "n_inner", .meaning = MT_KEY_COUNT, .option = "ffn", .optional = true, .nullable = true, .written = true},
    {.key = "bias", .meaning = MT_KEY_TRUTH, .option = "bias", .optional = true, .absent = 1, .written = true},
    {.key = "tie_word_embeddings",
     .meaning = MT_KEY_TRUTH,
     .option = "tied",
     .optional = true,
     .absent = 1,
     .written = true},
    {.key = "attn_pdrop", .meaning = MT_KEY_DROPOUT, .optional = true, .absent = 0.1, .written = true},
    {.key = "embd_pdrop", .meaning = MT_KEY_DROPOUT, .optional = true, .absent = 0.1, .written = true},
    {.key = "resid_pdrop", .meaning = MT_KEY_DROPOUT, .optional = true, .absent = 0.1, .written = true},
    {.key = "activation_function",
     .meaning = MT_KEY_ONLY,
     .optional = true,
     .values = "\"gelu_new\"|\"gelu_pytorch_tanh\"",
     .written = true},
    {.key = "layer_norm_epsilon", .meaning = MT_KEY_ONLY, .optional = true, .values = "1e-5", .written = true},
    {.key = "scale_attn_weights", .meaning = MT_KEY_ONLY, .optional = true, .values = "true", .written = true},
    {.key = "scale_attn_by_inverse_layer_idx",
     .meaning = MT_KEY_ONLY,
     .optional = true,
     .values = "false",
     .written = true},
    {.key = "n_special", .meaning = MT_KEY_ONLY, .optional = true, .values = "0"}, /* tokens besides the vocabulary */
    {.key = "predict_special_tokens", .meaning = MT_KEY_IGNORED, .optional = true},
    {.key = "n_ctx", .meaning = MT_KEY_IGNORED, .optional = true}, /* of old versions: n_positions again */
    {.key = "reorder_and_upcast_attn", .meaning = MT_KEY_IGNORED, .optional = true}, /* the order of rounding */
    {.key = "summary_activation", .meaning = MT_KEY_IGNORED, .optional = true},      /* heads for other tasks */
    {.key = "summary_first_dropout", .meaning = MT_KEY_IGNORED, .optional = true},
    {.key = "summary_proj_to_labels", .meaning = MT_KEY_IGNORED, .optional = true},
    {.key = "summary_type", .meaning = MT_KEY_IGNORED, .optional = true},
    {.key = "summary_use_proj", .meaning = MT_KEY_IGNORED, .optional = true},
    {0},
};

const struct mt_architecture mt_architecture_gpt2 = {
    .model_type = "gpt2", .with_head = "GPT2LMHeadModel", .class = "gpt2", .fixed = "", .keys = {keys}};
