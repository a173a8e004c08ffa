/* config.json of a Hugging Face folder, as transformers writes it: to a model's text, and back.
 *
 *     struct mt_config config;
 *     if ((st = mt_config_read("gpt2/", &arena, &config, err))) return st;
 *     st = mt_model_parse(config.model, &model, err);
 *
 * An architecture (a model_type of transformers) is a file here, with a table of what its keys mean, and a row in
 * architectures.def; ignored.c lists the keys that no architecture computes with. A key that is in no table is refused,
 * and so is a value that changes what the model computes and that Motley's model does not have. */
#ifndef MT_SYNTH_MODELS_CONFIG_CONFIG_H
#define MT_SYNTH_MODELS_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/base/arena.h"
#include "kernels/base/err.h"
#include "kernels/base/number/type.h"
#include "synth/models/model.h"

#define MT_CONFIG_NAME "config.json"

/* Token ids that generation begins and ends with; none, one, or several of which each does. */
enum { MT_TOKEN_BOS, MT_TOKEN_EOS, MT_TOKEN_PAD, MT_NTOKENS, MT_TOKEN_MOST_IDS = 16 };
struct mt_token_ids {
    int count;
    int64_t ids[MT_TOKEN_MOST_IDS];
};

struct mt_config {
    const char *model; /* the canonical text, in the arena */
    double dropout;    /* of training; -1: the architecture has none */
    const char *note;  /* what a person should know, in the arena; "": nothing */
    struct mt_token_ids tokens[MT_NTOKENS];
};

/* Whether `text`, given as a model, names a folder or a config.json, and not a model's text. */
bool mt_config_is_path(const char *text);

/* Read `path`, a folder with a config.json or that file. MT_EINPUT names the key that is missing, unknown or has a
 * value of which Motley has no model, and says why. */
enum mt_status mt_config_read(const char *path, struct mt_arena *arena, struct mt_config *config, struct mt_err *err);
/* The same from a text; `name` is for messages. */
enum mt_status mt_config_parse(const char *name, const char *text, size_t length, struct mt_arena *arena,
                               struct mt_config *config, struct mt_err *err);

bool mt_config_has(const struct mt_model *model); /* whether transformers has this model */
/* A config.json for weights of `type` that were trained with `dropout`, with the token ids of `tokens` (null: none),
 * which the caller frees; null: transformers has no such model. */
char *mt_config_text(const struct mt_model *model, enum mt_type type, double dropout, const struct mt_config *tokens);

#endif
