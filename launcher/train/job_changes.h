/* How two jobs differ, for messages. */
#ifndef MT_LAUNCHER_TRAIN_JOB_CHANGES_H
#define MT_LAUNCHER_TRAIN_JOB_CHANGES_H

#include "kernels/base/arena.h"
#include "synth/job/job.h"

/* How the job `now` differs from `then`, both JSON objects: "batch 8, now 16; lr 0.001, now 0.01"; "" if they are equal
 * but for the seed and recomputation. In the arena. */
const char *mt_job_changes(const char *then, const char *now, struct mt_arena *arena);

/* The job as such an object; the caller frees it. */
char *mt_job_text(const struct mt_job *job);

#endif
