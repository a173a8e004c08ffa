/* Weights as people have them: a safetensors file, or a Hugging Face folder with a model.safetensors, or with shards
 * and a model.safetensors.index.json that says which tensor is in which file.
 *
 *     if ((st = mt_weights_open("llama/", &file, err))) return st;
 *     ... mt_safetensors_find, mt_safetensors_read_as ...
 *     mt_safetensors_close(file);
 *
 * A run's folder is such a folder: its index names the newest checkpoint (mt_weights_index_write). */
#ifndef MT_LAUNCHER_CHECKPOINT_WEIGHTS_H
#define MT_LAUNCHER_CHECKPOINT_WEIGHTS_H

#include "launcher/checkpoint/safetensors.h"

#define MT_WEIGHTS_NAME "model.safetensors"
#define MT_WEIGHTS_INDEX MT_WEIGHTS_NAME ".index.json"

/* Open a file, a folder's files, or those of an index (a name that ends with .json). Tensors that the index does
 * not name are there too. MT_EINPUT names what is missing, what disagrees, and a tensor that lies in another shard than
 * the index says. The caller closes it. */
enum mt_status mt_weights_open(const char *path, struct mt_safetensors **file, struct mt_err *err);

/* A tensor by its name in the model; or null. Files of models with a head have the prefix "transformer." before GPT-2's
 * names; files of models without one lack "model." before Llama's. */
const struct mt_saved *mt_weights_find(const struct mt_safetensors *file, const char *name);

/* The index: tensors in the file's order, each with the number of its shard. */
struct mt_weights_index {
    int ntensors, nshards;
    const char **tensors, **shards; /* names; those of shards are files in the folder */
    int *shard;                     /* [ntensors] */
};
enum mt_status mt_weights_index_parse(const char *name, const char *text, size_t length, struct mt_arena *arena,
                                      struct mt_weights_index *index, struct mt_err *err);

/* Write the index of a folder whose tensors are all in the file `shard` of it. */
enum mt_status mt_weights_index_write(const char *folder, const char *shard, const struct mt_saved *tensors,
                                      int ntensors, struct mt_err *err);

#endif
