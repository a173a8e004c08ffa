/* Checkpoints: a folder of generations, each of two safetensors files: weights, and what else training goes on from.
 *
 *     FOLDER/step-00000200.safetensors         parameters (fp32 or fp64 masters)
 *     FOLDER/optimizer-00000200.safetensors    optimizer state; not there where there is none
 *
 * Tensors have the model's own names and unsharded shapes. Older checkpoints are one file with all of them. Metadata
 * ("motley.*" in __metadata__): model and job as text, hashes of plan and data, the step, the run's sample counter (the
 * position in the data) and the seed.
 *
 * Only rank 0 reads and writes files, tensor by tensor, so the folder need not be shared and memory is bounded by the
 * largest tensor; boxes are sent by MPI. A checkpoint does not depend on ranks and layouts: it loads under any plan of
 * its model, and into another precision.
 *
 * A folder is also one of Hugging Face, whose weights are the newest checkpoint's (publish.h); weights.h reads such
 * folders. checkpoint.c keeps generations, pair.c joins a generation's files, match.c compares a file with a model,
 * ranks.c saves and loads, states.h moves states between ranks, safetensors.h is the file format. */
#ifndef MT_LAUNCHER_CHECKPOINT_CHECKPOINT_H
#define MT_LAUNCHER_CHECKPOINT_CHECKPOINT_H

#include "launcher/checkpoint/safetensors.h"
#include "launcher/checkpoint/states.h"

#define MT_MODEL_NOTE "motley.model"
struct mt_checkpoint_about {
    int64_t step;    /* updates done */
    int64_t samples; /* samples seen, over all ranks */
    uint64_t seed;
    const char *model;     /* canonical text */
    const char *job;       /* the job as a JSON object */
    const char *plan_hash; /* of the plan of the run */
    const char *data_hash; /* 16 hex digits */
};

/* The path of a generation, in the arena. */
char *mt_checkpoint_path(const char *folder, int64_t step, struct mt_arena *arena);

/* The path of its optimizer state; and the bytes of both files that are there. */
char *mt_checkpoint_optimizer_path(const char *path, struct mt_arena *arena);
int64_t mt_checkpoint_bytes(const char *path);

/* Open a generation, both files as one. MT_EINPUT when one is missing, or they are of two checkpoints; of their content
 * only headers are checked. The caller closes it. */
enum mt_status mt_checkpoint_open_pair(const char *path, struct mt_safetensors **file, struct mt_err *err);

/* Open the newest undamaged generation (every checksum right) of the folder `source`, or the file `source`. Damaged
 * generations are named in warnings; MT_EINPUT if there is none left. The caller closes the file. */
enum mt_status mt_checkpoint_open(const char *source, struct mt_safetensors **file, struct mt_err *err);
/* The same for those who only read weights: optimizer state is neither read nor missed. */
enum mt_status mt_checkpoint_open_weights(const char *source, struct mt_safetensors **file, struct mt_err *err);
/* A checkpoint's metadata; texts live in the file. */
enum mt_status mt_checkpoint_about(const struct mt_safetensors *file, struct mt_checkpoint_about *about,
                                   struct mt_err *err);

/* Rename generations after `step` (they are damaged, if that of `step` was opened), so that they no longer count. Of an
 * interrupted write only the optimizer state may have its name: that is removed. */
enum mt_status mt_checkpoint_set_aside(const char *folder, int64_t step, struct mt_err *err);
/* The number of generations in a folder; 0 if there is no folder. */
enum mt_status mt_checkpoint_count(const char *folder, int *count, struct mt_err *err);
/* The step of the newest generation, damaged or not; 0 if there is none. */
enum mt_status mt_checkpoint_newest(const char *folder, int64_t *step, struct mt_err *err);

/* Remove all but the newest `keep` generations, and files of interrupted writes. */
enum mt_status mt_checkpoint_prune(const char *folder, int keep, struct mt_err *err);

/* Write all states, the parameters to `path`, and read them. Collective; errors are agreed. `file` is open at rank 0,
 * null elsewhere, and is checked as by mt_checkpoint_check.
 * MT_LOAD_ALL: every state. MT_LOAD_PARAMS: parameters only, by the names of mt_weights_find.
 * Elements that are not finite are refused: MT_EDIVERGED by the first (the files are as before), MT_EINPUT by
 * the second. */
enum mt_load { MT_LOAD_ALL, MT_LOAD_PARAMS };
enum mt_status mt_checkpoint_save(struct mt_states *states, const char *path, const struct mt_checkpoint_about *about,
                                  struct mt_err *err);
enum mt_status mt_checkpoint_load(struct mt_states *states, const struct mt_safetensors *file, enum mt_load what,
                                  struct mt_err *err);

/* Whether a file has what is loaded, of the graph's shapes, and no other tensors. With MT_LOAD_PARAMS some others may
 * be there, which are ignored and counted in a message: constants of old checkpoints, optimizer state, and a copy of
 * the token table as the output layer. MT_EINPUT names the first tensor that is missing or too many. */
enum mt_status mt_checkpoint_check(const struct mt_graph *graph, const struct mt_safetensors *file, enum mt_load what,
                                   struct mt_err *err);

#endif
