/* Checkpoints: a folder of generations, each one safetensors file with everything that training needs to go on.
 *
 *     FOLDER/step-00000200.safetensors
 *
 * Tensors carry the model's own names and unsharded shapes: parameters (fp32 or fp64 masters), then optimizer states.
 * The notes ("motley.*" in __metadata__) are the model and job as text, the plan's and the data's hashes, the step, the
 * run's sample counter (the data position) and the seed.
 *
 * Files are written and read by rank 0 only, tensor by tensor, so the folder need not be shared and memory stays
 * bounded by the largest tensor; boxes travel by MPI. A checkpoint knows nothing of ranks and layouts: it loads under
 * any plan of its model, and into another precision. */
#ifndef MT_LAUNCHER_CHECKPOINT_CHECKPOINT_H
#define MT_LAUNCHER_CHECKPOINT_CHECKPOINT_H

#include "launcher/checkpoint/safetensors.h"
#include "launcher/checkpoint/states.h"

struct mt_checkpoint_about {
    int64_t step;    /* updates done */
    int64_t samples; /* samples seen, over all ranks */
    uint64_t seed;
    const char *model;     /* canonical text */
    const char *job;       /* the job as a JSON object */
    const char *plan_hash; /* of the plan it was made under */
    const char *data_hash; /* 16 hex digits */
};

/* Generations in a folder. Paths and texts live in the arena, or in the file. */
char *mt_checkpoint_path(const char *folder, int64_t step, struct mt_arena *arena);

/* The newest generation of `place` that is whole: every checksum right. Those that are not are named in warnings. A
 * file as `place` is taken alone. MT_EINPUT when there is none. Close the file. */
enum mt_status mt_checkpoint_open(const char *place, struct mt_safetensors **file, struct mt_err *err);
enum mt_status mt_checkpoint_about(const struct mt_safetensors *file, struct mt_checkpoint_about *about,
                                   struct mt_err *err);

/* Give generations after `step`, which are damaged if this one was opened, other names, so that they are not counted.
 */
enum mt_status mt_checkpoint_set_aside(const char *folder, int64_t step, struct mt_err *err);
/* How many generations a folder has; 0 if there is no folder. */
enum mt_status mt_checkpoint_count(const char *folder, int *count, struct mt_err *err);

/* Remove all but the newest `keep` generations, and what an interrupted write left behind. */
enum mt_status mt_checkpoint_prune(const char *folder, int keep, struct mt_err *err);

/* Write all states, and read them. Collective; errors are agreed. `file` is open at rank 0, null elsewhere.
 * MT_LOAD_ALL: every state, and the file must have no others; MT_LOAD_PARAMS: parameters only, names with or without
 * "transformer." in front, other tensors are left out and counted. */
enum mt_load { MT_LOAD_ALL, MT_LOAD_PARAMS };
enum mt_status mt_checkpoint_save(struct mt_states *states, const char *path, const struct mt_checkpoint_about *about,
                                  struct mt_err *err);
enum mt_status mt_checkpoint_load(struct mt_states *states, const struct mt_safetensors *file, enum mt_load what,
                                  struct mt_err *err);

#endif
