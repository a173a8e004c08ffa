/* A run's folder as transformers reads it: a config.json, and an index of the newest checkpoint's weights.
 *
 * AutoModelForCausalLM.from_pretrained(FOLDER) loads it as it is, and so does --init FOLDER. */
#ifndef MT_LAUNCHER_CHECKPOINT_PUBLISH_H
#define MT_LAUNCHER_CHECKPOINT_PUBLISH_H

#include "launcher/checkpoint/checkpoint.h"
#include "synth/models/model.h"

/* What a run's folder is made of. */
struct mt_publish {
    const char *folder;
    const struct mt_graph *graph;
    const struct mt_model *model;
    double dropout;
    const char *init;      /* the Hugging Face folder that the weights began with, or null: its token ids are kept */
    const char *tokenizer; /* a tokenizer.json, or a folder with its files, or null: init's */
};

/* MT_EINPUT when a folder has another tokenizer.json than the one given (which may be null): weights that were trained
 * with one mean nothing with the other. */
enum mt_status mt_publish_check_tokenizer(const char *folder, const char *given, struct mt_err *err);

/* Name the checkpoint of `step`, which is there, as the folder's weights; and write config.json and the tokenizer's
 * files, those that are not there. Of a model that transformers does not have, only the tokenizer's. */
enum mt_status mt_checkpoint_publish(const struct mt_publish *about, int64_t step, struct mt_err *err);

#endif
