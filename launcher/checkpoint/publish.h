/* A run's folder as transformers reads it: a config.json, and an index of the newest checkpoint's weights.
 *
 * AutoModelForCausalLM.from_pretrained(FOLDER) loads it as it is, and so does --init FOLDER. */
#ifndef MT_LAUNCHER_CHECKPOINT_PUBLISH_H
#define MT_LAUNCHER_CHECKPOINT_PUBLISH_H

#include "launcher/checkpoint/checkpoint.h"
#include "synth/models/model.h"

/* Name the checkpoint of `step`, which is there, as the folder's weights; and write config.json, if there is none. Does
 * nothing for a model that transformers does not have. */
enum mt_status mt_checkpoint_publish(const char *folder, int64_t step, const struct mt_graph *graph,
                                     const struct mt_model *model, double dropout, struct mt_err *err);

#endif
